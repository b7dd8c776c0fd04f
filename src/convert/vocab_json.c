/* tokenizer.json: byte-level BPE; SentencePiece's BPE in that form, whose scores are the ranks of merges; WordPiece. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vocab.h"

static const float ADDED_SCORE = -1000;

static bool is(const json_t *value, const char *word) {
    const char *text = json_string_value(value);
    return text && !strcmp(text, word);
}

static bool is_text(tn_str text, const char *word) {
    return text.len == strlen(word) && !memcmp(text.ptr, word, text.len);
}

static bool begins(tn_str text, const char *head, const char *tail) {
    const size_t a = strlen(head), b = strlen(tail);
    return text.len >= a + b && !memcmp(text.ptr, head, a) && !memcmp(text.ptr + text.len - b, tail, b);
}

/* Some control tokens are not marked as such where they are published. */
static bool looks_special(tn_str text) {
    return is_text(text, "<pad>") || is_text(text, "<mask>") || is_text(text, "<2mass>") ||
           is_text(text, "[@BOS@]") || begins(text, "<|", "|>") ||
           begins(text, "<\xef\xbd\x9c", "\xef\xbd\x9c>") || begins(text, "<unused", ">");
}

static tn_status copy_text(tn_converter *c, const char *text, size_t n, tn_str *out) {
    *out = (tn_str){tn_arena_strdup(&c->arena, text, n), n};
    return out->ptr ? TN_OK : tn_convert_no_memory(c);
}

/* In place: U+2581 becomes a space. */
static void unmark_spaces(char *text, uint64_t *n) {
    uint64_t to = 0;
    for (uint64_t at = 0; at < *n; to++) {
        const bool mark = *n - at >= 3 && !memcmp(text + at, "\xe2\x96\x81", 3);
        text[to] = mark ? ' ' : text[at];
        at += mark ? 3 : 1;
    }
    text[to] = '\0';
    *n = to;
}

tn_status tn_vocab_add(tn_converter *c, tn_hf_vocab *v, uint64_t id, const json_t *token, float score) {
    const json_t *content = json_object_get(token, "content");
    tn_str text;
    if (!json_is_string(content))
        return TN_BAD(c, "tokenizer: added token %llu: expected 'content', a text", (unsigned long long)id);
    if (id >= v->n)
        return TN_BAD(c, "tokenizer: added token %llu is outside the vocabulary of %u tokens",
                      (unsigned long long)id, v->n);
    tn_status s = copy_text(c, json_string_value(content), json_string_length(content), &text);
    if (s) return s;
    const bool control = json_is_true(json_object_get(token, "special")) || looks_special(text);
    if (!control) unmark_spaces((char *)(uintptr_t)text.ptr, &text.len);
    v->texts[id] = text;
    v->types[id] = control ? TN_TOKEN_CONTROL : TN_TOKEN_USER_DEFINED;
    v->scores[id] = score;
    return TN_OK;
}

static tn_status read_tokens(tn_converter *c, const json_t *vocab, tn_hf_vocab *v) {
    const char *key;
    size_t n;
    json_t *value;
    json_object_keylen_foreach((json_t *)(uintptr_t)vocab, key, n, value) {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || (uint64_t)id >= v->n)
            return TN_BAD(
                c, "tokenizer.json: token id %lld is outside the vocabulary of %u tokens (config.json)",
                (long long)id, v->n);
        tn_status s = copy_text(c, key, n, &v->texts[id]);
        if (s) return s;
        v->types[id] = TN_TOKEN_NORMAL;
    }
    return TN_OK;
}

static tn_status read_added(tn_converter *c, const json_t *list, tn_hf_vocab *v) {
    size_t i;
    json_t *token;
    json_array_foreach(list, i, token) {
        const json_t *id = json_object_get(token, "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return TN_BAD(c, "tokenizer.json: added token %zu: expected 'id', a whole number", i);
        tn_status s = tn_vocab_add(c, v, (uint64_t)json_integer_value(id), token, ADDED_SCORE);
        if (s) return s;
    }
    return TN_OK;
}

/* "left right". A space within a part, which only the form with pairs can have, is written as the byte alphabet's. */
static tn_status join_pair(tn_converter *c, const json_t *pair, tn_str *out) {
    static const char space[] = "\xc4\xa0";
    const json_t *part[2] = {json_array_get(pair, 0), json_array_get(pair, 1)};
    if (json_array_size(pair) != 2 || !json_is_string(part[0]) || !json_is_string(part[1]))
        return TN_BAD(c, "tokenizer.json: expected merges as texts or pairs of texts");
    char *text =
        tn_arena_alloc(&c->arena, 2 * (json_string_length(part[0]) + json_string_length(part[1])) + 2, 1);
    if (!text) return tn_convert_no_memory(c);
    size_t n = 0;
    for (int p = 0; p < 2; p++) {
        if (p) text[n++] = ' ';
        for (const char *from = json_string_value(part[p]); *from; from++) {
            if (*from == ' ') text[n++] = space[0];
            text[n++] = *from == ' ' ? space[1] : *from;
        }
    }
    *out = (tn_str){text, n};
    return TN_OK;
}

static tn_status read_merges(tn_converter *c, const json_t *list, tn_hf_vocab *v) {
    size_t i;
    json_t *merge;
    if (!(v->merges = tn_arena_alloc(&c->arena, json_array_size(list), sizeof *v->merges)))
        return tn_convert_no_memory(c);
    json_array_foreach(list, i, merge) {
        tn_status s = json_is_string(merge)
                          ? copy_text(c, json_string_value(merge), json_string_length(merge), &v->merges[i])
                          : join_pair(c, merge, &v->merges[i]);
        if (s) return s;
        v->n_merges++;
    }
    return TN_OK;
}

static tn_status index_tokens(tn_converter *c, const tn_hf_vocab *v, tn_names *names) {
    uint32_t *slots = tn_arena_alloc(&c->arena, tn_names_slots(v->n), sizeof *slots);
    uint64_t first, second;
    if (!slots) return tn_convert_no_memory(c);
    if (tn_names_build(names, slots, v->texts, sizeof *v->texts, v->n, &first, &second)) return TN_OK;
    return TN_BAD(c, "tokenizer.json: tokens %llu and %llu are the same text", (unsigned long long)first,
                  (unsigned long long)second);
}

/* The token that a merge makes gets the merge's rank as its score: then merging by score is merging by rank. */
static tn_status rank_tokens(tn_converter *c, tn_hf_vocab *v) {
    tn_names names;
    tn_status s = index_tokens(c, v, &names);
    for (uint32_t i = 0; !s && i < v->n; i++)
        v->scores[i] = v->types[i] == TN_TOKEN_NORMAL ? -1e9f : ADDED_SCORE;
    for (size_t m = v->n_merges; !s && m-- > 0;) {
        char text[512];
        const char *gap = memchr(v->merges[m].ptr, ' ', (size_t)v->merges[m].len);
        if (!gap || v->merges[m].len > sizeof text) continue;
        const size_t left = (size_t)(gap - v->merges[m].ptr), right = (size_t)v->merges[m].len - left - 1;
        memcpy(text, v->merges[m].ptr, left);
        memcpy(text + left, gap + 1, right);
        const tn_str *token = tn_names_find(&names, text, left + right);
        if (token) v->scores[token - v->texts] = -(float)m;
    }
    v->n_merges = 0;
    v->has_scores = true;
    return s;
}

static bool is_byte(tn_str text) {
    unsigned value;
    return text.len == 6 && begins(text, "<0x", ">") && sscanf(text.ptr + 3, "%2x>", &value) == 1;
}

/* Whether a normalizer or pre-tokenizer puts a space in front of the text. */
static bool prepends(const json_t *stage) {
    size_t i;
    json_t *part;
    bool found = is(json_object_get(stage, "type"), "Prepend");
    if (is(json_object_get(stage, "type"), "Metaspace"))
        found = !is(json_object_get(stage, "prepend_scheme"), "never") &&
                !json_is_false(json_object_get(stage, "add_prefix_space"));
    json_array_foreach(json_object_get(stage, "normalizers"), i, part) found |= prepends(part);
    json_array_foreach(json_object_get(stage, "pretokenizers"), i, part) found |= prepends(part);
    return found;
}

static tn_status read_marked(tn_converter *c, const json_t *tokenizer, tn_hf_vocab *v) {
    const json_t *unk = json_object_get(json_object_get(tokenizer, "model"), "unk_token");
    v->model = "llama";
    v->pre = "default";
    v->add_space_prefix = prepends(json_object_get(tokenizer, "normalizer")) ||
                          prepends(json_object_get(tokenizer, "pre_tokenizer"));
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->types[i] == TN_TOKEN_NORMAL && is_byte(v->texts[i])) v->types[i] = TN_TOKEN_BYTE;
        if (json_is_string(unk) && is_text(v->texts[i], json_string_value(unk)))
            v->types[i] = TN_TOKEN_UNKNOWN;
    }
    return rank_tokens(c, v);
}

tn_status tn_vocab_read_json(tn_converter *c, const json_t *tokenizer, tn_hf_vocab *v) {
    const json_t *model = json_object_get(tokenizer, "model"), *vocab = json_object_get(model, "vocab");
    const json_t *type = json_object_get(model, "type");
    const bool words = is(type, "WordPiece");
    if (!json_is_object(vocab) || (type && !words && !is(type, "BPE")))
        return TN_NOT_KNOWN(c, "tokenizer.json: model type '%s', expected BPE or WordPiece with a vocabulary",
                            json_is_string(type) ? json_string_value(type) : "");
    tn_status s;
    if ((s = read_tokens(c, vocab, v)) || (s = read_added(c, json_object_get(tokenizer, "added_tokens"), v)))
        return s;
    if (words) return tn_vocab_mark_words(c, v);
    if ((s = read_merges(c, json_object_get(model, "merges"), v))) return s;
    if (json_is_true(json_object_get(model, "byte_fallback"))) return read_marked(c, tokenizer, v);
    v->model = "gpt2";
    v->pre = c->options->pre;
    return v->pre ? TN_OK : tn_vocab_find_pre(c, tokenizer, &v->pre);
}
