#include "json_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* The code of a character of good UTF-8 and in *n its bytes. */
static unsigned decode(const char *text, size_t *n) {
    const unsigned char *p = (const unsigned char *)text;
    *n = p[0] < 0x80 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    unsigned code = *n == 1 ? p[0] : p[0] & (0x7Fu >> *n);
    for (size_t i = 1; i < *n; i++) code = code << 6 | (p[i] & 0x3Fu);
    return code;
}

/* What is to be escaped is below U+10000; line breaks between the parts of a value are not inside of strings. */
static void put_safe(FILE *out, const char *text) {
    for (size_t n; *text; text += n) {
        char shown[24];
        const unsigned code = decode(text, &n);
        const bool safe =
            *text == '\n' || (tern_escape(shown, sizeof shown, text, n) == n && memcmp(shown, text, n) == 0);
        if (safe)
            fwrite(text, 1, n, out);
        else
            fprintf(out, "\\u%04x", code);
    }
}

char *tn_json_text(const json_t *value, size_t flags) {
    char *safe = NULL, *text = json_dumps(value, flags | JSON_ENCODE_ANY);
    size_t n;
    FILE *out = text ? open_memstream(&safe, &n) : NULL;
    if (out) put_safe(out, text);
    free(text);
    if (out && fclose(out) == 0) return safe;
    free(safe);
    return NULL;
}

int tn_json_print(FILE *out, const json_t *value, size_t flags) {
    char *text = tn_json_text(value, flags);
    if (!text) return tn_cli_fail("cannot print JSON: out of memory");
    fputs(text, out);
    fputc('\n', out);
    free(text);
    return TN_EXIT_DONE;
}
