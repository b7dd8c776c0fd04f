/* Grammars: what they match, against cases by hand and against a recognizer of another kind; what is refused; how long the worst
 * takes; and the masks over a vocabulary, against one token after the other. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "src/text/constraint.h"
#include "src/text/grammar.h"
#include "src/text/matcher.h"
#include "src/text/sampler.h"
#include "tests/unit/vocab_fixture.h"

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static tn_grammar *parse(const char *text) {
    tn_grammar *g = NULL;
    tn_error err = {0};
    if (tn_grammar_parse(text, strlen(text), "test", &g, &err) != TN_OK)
        fail_msg("%s in\n%s", err.message, text);
    return g;
}

static tn_matcher *matcher_of(const tn_grammar *g, uint32_t *start) {
    tn_matcher *m = NULL;
    tn_error err = {0};
    if (tn_matcher_new(g, &m, start, &err) != TN_OK) fail_msg("%s", err.message);
    return m;
}

static bool matches_n(tn_matcher *m, uint32_t state, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        state = tn_matcher_step(m, state, (uint8_t)text[i]);
        assert_int_not_equal(state, TN_STATE_FULL);
        if (state == TN_STATE_DEAD) return false;
    }
    return tn_matcher_may_end(m, state);
}

/* ---- By hand ------------------------------------------------------------------------------------------------------ */

typedef struct match_case {
    const char *grammar, *yes[8], *no[8];
} match_case;

static const match_case match_cases[] = {
    {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "ye", "yesno", "nope"}},
    {"root ::= \"\"", {""}, {"a"}},
    {"root ::= [a-c]+ # comment\n# another\n\n", {"a", "abcabc"}, {"", "d", "abd"}},
    {"root ::= [^a-c\"]*",
     {"", "xyz", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x99\x82"},
     {"a", "xb", "\"", "\xC3", "\x80", "\xFF"}},
    {"# one\rroot ::= \"a\" b # two\r\nb ::= (\"b\" # three\r\n)\r", {"ab"}, {"a"}},
    {"root ::= \"a\" # to the end", {"a"}, {"#"}},
    {"root ::= .", {"a", "\n", "\xC3\xA9"}, {"", "aa", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80"}},
    {"root ::= \"a\"{3}", {"aaa"}, {"aa", "aaaa"}},
    {"root ::= \"a\"{2,}", {"aa", "aaaaaaaaa"}, {"", "a"}},
    {"root ::= (\"ab\" | \"c\"){1,3}", {"ab", "cabc", "ccc"}, {"", "cccc", "abca"}},
    {"root ::= \"a\"{0} \"b\"{ 1 , 2 }", {"b", "bb"}, {"ab", ""}},
    {"root ::= \"a\"{0,0}\"b\"?", {"", "b"}, {"a"}},
    {"root ::= \"\\x41\\u00e9\\U0001F642\\t\\n\\\"\\\\\"", {"A\xC3\xA9\xF0\x9F\x99\x82\t\n\"\\"}, {"A"}},
    {"root ::= [\\x00-\\x1F\\]\\-\\\\]", {"\n", "]", "-", "\\", "\x01"}, {" ", "["}},
    {"root ::= [a-]+ [-a]+", {"--", "a-", "-a"}, {"-", "b-"}},
    {"root ::= []", {NULL}, {"", "a"}},
    {"root ::= value\nvalue ::= \"(\" value* \")\"", {"()", "(()(()))"}, {"", "(", "())", ")("}},
    {"root ::= (\"a\"*)*", {"", "aaaa"}, {"b", "ab"}},
    {"root ::= (\"a\"* \"b\"?)+ \"c\"", {"c", "aabac"}, {"", "ab"}},
    {"root ::= (\"\" | \"a\"){5,}", {"", "a", "aaaaaaaaa"}, {"b"}},
    {"root ::= a\na ::= \"x\" a |\n \"y\"\n  | \"z\"", {"y", "xxz"}, {"x", "xx"}},
    {"root::=(\n\"a\"\n|\n\"b\" # c\n)\nb-2_X ::= \"q\"", {"a", "b"}, {"q"}},
    {"root ::= list\nlist ::= [0-9] (\",\" list)?", {"1", "1,2,3"}, {"", ",", "1,"}},
    {"root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"\"",
     {"", "ab", "aacb", "aaacbc"},
     {"a", "abb", "ba"}},
    {"root ::= x \"!\"\nx ::= \"a\" x? x?", {"a!", "aaaa!"}, {"!", "aa"}},
    {"root ::= n \"b\"\nn ::= \"a\"?", {"b", "ab"}, {"a", "aab"}},
    {"root ::= m m \"b\"\nm ::= n?\nn ::= \"a\"", {"b", "ab", "aab"}, {"aaab"}},
};

static void texts_match_as_worked_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof match_cases / sizeof *match_cases; i++) {
        const match_case *c = &match_cases[i];
        uint32_t start_state;
        tn_grammar *g = parse(c->grammar);
        tn_matcher *m;
        tn_error err = {0};
        if (!c->yes[0]) { /* nothing matches */
            assert_int_equal(tn_matcher_new(g, &m, &start_state, &err), TN_ERR_UNSUPPORTED);
            tn_grammar_free(g);
            continue;
        }
        m = matcher_of(g, &start_state);
        for (int j = 0; j < 8 && c->yes[j]; j++)
            if (!matches_n(m, start_state, c->yes[j], strlen(c->yes[j])))
                fail_msg("%s does not match %s", c->grammar, c->yes[j]);
        for (int j = 0; j < 8 && c->no[j]; j++)
            if (matches_n(m, start_state, c->no[j], strlen(c->no[j])))
                fail_msg("%s matches %s", c->grammar, c->no[j]);
        tn_matcher_free(m);
        tn_grammar_free(g);
    }
}

static void refuse(const char *text, size_t n, const char *where, const char *why) {
    tn_grammar *g;
    tn_error err = {0};
    assert_int_equal(tn_grammar_parse(text, n, "test", &g, &err), TN_ERR_FORMAT);
    assert_null(g);
    if (!strstr(err.message, where) || !strstr(err.message, why))
        fail_msg("'%s' does not say '%s: %s'", err.message, where, why);
}

static void what_is_wrong_is_said_with_its_place(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"", "test", "no rule 'root'"},
        {"a ::= \"b\"", "test", "no rule 'root'"},
        {"root ::= a", "test:1:10", "no rule of the name 'a'"},
        {"root ::= \"a\"\nroot ::= \"b\"", "test:2:1", "second rule 'root'"},
        {"root = \"a\"", "test:1:6", "'::='"},
        {"root ::= \"a", "test:1:10", "does not end"},
        {"root ::= [a", "test:1:10", "does not end"},
        {"root ::= (\"a\"", "test:1:10", "does not end"},
        {"root ::= \"a\")", "test:1:13", "end of the line"},
        {"root ::= [b-a]", "test:1:14", "before it begins"},
        {"root ::= \"a\"{3,2}", "test:1:17", "below the least"},
        {"root ::= \"a\"{,2}", "test:1:14", "expected a number"},
        {"root ::= \"a\"{2", "test:1:15", "'}'"},
        {"root ::= \"a\"{0,2147483648}", "test", "at most 10000 repetitions"},
        {"root ::= \"a\"{99999999999999999999}", "test", "at most 10000 repetitions"},
        {"root ::= ((\"a\"{9999}){9999}){9999} ((\"a\" \"b\"){9999} | \"c\"){1,2} (\"q\"{9999} "
         "[^a]{9999}){3} \"x\"{9999} \"y\"{9999}",
         "", ""},
        {"root ::= * \"a\"", "test:1:10", "expected a text"},
        {"root ::= \"\\q\"", "test:1:12", "unknown escape"},
        {"root ::= \"\\u12\"", "test:1:15", "hexadecimal"},
        {"root ::= \"\\uD800\"", "test", "no character"},
        {"root ::= \"\\U00110000\"", "test", "no character"},
        {"root ::= \"a\xFF\"", "test:1:12", "bad UTF-8"},
        {"root ::= \"a\nb\"", "test:1:12", "line ends"},
        {"root ::= root \"a\" | \"b\"", "test", "rule 'root' is left-recursive"},
        {"root ::= a\na ::= b? \"\" a \"x\"\nb ::= \"b\"", "test", "rule 'a' is left-recursive"},
        {"root ::= \"x\" a\na ::= b\nb ::= c | \"y\"\nc ::= a", "test", "left-recursive"},
        {"root ::= (root)*", "test", "left-recursive"},
        {"root ::= \"x\" a\na ::= (a){2}", "test", "left-recursive"},
        {"root ::= \"x\" ((\"y\"? b){2}){2}\nb ::= ((\"\" b)?){2}", "test", "left-recursive"},
        {"root ::= \"a\rb\"", "test:1:12", "line ends"},
        {"root ::= [a\r]", "test:1:12", "line ends"},
        {"root ::= \"\\ \"", "test:1:12", "unknown escape"},
        {"root ::= \"\\\x7F\"", "test:1:12", "unknown escape"},
        {"root ::= \"\\\xC3\xA9\"", "test:1:12", "unknown escape"},
        {"root ::= \"\\x4", "test", "hexadecimal"},
        {"root ::= \"\\x4g\"", "test", "hexadecimal"},
        {"root ::= \"\\x4G\"", "test", "hexadecimal"},
        {"root ::= \"\\x4:\"", "test", "hexadecimal"},
        {"root ::= \"x\" a\na ::= a234567890123456789012345678901234567890123456789012345678901234567890\n"
         "a234567890123456789012345678901234567890123456789012345678901234567890 ::= b?\nb ::= a",
         "test", "left-recursive"},
        {"root ::= \"x\" a234567890123456789012345678901234567890123456789012345678901234567890\n"
         "a234567890123456789012345678901234567890123456789012345678901234567890 ::= "
         "a234567890123456789012345678901234567890123456789012345678901234567890",
         "test", "rule 'a23456789012345678901234567890123456789012345678901234567890' is left-recursive"},
        {"root ::= \"\\", "test", "unknown escape"},
        {"root ::= [\\q]", "test:1:12", "unknown escape"},
        {"root ::= [a-\\q]", "test:1:14", "unknown escape"},
        {"root ::= [a-", "test", "does not end"},
        {"root ::= \"a\"{", "test", "expected a number"},
        {"root ::= \"a\"{2,x}", "test:1:16", "expected a number"},
        {"# nothing\r\n# at all", "test", "no rule 'root'"},
        {"::= \"a\"", "test:1:1", "expected the name of a rule"},
        {"root", "test:1:5", "'::='"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!*cases[i][1]) { /* large, but fine */
            tn_grammar_free(parse(cases[i][0]));
            continue;
        }
        refuse(cases[i][0], strlen(cases[i][0]), cases[i][1], cases[i][2]);
    }
    refuse("root ::= \"a\0b", 13, "test", "does not end");
}

/* ---- The worst ---------------------------------------------------------------------------------------------------- */

static double seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static char *repeated(const char *before, const char *piece, size_t n, const char *after) {
    const size_t len = strlen(piece);
    char *text = malloc(strlen(before) + n * len + strlen(after) + 1);
    assert_non_null(text);
    char *at = text + sprintf(text, "%s", before);
    for (size_t i = 0; i < n; i++, at += len) memcpy(at, piece, len);
    strcpy(at, after);
    return text;
}

static void hostile_grammars_end_in_bounded_time(void **state) {
    (void)state;
    const double began = seconds();
    char *text = repeated("root ::= ", "(", 60000, "");
    refuse(text, strlen(text), "test:1:266", "nested deeper than 256");
    free(text);
    text = repeated("root ::= \"a\"", "*", 60000, "");
    tn_grammar_free(parse(text));
    free(text);
    text = repeated("root ::= \"a\"", "{0,10000}", 200, "");
    refuse(text, strlen(text), "test", "too large");
    free(text);
    text = repeated("root ::= ", "[^\\x00]", 300000, "");
    refuse(text, strlen(text), "test", "too large");
    free(text);
    text = repeated("root ::= ", "(\"a\"){2}", 1 << 17, "");
    refuse(text, strlen(text), "test", "too large");
    free(text);
    text = repeated("", " ", 8 * 140000, "");
    char *end = text + sprintf(text, "root ::=");
    for (int i = 0; i < 135000; i++) end += sprintf(end, " a%d", i);
    refuse(text, strlen(text), "test", "too large");
    free(text);
    text = repeated("root ::= \"a\"", " ", 16 << 20, "");
    refuse(text, strlen(text), "test", "longer than 16 MiB");
    free(text);
    text = repeated("root ::= \"x\" ", "y", 100, "");
    refuse(text, strlen(text), "test:1:14",
           "no rule of the name 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'");
    free(text);
    text = repeated("root ::= ", "[a-b", 5000, "]"); /* one class: '[' in it stands for itself */
    refuse(text, strlen(text), "test", "4096");
    free(text);
    for (int order = 0; order < 2;
         order++) { /* chains of 20,000 rules, from the first to the last and back, with more behind each */
        enum { N = 20000 };
        text = malloc(N * 40 + 100);
        char *at = text + sprintf(text, "root ::= r0 \"!\"\n");
        for (int i = 0; i < N; i++) {
            const int rule = order ? N - 1 - i : i;
            at += rule == N - 1 ? sprintf(at, "r%d ::= \"x\"?\n", rule)
                                : sprintf(at, "r%d ::= r%d \"a\"?\n", rule, rule + 1);
        }
        uint32_t start_state;
        tn_grammar *g = parse(text);
        tn_matcher *m;
        tn_error err = {0};
        const tn_status s =
            tn_matcher_new(g, &m, &start_state, &err); /* right, or refused as too much at once */
        if (s == TN_OK) {
            assert_true(matches_n(m, start_state, "xaaa!", 5));
            tn_matcher_free(m);
        } else {
            assert_int_equal(s, TN_ERR_UNSUPPORTED);
        }
        tn_grammar_free(g);
        free(text);
    }
    assert_true(seconds() - began < 20); /* emulated too */
}

static void ambiguity_and_depth_do_not_multiply(void **state) {
    (void)state;
    const double began = seconds();
    static const char *const grammars[] = {
        "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"\"", /* 2^n stacks */
        "root ::= s\ns ::= \"a\" s? \"b\"? s? \"c\"?",
        "root ::= ((\"a\" | \"a\" \"a\")* | (\"a\"* \"a\"*)*)* (\"b\" | \"c\")*",
        "root ::= \"a\"{0,5000} [bc]*",
    };
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++) {
        uint32_t start_state, s;
        tn_grammar *g = parse(grammars[i]);
        tn_matcher *m = matcher_of(g, &start_state);
        s = start_state;
        for (int n = 0; n < 150; n++) {
            s = tn_matcher_step(m, s, 'a');
            assert_true(s > TN_STATE_DEAD);
        }
        for (int n = 0; n < 150; n++) {
            s = tn_matcher_step(m, s, n % 3 ? 'b' : 'c');
            assert_true(s > TN_STATE_DEAD);
        }
        assert_true(tn_matcher_may_end(m, s));
        tn_matcher_free(m);
        tn_grammar_free(g);
    }
    assert_true(seconds() - began < 20); /* emulated too */
}

/* Nested until memory is used up, again and again made room for; then out in the same number of steps. */
static void room_is_made_for_deep_texts(void **state) {
    (void)state;
    uint32_t s;
    tn_grammar *g = parse("root ::= v\nv ::= \"[\" v \"]\" | \"{\" v \"}\" | \"x\"");
    tn_matcher *m = matcher_of(g, &s);
    enum { DEPTH = 60000 };
    for (int i = 0; i < DEPTH; i++) {
        uint32_t next = tn_matcher_step(m, s, i % 3 ? '[' : '{');
        if (next == TN_STATE_FULL) next = tn_matcher_step(m, s = tn_matcher_compact(m, s), i % 3 ? '[' : '{');
        assert_true(next > TN_STATE_DEAD);
        s = next;
    }
    s = tn_matcher_step(m, tn_matcher_compact(m, s), 'x');
    for (int i = DEPTH; i-- > 0;) {
        assert_false(tn_matcher_may_end(m, s));
        uint32_t next = tn_matcher_step(m, s, i % 3 ? ']' : '}');
        if (next == TN_STATE_FULL) next = tn_matcher_step(m, s = tn_matcher_compact(m, s), i % 3 ? ']' : '}');
        assert_true(next > TN_STATE_DEAD);
        s = next;
    }
    assert_true(tn_matcher_must_end(m, s));
    tn_matcher_free(m);
    tn_grammar_free(g);
}

/* ---- Classes of characters ------------------------------------------------------------------------------------------- */

static uint32_t encode(uint32_t ch, char *bytes) {
    if (ch < 0x80) return bytes[0] = (char)ch, 1;
    if (ch < 0x800) return bytes[0] = (char)(0xC0 | ch >> 6), bytes[1] = (char)(0x80 | (ch & 63)), 2;
    if (ch < 0x10000)
        return bytes[0] = (char)(0xE0 | ch >> 12), bytes[1] = (char)(0x80 | (ch >> 6 & 63)),
               bytes[2] = (char)(0x80 | (ch & 63)), 3;
    bytes[0] = (char)(0xF0 | ch >> 18), bytes[1] = (char)(0x80 | (ch >> 12 & 63));
    bytes[2] = (char)(0x80 | (ch >> 6 & 63)), bytes[3] = (char)(0x80 | (ch & 63));
    return 4;
}

static uint32_t random_char(void) {
    static const uint32_t edges[] = {0x7F,   0x80,   0x7FF,  0x800,   0xFFF,   0x1000,
                                     0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x10FFFF};
    const uint32_t kind = random_below(4);
    uint32_t ch = kind == 0 ? edges[random_below(12)] + random_below(3) - 1
                            : random_below(kind == 1   ? 0x100
                                           : kind == 2 ? 0x3000
                                                       : 0x110000);
    if (ch >= 0xD800 && ch <= 0xDFFF) ch -= 0x1000;
    return ch > 0x10FFFF ? 0x10FFFF : ch;
}

static void classes_hold_exactly_their_characters(void **state) {
    (void)state;
    for (int round = 0; round < 150; round++) {
        uint32_t low[4], high[4], s;
        const uint32_t n = 1 + random_below(4);
        const bool negated = random_below(2);
        char text[200], bytes[4];
        int at = sprintf(text, "root ::= [%s", negated ? "^" : "");
        for (uint32_t i = 0; i < n; i++) {
            low[i] = random_char(), high[i] = random_char();
            if (low[i] > high[i]) high[i] = low[i];
            at += sprintf(text + at, "\\U%08X-\\U%08X", low[i], high[i]);
        }
        sprintf(text + at, "]");
        tn_grammar *g = parse(text);
        tn_matcher *m;
        if (tn_matcher_new(g, &m, &s, NULL) != TN_OK) { /* all characters were left out */
            tn_grammar_free(g);
            continue;
        }
        for (int i = 0; i < 400; i++) {
            uint32_t ch =
                i < 24 ? (i % 2 ? low[i / 2 % n] : high[i / 2 % n]) + (uint32_t)(i % 3) - 1 : random_char();
            if (ch > 0x10FFFF || (ch >= 0xD800 && ch <= 0xDFFF)) continue;
            bool in = negated;
            for (uint32_t j = 0; j < n; j++)
                if (ch >= low[j] && ch <= high[j]) in = !negated;
            const uint32_t len = encode(ch, bytes);
            if (matches_n(m, s, bytes, len) != in) fail_msg("%s: U+%04X", text, ch);
        }
        tn_matcher_free(m);
        tn_grammar_free(g);
    }
}

/* ---- Random grammars against a recognizer of another kind -------------------------------------------------------------- */

/* A tree; its recognizer gives, for each position, the set of positions where a match can end, by iterating over all rules until
 * nothing changes. */
typedef enum tree_kind { LETTER, SEQUENCE, CHOICE, REPEAT, REFERENCE } tree_kind;
typedef struct tree {
    tree_kind kind;
    int letter, rule, least, most; /* most < 0: any number */
    struct tree *a, *b;
} tree;

enum { MAX_TREES = 400, MAX_RULES = 4, MAX_TEXT = 7 };
static tree trees[MAX_TREES];
static int n_trees;
static tree *rules[MAX_RULES];
static int n_rules;
static uint32_t ends_of[MAX_RULES][MAX_TEXT + 1];

static tree *new_tree(int depth) {
    tree *t = &trees[n_trees++];
    assert_true(n_trees < MAX_TREES);
    *t = (tree){.kind = (tree_kind)random_below(depth > 0 ? 5 : 1), .letter = 'a' + (int)random_below(3)};
    if (t->kind == SEQUENCE || t->kind == CHOICE) t->a = new_tree(depth - 1), t->b = new_tree(depth - 1);
    if (t->kind == REFERENCE) t->rule = (int)random_below((uint32_t)n_rules);
    if (t->kind == REPEAT) {
        t->a = new_tree(depth - 1);
        t->least = (int)random_below(3);
        t->most = random_below(2) ? -1 : t->least + (int)random_below(3);
    }
    return t;
}

static char *print_tree(const tree *t, char *at) {
    switch (t->kind) {
    case LETTER: return at + (t->letter == 'c' ? sprintf(at, "[bc]") : sprintf(at, "\"%c\"", t->letter));
    case REFERENCE: return at + sprintf(at, "r%d", t->rule);
    case REPEAT:
        at += sprintf(at, "(");
        at = print_tree(t->a, at);
        if (t->most < 0)
            return at + (t->least == 0   ? sprintf(at, ")*")
                         : t->least == 1 ? sprintf(at, ")+")
                                         : sprintf(at, "){%d,}", t->least));
        if (t->least == 0 && t->most == 1) return at + sprintf(at, ")?");
        return at + sprintf(at, "){%d,%d}", t->least, t->most);
    default:
        at += sprintf(at, "(");
        at = print_tree(t->a, at);
        at += sprintf(at, t->kind == CHOICE ? " | " : " ");
        at = print_tree(t->b, at);
        return at + sprintf(at, ")");
    }
}

static uint32_t ends(const tree *t, const char *text, int n, int at);

static uint32_t ends_from_all(const tree *t, const char *text, int n, uint32_t from) {
    uint32_t out = 0;
    for (int i = 0; i <= n; i++)
        if (from >> i & 1) out |= ends(t, text, n, i);
    return out;
}

static uint32_t ends(const tree *t, const char *text, int n, int at) {
    switch (t->kind) {
    case LETTER: {
        const bool fits = at < n && (text[at] == t->letter || (t->letter == 'c' && text[at] == 'b'));
        return fits ? 1u << (at + 1) : 0;
    }
    case REFERENCE: return ends_of[t->rule][at];
    case CHOICE: return ends(t->a, text, n, at) | ends(t->b, text, n, at);
    case SEQUENCE: return ends_from_all(t->b, text, n, ends(t->a, text, n, at));
    default: {
        uint32_t from = 1u << at, all = 0;
        const int most = t->most < 0 ? t->least + n + 1 : t->most;
        for (int i = 0; i <= most; i++) {
            if (i >= t->least) all |= from;
            if (i < most) from = ends_from_all(t->a, text, n, from);
        }
        return all;
    }
    }
}

static bool recognize(const char *text, int n) {
    memset(ends_of, 0, sizeof ends_of);
    for (bool changed = true; changed;) {
        changed = false;
        for (int r = 0; r < n_rules; r++)
            for (int at = 0; at <= n; at++) {
                const uint32_t now = ends(rules[r], text, n, at);
                changed |= now != ends_of[r][at];
                ends_of[r][at] = now;
            }
    }
    return ends_of[0][0] >> n & 1;
}

static void random_grammars_match_what_another_recognizer_does(void **state) {
    (void)state;
    int n_tried = 0, n_refused = 0, n_matched = 0, n_not = 0;
    for (int round = 0; round < 600; round++) {
        static char text[20000];
        char *at = text + sprintf(text, "root ::= r0\n");
        n_trees = 0;
        n_rules = 1 + (int)random_below(MAX_RULES);
        for (int r = 0; r < n_rules; r++) {
            rules[r] = new_tree(4);
            at = print_tree(rules[r], at + sprintf(at, "r%d ::= ", r));
            at += sprintf(at, "\n");
        }
        tn_grammar *g;
        tn_matcher *m;
        uint32_t start_state;
        tn_error err = {0};
        if (tn_grammar_parse(text, strlen(text), "test", &g, &err) != TN_OK) {
            assert_non_null(strstr(err.message, "left-recursive"));
            n_refused++;
            continue;
        }
        n_tried++;
        const bool any = tn_matcher_new(g, &m, &start_state, &err) == TN_OK;
        for (int i = 0; i < 120; i++) {
            char word[MAX_TEXT + 1];
            const int n = i < 4 ? i % 2 : (int)random_below(MAX_TEXT + 1);
            for (int j = 0; j < n; j++) word[j] = (char)('a' + random_below(3));
            const bool expected = recognize(word, n);
            if ((any && matches_n(m, start_state, word, (size_t)n)) != expected)
                fail_msg("'%.*s' %s match\n%s", n, word, expected ? "should" : "should not", text);
            n_matched += expected;
            n_not += !expected;
        }
        if (any) tn_matcher_free(m);
        tn_grammar_free(g);
    }
    assert_true(n_tried > 250 && n_refused > 50 && n_matched > 2000 && n_not > 2000);
}

/* Whatever bytes: an error or a grammar, within time, and no fault. */
static void random_texts_do_no_harm(void **state) {
    (void)state;
    static const char *const pieces[] = {"root", " ::= ", "\"a\"",  "[^a-z]", "(",    ")",   "*",
                                         "+",    "?",     "{2}",    "{0,3}",  "{1,}", "|",   "\n",
                                         "a",    "b",     "a ::= ", "b ::= ", "\"\"", ".",   "#x",
                                         "\\",   "\"",    "[",      "]",      "\xFF", "\n\n"};
    int n_good = 0;
    for (int round = 0; round < 20000; round++) {
        char text[400];
        int at = round % 2 ? sprintf(text, "root ::= ") : 0;
        const uint32_t n = random_below(20);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t piece = random_below(round % 4 ? 20 : 27);
            at += sprintf(text + at, "%s", pieces[piece]);
        }
        tn_grammar *g;
        tn_error err = {0};
        if (tn_grammar_parse(text, (size_t)at, "test", &g, &err) != TN_OK) {
            assert_true(err.message[0] != '\0');
            continue;
        }
        tn_grammar_free(g);
        n_good++;
    }
    assert_true(n_good > 300);
}

/* ---- Masks over a vocabulary ---------------------------------------------------------------------------------------------- */

enum { END = 1, N_PIECES = 90 };

static tn_tokenizer *make_tokenizer(vocab *v, int8_t add_space_prefix) {
    static const char *const parts[] = {"a",  "ab",  "b", "\xC3\xA9", "c", "\xE2\x96\x81",
                                        "\"", "abc", "{", "}",        "1"};
    start(v, "llama", NULL);
    add(v, "<unk>", TN_TOKEN_UNKNOWN, 0);
    v->source.eos = add(v, "</s>", TN_TOKEN_CONTROL, 0);
    v->source.bos = add(v, "<s>", TN_TOKEN_CONTROL, 0);
    v->source.add_space_prefix = add_space_prefix;
    for (int i = 0; i < 256; i++) {
        snprintf(v->own[i], sizeof v->own[i], "<0x%02X>", i);
        add(v, v->own[i], TN_TOKEN_BYTE, 0);
    }
    static char pieces[N_PIECES][24];
    for (int i = 0; i < N_PIECES; i++) {
        snprintf(pieces[i], sizeof pieces[i], "%s%s%s", parts[i % 11], i > 10 ? parts[i / 11 % 11] : "",
                 i % 3 && i > 20 ? parts[i % 7] : "");
        add(v, pieces[i], TN_TOKEN_NORMAL, (float)-i);
    }
    return load(v);
}

/* The token's own bytes walked from the text so far by a matcher of its own. */
static bool may_follow(tn_matcher *m, uint32_t s, const tn_tokenizer *tok, int32_t id, bool first) {
    size_t n;
    const char *bytes = tn_token_bytes(tok, id, false, &n);
    if (first && n && *bytes == ' ') bytes++, n--;
    if (n == 0) return false;
    for (size_t i = 0; i < n && s > TN_STATE_DEAD; i++) s = tn_matcher_step(m, s, (uint8_t)bytes[i]);
    return s > TN_STATE_DEAD;
}

static void masks_are_what_each_token_alone_says(void **state) {
    (void)state;
    static const char *const grammars[] = {
        "root ::= [a-c ]+ | \"{\" root \"}\"",
        "root ::= \"\\\"\" [^\"]* \"\\\"\" (\" \"* [a-c])?",
        "root ::= (\"ab\" | \"\xC3\xA9\" | \"\xF0\x9F\x99\x82\" | \" a\")*",
        "root ::= .{1,4}",
    };
    for (int with_prefix = 0; with_prefix < 2; with_prefix++)
        for (int i = 0; i < 4; i++) {
            vocab v;
            tn_tokenizer *tok = make_tokenizer(&v, (int8_t)with_prefix);
            const uint32_t n_tokens = tn_tokenizer_n_tokens(tok);
            for (int round = 0; round < 12; round++) {
                uint32_t s;
                const bool allow_end = round % 3;
                tn_grammar *g = parse(grammars[i]);
                tn_matcher *m = matcher_of(g, &s);
                tn_constraint *c;
                assert_int_equal(
                    tn_constraint_new(parse(grammars[i]), tok, n_tokens + 70, allow_end, &c, NULL), TN_OK);
                for (int step = 0; step < 30; step++) {
                    const uint64_t *mask;
                    int32_t allowed[MAX_TOKENS];
                    uint32_t n_allowed = 0;
                    tn_error err = {0};
                    if (tn_constraint_mask(c, &mask, &err) != TN_OK) {
                        assert_true(!allow_end && tn_constraint_is_complete(c));
                        break;
                    }
                    for (uint32_t id = 0; id < n_tokens + 70; id++) {
                        const bool bit = mask[id / 64] >> id % 64 & 1;
                        const bool expected =
                            id == END       ? allow_end && tn_matcher_may_end(m, s)
                            : id < n_tokens ? may_follow(m, s, tok, (int32_t)id, with_prefix && step == 0)
                                            : false;
                        assert_int_equal(bit, expected);
                        assert_int_equal(tn_constraint_allows(c, (int32_t)id), expected);
                        if (bit && id != END) allowed[n_allowed++] = (int32_t)id;
                    }
                    assert_int_equal(tn_constraint_may_end(c), tn_matcher_may_end(m, s));
                    if (n_allowed == 0) break;
                    const int32_t token = allowed[random_below(n_allowed)];
                    assert_int_equal(tn_constraint_accept(c, token, NULL), TN_OK);
                    size_t n;
                    const char *bytes = tn_token_bytes(tok, token, false, &n);
                    for (size_t j = with_prefix && step == 0 && *bytes == ' '; j < n; j++)
                        s = tn_matcher_step(m, s, (uint8_t)bytes[j]);
                }
                tn_constraint_free(c);
                tn_matcher_free(m);
                tn_grammar_free(g);
            }
            tn_tokenizer_free(tok);
        }
}

/* A pick under a constraint is the pick from logits of which all others are -infinity: the same draws of the same seed. */
static void picks_are_those_of_the_allowed_tokens_alone(void **state) {
    (void)state;
    enum { N_VOCAB = 1000 };
    vocab v;
    tn_tokenizer *tok = make_tokenizer(&v, 0);
    static const tn_sampler_params base = {
        .temperature = 1, .top_p = 1, .typical_p = 1, .repeat_penalty = 1, .temperature_exponent = 1};
    static const char *const orders[] = {"penalties,dry,top-k,top-p,temperature", "top-k,xtc",
                                         "min-p,temperature,top-k", "temperature,penalties,top-k,min-p"};
    int n_picked = 0;
    for (int round = 0; round < 240; round++) {
        tn_sampler_params p = base;
        p.order = orders[round % 4];
        p.temperature = round % 5 ? 1.2f : 0;
        p.top_k = 1 + round % 40;
        p.top_p = 0.9f, p.min_p = 0.01f, p.xtc_probability = 0.5f, p.xtc_threshold = 0.1f;
        p.presence_penalty = 2, p.repeat_last_n = 20;
        p.dry_multiplier = 1, p.dry_base = 1.5f, p.dry_allowed_length = 1, p.dry_last_n = 50;
        p.seed = (uint64_t)round;
        tn_sampler *under, *alone;
        tn_constraint *c;
        assert_int_equal(tn_sampler_new(&p, NULL, N_VOCAB, &under, NULL), TN_OK);
        assert_int_equal(tn_sampler_new(&p, NULL, N_VOCAB, &alone, NULL), TN_OK);
        const char *grammar =
            round % 3 ? "root ::= ([a-c] | \"\\\"\" [^\\x00-\\x1F]* | \"{\" root \"}\")+" : "root ::= .*";
        assert_int_equal(tn_constraint_new(parse(grammar), tok, N_VOCAB, true, &c, NULL), TN_OK);
        for (int step = 0; step < 12; step++) {
            static float logits[N_VOCAB], masked[N_VOCAB];
            const uint64_t *mask;
            int32_t token, expected;
            for (int i = 0; i < N_VOCAB; i++)
                logits[i] = (float)random_below(round % 2 ? 12 : 100000) /
                            (round % 2        ? 2
                             : round % 8 == 6 ? 1000
                                              : 10000); /* ties, or none; far apart, or not */
            assert_int_equal(tn_sampler_pick(under, logits, c, &token, NULL), TN_OK);
            assert_int_equal(tn_constraint_mask(c, &mask, NULL), TN_OK);
            for (int i = 0; i < N_VOCAB; i++) masked[i] = mask[i / 64] >> i % 64 & 1 ? logits[i] : -INFINITY;
            assert_int_equal(tn_sampler_pick(alone, masked, NULL, &expected, NULL), TN_OK);
            assert_int_equal(token, expected);
            n_picked += masked[token] != -INFINITY;
            if (token == END) break;
            assert_int_equal(tn_sampler_accept(under, token, NULL), TN_OK);
            assert_int_equal(tn_sampler_accept(alone, token, NULL), TN_OK);
            assert_int_equal(tn_constraint_accept(c, token, NULL), TN_OK);
        }
        tn_sampler_free(under);
        tn_sampler_free(alone);
        tn_constraint_free(c);
    }
    assert_true(n_picked > 1000);
    tn_tokenizer_free(tok);
}

/* Each letter is a state of its own, and there are more than are held at once. */
static void a_token_is_allowed_when_there_is_no_room_for_its_state(void **state) {
    (void)state;
    vocab v;
    tn_constraint *c;
    tn_tokenizer *tok = make_tokenizer(&v, 0);
    char grammar[200] = "root ::= \"<\" ";
    const int n = 4 * 9000;
    for (int i = 0; i < n; i += 9000) strcat(grammar, "[a-z]{9000} ");
    strcat(grammar, "\">\"?");
    assert_true(n > TN_MAX_STATES);
    assert_int_equal(tn_constraint_new(parse(grammar), tok, 400, true, &c, NULL), TN_OK);
    assert_int_equal(tn_constraint_accept(c, 3 + '<', NULL), TN_OK);
    for (int i = 0; i < n; i++) {
        if (!tn_constraint_allows(c, 3 + 'a')) fail_msg("not allowed behind %d letters", i);
        if (tn_constraint_allows(c, 3 + '>')) fail_msg("an end behind %d letters", i);
        assert_int_equal(tn_constraint_accept(c, 3 + 'a', NULL), TN_OK);
    }
    assert_false(tn_constraint_allows(c, 3 + 'a'));
    assert_true(tn_constraint_allows(c, 3 + '>'));
    tn_constraint_free(c);
    tn_tokenizer_free(tok);
}

static void what_cannot_go_on_is_an_error(void **state) {
    (void)state;
    vocab v;
    tn_constraint *c;
    const uint64_t *mask;
    tn_error err = {0};
    tn_tokenizer *tok = make_tokenizer(&v, 0);
    assert_int_equal(tn_constraint_new(parse("root ::= \"a\" [] | \"b\""), tok, 400, true, &c, NULL), TN_OK);
    assert_int_equal(tn_constraint_accept(c, 3 + 'x', &err), TN_ERR_ARG);
    assert_int_equal(tn_constraint_accept(c, 3 + 'a', &err), TN_ERR_ARG); /* leads nowhere: not allowed */
    assert_false(tn_constraint_allows(c, 3 + 'a'));
    assert_int_equal(tn_constraint_accept(c, 3 + 'b', &err), TN_OK);
    assert_true(tn_constraint_is_complete(c));
    assert_int_equal(tn_constraint_mask(c, &mask, &err), TN_OK); /* the end alone */
    assert_true(mask[0] == 1u << END);
    tn_constraint_free(c);
    assert_int_equal(tn_constraint_new(parse("root ::= []"), tok, 400, true, &c, &err), TN_ERR_UNSUPPORTED);
    assert_null(c);
    tn_tokenizer_free(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_match_as_worked_by_hand),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(hostile_grammars_end_in_bounded_time),
        cmocka_unit_test(ambiguity_and_depth_do_not_multiply),
        cmocka_unit_test(room_is_made_for_deep_texts),
        cmocka_unit_test(classes_hold_exactly_their_characters),
        cmocka_unit_test(random_grammars_match_what_another_recognizer_does),
        cmocka_unit_test(random_texts_do_no_harm),
        cmocka_unit_test(masks_are_what_each_token_alone_says),
        cmocka_unit_test(picks_are_those_of_the_allowed_tokens_alone),
        cmocka_unit_test(a_token_is_allowed_when_there_is_no_room_for_its_state),
        cmocka_unit_test(what_cannot_go_on_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
