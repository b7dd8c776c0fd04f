/* The header of one safetensors file. Its JSON has a fixed form, which is read without a tree: no depth to limit, and no
 * memory but the tensors'. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../src/base/checked.h"
#include "../src/base/json.h"
#include "file.h"
#include "safetensors_impl.h"

enum { MAX_HEADER_BYTES = 100 * 1000 * 1000, MAX_NAME_BYTES = 4096 };

static const struct {
    const char *name;
    uint32_t bytes;
} types[TN_ST_COUNT] = {
    [TN_ST_F64] = {"F64", 8},         [TN_ST_F32] = {"F32", 4},         [TN_ST_F16] = {"F16", 2},
    [TN_ST_BF16] = {"BF16", 2},       [TN_ST_F8_E4M3] = {"F8_E4M3", 1}, [TN_ST_F8_E5M2] = {"F8_E5M2", 1},
    [TN_ST_F8_E8M0] = {"F8_E8M0", 1}, [TN_ST_I64] = {"I64", 8},         [TN_ST_I32] = {"I32", 4},
    [TN_ST_I16] = {"I16", 2},         [TN_ST_I8] = {"I8", 1},           [TN_ST_U64] = {"U64", 8},
    [TN_ST_U32] = {"U32", 4},         [TN_ST_U16] = {"U16", 2},         [TN_ST_U8] = {"U8", 1},
    [TN_ST_BOOL] = {"BOOL", 1},
};

const char *tn_st_type_name(tn_st_type type) {
    return types[type].name;
}

uint32_t tn_st_type_bytes(tn_st_type type) {
    return types[type].bytes;
}

typedef struct header {
    tn_checkpoint *c;
    uint32_t shard;
    const char *base, *p, *end;
    const uint8_t *data;
    uint64_t data_bytes;
    tn_error *err;
} header;

#define BAD(h, ...) tn_fail((h)->err, TN_ERR_FORMAT, TN_ST_WHAT, (h)->c->shards[(h)->shard].path, __VA_ARGS__)

static tn_status expected(const header *h, const char *what) {
    return BAD(h, "header, byte %zu: expected %s", (size_t)(h->p - h->base), what);
}

static void skip(header *h) {
    while (h->p < h->end && (*h->p == ' ' || *h->p == '\n' || *h->p == '\r' || *h->p == '\t')) h->p++;
}

static bool take(header *h, char sign) {
    skip(h);
    if (h->p == h->end || *h->p != sign) return false;
    h->p++;
    return true;
}

/* A string with escapes, as jansson reads it. */
static tn_status unescape(header *h, const char *begin, tn_str *out) {
    json_error_t error;
    json_t *text = tn_json_parse(begin, (size_t)(h->p - begin), JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!text && tn_json_no_memory(&error))
        return tn_fail(h->err, TN_ERR_MEMORY, TN_ST_WHAT, h->c->shards[h->shard].path, "no memory for names");
    if (!text) return expected(h, "a string without bad escapes before here");
    const size_t n = json_string_length(text);
    const char *copy = tn_arena_strdup(&h->c->arena, json_string_value(text), n);
    json_decref(text);
    if (!copy)
        return tn_fail(h->err, TN_ERR_MEMORY, TN_ST_WHAT, h->c->shards[h->shard].path, "no memory for names");
    *out = (tn_str){copy, n};
    return TN_OK;
}

static tn_status read_string(header *h, const char *what, tn_str *out) {
    if (!take(h, '"')) return expected(h, what);
    const char *begin = h->p;
    bool escaped = false;
    for (; h->p < h->end && *h->p != '"'; h->p++) {
        if (*h->p != '\\') continue;
        escaped = true;
        if (++h->p == h->end) break;
    }
    if (h->p >= h->end) return expected(h, "the end of a string");
    h->p++;
    if (escaped) return unescape(h, begin - 1, out);
    *out = (tn_str){begin, (uint64_t)(h->p - 1 - begin)};
    return TN_OK;
}

static tn_status read_number(header *h, uint64_t *out) {
    skip(h);
    const char *begin = h->p;
    for (*out = 0; h->p < h->end && *h->p >= '0' && *h->p <= '9'; h->p++)
        if (!tn_mul_u64(*out, 10, out) || !tn_add_u64(*out, (uint64_t)(*h->p - '0'), out))
            return expected(h, "a number below 2^64");
    return h->p > begin ? TN_OK : expected(h, "a whole number");
}

static tn_status read_list(header *h, uint64_t *out, uint32_t most, uint32_t *n) {
    if (!take(h, '[')) return expected(h, "'['");
    *n = 0;
    if (take(h, ']')) return TN_OK;
    do {
        if (*n == most)
            return BAD(h, "header, byte %zu: more than %u numbers", (size_t)(h->p - h->base), most);
        tn_status s = read_number(h, &out[(*n)++]);
        if (s) return s;
    } while (take(h, ','));
    return take(h, ']') ? TN_OK : expected(h, "']'");
}

static bool is(tn_str text, const char *word) {
    return text.len == strlen(word) && !memcmp(text.ptr, word, text.len);
}

static tn_status read_type(header *h, tn_st_tensor *t) {
    tn_str name;
    tn_status s = read_string(h, "a type", &name);
    if (s) return s;
    for (int i = 0; i < TN_ST_COUNT; i++)
        if (is(name, types[i].name)) {
            t->type = (tn_st_type)i;
            return TN_OK;
        }
    return BAD(h, "tensor '%s': unknown type '%s'", tn_show(t->name).text, tn_show(name).text);
}

static tn_status check_span(const header *h, tn_st_tensor *t, const uint64_t span[2]) {
    uint64_t bytes;
    t->n_elems = 1;
    bool fits = true;
    for (uint32_t i = 0; i < t->n_dims; i++) fits = fits && tn_mul_u64(t->n_elems, t->dims[i], &t->n_elems);
    if (!fits || !tn_mul_u64(t->n_elems, types[t->type].bytes, &bytes))
        return BAD(h, "tensor '%s': its shape overflows", tn_show(t->name).text);
    if (span[0] > span[1] || span[1] > h->data_bytes)
        return BAD(h, "tensor '%s': data_offsets %llu to %llu, expected a range within %llu bytes",
                   tn_show(t->name).text, (unsigned long long)span[0], (unsigned long long)span[1],
                   (unsigned long long)h->data_bytes);
    if (span[1] - span[0] != bytes)
        return BAD(h, "tensor '%s': data_offsets span %llu bytes, its shape and type %s need %llu",
                   tn_show(t->name).text, (unsigned long long)(span[1] - span[0]), types[t->type].name,
                   (unsigned long long)bytes);
    t->n_bytes = bytes;
    t->data = h->data + span[0];
    return TN_OK;
}

static tn_status read_tensor(header *h, tn_st_tensor *t) {
    uint64_t span[2];
    uint32_t n_span = 0;
    unsigned seen = 0;
    if (!take(h, '{')) return expected(h, "'{'");
    do {
        tn_str field;
        tn_status s = read_string(h, "a field", &field);
        if (s) return s;
        if (!take(h, ':')) return expected(h, "':'");
        const unsigned bit = is(field, "dtype")          ? 1
                             : is(field, "shape")        ? 2
                             : is(field, "data_offsets") ? 4
                                                         : 0;
        if (!bit || (seen & bit))
            return BAD(h, "tensor '%s': %s field '%s'", tn_show(t->name).text, bit ? "doubled" : "unknown",
                       tn_show(field).text);
        seen |= bit;
        s = bit == 1   ? read_type(h, t)
            : bit == 2 ? read_list(h, t->dims, TN_ST_MAX_DIMS, &t->n_dims)
                       : read_list(h, span, 2, &n_span);
        if (s) return s;
    } while (take(h, ','));
    if (!take(h, '}')) return expected(h, "'}'");
    if (seen != 7)
        return BAD(h, "tensor '%s': expected dtype, shape and data_offsets", tn_show(t->name).text);
    if (n_span != 2)
        return BAD(h, "tensor '%s': expected 2 data_offsets, found %u", tn_show(t->name).text, n_span);
    return check_span(h, t, span);
}

static tn_status skip_metadata(header *h) {
    if (!take(h, '{')) return expected(h, "'{'");
    if (take(h, '}')) return TN_OK;
    do {
        tn_str text;
        tn_status s = read_string(h, "a key", &text);
        if (s) return s;
        if (!take(h, ':')) return expected(h, "':'");
        if ((s = read_string(h, "a text", &text))) return s;
    } while (take(h, ','));
    return take(h, '}') ? TN_OK : expected(h, "'}'");
}

static tn_status append(header *h, const tn_st_tensor *t) {
    tn_checkpoint *c = h->c;
    if (c->n_tensors == c->room) {
        const uint64_t room = c->room ? 2 * c->room : 256;
        tn_st_tensor *more = room < UINT32_MAX ? realloc(c->tensors, (size_t)room * sizeof *more) : NULL;
        if (!more)
            return tn_fail(h->err, TN_ERR_MEMORY, TN_ST_WHAT, c->shards[h->shard].path,
                           "no memory for tensors");
        c->tensors = more, c->room = room;
    }
    c->tensors[c->n_tensors++] = *t;
    return TN_OK;
}

static tn_status read_entries(header *h) {
    bool metadata = false;
    if (!take(h, '{')) return expected(h, "'{'");
    if (take(h, '}')) return TN_OK;
    do {
        tn_st_tensor t = {.shard = h->shard};
        tn_status s = read_string(h, "a tensor's name", &t.name);
        if (s) return s;
        if (!take(h, ':')) return expected(h, "':'");
        if (is(t.name, "__metadata__")) {
            if (metadata) return BAD(h, "'__metadata__' is there twice");
            metadata = true;
            s = skip_metadata(h);
        } else if (t.name.len == 0 || t.name.len > MAX_NAME_BYTES ||
                   !tn_is_printable(t.name.ptr, t.name.len)) {
            return BAD(h, "tensor '%s': expected a printable name of 1 to %d bytes", tn_show(t.name).text,
                       MAX_NAME_BYTES);
        } else if (!(s = read_tensor(h, &t))) {
            s = append(h, &t);
        }
        if (s) return s;
    } while (take(h, ','));
    return take(h, '}') ? TN_OK : expected(h, "'}' or ','");
}

static int by_place(const void *a, const void *b) {
    const tn_st_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes); /* empty ones first */
}

/* The tensors of the shard, brought into the order of their data, cover it without overlap or hole. */
static tn_status check_cover(const header *h, tn_st_tensor *t, uint64_t n) {
    const uint8_t *at = h->data;
    if (n) qsort(t, (size_t)n, sizeof *t, by_place);
    for (uint64_t i = 0; i < n; at = t[i].data + t[i].n_bytes, i++)
        if (t[i].data != at)
            return BAD(h, "tensor '%s': its data %s", tn_show(t[i].name).text,
                       t[i].data < at ? "overlap another tensor's" : "begin behind a hole");
    if (at != h->data + h->data_bytes)
        return BAD(h, "%llu bytes behind the last tensor",
                   (unsigned long long)(h->data + h->data_bytes - at));
    return TN_OK;
}

tn_status tn_st_read_shard(tn_checkpoint *c, uint32_t shard, tn_error *err) {
    tn_st_shard *file = &c->shards[shard];
    header h = {.c = c, .shard = shard, .err = err};
    uint64_t n = 0;
    const uint64_t first = c->n_tensors;
    tn_status s = tn_fmap_open(&file->map, file->path, err);
    if (s) return s;
    if (file->map.size < sizeof n)
        return BAD(&h, "%llu bytes are no safetensors file", (unsigned long long)file->map.size);
    memcpy(&n, file->map.data, sizeof n);
    if (n > MAX_HEADER_BYTES || n > file->map.size - sizeof n)
        return BAD(&h, "header of %llu bytes, expected at most %llu", (unsigned long long)n,
                   (unsigned long long)(file->map.size - sizeof n < MAX_HEADER_BYTES
                                            ? file->map.size - sizeof n
                                            : MAX_HEADER_BYTES));
    h.base = h.p = (const char *)file->map.data + sizeof n;
    h.end = h.base + n;
    h.data = (const uint8_t *)h.end;
    h.data_bytes = file->map.size - sizeof n - n;
    if ((s = read_entries(&h))) return s;
    skip(&h);
    if (h.p != h.end) return expected(&h, "the end of the header");
    return check_cover(&h, c->tensors ? c->tensors + first : NULL, c->n_tensors - first);
}
