#include "charsmap.h"

#include <string.h>

static uint32_t read_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

tn_status tn_charsmap_read(tn_charsmap *map, const uint8_t *data, size_t n, tn_error *err) {
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    *map = (tn_charsmap){0};
    if (n == 0) return TN_OK;
    uint32_t trie_bytes = n >= 4 ? read_u32(data) : 0;
    if (n < 4 || trie_bytes % 4 || trie_bytes >= n - 4)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", key,
                       "%zu bytes cannot hold a trie of %u bytes and texts", n, trie_bytes);
    if (data[n - 1] != 0) return tn_fail(err, TN_ERR_FORMAT, "vocabulary", key, "the last text has no end");
    map->units = data + 4;
    map->n_units = trie_bytes / 4;
    map->texts = (const char *)data + 4 + trie_bytes;
    map->n_text_bytes = n - 4 - trie_bytes;
    return TN_OK;
}

/* The parts of a unit. A label above 255 belongs to a unit that holds a value. */
static uint32_t unit_label(uint32_t unit) {
    return unit & 0x800000FFu;
}

static uint32_t unit_offset(uint32_t unit) {
    return (unit >> 10) << ((unit & 0x200u) >> 6);
}

static int unit_has_value(uint32_t unit) {
    return (unit >> 8) & 1;
}

static const char *find_text(const tn_charsmap *map, uint32_t offset, size_t *len) {
    if (offset >= map->n_text_bytes) return NULL;
    *len = strnlen(map->texts + offset, TN_CHARSMAP_MAX_TEXT + 1);
    return *len <= TN_CHARSMAP_MAX_TEXT ? map->texts + offset : NULL;
}

size_t tn_charsmap_match(const tn_charsmap *map, const char *text, size_t n, const char **by,
                         size_t *by_len) {
    if (map->n_units == 0) return 0;
    size_t longest = 0;
    size_t at = unit_offset(read_u32(map->units));
    for (size_t i = 0; i < n && i < TN_CHARSMAP_MAX_RULE && text[i]; i++) {
        at ^= (uint8_t)text[i];
        if (at >= map->n_units) break;
        uint32_t unit = read_u32(map->units + 4 * at);
        if (unit_label(unit) != (uint8_t)text[i]) break;
        at ^= unit_offset(unit);
        if (at >= map->n_units) break;
        if (!unit_has_value(unit)) continue;
        size_t len;
        const char *found = find_text(map, read_u32(map->units + 4 * at) & 0x7FFFFFFFu, &len);
        if (!found) continue;
        longest = i + 1;
        *by = found;
        *by_len = len;
    }
    return longest;
}
