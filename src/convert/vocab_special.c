/* Special tokens, from tokenizer.json's post-processor, tokenizer_config.json and config.json, in the
 * order in which llama.cpp's converter lets them decide, so that its files and ours agree. */
#include <stdio.h>
#include <string.h>

#include "vocab.h"

typedef enum kind { BOS, EOS, UNK, SEP, PAD, CLS, MASK, EOT, EOM, N_KINDS } kind;

static const struct {
    const char *name, *id_key, *add_key; /* a NULL key is not written */
} kinds[N_KINDS] = {
    [BOS] = {"bos", "bos_token_id", "add_bos_token"},
    [EOS] = {"eos", "eos_token_id", "add_eos_token"},
    [UNK] = {"unk", "unknown_token_id", NULL},
    [SEP] = {"sep", "seperator_token_id", "add_sep_token"}, /* sic */
    [PAD] = {"pad", "padding_token_id", NULL},
    [CLS] = {"cls", NULL, NULL},
    [MASK] = {"mask", "mask_token_id", NULL},
    [EOT] = {"eot", "eot_token_id", NULL},
    [EOM] = {"eom", "eom_token_id", NULL},
};

typedef struct special {
    tn_converter *c;
    const tn_hf_vocab *v;
    const json_t *tokenizer;
    const char *text[N_KINDS]; /* as tokenizer_config.json names it; NULL */
    int add[N_KINDS];          /* 1, 0, -1: not said */
    int64_t id[N_KINDS];       /* -1: none */
    size_t n_kinds;            /* EOT and EOM count only where a post-processor shows that there is one */
} special;

static bool same(const char *a, const char *b) {
    return a && b && !strcmp(a, b);
}

/* A token's text: itself, or in an object. */
static const char *token_text(const json_t *entry) {
    const char *text = json_string_value(json_is_object(entry) ? json_object_get(entry, "content") : entry);
    return text && *text ? text : NULL;
}

static const char *type_of(const json_t *object) {
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "";
}

static const char *special_of(const json_t *item) {
    return token_text(json_object_get(json_object_get(item, "SpecialToken"), "id"));
}

static void read_texts(special *s) {
    for (int k = 0; k < N_KINDS; k++) {
        char key[32];
        snprintf(key, sizeof key, "%s_token", kinds[k].name);
        s->text[k] = k < EOT ? token_text(json_object_get(s->c->tokenizer_config, key)) : NULL;
        s->id[k] = s->add[k] = -1;
    }
    s->n_kinds = EOT;
    if (!s->tokenizer) return;
    if (!s->text[BOS]) s->text[BOS] = s->text[CLS];
    if (!s->text[EOS]) s->text[EOS] = s->text[SEP];
}

/* What stands first or last in the template of a single text. */
static void read_single(special *s, const json_t *single, const char **first, const char **last) {
    if (json_array_size(single) < 2) return;
    *first = special_of(json_array_get(single, 0));
    *last = special_of(json_array_get(single, json_array_size(single) - 1));
    if (*first) {
        const bool known = same(*first, s->text[BOS]) || same(*first, s->text[CLS]);
        if (!known && !s->text[BOS]) s->text[BOS] = *first;
        if (!known && !s->text[CLS]) s->text[CLS] = *first;
        s->add[BOS] = same(*first, s->text[BOS]) || same(*first, s->text[CLS]);
    }
    if (!*last) return;
    if (!same(*last, s->text[EOS]) && s->n_kinds < N_KINDS) { /* the end that the config names ends a turn */
        s->text[s->n_kinds++] = s->text[EOS];
        s->text[EOS] = *last;
    }
    s->add[EOS] = 1;
}

/* Whether a separator stands between the two texts of a pair: A [sep] B or A [sep] [sep] B. */
static void read_pair(special *s, const json_t *pair, const char *first, const char *last) {
    size_t from = 0, to = json_array_size(pair);
    if (!to) return;
    if (same(first, special_of(json_array_get(pair, 0)))) from++;
    if (to > from && last && same(last, special_of(json_array_get(pair, to - 1)))) to--;
    const char *a =
        json_string_value(json_object_get(json_object_get(json_array_get(pair, from), "Sequence"), "id"));
    const char *b = to ? json_string_value(
                             json_object_get(json_object_get(json_array_get(pair, to - 1), "Sequence"), "id"))
                       : NULL;
    if (to <= from + 2 || !same(a, "A") || !same(b, "B")) return;
    bool separated = false;
    for (size_t i = from + 1; i < to - 1 && i < from + 3; i++) {
        const char *middle = special_of(json_array_get(pair, i));
        const bool counts = to - from == 4 ? i == from + 2 || !last : !last;
        if (counts && middle && (same(middle, s->text[SEP]) || same(middle, s->text[EOS]))) separated = true;
    }
    s->add[SEP] = separated;
    if (separated && !s->text[SEP]) s->text[SEP] = s->text[EOS];
}

static void read_processor(special *s, const json_t *processor) {
    if (same(type_of(processor), "ByteLevel")) {
        if (s->add[BOS] < 0) s->add[BOS] = 0;
        if (s->add[EOS] < 0) s->add[EOS] = 0;
    } else if (same(type_of(processor), "RobertaProcessing")) {
        s->add[BOS] = s->add[EOS] = s->add[SEP] = 1;
        if (!s->text[CLS]) s->text[CLS] = token_text(json_array_get(json_object_get(processor, "cls"), 0));
        if (!s->text[SEP]) s->text[SEP] = token_text(json_array_get(json_object_get(processor, "sep"), 0));
        if (!s->text[BOS]) s->text[BOS] = s->text[CLS];
        if (!s->text[EOS]) s->text[EOS] = s->text[SEP];
    } else if (same(type_of(processor), "TemplateProcessing")) {
        const char *first = NULL, *last = NULL;
        read_single(s, json_object_get(processor, "single"), &first, &last);
        read_pair(s, json_object_get(processor, "pair"), first, last);
    }
}

static void read_post_processor(special *s) {
    const json_t *root = json_object_get(s->tokenizer, "post_processor");
    const json_t *list = json_object_get(root, "processors");
    if (!json_is_object(root)) return;
    if (!list) read_processor(s, root);
    size_t i;
    json_t *processor;
    json_array_foreach(list, i, processor) read_processor(s, processor);
}

static void set_id(special *s, int k, const json_t *id) {
    if (s->id[k] < 0 && json_is_integer(id) && json_integer_value(id) >= 0 &&
        (uint64_t)json_integer_value(id) < s->v->n)
        s->id[k] = json_integer_value(id);
}

/* The id of the added token of that text; where there is no tokenizer.json, of any token. */
static void set_by_text(special *s, int k) {
    size_t i;
    json_t *token;
    json_array_foreach(json_object_get(s->tokenizer, "added_tokens"), i, token) {
        if (!same(token_text(token), s->text[k])) continue;
        set_id(s, k, json_object_get(token, "id"));
        return;
    }
    for (uint32_t t = 0; !s->tokenizer && s->id[k] < 0 && t < s->v->n; t++)
        if (s->v->texts[t].len == strlen(s->text[k]) &&
            !memcmp(s->v->texts[t].ptr, s->text[k], s->v->texts[t].len))
            s->id[k] = t;
}

static void read_ids(special *s) {
    for (size_t k = 0; k < s->n_kinds; k++) {
        char key[32];
        snprintf(key, sizeof key, "add_%s_token", kinds[k].name);
        const json_t *add = json_object_get(s->c->tokenizer_config, key);
        if (json_is_boolean(add)) s->add[k] = json_is_true(add);
        if (s->text[k]) set_by_text(s, (int)k);
        snprintf(key, sizeof key, "%s_token_id", kinds[k].name);
        set_id(s, (int)k, json_object_get(s->c->config, key));
        if (!json_object_get(s->c->config, key)) set_id(s, (int)k, json_object_get(s->c->text_config, key));
    }
}

/* A model may end at more than one token; files have keys for three. */
static void add_more_ends(special *s) {
    size_t i;
    json_t *id;
    const json_t *ends = json_object_get(s->c->generation_config, "eos_token_id");
    if (!ends) ends = json_object_get(s->c->config, "eos_token_id");
    if (s->id[EOS] < 0) set_id(s, EOS, json_is_array(ends) ? json_array_get(ends, 0) : ends);
    json_array_foreach(ends, i, id) {
        const int64_t end = json_is_integer(id) ? json_integer_value(id) : -1;
        if (end == s->id[EOS] || end == s->id[EOT] || end == s->id[EOM]) continue;
        set_id(s, s->id[EOT] < 0 ? EOT : EOM, id);
    }
}

static void write_ids(const special *s) {
    char key[64];
    for (int k = 0; k < N_KINDS; k++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s", kinds[k].id_key ? kinds[k].id_key : "");
        if (kinds[k].id_key && s->id[k] >= 0) tn_gguf_set_u32(s->c->writer, key, (uint32_t)s->id[k]);
        snprintf(key, sizeof key, "tokenizer.ggml.%s", kinds[k].add_key ? kinds[k].add_key : "");
        if (kinds[k].add_key && s->add[k] >= 0) tn_gguf_set_bool(s->c->writer, key, s->add[k] != 0);
    }
}

/* ---- The normalizer ---------------------------------------------------------------------------------------- */

static void write_normalizer(const tn_converter *c, const json_t *normalizer) {
    const json_t *lower = json_object_get(normalizer, "lowercase"),
                 *strip = json_object_get(normalizer, "strip_accents");
    const bool bert = same(type_of(normalizer), "BertNormalizer");
    if (same(type_of(normalizer), "Lowercase") || (bert && json_is_boolean(lower)))
        tn_gguf_set_bool(c->writer, "tokenizer.ggml.normalizer.lowercase", !bert || json_is_true(lower));
    if (same(type_of(normalizer), "StripAccents") || (bert && json_is_boolean(strip)))
        tn_gguf_set_bool(c->writer, "tokenizer.ggml.normalizer.strip_accents", !bert || json_is_true(strip));
    size_t i;
    json_t *part;
    json_array_foreach(json_object_get(normalizer, "normalizers"), i, part) write_normalizer(c, part);
}

/* What tokenizer_config.json says, where there is no tokenizer.json. */
static void write_case(const tn_converter *c) {
    const json_t *lower = json_object_get(c->tokenizer_config, "do_lower_case"),
                 *strip = json_object_get(c->tokenizer_config, "strip_accents");
    if (json_is_boolean(lower))
        tn_gguf_set_bool(c->writer, "tokenizer.ggml.normalizer.lowercase", json_is_true(lower));
    if (json_is_boolean(strip))
        tn_gguf_set_bool(c->writer, "tokenizer.ggml.normalizer.strip_accents", json_is_true(strip));
}

void tn_vocab_write_special(tn_converter *c, const tn_hf_vocab *v, const json_t *tokenizer) {
    special s = {.c = c, .v = v, .tokenizer = tokenizer};
    read_texts(&s);
    if (c->tokenizer_config || tokenizer) read_post_processor(&s);
    read_ids(&s);
    add_more_ends(&s);
    write_ids(&s);
    write_normalizer(c, json_object_get(tokenizer, "normalizer"));
    if (!tokenizer) write_case(c);
}
