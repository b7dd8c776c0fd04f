/* Changes of JSON that leave it JSON: a value becomes another one, a member goes or comes twice. Of an input of several files one is
 * changed; what stands around the JSON in it stays. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

enum { MAX_NODES = 4096, MAX_DEPTH = 32 };

/* A value, and where its key, if it has one, begins; inside: something holds it. */
typedef struct node {
    size_t begin, end, key;
    bool inside;
} node;

typedef struct tree {
    const uint8_t *data;
    size_t at, end;
    node nodes[MAX_NODES];
    size_t n_nodes;
} tree;

static size_t string_end(const tree *t, size_t at) {
    for (at++; at < t->end && t->data[at] != '"'; at++)
        if (t->data[at] == '\\') at++;
    return at < t->end ? at + 1 : t->end;
}

static size_t word_end(const tree *t, size_t at) {
    while (at < t->end && !strchr(" \n\t\r,:[]{}\"", t->data[at])) at++;
    return at;
}

/* The values of the file from t->at on, containers before what they hold. */
static void read_values(tree *t) {
    size_t open[MAX_DEPTH], depth = 0, key = SIZE_MAX;
    while (t->at < t->end && t->n_nodes < MAX_NODES) {
        const size_t at = t->at;
        const uint8_t c = t->data[at];
        t->at++;
        if (c == ']' || c == '}') {
            if (depth) t->nodes[open[--depth]].end = t->at;
        } else if (c && !strchr(" \n\t\r,:", c)) {
            const bool opens = c == '[' || c == '{';
            if (!opens) t->at = c == '"' ? string_end(t, at) : word_end(t, at);
            size_t next = t->at;
            while (next < t->end && t->data[next] == ' ') next++;
            if (!opens && depth && next < t->end && t->data[next] == ':') {
                key = at;
                continue;
            }
            t->nodes[t->n_nodes] = (node){at, t->at, key == SIZE_MAX ? at : key, depth > 0};
            if (opens && depth < MAX_DEPTH) open[depth++] = t->n_nodes;
            t->n_nodes++;
        }
        if (c != ':') key = SIZE_MAX;
    }
}

/* One of the files. */
static void choose_file(tree *t, const fuzz_edit *e, fuzz_random *r) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const fuzz_bytes part = parts[fuzz_below(r, fuzz_split(e->data, e->n, parts))];
    t->data = e->data;
    t->n_nodes = 0;
    t->at = (size_t)(part.data - e->data);
    t->end = t->at + part.n;
    const uint8_t *first = memchr(part.data, '{', part.n);
    if (first) t->at = (size_t)(first - e->data);
}

static bool replace(fuzz_edit *e, const node *v, const void *bytes, size_t n) {
    return fuzz_replace(e, v->begin, v->end - v->begin, bytes, n);
}

/* By another value that there is, or by one that there often is. */
static bool change_value(fuzz_edit *e, const tree *t, const node *v, fuzz_random *r) {
    static const char *const common[] = {"null", "true",  "false", "0",  "-1", "1",      "2",   "64",
                                         "0.5",  "1e300", "\"\"",  "[]", "{}", "[null]", "1e-9"};
    if (fuzz_below(r, 2)) {
        const char *text = common[fuzz_below(r, sizeof common / sizeof *common)];
        return replace(e, v, text, strlen(text));
    }
    uint8_t other[512];
    const node *from = &t->nodes[fuzz_below(r, t->n_nodes)];
    const size_t n = from->end - from->begin;
    if (n > sizeof other) return false;
    memcpy(other, t->data + from->begin, n);
    return replace(e, v, other, n);
}

static bool change_number(fuzz_edit *e, const node *v, fuzz_random *r) {
    char text[32];
    uint64_t near = 0;
    for (size_t i = v->begin; i < v->end && e->data[i] >= '0' && e->data[i] <= '9'; i++)
        near = near * 10 + e->data[i] - '0';
    const int n = snprintf(text, sizeof text, "%" PRIu64, fuzz_edge(r, near));
    return replace(e, v, text, (size_t)n);
}

static bool change_string(fuzz_edit *e, const node *v, fuzz_random *r, const char *words) {
    const fuzz_bytes word = fuzz_word(words, r);
    if (word.n && word.data[0] == '"' && word.data[word.n - 1] == '"')
        return replace(e, v, word.data, word.n);
    uint8_t text[256];
    fuzz_edit inner = {text, v->end - v->begin, sizeof text};
    if (inner.n > sizeof text / 2) return false;
    memcpy(text, e->data + v->begin, inner.n);
    inner.data++, inner.n -= 2, inner.cap -= 2; /* between the quotes */
    fuzz_mutate_plain(&inner, r);
    text[inner.n + 1] = '"';
    return replace(e, v, text, inner.n + 2);
}

/* Away with it and a comma of its own; or once more, with a comma. */
static bool change_member(fuzz_edit *e, const node *v, fuzz_random *r) {
    size_t begin = v->key, end = v->end, n = end - begin;
    if (!v->inside) return false;
    if (fuzz_below(r, 2)) {
        if (n + 1 > e->cap - e->n || !fuzz_replace(e, begin, 0, NULL, n + 1)) return false;
        memcpy(e->data + begin, e->data + begin + n + 1, n);
        e->data[begin + n] = ',';
        return true;
    }
    while (end < e->n && e->data[end] == ' ') end++;
    if (end < e->n && e->data[end] == ',') {
        end++;
    } else {
        end = v->end;
        while (begin > 0 && e->data[begin - 1] == ' ') begin--;
        if (begin > 0 && e->data[begin - 1] == ',') begin--;
    }
    return fuzz_replace(e, begin, end - begin, NULL, 0);
}

/* Another name; the words have some, each with its colon. */
static bool change_key(fuzz_edit *e, const node *v, fuzz_random *r, const char *words) {
    for (size_t tries = 0; tries < 8 && v->key < v->begin; tries++) {
        const fuzz_bytes word = fuzz_word(words, r);
        if (word.n && word.data[0] == '"' && word.data[word.n - 1] == ':')
            return fuzz_replace(e, v->key, v->begin - v->key, word.data, word.n);
    }
    return false;
}

bool fuzz_mutate_json(fuzz_edit *e, fuzz_random *r, const char *words) {
    static tree t;
    choose_file(&t, e, r);
    read_values(&t);
    if (!t.n_nodes) return false;
    const node *v = &t.nodes[fuzz_below(r, t.n_nodes)];
    const uint8_t c = e->data[v->begin];
    if (fuzz_below(r, 4) == 0) return change_member(e, v, r);
    if (fuzz_below(r, 8) == 0) return change_key(e, v, r, words);
    if (c == '"' && v->end - v->begin >= 2 && fuzz_below(r, 2)) return change_string(e, v, r, words);
    if (c >= '0' && c <= '9' && fuzz_below(r, 2)) return change_number(e, v, r);
    return change_value(e, &t, v, r);
}
