/* Statements: text and tags into a tree. */
#include <string.h>

#include "template_node.h"

/* Up to the first of the tags in `ends` (separated by spaces), whose name stays the token; NULL: to the end of the template. */
static void parse_body(tn_tparser *p, tn_tnodes *body, const char *ends);

/* The end of the tag that opens a body, then the body. */
static void parse_statements(tn_tparser *p, tn_tnodes *body, const char *ends) {
    tn_tparser_skip(p, TN_TOK_COLON);
    tn_tparser_expect(p, TN_TOK_BLOCK_END);
    parse_body(p, body, ends);
}

/* The same for a body that one tag alone can end; moves past its name. */
static void parse_block_body(tn_tparser *p, tn_tnodes *body, const char *end) {
    parse_statements(p, body, end);
    tn_tlexer_next(&p->lexer);
}

static tn_tnode *parse_if(tn_tparser *p, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_IF, line);
    for (bool more = true; more;) {
        tn_tnode *clause = tn_tnode_new(p, TN_N_CLAUSE, p->lexer.token.line);
        clause->a = tn_tparse_tuple(p, false, NULL, false);
        parse_statements(p, &clause->items, "elif else endif");
        tn_tnodes_add(p->m, &node->items, clause);
        more = tn_tparser_skip_name(p, "elif");
    }
    if (tn_tparser_skip_name(p, "else")) {
        tn_tnode *clause = tn_tnode_new(p, TN_N_CLAUSE, line);
        parse_statements(p, &clause->items, "endif");
        tn_tnodes_add(p->m, &node->items, clause);
    }
    tn_tlexer_next(&p->lexer);
    return node;
}

/* Targets hold names alone, but for items of any kind in nested parentheses that make_target has refused. */
static tn_tnode *copy_target(tn_tparser *p, const tn_tnode *target) {
    tn_tnode *copy = tn_tnode_new(p, target->kind, target->line);
    *copy = *target;
    copy->items = (tn_tnodes){0};
    for (size_t i = 0; i < target->items.n; i++)
        tn_tnodes_add(p->m, &copy->items, copy_target(p, target->items.v[i]));
    return copy;
}

static tn_tnode *parse_for(tn_tparser *p, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_FOR, line);
    node->loop = tn_talloc(p->m, 1, sizeof *node->loop);
    node->a = tn_tparse_target(p, "in", false);
    if (!tn_tparser_skip_name(p, "in")) tn_tparser_unexpected(p);
    node->b = tn_tparse_tuple(p, false, "recursive", false);
    if (tn_tparser_skip_name(p, "if")) {
        node->c = tn_tparse_expression(p);
        node->d = copy_target(p, node->a);
    }
    node->loop->recursive = tn_tparser_skip_name(p, "recursive");
    p->loops++;
    parse_statements(p, &node->items, "endfor else");
    p->loops--;
    if (tn_tparser_skip_name(p, "else")) parse_statements(p, &node->more, "endfor");
    tn_tlexer_next(&p->lexer);
    return node;
}

static tn_tnode *parse_set(tn_tparser *p, uint32_t line) {
    tn_tnode *target = tn_tparse_target(p, NULL, true), *node;
    if (tn_tparser_skip(p, TN_TOK_ASSIGN)) {
        node = tn_tnode_new(p, TN_N_SET, line);
        node->a = target;
        node->b = tn_tparse_tuple(p, true, NULL, false);
        return node;
    }
    const uint32_t depth = p->m->depth;
    node = tn_tnode_new(p, TN_N_SET_BLOCK, line);
    node->a = target;
    node->b = tn_tparse_filters(p, NULL, false);
    p->m->depth = depth;
    parse_block_body(p, &node->body, "endset");
    return node;
}

/* "(name, name = default, ...)" */
static void parse_signature(tn_tparser *p, tn_tnode *node) {
    tn_tparser_expect(p, TN_TOK_LPAREN);
    while (!tn_tparser_is(p, TN_TOK_RPAREN)) {
        if (node->items.n) tn_tparser_expect(p, TN_TOK_COMMA);
        tn_tnode *name = tn_tparse_name_target(p);
        for (size_t i = 0; i < node->items.n; i++)
            if (tn_tstr_equal(node->items.v[i]->name, name->name))
                tn_tfail(p->m, TN_ERR_FORMAT, "the parameter '%.*s' is there twice", (int)name->name->n,
                         name->name->p);
        tn_tnodes_add(p->m, &node->items, name);
        if (tn_tparser_skip(p, TN_TOK_ASSIGN))
            tn_tnodes_add(p->m, &node->more, tn_tparse_expression(p));
        else if (node->more.n)
            tn_tfail(p->m, TN_ERR_FORMAT, "a parameter without default follows one with a default");
    }
    tn_tparser_expect(p, TN_TOK_RPAREN);
}

/* The body of a function: break and continue do not leave it. */
static void parse_function_body(tn_tparser *p, tn_tnode *node, const char *end) {
    const uint32_t loops = p->loops;
    p->loops = 0;
    node->macro = tn_talloc(p->m, 1, sizeof *node->macro);
    parse_block_body(p, &node->body, end);
    p->loops = loops;
}

static tn_tnode *parse_macro(tn_tparser *p, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_MACRO, line);
    node->name = tn_tparse_name_target(p)->name;
    parse_signature(p, node);
    parse_function_body(p, node, "endmacro");
    return node;
}

static tn_tnode *parse_call_block(tn_tparser *p, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_CALL_BLOCK, line);
    if (tn_tparser_is(p, TN_TOK_LPAREN)) parse_signature(p, node);
    node->a = tn_tparse_expression(p);
    if (node->a->kind != TN_N_CALL) tn_tfail(p->m, TN_ERR_FORMAT, "'call' expects a call");
    parse_function_body(p, node, "endcall");
    return node;
}

static tn_tnode *parse_generation(tn_tparser *p, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_CALL_BLOCK, line);
    parse_function_body(p, node, "endgeneration");
    return node;
}

static tn_tnode *parse_filter_block(tn_tparser *p, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_FILTER_BLOCK, line);
    const uint32_t depth = p->m->depth;
    node->c = tn_tparse_filters(p, NULL, true);
    p->m->depth = depth;
    parse_block_body(p, &node->items, "endfilter");
    return node;
}

static tn_tnode *parse_with(tn_tparser *p, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_WITH, line);
    while (!tn_tparser_is(p, TN_TOK_BLOCK_END)) {
        if (node->items.n) tn_tparser_expect(p, TN_TOK_COMMA);
        tn_tnodes_add(p->m, &node->items, tn_tparse_target(p, NULL, false));
        tn_tparser_expect(p, TN_TOK_ASSIGN);
        tn_tnodes_add(p->m, &node->more, tn_tparse_expression(p));
    }
    parse_block_body(p, &node->body, "endwith");
    return node;
}

static tn_tnode *parse_block(tn_tparser *p, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_BLOCK, line);
    node->name = tn_tparser_expect(p, TN_TOK_NAME).text;
    if (tn_tparser_is_name(p, "scoped") || tn_tparser_is_name(p, "required"))
        tn_tfail(p->m, TN_ERR_UNSUPPORTED,
                 "scoped and required blocks are not supported: a chat template is one text");
    if (tn_tdict_find_str(p->m, p->blocks, node->name))
        tn_tfail(p->m, TN_ERR_FORMAT, "the block '%.*s' is there twice", (int)node->name->n, node->name->p);
    tn_tdict_set(p->m, p->blocks, tn_tstring(node->name), TN_TNONE);
    const uint32_t loops = p->loops;
    p->loops = 0;
    parse_block_body(p, &node->items, "endblock");
    p->loops = loops;
    if (tn_tparser_is(p, TN_TOK_NAME) && tn_tstr_equal(p->lexer.token.text, node->name))
        tn_tlexer_next(&p->lexer);
    return node;
}

static tn_tnode *parse_print(tn_tparser *p, uint32_t line) {
    tn_tnode *node = tn_tnode_new(p, TN_N_OUTPUT, line);
    while (!tn_tparser_is(p, TN_TOK_BLOCK_END)) {
        if (node->items.n) tn_tparser_expect(p, TN_TOK_COMMA);
        tn_tnodes_add(p->m, &node->items, tn_tparse_expression(p));
    }
    return node;
}

static tn_tnode *parse_loop_control(tn_tparser *p, uint32_t line, tn_tnode_kind kind) {
    if (!p->loops)
        tn_tfail(p->m, TN_ERR_FORMAT, "'%s' outside of a loop", kind == TN_N_BREAK ? "break" : "continue");
    return tn_tnode_new(p, kind, line);
}

static tn_tnode *parse_break(tn_tparser *p, uint32_t line) {
    return parse_loop_control(p, line, TN_N_BREAK);
}

static tn_tnode *parse_continue(tn_tparser *p, uint32_t line) {
    return parse_loop_control(p, line, TN_N_CONTINUE);
}

static const struct {
    const char *name;
    tn_tnode *(*parse)(tn_tparser *p, uint32_t line); /* behind the name; NULL: refused */
} tags[] = {
    {"if", parse_if},       {"for", parse_for},         {"set", parse_set},
    {"macro", parse_macro}, {"call", parse_call_block}, {"filter", parse_filter_block},
    {"block", parse_block}, {"with", parse_with},       {"generation", parse_generation},
    {"print", parse_print}, {"break", parse_break},     {"continue", parse_continue},
    {"include", NULL},      {"import", NULL},           {"from", NULL},
    {"extends", NULL},      {"autoescape", NULL},
};

static tn_tnode *parse_statement(tn_tparser *p, const char *ends) {
    const tn_ttoken token = tn_tparser_expect(p, TN_TOK_NAME);
    p->m->line = token.line;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!tn_tstr_is(token.text, tags[i].name)) continue;
        if (!tags[i].parse)
            tn_tfail(p->m, TN_ERR_UNSUPPORTED, "the tag '%s' is not supported: a chat template is one text",
                     tags[i].name);
        return tags[i].parse(p, token.line);
    }
    tn_tfail(p->m, TN_ERR_FORMAT, "unknown tag '%.*s'%s%s", (int)(token.text->n < 60 ? token.text->n : 60),
             token.text->p, ends ? "; expected: " : "", ends ? ends : "");
}

static bool ends_body(const tn_tparser *p, const char *ends) {
    if (!ends || !tn_tparser_is(p, TN_TOK_NAME)) return false;
    for (const char *end = ends; *end; end += strcspn(end, " ")) {
        end += strspn(end, " ");
        size_t n = strcspn(end, " ");
        if (p->lexer.token.text->n == n && memcmp(p->lexer.token.text->p, end, n) == 0) return true;
    }
    return false;
}

/* An output node takes all text and expressions up to the next tag. */
static void add_output(tn_tparser *p, tn_tnodes *body, tn_tnode *node) {
    tn_tnode *last = body->n ? body->v[body->n - 1] : NULL;
    if (!last || last->kind != TN_N_OUTPUT) {
        last = tn_tnode_new(p, TN_N_OUTPUT, node->line);
        tn_tnodes_add(p->m, body, last);
    }
    tn_tnodes_add(p->m, &last->items, node);
}

static void parse_body(tn_tparser *p, tn_tnodes *body, const char *ends) {
    tn_tenter(p->m);
    while (!tn_tparser_is(p, TN_TOK_END)) {
        const tn_ttoken token = p->lexer.token;
        tn_tlexer_next(&p->lexer);
        if (token.kind == TN_TOK_DATA) {
            tn_tnode *text = tn_tnode_new(p, TN_N_CONST, token.line);
            text->value = tn_tstring(token.text);
            add_output(p, body, text);
        } else if (token.kind == TN_TOK_VARIABLE_BEGIN) {
            add_output(p, body, tn_tparse_tuple(p, true, NULL, false));
            tn_tparser_expect(p, TN_TOK_VARIABLE_END);
        } else {
            if (ends_body(p, ends)) {
                tn_tleave(p->m);
                return;
            }
            tn_tnodes_add(p->m, body, parse_statement(p, ends));
            tn_tparser_expect(p, TN_TOK_BLOCK_END);
        }
    }
    if (ends) tn_tfail(p->m, TN_ERR_FORMAT, "the template ends where a tag is expected: %s", ends);
    tn_tleave(p->m);
}

void tn_tparse(tn_tmem *m, tn_template *t, const char *source, size_t n) {
    tn_tparser *p = tn_talloc(m, 1, sizeof *p);
    p->m = m;
    p->blocks = t->blocks = tn_tdict_new(m, 0);
    tn_tlexer_init(&p->lexer, m, source, n);
    parse_body(p, &t->body, NULL);
}
