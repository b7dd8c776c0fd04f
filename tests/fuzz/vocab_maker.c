#include "vocab_maker.h"

#include <stdio.h>
#include <string.h>

/* A copy, empty where there is no more room. */
static const char *own(fuzz_vocabulary *v, const char *text, size_t n, uint32_t *len) {
    char *at = v->own + v->n_own;
    if (n > sizeof v->own - v->n_own) n = 0;
    if (n) memcpy(at, text, n);
    v->n_own += n;
    *len = (uint32_t)n;
    return at;
}

static void add(fuzz_vocabulary *v, const char *text, size_t n, int32_t type, float score) {
    const uint32_t i = v->source.n_tokens;
    if (i == MAX_TOKENS) return;
    v->texts[i] = own(v, text, n, &v->lens[i]);
    v->types[i] = type, v->scores[i] = score;
    v->source.n_tokens++;
}

/* The characters that stand for the bytes in byte-level vocabularies (Radford et al. 2019): printable ones for themselves. */
static void add_byte_characters(fuzz_vocabulary *v) {
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; byte++) {
        const bool own_character = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        const uint32_t c = own_character ? byte : next++;
        const char utf8[2] = {(char)(0xC0 | c >> 6), (char)(0x80 | (c & 63))};
        const char ascii = (char)c;
        if (c < 128)
            add(v, &ascii, 1, 1, 0);
        else
            add(v, utf8, 2, 1, 0);
    }
}

static void add_byte_tokens(fuzz_vocabulary *v) {
    char text[8];
    for (unsigned byte = 0; byte < 256; byte++) {
        snprintf(text, sizeof text, "<0x%02X>", byte);
        add(v, text, 6, 6, 0);
    }
}

static void add_tokens(fuzz_vocabulary *v, fuzz_bytes *from) {
    static const char *const pieces[] = {"a",          "b",  "ab",        "\xE2\x96\x81",
                                         "\xC4\xA0",   "##", "e\xCC\x81", "\xE6\x97\xA5",
                                         "<|im_end|>", " ",  "b'\\x",     "'"};
    for (uint32_t n = fuzz_take_below(from, 100); n > 0; n--) {
        char text[64];
        size_t len = 0;
        const uint8_t kind = fuzz_take(from);
        const int32_t type = kind >= 64 ? kind & 5 : kind & 7; /* few byte tokens: those must be <0xHH> */
        for (uint32_t parts = fuzz_take_below(from, 4); parts > 0; parts--) {
            const char *piece = pieces[fuzz_take_below(from, sizeof pieces / sizeof *pieces)];
            memcpy(text + len, piece, strlen(piece));
            len += strlen(piece);
        }
        const fuzz_bytes raw = fuzz_take_bytes(from, fuzz_take(from) & 3);
        if (raw.n) memcpy(text + len, raw.data, raw.n);
        add(v, text, len + raw.n, type ? type : 1, (float)(int8_t)fuzz_take(from));
    }
}

static void add_merges(fuzz_vocabulary *v, fuzz_bytes *from) {
    for (uint32_t n = fuzz_take_below(from, MAX_MERGES + 1), i = 0; i < n && v->source.n_tokens; i++) {
        const uint32_t a = fuzz_take_below(from, v->source.n_tokens),
                       b = fuzz_take_below(from, v->source.n_tokens);
        char text[256];
        const int len = snprintf(text, sizeof text, "%.*s %.*s", (int)v->lens[a], v->texts[a],
                                 (int)v->lens[b], v->texts[b]);
        v->merges[i] = own(v, text, (size_t)len, &v->merge_lens[i]);
        v->source.n_merges++;
    }
}

static int64_t take_id(fuzz_vocabulary *v, fuzz_bytes *from) {
    return (int64_t)fuzz_take_below(from, v->source.n_tokens + 4) - 3;
}

static int8_t take_flag(fuzz_bytes *from) {
    return (int8_t)(fuzz_take(from) % 3 - 1);
}

bool fuzz_make_vocabulary(fuzz_vocabulary *v, fuzz_bytes *from) {
    static const char *const models[] = {"gpt2", "llama", "gemma4", "t5", "bert", "rwkv"};
    static const char *const pres[] = {"default",      "llama-bpe", "gpt-2",  "qwen2",
                                       "deepseek-llm", "smollm",    "tekken", "falcon"};
    tn_vocab_source *s = &v->source;
    s->model = models[fuzz_take_below(from, 6)];
    const uint32_t pre = fuzz_take_below(from, 8);
    s->pre = pres[pre];
    const uint8_t form = fuzz_take(from);
    s->token_text = v->texts, s->token_len = v->lens, s->merge_text = v->merges, s->merge_len = v->merge_lens;
    s->types = form & 1 ? NULL : v->types, s->scores = (form & 18) == 18 ? NULL : v->scores;
    const bool bytes = !(form & 4);
    if (bytes && !strcmp(s->model, "gpt2")) add_byte_characters(v);
    if (bytes && strcmp(s->model, "gpt2") != 0) add_byte_tokens(v);
    add_tokens(v, from);
    add_merges(v, from);
    s->bos = take_id(v, from), s->eos = take_id(v, from), s->eot = take_id(v, from),
    s->unk = take_id(v, from), s->sep = take_id(v, from);
    for (int64_t *ids[] = {&s->bos, &s->eos, &s->eot, &s->unk, &s->sep}, **id = ids; id < ids + 5; id++)
        if (**id < -1) **id = -1;
    s->add_bos = take_flag(from), s->add_eos = take_flag(from), s->add_sep = take_flag(from);
    s->add_space_prefix = take_flag(from), s->remove_extra_spaces = take_flag(from);
    s->lowercase = take_flag(from), s->strip_accents = take_flag(from);
    const fuzz_bytes charsmap = fuzz_take_bytes(from, form & 8 ? fuzz_take_below(from, 400) : 0);
    s->charsmap = charsmap.n ? charsmap.data : NULL, s->n_charsmap_bytes = charsmap.n;
    return bytes && !strcmp(s->model, "gpt2") && !s->types;
}
