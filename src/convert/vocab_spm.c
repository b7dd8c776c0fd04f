/* tokenizer.model: SentencePiece's ModelProto, a protocol buffer of which these fields are read:
 *
 *   1 pieces, repeated: {1 piece: text, 2 score: float, 3 type: varint}
 *   2 trainer_spec: {3 model_type: varint, 1 unigram, 2 BPE}
 *   3 normalizer_spec: {2 precompiled_charsmap: bytes, 3 add_dummy_prefix: bool, 4 remove_extra_whitespaces: bool}
 *
 * A field is a varint, number << 3 | kind, and a value: kind 0 a varint, 1 eight bytes, 2 a varint length and bytes, 5 four
 * bytes. Then the tokens that were added to it: added_tokens.json, and tokenizer_config.json's added_tokens_decoder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/fmap.h"
#include "../base/reader.h"
#include "vocab.h"

static const float ADDED_SCORE = -1000;

enum { MODEL_UNIGRAM = 1 };

typedef struct field {
    uint64_t number, value; /* a number of any kind; of bytes their count */
    const uint8_t *bytes;
} field;

static bool read_varint(tn_reader *r, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *byte;
        if (!tn_read_bytes(r, 1, &byte)) return false;
        *out |= (uint64_t)(*byte & 0x7f) << shift;
        if (!(*byte & 0x80)) return true;
    }
    return false;
}

static bool read_field(tn_reader *r, field *f) {
    uint64_t tag;
    uint32_t word;
    if (!read_varint(r, &tag)) return false;
    f->number = tag >> 3;
    f->bytes = NULL; /* of other kinds there are none */
    switch (tag & 7) {
    case 0: return read_varint(r, &f->value);
    case 1: return tn_read_u64(r, &f->value);
    case 2: return read_varint(r, &f->value) && tn_read_bytes(r, f->value, &f->bytes);
    case 5:
        if (!tn_read_u32(r, &word)) return false;
        f->value = word;
        return true;
    default: return false;
    }
}

typedef struct spm {
    tn_converter *c;
    const char *path;
    tn_hf_vocab *v;
    uint32_t n_pieces;
    bool unigram;
} spm;

static tn_status bad(const spm *p, const char *why) {
    return tn_fail(p->c->err, TN_ERR_FORMAT, TN_CONVERT_WHAT, p->path, "%s", why);
}

/* User-defined pieces are ordinary ones until tokenizer_config.json says otherwise. */
static tn_status read_piece(spm *p, tn_reader r) {
    field f;
    uint32_t bits = 0;
    uint64_t type = TN_TOKEN_NORMAL;
    tn_str text = {NULL, 0};
    while (tn_reader_left(&r)) {
        if (!read_field(&r, &f)) return bad(p, "a piece is cut short");
        if (f.number == 1 && !f.bytes) return bad(p, "a piece whose text is a number");
        if (f.number == 1) text = (tn_str){(const char *)f.bytes, f.value};
        if (f.number == 2) bits = (uint32_t)f.value;
        if (f.number == 3) type = f.value;
    }
    if (type < TN_TOKEN_NORMAL || type > TN_TOKEN_BYTE) return bad(p, "a piece of an unknown type");
    const uint32_t id = p->n_pieces++;
    if (id >= p->v->n) return TN_OK; /* config.json says how many there are */
    p->v->texts[id] =
        (tn_str){tn_arena_strdup(&p->c->arena, text.ptr ? text.ptr : "", (size_t)text.len), text.len};
    if (!p->v->texts[id].ptr) return tn_convert_no_memory(p->c);
    p->v->types[id] = type == TN_TOKEN_USER_DEFINED ? TN_TOKEN_NORMAL : (int32_t)type;
    memcpy(&p->v->scores[id], &bits, sizeof bits);
    return TN_OK;
}

static tn_status read_trainer(spm *p, tn_reader r) {
    field f;
    while (tn_reader_left(&r)) {
        if (!read_field(&r, &f)) return bad(p, "the trainer's part is cut short");
        if (f.number == 3) p->unigram = f.value == MODEL_UNIGRAM;
    }
    return TN_OK;
}

/* The compiled rules matter to unigram vocabularies alone: where BPE has some, they change what no text of a model has. */
static tn_status read_normalizer(spm *p, tn_reader r, tn_str *charsmap) {
    field f;
    p->v->add_space_prefix = p->v->remove_extra_spaces = 1;
    while (tn_reader_left(&r)) {
        if (!read_field(&r, &f)) return bad(p, "the normalizer's part is cut short");
        if (f.number == 2 && !f.bytes) return bad(p, "a normalizer whose rules are a number");
        if (f.number == 2) *charsmap = (tn_str){(const char *)f.bytes, f.value};
        if (f.number == 3) p->v->add_space_prefix = f.value != 0;
        if (f.number == 4) p->v->remove_extra_spaces = f.value != 0;
    }
    return TN_OK;
}

static tn_status read_model(spm *p, tn_reader r, tn_str *charsmap) {
    field f = {0};
    p->unigram = true; /* where nothing is said */
    while (tn_reader_left(&r)) {
        f.bytes = NULL;
        if (!read_field(&r, &f)) return bad(p, "not a SentencePiece model, or cut short");
        const tn_reader inside = {f.bytes, f.value, 0};
        tn_status s = TN_OK;
        if (f.number >= 1 && f.number <= 3 && !f.bytes && f.value) return bad(p, "not a SentencePiece model");
        if (f.number == 1) s = read_piece(p, inside);
        if (f.number == 2) s = read_trainer(p, inside);
        if (f.number == 3) s = read_normalizer(p, inside, charsmap);
        if (s) return s;
    }
    return p->n_pieces ? TN_OK : bad(p, "no pieces");
}

/* Unigram vocabularies are another kind, whose normalization counts; of the other kind the flags are not written. */
static tn_status choose_model(spm *p, tn_str charsmap) {
    p->v->model = p->unigram ? "t5" : "llama";
    p->v->pre = "default";
    p->v->has_scores = true;
    if (!p->unigram) {
        p->v->add_space_prefix = p->v->remove_extra_spaces = -1;
        return TN_OK;
    }
    if (!charsmap.len) return TN_OK;
    p->v->n_charsmap_bytes = (size_t)charsmap.len;
    p->v->charsmap = (const uint8_t *)tn_arena_strdup(&p->c->arena, charsmap.ptr, (size_t)charsmap.len);
    return p->v->charsmap ? TN_OK : tn_convert_no_memory(p->c);
}

static tn_status add_tokens_json(spm *p) {
    json_t *added, *id;
    const char *text;
    tn_status s = tn_convert_json(p->c, "added_tokens.json", JSON_OBJECT, &added);
    if (s || !added) return s;
    json_object_foreach(added, text, id) {
        const uint64_t i = json_is_integer(id) ? (uint64_t)json_integer_value(id) : UINT64_MAX;
        if (i >= p->v->n) continue;
        p->v->texts[i] = (tn_str){tn_arena_strdup(&p->c->arena, text, strlen(text)), strlen(text)};
        p->v->types[i] = TN_TOKEN_USER_DEFINED;
        p->v->scores[i] = ADDED_SCORE;
        if (!p->v->texts[i].ptr) s = tn_convert_no_memory(p->c);
    }
    json_decref(added);
    return s;
}

static tn_status add_decoder(spm *p) {
    json_t *token;
    const char *text;
    json_t *decoder = json_object_get(p->c->tokenizer_config, "added_tokens_decoder");
    json_object_foreach(decoder, text, token) {
        char *end;
        const uint64_t id = strtoull(text, &end, 10);
        if (*end || end == text || *text == '-')
            return TN_BAD(p->c, "tokenizer_config.json: added_tokens_decoder: '%s' is no token id", text);
        if (id >= p->v->n) continue;
        tn_status s = tn_vocab_add(p->c, p->v, id, token, ADDED_SCORE);
        if (s) return s;
    }
    return TN_OK;
}

tn_status tn_vocab_read_spm(tn_converter *c, const char *path, tn_hf_vocab *v) {
    spm p = {.c = c, .path = path, .v = v};
    tn_fmap map;
    tn_str charsmap = {NULL, 0};
    tn_status s = tn_fmap_open(&map, path, c->err);
    if (s) return s;
    if (!(s = read_model(&p, (tn_reader){map.data, map.size, 0}, &charsmap))) s = choose_model(&p, charsmap);
    tn_fmap_close(&map);
    if (s || (s = add_tokens_json(&p))) return s;
    return add_decoder(&p);
}
