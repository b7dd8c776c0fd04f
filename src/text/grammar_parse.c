/* GBNF to nodes: recursive descent with a limit of depth; a repetition with numbers makes its item a rule of its own, which is
 * then called as often as asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/utf8.h"
#include "grammar_impl.h"

enum { MAX_DEPTH = 256, MAX_NODES = 1 << 20, MAX_RULES = 1 << 17, MAX_REPEAT = 10000, MAX_RANGES = 4096 };

typedef struct tn_parser {
    tn_grammar *g;
    const char *text, *where;
    size_t n, at;
    uint32_t depth;
    uint32_t *slots; /* rules by name: index + 1; n_slots a power of two, at most half full */
    uint32_t n_slots;
    tn_char_range *ranges; /* of the class being read; MAX_RANGES */
    tn_error *err;
} tn_parser;

/* ---- Errors and memory --------------------------------------------------------------------------------------- */

static tn_status bad_at(const tn_parser *p, size_t at, const char *why, const char *what, size_t n_what) {
    size_t line = 1, column = 1;
    char where[160];
    for (size_t i = 0; i < at; i++) {
        column = p->text[i] == '\n' ? 1 : column + 1;
        line += p->text[i] == '\n';
    }
    snprintf(where, sizeof where, "%.120s:%zu:%zu", p->where, line, column);
    const int n = n_what < 60 ? (int)n_what : 60;
    return tn_fail(p->err, TN_ERR_FORMAT, "bad grammar", where, "%s%s%.*s%s", why, n ? " '" : "", n, what,
                   n ? "'" : "");
}

static tn_status bad(const tn_parser *p, const char *why) {
    return bad_at(p, p->at, why, "", 0);
}

static bool grow(void **array, uint32_t *cap, uint32_t n, uint32_t most, size_t size) {
    if (n < *cap) return true;
    if (n >= most) return false;
    const uint32_t bigger = *cap ? 2 * *cap : 64;
    void *grown = realloc(*array, bigger * size);
    if (!grown) return false;
    *array = grown;
    *cap = bigger;
    return true;
}

uint32_t tn_grammar_node(tn_grammar *g, tn_node node) {
    if (!grow((void **)&g->nodes, &g->cap_nodes, g->n_nodes, MAX_NODES, sizeof node)) return 0;
    g->nodes[g->n_nodes] = node;
    return g->n_nodes++;
}

/* Why there is no room for more: below the limits it is memory. */
static tn_status no_room(const tn_parser *p) {
    if (p->g->n_nodes < MAX_NODES && p->g->n_rules < MAX_RULES)
        return tn_fail(p->err, TN_ERR_MEMORY, "cannot read the grammar", p->where, "out of memory");
    return bad(p, "the grammar is too large: expected at most 2^20 states and 2^17 rules");
}

static bool append_jump(tn_parser *p, uint32_t *out) {
    return (*out = tn_grammar_node(p->g, (tn_node){.kind = TN_NODE_JUMP})) != 0;
}

static void join(tn_parser *p, tn_fragment *left, tn_fragment right) {
    p->g->nodes[left->end].next = right.start;
    left->end = right.end;
}

/* ---- Rules by name ------------------------------------------------------------------------------------------------ */

static uint32_t hash_name(const char *name, size_t n) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash;
}

static uint32_t *find_slot(const tn_parser *p, const char *name, size_t n) {
    uint32_t at = hash_name(name, n) & (p->n_slots - 1);
    for (; p->slots[at]; at = (at + 1) & (p->n_slots - 1)) {
        const tn_rule *rule = &p->g->rules[p->slots[at] - 1];
        if (rule->name_len == n && memcmp(rule->name, name, n) == 0) break;
    }
    return &p->slots[at];
}

static bool grow_slots(tn_parser *p) {
    const uint32_t n_slots = p->n_slots ? 2 * p->n_slots : 128;
    uint32_t *old = p->slots;
    p->slots = calloc(n_slots, sizeof *p->slots);
    if (!p->slots) {
        p->slots = old;
        return false;
    }
    free(old);
    p->n_slots = n_slots;
    for (uint32_t i = 0; i < p->g->n_rules; i++)
        if (p->g->rules[i].name) *find_slot(p, p->g->rules[i].name, p->g->rules[i].name_len) = i + 1;
    return true;
}

static bool new_rule(tn_parser *p, tn_rule rule, uint32_t *out) {
    tn_grammar *g = p->g;
    if (!grow((void **)&g->rules, &g->cap_rules, g->n_rules, MAX_RULES, sizeof rule)) return false;
    g->rules[g->n_rules] = rule;
    *out = g->n_rules++;
    return true;
}

/* The rule of a name, made when it is met for the first time. */
static bool rule_named(tn_parser *p, const char *name, size_t n, uint32_t *out) {
    if (2 * (p->g->n_rules + 1) > p->n_slots && !grow_slots(p)) return false;
    uint32_t *slot = find_slot(p, name, n);
    if (*slot) {
        *out = *slot - 1;
        return true;
    }
    if (!new_rule(p, (tn_rule){.name = name, .name_len = (uint32_t)n}, out)) return false;
    *slot = *out + 1;
    return true;
}

/* ---- Characters --------------------------------------------------------------------------------------------------- */

static char peek(const tn_parser *p) {
    return p->at < p->n ? p->text[p->at] : '\0';
}

static void skip_space(tn_parser *p, bool newlines) {
    for (; p->at < p->n; p->at++) {
        const char c = p->text[p->at];
        if (c == '#') {
            while (p->at < p->n && p->text[p->at] != '\n' && p->text[p->at] != '\r') p->at++;
            p->at--;
        } else if (c != ' ' && c != '\t' && !(newlines && (c == '\n' || c == '\r'))) {
            return;
        }
    }
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static size_t name_length(const tn_parser *p) {
    size_t n = 0;
    while (p->at + n < p->n &&
           (is_word(p->text[p->at + n]) || p->text[p->at + n] == '-' || p->text[p->at + n] == '_'))
        n++;
    return n;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static tn_status read_hex(tn_parser *p, int n_digits, uint32_t *out) {
    uint64_t value = 0;
    for (int i = 0; i < n_digits; i++) {
        const int digit = hex_digit(peek(p));
        if (digit < 0) return bad(p, "expected another hexadecimal digit");
        value = value << 4 | (uint64_t)digit;
        p->at++;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return bad(p, "no character has this number");
    *out = (uint32_t)value;
    return TN_OK;
}

static tn_status read_escape(tn_parser *p, uint32_t *out) {
    const char c = peek(p);
    p->at++;
    switch (c) {
    case 'x': return read_hex(p, 2, out);
    case 'u': return read_hex(p, 4, out);
    case 'U': return read_hex(p, 8, out);
    case 't': *out = '\t'; return TN_OK;
    case 'n': *out = '\n'; return TN_OK;
    case 'r': *out = '\r'; return TN_OK;
    default: break;
    }
    if (c > ' ' && c < 127 && !is_word(c)) {
        *out = (uint32_t)c;
        return TN_OK;
    }
    p->at--;
    return bad(p, "unknown escape");
}

static tn_status read_char(tn_parser *p, uint32_t *out) {
    if (peek(p) == '\\') {
        p->at++;
        return read_escape(p, out);
    }
    const uint32_t len = tn_utf8_char(p->text + p->at, p->n - p->at);
    const uint8_t *bytes = (const uint8_t *)p->text + p->at;
    if (!len) return bad(p, "bad UTF-8");
    if (len == 1 && (bytes[0] == '\n' || bytes[0] == '\r'))
        return bad(p, "the line ends inside a text or class");
    uint32_t value = len == 1 ? bytes[0] : bytes[0] & (0xFFu >> (len + 1));
    for (uint32_t i = 1; i < len; i++) value = value << 6 | (bytes[i] & 0x3F);
    p->at += len;
    *out = value;
    return TN_OK;
}

/* ---- Items ---------------------------------------------------------------------------------------------------------- */

static tn_status parse_alternatives(tn_parser *p, bool nested, tn_fragment *out);

static tn_status make_class(tn_parser *p, uint32_t n, bool negated, tn_fragment *out) {
    return tn_grammar_class(p->g, p->ranges, n, negated, out) ? TN_OK : no_room(p);
}

static tn_status parse_text(tn_parser *p, tn_fragment *out) {
    const size_t start = p->at++;
    if (!append_jump(p, &out->start)) return no_room(p);
    out->end = out->start;
    while (peek(p) != '"') {
        tn_fragment one;
        tn_status s;
        if (p->at >= p->n) return bad_at(p, start, "the text does not end", "", 0);
        if ((s = read_char(p, &p->ranges[0].low))) return s;
        p->ranges[0].high = p->ranges[0].low;
        if ((s = make_class(p, 1, false, &one))) return s;
        join(p, out, one);
    }
    p->at++;
    return TN_OK;
}

static tn_status parse_class(tn_parser *p, tn_fragment *out) {
    const size_t start = p->at++;
    const bool negated = peek(p) == '^';
    uint32_t n = 0;
    p->at += negated;
    while (peek(p) != ']') {
        tn_status s;
        if (p->at >= p->n) return bad_at(p, start, "the class does not end", "", 0);
        if (n == MAX_RANGES) return bad(p, "expected at most 4096 ranges in a class");
        tn_char_range *range = &p->ranges[n++];
        if ((s = read_char(p, &range->low))) return s;
        range->high = range->low;
        if (peek(p) != '-' || p->at + 1 >= p->n || p->text[p->at + 1] == ']') continue;
        p->at++;
        if ((s = read_char(p, &range->high))) return s;
        if (range->high < range->low) return bad(p, "the range ends before it begins");
    }
    p->at++;
    return make_class(p, n, negated, out);
}

static tn_status call_of(tn_parser *p, uint32_t rule, tn_fragment *out) {
    if (!append_jump(p, &out->end)) return no_room(p);
    out->start = tn_grammar_node(p->g, (tn_node){TN_NODE_CALL, 0, 0, out->end, rule});
    return out->start ? TN_OK : no_room(p);
}

static tn_status parse_group(tn_parser *p, tn_fragment *out) {
    const size_t start = p->at++;
    if (p->depth == MAX_DEPTH) return bad_at(p, start, "groups nested deeper than 256", "", 0);
    p->depth++;
    skip_space(p, true);
    const tn_status s = parse_alternatives(p, true, out);
    p->depth--;
    if (s) return s;
    if (peek(p) != ')') return bad_at(p, start, "the group does not end", "", 0);
    p->at++;
    return TN_OK;
}

static tn_status parse_item(tn_parser *p, tn_fragment *out) {
    uint32_t rule;
    const size_t n_name = name_length(p);
    if (n_name) {
        if (!rule_named(p, p->text + p->at, n_name, &rule)) return no_room(p);
        if (!p->g->rules[rule].start && !p->g->rules[rule].line) p->g->rules[rule].line = (uint32_t)p->at + 1;
        p->at += n_name;
        return call_of(p, rule, out);
    }
    switch (peek(p)) {
    case '"': return parse_text(p, out);
    case '[': return parse_class(p, out);
    case '(': return parse_group(p, out);
    case '.': p->at++; return make_class(p, 0, true, out);
    default: return bad(p, "expected a text, a class, a group or the name of a rule");
    }
}

/* ---- Repetitions -------------------------------------------------------------------------------------------------- */

static tn_status split(tn_parser *p, uint32_t next, uint32_t other, uint32_t *out) {
    *out = tn_grammar_node(p->g, (tn_node){TN_NODE_SPLIT, 0, 0, next, other});
    return *out ? TN_OK : no_room(p);
}

/* item* by a split before it, item+ by one behind it, item? by one before it that is not come back to. */
static tn_status repeat_freely(tn_parser *p, char mark, tn_fragment *item) {
    uint32_t end, choice;
    tn_status s;
    if (!append_jump(p, &end)) return no_room(p);
    if ((s = split(p, item->start, end, &choice))) return s;
    p->g->nodes[item->end].next = mark == '?' ? end : choice;
    if (mark != '+') item->start = choice;
    item->end = end;
    return TN_OK;
}

/* From least to most calls of the item, made a rule; most 0: any number. */
static tn_status repeat_counted(tn_parser *p, uint32_t least, uint32_t most, bool bounded,
                                tn_fragment *item) {
    uint32_t rule, end;
    p->g->nodes[item->end].next = TN_NODE_RETURN_ID;
    if (!new_rule(p, (tn_rule){.start = item->start}, &rule) || !append_jump(p, &end)) return no_room(p);
    if (!append_jump(p, &item->start)) return no_room(p);
    item->end = item->start;
    for (uint32_t i = 0; i < (bounded ? most : least + 1); i++) {
        tn_fragment call;
        tn_status s = call_of(p, rule, &call);
        if (s) return s;
        if (i >= least && (s = split(p, call.start, end, &call.start))) return s;
        if (i == least && !bounded) p->g->nodes[call.end].next = call.start;
        p->g->nodes[item->end].next = call.start;
        item->end = call.end;
    }
    if (bounded) p->g->nodes[item->end].next = end;
    item->end = end;
    return TN_OK;
}

static tn_status read_count(tn_parser *p, uint32_t *out) {
    uint32_t value = 0;
    if (peek(p) < '0' || peek(p) > '9') return bad(p, "expected a number");
    for (; peek(p) >= '0' && peek(p) <= '9'; p->at++) {
        value = value * 10 + (uint32_t)(peek(p) - '0');
        if (value > MAX_REPEAT) return bad(p, "expected at most 10000 repetitions");
    }
    *out = value;
    skip_space(p, false);
    return TN_OK;
}

static tn_status parse_counts(tn_parser *p, tn_fragment *item) {
    uint32_t least, most;
    bool bounded = true;
    tn_status s;
    p->at++;
    skip_space(p, false);
    if ((s = read_count(p, &least))) return s;
    most = least;
    if (peek(p) == ',') {
        p->at++;
        skip_space(p, false);
        bounded = peek(p) != '}';
        if (bounded && (s = read_count(p, &most))) return s;
    }
    if (peek(p) != '}') return bad(p, "expected '}'");
    if (most < least) return bad(p, "the greatest number of repetitions is below the least");
    p->at++;
    return repeat_counted(p, least, most, bounded, item);
}

/* ---- Sequences and rules -------------------------------------------------------------------------------------------- */

static tn_status parse_repeated(tn_parser *p, bool nested, tn_fragment *item) {
    tn_status s = parse_item(p, item);
    while (!s) {
        skip_space(p, nested);
        const char c = peek(p);
        if (c == '{') {
            s = parse_counts(p, item);
        } else if (c == '*' || c == '+' || c == '?') {
            p->at++;
            s = repeat_freely(p, c, item);
        } else {
            return TN_OK;
        }
    }
    return s;
}

static bool at_end_of_sequence(const tn_parser *p) {
    const char c = peek(p);
    return p->at >= p->n || c == '|' || c == ')' || c == '\n' || c == '\r';
}

static tn_status parse_sequence(tn_parser *p, bool nested, tn_fragment *out) {
    if (!append_jump(p, &out->start)) return no_room(p);
    out->end = out->start;
    while (!at_end_of_sequence(p)) {
        tn_fragment item;
        const tn_status s = parse_repeated(p, nested, &item);
        if (s) return s;
        join(p, out, item);
        skip_space(p, nested);
    }
    return TN_OK;
}

/* A '|' may also begin the next line. */
static bool next_alternative(tn_parser *p) {
    const size_t here = p->at;
    skip_space(p, true);
    if (peek(p) == '|') {
        p->at++;
        skip_space(p, true);
        return true;
    }
    p->at = here;
    return false;
}

static tn_status parse_alternatives(tn_parser *p, bool nested, tn_fragment *out) {
    tn_status s = parse_sequence(p, nested, out);
    while (!s && next_alternative(p)) {
        tn_fragment more;
        if ((s = parse_sequence(p, nested, &more))) return s;
        p->g->nodes[more.end].next = out->end;
        s = split(p, out->start, more.start, &out->start);
    }
    return s;
}

static tn_status parse_rule(tn_parser *p) {
    const size_t at = p->at, n_name = name_length(p);
    uint32_t rule;
    tn_fragment body;
    if (!n_name) return bad(p, "expected the name of a rule");
    if (!rule_named(p, p->text + at, n_name, &rule)) return no_room(p);
    if (p->g->rules[rule].start) return bad_at(p, at, "a second rule", p->text + at, n_name);
    p->at += n_name;
    skip_space(p, false);
    if (p->n - p->at < 3 || memcmp(p->text + p->at, "::=", 3) != 0) return bad(p, "expected '::='");
    p->at += 3;
    skip_space(p, true);
    const tn_status s = parse_alternatives(p, false, &body);
    if (s) return s;
    p->g->nodes[body.end].next = TN_NODE_RETURN_ID;
    p->g->rules[rule].start = body.start;
    if (p->at < p->n && peek(p) != '\n' && peek(p) != '\r') return bad(p, "expected the end of the line");
    return TN_OK;
}

static tn_status parse_rules(tn_parser *p) {
    tn_status s;
    tn_grammar_node(p->g, (tn_node){.kind = TN_NODE_ACCEPT});
    tn_grammar_node(p->g, (tn_node){.kind = TN_NODE_RETURN});
    if (p->g->n_nodes != 2 || !rule_named(p, "root", 4, &p->g->root)) return no_room(p);
    for (skip_space(p, true); p->at < p->n; skip_space(p, true))
        if ((s = parse_rule(p))) return s;
    for (uint32_t i = 0; i < p->g->n_rules; i++) {
        const tn_rule *rule = &p->g->rules[i];
        if (rule->start) continue;
        if (i == p->g->root) return bad(p, "there is no rule 'root'");
        return bad_at(p, rule->line - 1, "no rule of the name", rule->name, rule->name_len);
    }
    return tn_grammar_check(p->g, p->where, p->err);
}

tn_status tn_grammar_parse(const char *text, size_t n, const char *where, tn_grammar **out, tn_error *err) {
    *out = NULL;
    tn_parser p = {.g = calloc(1, sizeof *p.g), .text = text, .n = n, .where = where, .err = err};
    p.ranges = calloc(MAX_RANGES, sizeof *p.ranges);
    tn_status s = TN_OK;
    if (!p.g || !p.ranges) s = tn_fail(err, TN_ERR_MEMORY, "cannot read the grammar", where, "out of memory");
    if (!s && n > (16u << 20)) s = tn_fail(err, TN_ERR_FORMAT, "bad grammar", where, "longer than 16 MiB");
    if (!s) s = parse_rules(&p);
    free(p.ranges);
    free(p.slots);
    if (s) {
        tn_grammar_free(p.g);
        return s;
    }
    for (uint32_t i = 0; i < p.g->n_rules; i++) p.g->rules[i].name = NULL; /* the caller's text */
    *out = p.g;
    return TN_OK;
}

void tn_grammar_free(tn_grammar *g) {
    if (!g) return;
    free(g->nodes);
    free(g->rules);
    free(g);
}
