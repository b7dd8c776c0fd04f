/* Expressions, by jinja2's precedences: or, and, not, comparisons, + -, ~, * / // %, **, unary, postfix, filters and tests. */
#include <string.h>

#include "template_node.h"

/* ---- Tokens and nodes ---------------------------------------------------------------------------------- */

tn_tnode *tn_tnode_new(tn_tparser *p, tn_tnode_kind kind, uint32_t line) {
    tn_tnode *node = tn_talloc(p->m, 1, sizeof *node);
    node->kind = kind;
    node->line = line;
    return node;
}

void tn_tnodes_add(tn_tmem *m, tn_tnodes *list, tn_tnode *node) {
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 4;
        tn_tnode **grown = tn_talloc(m, cap, sizeof *grown);
        if (list->n) memcpy(grown, list->v, list->n * sizeof *grown);
        list->v = grown;
        list->cap = cap;
    }
    list->v[list->n++] = node;
}

bool tn_tparser_is(const tn_tparser *p, tn_ttoken_kind kind) {
    return p->lexer.token.kind == kind;
}

bool tn_tparser_is_name(const tn_tparser *p, const char *name) {
    return tn_tparser_is(p, TN_TOK_NAME) && tn_tstr_is(p->lexer.token.text, name);
}

bool tn_tparser_skip(tn_tparser *p, tn_ttoken_kind kind) {
    if (!tn_tparser_is(p, kind)) return false;
    tn_tlexer_next(&p->lexer);
    return true;
}

bool tn_tparser_skip_name(tn_tparser *p, const char *name) {
    if (!tn_tparser_is_name(p, name)) return false;
    tn_tlexer_next(&p->lexer);
    return true;
}

void tn_tparser_unexpected(tn_tparser *p) {
    const tn_ttoken *token = &p->lexer.token;
    if (token->kind == TN_TOK_NAME)
        tn_tfail(p->m, TN_ERR_FORMAT, "unexpected '%.*s'", (int)(token->text->n < 100 ? token->text->n : 100),
                 token->text->p);
    tn_tfail(p->m, TN_ERR_FORMAT, "unexpected %s", tn_ttoken_name(token->kind));
}

tn_ttoken tn_tparser_expect(tn_tparser *p, tn_ttoken_kind kind) {
    const tn_ttoken token = p->lexer.token;
    if (token.kind != kind) {
        if (token.kind == TN_TOK_NAME)
            tn_tfail(p->m, TN_ERR_FORMAT, "expected %s, found '%.*s'", tn_ttoken_name(kind),
                     (int)(token.text->n < 100 ? token.text->n : 100), token.text->p);
        tn_tfail(p->m, TN_ERR_FORMAT, "expected %s, found %s", tn_ttoken_name(kind),
                 tn_ttoken_name(token.kind));
    }
    tn_tlexer_next(&p->lexer);
    return token;
}

/* ---- Primaries ----------------------------------------------------------------------------------------- */

static tn_tnode *new_const(tn_tparser *p, tn_tval value, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_CONST, line);
    node->value = value;
    return node;
}

static tn_tnode *parse_name(tn_tparser *p, bool with_namespace) {
    const tn_ttoken token = tn_tparser_expect(p, TN_TOK_NAME);
    if (tn_tstr_is(token.text, "true") || tn_tstr_is(token.text, "True"))
        return new_const(p, tn_tbool(true), token.line);
    if (tn_tstr_is(token.text, "false") || tn_tstr_is(token.text, "False"))
        return new_const(p, tn_tbool(false), token.line);
    if (tn_tstr_is(token.text, "none") || tn_tstr_is(token.text, "None"))
        return new_const(p, TN_TNONE, token.line);
    bool attribute = with_namespace && tn_tparser_skip(p, TN_TOK_DOT);
    tn_tnode *node = tn_tnode_new(p, attribute ? TN_N_NSREF : TN_N_NAME, token.line);
    node->name = token.text;
    if (attribute) node->attribute = tn_tparser_expect(p, TN_TOK_NAME).text;
    return node;
}

static tn_tnode *parse_string(tn_tparser *p) {
    tn_ttoken token = tn_tparser_expect(p, TN_TOK_STRING);
    if (!tn_tparser_is(p, TN_TOK_STRING)) return new_const(p, tn_tstring(token.text), token.line);
    tn_tbuf b = {.m = p->m};
    tn_tbuf_str(&b, token.text);
    while (tn_tparser_is(p, TN_TOK_STRING)) {
        tn_tbuf_str(&b, p->lexer.token.text);
        tn_tlexer_next(&p->lexer);
    }
    return new_const(p, tn_tbuf_done(&b), token.line);
}

static tn_tnode *parse_list(tn_tparser *p) {
    tn_tnode *node = tn_tnode_new(p, TN_N_LIST, tn_tparser_expect(p, TN_TOK_LBRACKET).line);
    while (!tn_tparser_is(p, TN_TOK_RBRACKET)) {
        if (node->items.n) tn_tparser_expect(p, TN_TOK_COMMA);
        if (tn_tparser_is(p, TN_TOK_RBRACKET)) break;
        tn_tnodes_add(p->m, &node->items, tn_tparse_expression(p));
    }
    tn_tparser_expect(p, TN_TOK_RBRACKET);
    return node;
}

static tn_tnode *parse_dict(tn_tparser *p) {
    tn_tnode *node = tn_tnode_new(p, TN_N_DICT, tn_tparser_expect(p, TN_TOK_LBRACE).line);
    while (!tn_tparser_is(p, TN_TOK_RBRACE)) {
        if (node->items.n) tn_tparser_expect(p, TN_TOK_COMMA);
        if (tn_tparser_is(p, TN_TOK_RBRACE)) break;
        tn_tnodes_add(p->m, &node->items, tn_tparse_expression(p));
        tn_tparser_expect(p, TN_TOK_COLON);
        tn_tnodes_add(p->m, &node->more, tn_tparse_expression(p));
    }
    tn_tparser_expect(p, TN_TOK_RBRACE);
    return node;
}

static tn_tnode *parse_primary(tn_tparser *p, bool with_namespace) {
    const tn_ttoken token = p->lexer.token;
    switch (token.kind) {
    case TN_TOK_NAME: return parse_name(p, with_namespace);
    case TN_TOK_STRING: return parse_string(p);
    case TN_TOK_INTEGER:
    case TN_TOK_FLOAT: tn_tlexer_next(&p->lexer); return new_const(p, token.number, token.line);
    case TN_TOK_LPAREN: {
        tn_tlexer_next(&p->lexer);
        tn_tnode *node = tn_tparse_tuple(p, true, NULL, true);
        tn_tparser_expect(p, TN_TOK_RPAREN);
        return node;
    }
    case TN_TOK_LBRACKET: return parse_list(p);
    case TN_TOK_LBRACE: return parse_dict(p);
    default: tn_tparser_unexpected(p);
    }
}

/* ---- Postfix ------------------------------------------------------------------------------------------- */

enum { MAX_NAMED = 32 };

static void parse_argument(tn_tparser *p, tn_tcall_args *args) {
    if (tn_tparser_is(p, TN_TOK_MUL)) {
        if (args->star || args->star_star) tn_tparser_unexpected(p);
        tn_tlexer_next(&p->lexer);
        args->star = tn_tparse_expression(p);
    } else if (tn_tparser_is(p, TN_TOK_POW)) {
        if (args->star_star) tn_tparser_unexpected(p);
        tn_tlexer_next(&p->lexer);
        args->star_star = tn_tparse_expression(p);
    } else if (tn_tparser_is(p, TN_TOK_NAME) && tn_tlexer_look(&p->lexer)->kind == TN_TOK_ASSIGN) {
        if (args->star_star) tn_tparser_unexpected(p);
        const tn_tstr *name = p->lexer.token.text;
        for (size_t i = 0; i < args->named.n; i++)
            if (tn_tstr_equal(args->names[i], name))
                tn_tfail(p->m, TN_ERR_FORMAT, "the argument '%.*s' is given twice", (int)name->n, name->p);
        if (args->named.n == MAX_NAMED)
            tn_tfail(p->m, TN_ERR_FORMAT, "more than %d named arguments", MAX_NAMED);
        if (!args->names) args->names = tn_talloc(p->m, MAX_NAMED, sizeof *args->names);
        tn_tlexer_next(&p->lexer);
        tn_tlexer_next(&p->lexer);
        tn_tnodes_add(p->m, &args->named, tn_tparse_expression(p));
        args->names[args->named.n - 1] = name;
    } else {
        if (args->star || args->star_star || args->named.n) tn_tparser_unexpected(p);
        tn_tnodes_add(p->m, &args->positional, tn_tparse_expression(p));
    }
}

static tn_tcall_args *parse_arguments(tn_tparser *p) {
    tn_tcall_args *args = tn_talloc(p->m, 1, sizeof *args);
    tn_tparser_expect(p, TN_TOK_LPAREN);
    for (bool first = true; !tn_tparser_is(p, TN_TOK_RPAREN); first = false) {
        if (!first) tn_tparser_expect(p, TN_TOK_COMMA);
        if (tn_tparser_is(p, TN_TOK_RPAREN)) break;
        parse_argument(p, args);
    }
    tn_tparser_expect(p, TN_TOK_RPAREN);
    return args;
}

static tn_tnode *parse_call(tn_tparser *p, tn_tnode *callee) {
    tn_tnode *node = tn_tnode_new(p, TN_N_CALL, p->lexer.token.line);
    node->a = callee;
    node->args = parse_arguments(p);
    return node;
}

static bool ends_slice_part(const tn_tparser *p) {
    return tn_tparser_is(p, TN_TOK_RBRACKET) || tn_tparser_is(p, TN_TOK_COMMA) ||
           tn_tparser_is(p, TN_TOK_COLON);
}

static tn_tnode *parse_subscribed(tn_tparser *p) {
    const uint32_t line = p->lexer.token.line;
    tn_tnode *start = NULL;
    if (!tn_tparser_is(p, TN_TOK_COLON)) {
        start = tn_tparse_expression(p);
        if (!tn_tparser_is(p, TN_TOK_COLON)) return start;
    }
    tn_tlexer_next(&p->lexer);
    tn_tnode *slice = tn_tnode_new(p, TN_N_SLICE, line);
    slice->a = start;
    if (!ends_slice_part(p)) slice->b = tn_tparse_expression(p);
    if (tn_tparser_skip(p, TN_TOK_COLON) && !ends_slice_part(p)) slice->c = tn_tparse_expression(p);
    return slice;
}

static tn_tnode *parse_subscript(tn_tparser *p, tn_tnode *object) {
    const uint32_t line = p->lexer.token.line;
    if (tn_tparser_skip(p, TN_TOK_DOT)) {
        const tn_ttoken token = p->lexer.token;
        bool number = token.kind == TN_TOK_INTEGER;
        tn_tparser_expect(p, number ? TN_TOK_INTEGER : TN_TOK_NAME);
        tn_tnode *node = tn_tnode_new(p, number ? TN_N_GETITEM : TN_N_GETATTR, line);
        node->a = object;
        node->name = token.text;
        if (number) node->b = new_const(p, token.number, token.line);
        return node;
    }
    tn_tparser_expect(p, TN_TOK_LBRACKET);
    tn_tnode *node = tn_tnode_new(p, TN_N_GETITEM, line), *tuple = tn_tnode_new(p, TN_N_TUPLE, line);
    while (!tn_tparser_is(p, TN_TOK_RBRACKET)) {
        if (tuple->items.n) tn_tparser_expect(p, TN_TOK_COMMA);
        tn_tnodes_add(p->m, &tuple->items, parse_subscribed(p));
    }
    tn_tparser_expect(p, TN_TOK_RBRACKET);
    node->a = object;
    node->b = tuple->items.n == 1 ? tuple->items.v[0] : tuple;
    return node;
}

static tn_tnode *parse_postfix(tn_tparser *p, tn_tnode *node) {
    for (;;) {
        if (tn_tparser_is(p, TN_TOK_DOT) || tn_tparser_is(p, TN_TOK_LBRACKET))
            node = parse_subscript(p, node);
        else if (tn_tparser_is(p, TN_TOK_LPAREN))
            node = parse_call(p, node);
        else
            return node;
        tn_tenter(p->m); /* the tree grows deeper too; parse_unary undoes it */
    }
}

/* A name, perhaps of several parts. */
static const tn_tstr *parse_dotted_name(tn_tparser *p) {
    const tn_tstr *name = tn_tparser_expect(p, TN_TOK_NAME).text;
    if (!tn_tparser_is(p, TN_TOK_DOT)) return name;
    tn_tbuf b = {.m = p->m};
    tn_tbuf_str(&b, name);
    while (tn_tparser_skip(p, TN_TOK_DOT)) {
        tn_tbuf_text(&b, ".");
        tn_tbuf_str(&b, tn_tparser_expect(p, TN_TOK_NAME).text);
    }
    return tn_tbuf_done(&b).s;
}

tn_tnode *tn_tparse_filters(tn_tparser *p, tn_tnode *node, bool inline_start) {
    while (inline_start || tn_tparser_skip(p, TN_TOK_PIPE)) {
        inline_start = false;
        tn_tnode *filter = tn_tnode_new(p, TN_N_FILTER, p->lexer.token.line);
        filter->a = node;
        filter->name = parse_dotted_name(p);
        if (tn_tparser_is(p, TN_TOK_LPAREN)) filter->args = parse_arguments(p);
        node = filter;
        tn_tenter(p->m);
    }
    return node;
}

/* Whether the token begins a test's argument without parentheses. */
static bool begins_argument(tn_tparser *p) {
    switch (p->lexer.token.kind) {
    case TN_TOK_NAME:
        if (tn_tparser_is_name(p, "is")) tn_tfail(p->m, TN_ERR_FORMAT, "tests cannot be chained with 'is'");
        return !tn_tparser_is_name(p, "else") && !tn_tparser_is_name(p, "or") &&
               !tn_tparser_is_name(p, "and");
    case TN_TOK_STRING:
    case TN_TOK_INTEGER:
    case TN_TOK_FLOAT:
    case TN_TOK_LBRACKET:
    case TN_TOK_LBRACE: return true;
    default: return false;
    }
}

static tn_tnode *parse_test(tn_tparser *p, tn_tnode *object) {
    const uint32_t line = p->lexer.token.line;
    tn_tlexer_next(&p->lexer);
    bool negated = tn_tparser_skip_name(p, "not");
    tn_tnode *test = tn_tnode_new(p, TN_N_TEST, line);
    test->a = object;
    test->name = parse_dotted_name(p);
    if (tn_tparser_is(p, TN_TOK_LPAREN)) {
        test->args = parse_arguments(p);
    } else if (begins_argument(p)) {
        test->args = tn_talloc(p->m, 1, sizeof *test->args);
        const uint32_t depth = p->m->depth;
        tn_tnode *argument = parse_postfix(p, parse_primary(p, false));
        p->m->depth = depth;
        tn_tnodes_add(p->m, &test->args->positional, argument);
    }
    if (!negated) return test;
    tn_tnode *node = tn_tnode_new(p, TN_N_NOT, line);
    node->a = test;
    return node;
}

static tn_tnode *parse_unary(tn_tparser *p, bool with_filter) {
    const uint32_t line = p->lexer.token.line, depth = p->m->depth;
    tn_tnode *node;
    tn_tenter(p->m);
    if (tn_tparser_is(p, TN_TOK_SUB) || tn_tparser_is(p, TN_TOK_ADD)) {
        node = tn_tnode_new(p, tn_tparser_is(p, TN_TOK_SUB) ? TN_N_NEG : TN_N_POS, line);
        tn_tlexer_next(&p->lexer);
        node->a = parse_unary(p, false);
    } else {
        node = parse_primary(p, false);
    }
    node = parse_postfix(p, node);
    while (with_filter) {
        if (tn_tparser_is(p, TN_TOK_PIPE))
            node = tn_tparse_filters(p, node, false);
        else if (tn_tparser_is_name(p, "is"))
            node = parse_test(p, node);
        else if (tn_tparser_is(p, TN_TOK_LPAREN))
            node = parse_call(p, node);
        else
            break;
        tn_tenter(p->m);
    }
    p->m->depth = depth;
    return node;
}

/* ---- Operators ----------------------------------------------------------------------------------------- */

typedef struct tn_tlevel {
    tn_ttoken_kind token;
    tn_tbinary op;
} tn_tlevel;

static const tn_tlevel power_level[] = {{TN_TOK_POW, TN_B_POW}, {TN_TOK_END, 0}};
static const tn_tlevel product_level[] = {{TN_TOK_MUL, TN_B_MUL},
                                          {TN_TOK_DIV, TN_B_DIV},
                                          {TN_TOK_FLOORDIV, TN_B_FLOORDIV},
                                          {TN_TOK_MOD, TN_B_MOD},
                                          {TN_TOK_END, 0}};
static const tn_tlevel sum_level[] = {{TN_TOK_ADD, TN_B_ADD}, {TN_TOK_SUB, TN_B_SUB}, {TN_TOK_END, 0}};
static const tn_tlevel compare_level[] = {{TN_TOK_EQ, TN_B_EQ}, {TN_TOK_NE, TN_B_NE}, {TN_TOK_LT, TN_B_LT},
                                          {TN_TOK_LE, TN_B_LE}, {TN_TOK_GT, TN_B_GT}, {TN_TOK_GE, TN_B_GE},
                                          {TN_TOK_END, 0}};

static const tn_tlevel *find_level(const tn_tparser *p, const tn_tlevel *level) {
    for (; level->token != TN_TOK_END; level++)
        if (tn_tparser_is(p, level->token)) return level;
    return NULL;
}

static tn_tnode *parse_concat(tn_tparser *p);

/* Operators of one level, from the left. Their operands: products' are powers, powers' are unary, sums' are '~'. */
static tn_tnode *parse_binary(tn_tparser *p, const tn_tlevel *level) {
    const uint32_t depth = p->m->depth;
    tn_tnode *left = NULL;
    for (const tn_tlevel *found = NULL;;) {
        tn_tnode *right = level == power_level     ? parse_unary(p, true)
                          : level == product_level ? parse_binary(p, power_level)
                                                   : parse_concat(p);
        if (found) {
            tn_tnode *node = tn_tnode_new(p, TN_N_BINARY, left->line);
            node->op = found->op;
            node->a = left;
            node->b = right;
            right = node;
            tn_tenter(p->m);
        }
        left = right;
        found = find_level(p, level);
        if (!found) break;
        tn_tlexer_next(&p->lexer);
    }
    p->m->depth = depth;
    return left;
}

static tn_tnode *parse_concat(tn_tparser *p) {
    tn_tnode *first = parse_binary(p, product_level);
    if (!tn_tparser_is(p, TN_TOK_TILDE)) return first;
    tn_tnode *node = tn_tnode_new(p, TN_N_CONCAT, first->line);
    tn_tnodes_add(p->m, &node->items, first);
    while (tn_tparser_skip(p, TN_TOK_TILDE))
        tn_tnodes_add(p->m, &node->items, parse_binary(p, product_level));
    return node;
}

static bool skip_comparison(tn_tparser *p, tn_tbinary *op) {
    const tn_tlevel *found = find_level(p, compare_level);
    if (found) {
        tn_tlexer_next(&p->lexer);
        *op = found->op;
        return true;
    }
    if (tn_tparser_skip_name(p, "in")) {
        *op = TN_B_IN;
        return true;
    }
    if (!tn_tparser_is_name(p, "not")) return false;
    const tn_ttoken *ahead = tn_tlexer_look(&p->lexer);
    if (ahead->kind != TN_TOK_NAME || !tn_tstr_is(ahead->text, "in")) return false;
    tn_tlexer_next(&p->lexer);
    tn_tlexer_next(&p->lexer);
    *op = TN_B_NOT_IN;
    return true;
}

static tn_tnode *parse_compare(tn_tparser *p) {
    tn_tnode *left = parse_binary(p, sum_level), *node = NULL;
    for (tn_tbinary op; skip_comparison(p, &op);) {
        if (!node) {
            node = tn_tnode_new(p, TN_N_COMPARE, left->line);
            node->a = left;
        }
        tn_tnode *operand = tn_tnode_new(p, TN_N_OPERAND, p->lexer.token.line);
        operand->op = op;
        operand->a = parse_binary(p, sum_level);
        tn_tnodes_add(p->m, &node->items, operand);
    }
    return node ? node : left;
}

static tn_tnode *parse_not(tn_tparser *p) {
    const uint32_t line = p->lexer.token.line;
    if (!tn_tparser_skip_name(p, "not")) return parse_compare(p);
    tn_tenter(p->m);
    tn_tnode *node = tn_tnode_new(p, TN_N_NOT, line);
    node->a = parse_not(p);
    tn_tleave(p->m);
    return node;
}

static tn_tnode *parse_logic(tn_tparser *p, tn_tnode_kind kind) {
    const uint32_t depth = p->m->depth;
    tn_tnode *left = kind == TN_N_OR ? parse_logic(p, TN_N_AND) : parse_not(p);
    while (tn_tparser_skip_name(p, kind == TN_N_OR ? "or" : "and")) {
        tn_tnode *node = tn_tnode_new(p, kind, left->line);
        node->a = left;
        node->b = kind == TN_N_OR ? parse_logic(p, TN_N_AND) : parse_not(p);
        left = node;
        tn_tenter(p->m);
    }
    p->m->depth = depth;
    return left;
}

static tn_tnode *parse_condition(tn_tparser *p) {
    const uint32_t depth = p->m->depth;
    tn_tenter(p->m);
    tn_tnode *node = parse_logic(p, TN_N_OR);
    while (tn_tparser_skip_name(p, "if")) {
        tn_tnode *condition = tn_tnode_new(p, TN_N_COND, node->line);
        condition->b = node;
        condition->a = parse_logic(p, TN_N_OR);
        if (tn_tparser_skip_name(p, "else")) condition->c = parse_condition(p);
        node = condition;
        tn_tenter(p->m);
    }
    p->m->depth = depth;
    return node;
}

tn_tnode *tn_tparse_expression(tn_tparser *p) {
    return parse_condition(p);
}

/* ---- Tuples and targets -------------------------------------------------------------------------------- */

static bool ends_tuple(const tn_tparser *p, const char *end_name) {
    return tn_tparser_is(p, TN_TOK_VARIABLE_END) || tn_tparser_is(p, TN_TOK_BLOCK_END) ||
           tn_tparser_is(p, TN_TOK_RPAREN) || (end_name && tn_tparser_is_name(p, end_name));
}

typedef enum tn_titem { ITEM_CONDITION, ITEM_LOGIC, ITEM_PRIMARY, ITEM_NAMESPACE } tn_titem;

static tn_tnode *parse_items(tn_tparser *p, tn_titem item, const char *end_name, bool parenthesized) {
    tn_tnode *tuple = tn_tnode_new(p, TN_N_TUPLE, p->lexer.token.line);
    bool is_tuple = false;
    for (;;) {
        if (tuple->items.n) tn_tparser_expect(p, TN_TOK_COMMA);
        if (ends_tuple(p, end_name)) break;
        tn_tnodes_add(p->m, &tuple->items,
                      item == ITEM_CONDITION ? parse_condition(p)
                      : item == ITEM_LOGIC   ? parse_logic(p, TN_N_OR)
                                             : parse_primary(p, item == ITEM_NAMESPACE));
        if (!tn_tparser_is(p, TN_TOK_COMMA)) break;
        is_tuple = true;
    }
    if (is_tuple) return tuple;
    if (tuple->items.n) return tuple->items.v[0];
    if (!parenthesized) tn_tparser_unexpected(p);
    return tuple;
}

tn_tnode *tn_tparse_tuple(tn_tparser *p, bool with_condition, const char *end_name, bool parenthesized) {
    return parse_items(p, with_condition ? ITEM_CONDITION : ITEM_LOGIC, end_name, parenthesized);
}

static void make_target(tn_tparser *p, tn_tnode *node) {
    p->m->line = node->line;
    if (node->kind != TN_N_NAME && node->kind != TN_N_NSREF && node->kind != TN_N_TUPLE)
        tn_tfail(p->m, TN_ERR_FORMAT, "this cannot be assigned to");
    node->stores = node->kind == TN_N_NAME;
    for (size_t i = 0; node->kind == TN_N_TUPLE && i < node->items.n; i++) make_target(p, node->items.v[i]);
    p->m->line = p->lexer.token.line;
}

tn_tnode *tn_tparse_target(tn_tparser *p, const char *end_name, bool with_namespace) {
    tn_tnode *target = parse_items(p, with_namespace ? ITEM_NAMESPACE : ITEM_PRIMARY, end_name, false);
    make_target(p, target);
    return target;
}

tn_tnode *tn_tparse_name_target(tn_tparser *p) {
    tn_tnode *node = parse_name(p, false);
    make_target(p, node);
    return node;
}
