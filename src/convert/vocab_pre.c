/* Which pre-tokenizer a byte-level tokenizer.json has. */
#include <stdio.h>
#include <string.h>

#include "../text/pretok.h"
#include "vocab.h"

typedef struct reading {
    tn_stage stages[TN_PRETOK_MAX_PATTERNS];
    size_t n, n_byte_stages;
    bool bytes, nfc, known;
} reading;

static bool is(const json_t *object, const char *field, const char *word) {
    const char *text = json_string_value(json_object_get(object, field));
    return text && !strcmp(text, word);
}

static void add(reading *r, tn_stage_kind kind, const char *pattern) {
    if (r->n == TN_PRETOK_MAX_PATTERNS) {
        r->known = false;
        return;
    }
    r->stages[r->n++] = (tn_stage){kind, pattern};
    r->n_byte_stages += r->bytes;
}

/* What lies between matches is a piece too; patterns that match everything may also say so by removing what they do not. */
static void read_split(reading *r, const json_t *stage) {
    const json_t *pattern = json_object_get(stage, "pattern");
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const bool isolated =
        is(stage, "behavior", "Isolated") && !json_is_true(json_object_get(stage, "invert"));
    const bool kept = is(stage, "behavior", "Removed") && json_is_true(json_object_get(stage, "invert"));
    if (regex && (isolated || kept))
        add(r, TN_STAGE_SPLIT, regex);
    else
        r->known = false;
}

static void read_stage(reading *r, const json_t *stage) {
    const json_t *list = json_object_get(stage, "pretokenizers");
    size_t i;
    json_t *part;
    if (is(stage, "type", "Sequence")) {
        json_array_foreach(list, i, part) {
            if (json_object_get(part, "pretokenizers")) /* none is published with one inside the other */
                r->known = false;
            else
                read_stage(r, part);
        }
    } else if (is(stage, "type", "Split")) {
        read_split(r, stage);
    } else if (is(stage, "type", "Digits")) {
        add(r,
            json_is_true(json_object_get(stage, "individual_digits")) ? TN_STAGE_DIGITS : TN_STAGE_DIGIT_RUNS,
            NULL);
    } else if (is(stage, "type", "Punctuation") && is(stage, "behavior", "Contiguous")) {
        add(r, TN_STAGE_PUNCTUATION, NULL);
    } else if (is(stage, "type", "ByteLevel")) {
        if (!json_is_false(json_object_get(stage, "use_regex"))) add(r, TN_STAGE_BYTE_LEVEL, NULL);
        r->bytes = true;
    } else {
        r->known = false;
    }
}

static void read_normalizer(reading *r, const json_t *normalizer) {
    const json_t *list = json_object_get(normalizer, "normalizers");
    if (!normalizer || json_is_null(normalizer)) return;
    if (is(normalizer, "type", "Sequence") && json_array_size(list) == 0) return;
    if (is(normalizer, "type", "Sequence") && json_array_size(list) == 1)
        normalizer = json_array_get(list, 0);
    r->nfc = is(normalizer, "type", "NFC");
    r->known &= r->nfc;
}

tn_status tn_vocab_find_pre(tn_converter *c, const json_t *tokenizer, const char **name) {
    reading r = {.known = true};
    read_normalizer(&r, json_object_get(tokenizer, "normalizer"));
    read_stage(&r, json_object_get(tokenizer, "pre_tokenizer"));
    const json_t *ignore_merges = json_object_get(json_object_get(tokenizer, "model"), "ignore_merges");
    *name =
        r.known ? tn_pretok_match(r.stages, r.n, r.n_byte_stages, r.nfc, json_is_true(ignore_merges)) : NULL;
    if (*name) return TN_OK;
    return TN_NOT_KNOWN(
        c, "tokenizer.json: no known pre-tokenizer has these stages; --pre NAME names the one to use");
}
