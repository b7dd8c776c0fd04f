/* WordPiece, of a tokenizer.json or a vocab.txt. Checkpoints mark what goes on with a word ("##ing"), files what begins one. */
#include <string.h>

#include "../base/fmap.h"
#include "vocab.h"

static const char begins_word[] = "\xe2\x96\x81"; /* U+2581 */

tn_status tn_vocab_mark_words(tn_converter *c, tn_hf_vocab *v) {
    for (uint32_t i = 0; i < v->n; i++) {
        tn_str *text = &v->texts[i];
        if (v->types[i] == TN_TOKEN_CONTROL) continue;
        if (text->len >= 2 && !memcmp(text->ptr, "##", 2)) {
            *text = (tn_str){text->ptr + 2, text->len - 2};
            continue;
        }
        char *marked = tn_arena_alloc(&c->arena, (size_t)text->len + sizeof begins_word, 1);
        if (!marked) return tn_convert_no_memory(c);
        memcpy(marked, begins_word, sizeof begins_word - 1);
        memcpy(marked + sizeof begins_word - 1, text->ptr, (size_t)text->len);
        *text = (tn_str){marked, text->len + sizeof begins_word - 1};
    }
    v->model = "bert";
    v->pre = c->options->pre ? c->options->pre : "default";
    return TN_OK;
}

/* A vocab.txt does not say which tokens are special: BERT's own are, and those that tokenizer_config.json names. */
static bool is_special(const tn_converter *c, tn_str text) {
    static const struct {
        const char *key, *usual;
    } specials[] = {{"pad_token", "[PAD]"},
                    {"unk_token", "[UNK]"},
                    {"cls_token", "[CLS]"},
                    {"sep_token", "[SEP]"},
                    {"mask_token", "[MASK]"}};
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        const json_t *entry = json_object_get(c->tokenizer_config, specials[i].key);
        if (json_is_object(entry)) entry = json_object_get(entry, "content");
        const char *named = json_is_string(entry) ? json_string_value(entry) : specials[i].usual;
        if (strlen(named) == text.len && !memcmp(named, text.ptr, (size_t)text.len)) return true;
    }
    return false;
}

/* A line a token. */
static tn_status read_lines(tn_converter *c, const char *data, size_t size, tn_hf_vocab *v) {
    uint32_t id = 0;
    for (size_t at = 0; at < size; id++) {
        const char *line = data + at, *end = memchr(line, '\n', size - at);
        size_t n = end ? (size_t)(end - line) : size - at;
        at += n + 1;
        if (n && line[n - 1] == '\r') n--;
        if (id >= v->n) return TN_BAD(c, "vocab.txt: more lines than the %u tokens of config.json", v->n);
        v->texts[id] = (tn_str){tn_arena_strdup(&c->arena, line, n), n};
        if (!v->texts[id].ptr) return tn_convert_no_memory(c);
        v->types[id] = is_special(c, v->texts[id]) ? TN_TOKEN_CONTROL : TN_TOKEN_NORMAL;
    }
    return TN_OK;
}

tn_status tn_vocab_read_lines(tn_converter *c, const char *path, tn_hf_vocab *v) {
    tn_fmap map;
    tn_status s = tn_fmap_open(&map, path, c->err);
    if (s) return s;
    if (map.size) s = read_lines(c, (const char *)map.data, map.size, v);
    tn_fmap_close(&map);
    return s ? s : tn_vocab_mark_words(c, v);
}
