#include "json.h"

#include <stdint.h>
#include <string.h>

/* Value of the four digits of \uXXXX at text, which was parsed. */
static unsigned unit_at(const char *text) {
    unsigned unit = 0;
    for (int i = 0; i < 4; i++) {
        const char c = text[i];
        unit = unit << 4 | (unsigned)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return unit;
}

/* Bytes that the strings of a text have, keys too; the text was parsed. A pair of surrogates, two units, is four bytes. */
static uint64_t expected_bytes(const char *text, size_t n) {
    uint64_t sum = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') {
            in_string = !in_string;
        } else if (in_string && text[i] == '\\' && i + 1 < n && text[++i] == 'u' && n - i > 4) {
            const unsigned unit = unit_at(text + i + 1);
            sum += unit < 0x80 ? 1 : unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 2 : 3;
            i += 4;
        } else {
            sum += in_string;
        }
    }
    return sum;
}

/* As deep as jansson lets a text be, 2048. */
static uint64_t found_bytes(const json_t *value) {
    uint64_t sum = json_string_length(value);
    const char *key;
    json_t *item;
    size_t i;
    json_array_foreach(value, i, item) sum += found_bytes(item);
    json_object_foreach((json_t *)(uintptr_t)value, key, item) sum += strlen(key) + found_bytes(item);
    return sum;
}

json_t *tn_json_parse(const char *text, size_t n, size_t flags, json_error_t *error) {
    json_t *value = json_loadb(text, n, flags, error);
    if (!value || found_bytes(value) == expected_bytes(text, n)) return value;
    /* Of a key that is there twice only the last is kept. */
    json_t *again = json_loadb(text, n, flags | JSON_REJECT_DUPLICATES, error);
    if (!again && json_error_code(error) == json_error_duplicate_key) return value;
    json_decref(again);
    json_decref(value);
    error->line = -1;
    return NULL;
}

bool tn_json_no_memory(const json_error_t *error) {
    return error->line < 0;
}
