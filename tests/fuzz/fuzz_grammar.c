/* Grammars: parsing, and following one. The input is a grammar, and what chooses among what may follow. */
#include "fuzz.h"
#include "src/text/grammar.h"

static const char words[] =
    "`root ::= `\nb ::= `a`b`root`|`(`)`*`+`?`{2,5}`{0,65536}`{,}`[a-z]`[^\"\\\\\\x00-\\x1F]`.`\"x\""
    "`\\u00e9`\\U0010FFFF`\\x80`#`\n` ::= `(\"a\"*)*";

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    char text[96];
    bool may_end;
    tn_grammar *grammar;
    tn_error err;
    fuzz_split(data, n, parts);
    const fuzz_bytes choices = parts[0].n == n ? (fuzz_bytes){0} : parts[1];
    const tn_status s = tn_grammar_parse((const char *)parts[0].data, parts[0].n, "grammar", &grammar, &err);
    fuzz_check_status((int)s, &err);
    FUZZ_CHECK(!s == (grammar != NULL));
    if (s) return;
    fuzz_walk(grammar, choices, text, sizeof text, &may_end);
    tn_grammar_free(grammar);
}

const fuzz_target fuzz_grammar = {"grammar", run, NULL, words, 16384};
