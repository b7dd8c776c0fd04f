/* JSON schemas: what becomes a grammar becomes a good one, and what that writes is JSON. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "src/text/grammar.h"
#include "src/text/schema.h"

static const char words[] =
    "`\"type\":`\"object\"`\"array\"`\"string\"`\"integer\"`\"number\"`\"boolean\"`\"null\"`\"enum\":"
    "`\"const\":`\"properties\":`\"required\":`\"additionalProperties\":`\"items\":`\"prefixItems\":"
    "`\"minItems\":`\"maxItems\":`\"minLength\":`\"maxLength\":`\"pattern\":`\"format\":`\"date-time\""
    "`\"uuid\"`\"minimum\":`\"maximum\":`\"exclusiveMinimum\":`\"exclusiveMaximum\":`\"anyOf\":"
    "`\"oneOf\":`\"allOf\":`\"$ref\":`\"#\"`\"#/$defs/a\"`\"$defs\":`{\"a\":`[`]`{`}`true`false`null`1.5"
    "`-1e15`\"\\\\d+\"`\"^(a|b){2,3}$\"`,";

static bool mutate(fuzz_edit *e, fuzz_random *r) {
    return fuzz_mutate_json(e, r, words);
}

static void walk(const char *text, fuzz_bytes choices) {
    tn_grammar *grammar;
    tn_error err;
    char written[512];
    bool may_end;
    json_error_t bad;
    const tn_status s = tn_grammar_parse(text, strlen(text), "schema", &grammar, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK(s != TN_ERR_FORMAT || strstr(err.message, "left-recursive")); /* which is found only there */
    if (s) return;
    const size_t n = fuzz_walk(grammar, choices, written, sizeof written, &may_end);
    if (may_end) {
        json_t *json = json_loadb(written, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &bad);
        FUZZ_CHECK(json);
        json_decref(json);
    }
    tn_grammar_free(grammar);
}

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    char *grammar;
    tn_error err;
    fuzz_split(data, n, parts);
    const fuzz_bytes choices = parts[0].n == n ? (fuzz_bytes){0} : parts[1];
    const tn_status s = tn_schema_to_grammar((const char *)parts[0].data, parts[0].n, &grammar, &err);
    fuzz_check_status((int)s, &err);
    if (s) return;
    walk(grammar, choices);
    free(grammar);
}

const fuzz_target fuzz_schema = {"schema", run, mutate, words, 16384};
