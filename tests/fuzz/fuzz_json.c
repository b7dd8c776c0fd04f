/* JSON text: what jansson's own parser takes is taken, with the same values, and nothing else. But for a NUL byte, which stands in no
 * JSON text: behind a number jansson overlooks it. */
#include <string.h>

#include "fuzz.h"
#include "src/base/json.h"

static const char words[] = "`\"a\":`\"b\":`\"\\u0000\":`\"\\u00e9\\ud83d\\ude00\"`\"\\ud800\"`"
                            "\"\\udc00\\ud800\"`\"\\n\\/\\\\\\\"\"`\"\xc3\xa9\""
                            "`\"\xed\xa0\x80\"`\"\xf4\x90\x80\x80\"`-0`0.5`1e5`-1E+309`1e-400`"
                            "9223372036854775807`-9223372036854775809`01`-`1.`tru`{`}`[`]"
                            "`,`:`\xef\xbb\xbf`\n";

static bool mutate(fuzz_edit *e, fuzz_random *r) {
    return fuzz_mutate_json(e, r, words);
}

static void run(const uint8_t *data, size_t n) {
    static const size_t flags[] = {0, JSON_DECODE_ANY | JSON_ALLOW_NUL,
                                   JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL};
    const char *text = n ? (const char *)data : "";
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        json_error_t error, expected_error;
        json_t *value = tn_json_parse(text, n, flags[i], &error);
        json_t *expected = json_loadb(text, n, flags[i], &expected_error);
        const bool nul = n && memchr(text, '\0', n);
        FUZZ_CHECK(nul ? !value : !value == !expected);
        if (value)
            FUZZ_CHECK(json_equal(value, expected));
        else
            FUZZ_CHECK(!tn_json_no_memory(&error) && error.line > 0 && error.text[0]);
        json_decref(value);
        json_decref(expected);
    }
}

const fuzz_target fuzz_json = {"json", run, mutate, words, 32768};
