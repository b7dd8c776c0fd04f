/* Which variable a name means: fixed before the template runs, by jinja2's rules (idtracking.py).
 *
 * Loops, macros, call, set, filter and with blocks have scopes of their own; if has none. A name that is stored anywhere in a
 * scope is a variable of that scope, whose value on entry is the outer variable of the name if that exists, or nothing. A name
 * that is only read is the outer scopes', or else is looked up in the variables of the rendering when its scope is entered; so is one
 * that some branches of an if store. Variables are slots of the function that is running: the template, a macro, a call
 * block, a recursive loop, the test of a loop. */
#include "template_run.h"

typedef struct tn_tfunction_scope {
    struct tn_tfunction_scope *outer;
    uint32_t n_slots;
} function_scope;

typedef struct variable {
    tn_tload load;
    bool stored;
} variable;

typedef struct scope {
    struct scope *parent;
    function_scope *function;
    tn_tdict *names; /* to positions in v */
    variable *v;
    size_t n, cap;
    uint32_t *stores; /* positions, in the order in which they were first stored */
    size_t n_stores, cap_stores;
} scope;

typedef struct binder {
    tn_tmem *m;
    tn_template *t;
    const scope *root;
    uint32_t loops; /* around the node */
} binder;

/* ---- Variables ----------------------------------------------------------------------------------------- */

static scope *scope_new(binder *b, scope *parent, function_scope *function) {
    scope *s = tn_talloc(b->m, 1, sizeof *s);
    s->parent = parent;
    s->function = function;
    s->names = tn_tdict_new(b->m, 0);
    return s;
}

static function_scope *function_new(binder *b, function_scope *outer) {
    function_scope *f = tn_talloc(b->m, 1, sizeof *f);
    f->outer = outer;
    return f;
}

static variable *own(binder *b, const scope *s, const tn_tstr *name) {
    const tn_tpair *found = tn_tdict_find_str(b->m, s->names, name);
    return found ? &s->v[found->value.i] : NULL;
}

/* The variable and the scope it is of; NULL if no scope from s on has it. */
static const variable *find(binder *b, const scope *s, const tn_tstr *name, const scope **owner) {
    for (; s; s = s->parent) {
        const variable *v = own(b, s, name);
        *owner = s;
        if (v) return v;
    }
    return NULL;
}

static tn_tref ref_to(const scope *from, const scope *owner, const variable *v) {
    tn_tref ref = {.slot = v->load.slot};
    for (const function_scope *f = from->function; f != owner->function; f = f->outer) ref.up++;
    return ref;
}

static variable *define(binder *b, scope *s, const tn_tstr *name) {
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 4;
        variable *grown = tn_talloc(b->m, cap, sizeof *grown);
        for (size_t i = 0; i < s->n; i++) grown[i] = s->v[i];
        s->v = grown;
        s->cap = cap;
    }
    tn_tdict_set(b->m, s->names, tn_tstring(name), tn_tint((int64_t)s->n));
    variable *v = &s->v[s->n++];
    *v = (variable){.load = {.slot = s->function->n_slots++, .name = name}};
    return v;
}

/* From the outer variable of that name, or else as `otherwise` says. */
static void load_outer(binder *b, const scope *s, variable *v, int otherwise) {
    const scope *owner;
    const variable *outer = find(b, s->parent, v->load.name, &owner);
    v->load.kind = outer ? TN_LOAD_ALIAS : otherwise;
    if (outer) v->load.from = ref_to(s, owner, outer);
}

static void mark_stored(binder *b, scope *s, variable *v) {
    if (v->stored) return;
    v->stored = true;
    if (s->n_stores == s->cap_stores) {
        size_t cap = s->cap_stores ? 2 * s->cap_stores : 4;
        uint32_t *grown = tn_talloc(b->m, cap, sizeof *grown);
        for (size_t i = 0; i < s->n_stores; i++) grown[i] = s->stores[i];
        s->stores = grown;
        s->cap_stores = cap;
    }
    s->stores[s->n_stores++] = (uint32_t)(v - s->v);
}

static void store(binder *b, scope *s, const tn_tstr *name) {
    variable *v = own(b, s, name);
    if (!v) {
        v = define(b, s, name);
        load_outer(b, s, v, TN_LOAD_UNDEFINED);
    }
    mark_stored(b, s, v);
}

static void load(binder *b, scope *s, const tn_tstr *name) {
    const scope *owner;
    if (find(b, s, name, &owner)) return;
    define(b, s, name)->load.kind = TN_LOAD_RESOLVE;
}

static tn_tref declare(binder *b, scope *s, const tn_tstr *name) {
    variable *v = own(b, s, name);
    if (!v) v = define(b, s, name);
    v->load.kind = TN_LOAD_PARAMETER;
    mark_stored(b, s, v);
    return (tn_tref){.slot = v->load.slot};
}

static tn_tref declare_text(binder *b, scope *s, const char *name) {
    return declare(b, s, tn_tliteral(b->m, name).s);
}

static void declare_target(binder *b, scope *s, const tn_tnode *target) {
    if (target->kind == TN_N_NAME) declare(b, s, target->name);
    for (size_t i = 0; i < target->items.n; i++) declare_target(b, s, target->items.v[i]);
}

static void scope_done(binder *b, const scope *s, tn_tscope *out) {
    out->n_loads = 0;
    out->loads = tn_talloc(b->m, s->n, sizeof *out->loads);
    for (size_t i = 0; i < s->n; i++) out->loads[out->n_loads++] = s->v[i].load;
}

/* ---- Which names a scope has --------------------------------------------------------------------------- */

static void analyze(binder *b, scope *s, const tn_tnode *node);

static void analyze_list(binder *b, scope *s, const tn_tnodes *list) {
    for (size_t i = 0; i < list->n; i++) analyze(b, s, list->v[i]);
}

static void analyze_children(binder *b, scope *s, const tn_tnode *node) {
    analyze(b, s, node->a);
    analyze(b, s, node->b);
    analyze_list(b, s, &node->items);
    analyze_list(b, s, &node->more);
    analyze(b, s, node->c);
    if (!node->args) return;
    analyze_list(b, s, &node->args->positional);
    analyze_list(b, s, &node->args->named);
    analyze(b, s, node->args->star);
    analyze(b, s, node->args->star_star);
}

static void analyze_if(binder *b, scope *s, const tn_tnode *node) {
    size_t before = s->n_stores;
    analyze_list(b, s, &node->items);
    for (size_t i = before; i < s->n_stores; i++) load_outer(b, s, &s->v[s->stores[i]], TN_LOAD_RESOLVE);
}

/* Stops at what has a scope of its own, but for the expressions that belong outside of it. */
static void analyze(binder *b, scope *s, const tn_tnode *node) {
    if (!node) return;
    tn_tcharge(b->m, 1);
    switch (node->kind) {
    case TN_N_NAME:
        if (node->stores)
            store(b, s, node->name);
        else
            load(b, s, node->name);
        break;
    case TN_N_NSREF: load(b, s, node->name); break;
    case TN_N_IF: analyze_if(b, s, node); break;
    case TN_N_MACRO: store(b, s, node->name); break;
    case TN_N_SET:
        analyze(b, s, node->b);
        analyze(b, s, node->a);
        break;
    case TN_N_SET_BLOCK:
    case TN_N_CALL_BLOCK: analyze(b, s, node->a); break;
    case TN_N_FOR: analyze(b, s, node->b); break;
    case TN_N_FILTER_BLOCK: analyze(b, s, node->c); break;
    case TN_N_WITH: analyze_list(b, s, &node->more); break;
    case TN_N_BLOCK: break;
    default: analyze_children(b, s, node);
    }
}

/* Which of the names that a macro gets unasked its body reads before it stores them. */
typedef struct specials {
    const char *names[3];
    bool seen[3], hidden[3];
} specials;

static void find_specials(binder *b, specials *found, const tn_tnode *node);

static void find_specials_in(binder *b, specials *found, const tn_tnodes *list) {
    for (size_t i = 0; i < list->n; i++) find_specials(b, found, list->v[i]);
}

static void find_specials(binder *b, specials *found, const tn_tnode *node) {
    if (!node || node->kind == TN_N_BLOCK) return;
    tn_tcharge(b->m, 1);
    for (int i = 0; node->kind == TN_N_NAME && i < 3; i++) {
        if (!tn_tstr_is(node->name, found->names[i])) continue;
        if (node->stores)
            found->hidden[i] = true;
        else if (!found->hidden[i])
            found->seen[i] = true;
    }
    find_specials(b, found, node->a);
    find_specials(b, found, node->b);
    find_specials_in(b, found, &node->items);
    find_specials_in(b, found, &node->more);
    find_specials_in(b, found, &node->body);
    find_specials(b, found, node->c);
    if (!node->args) return;
    find_specials_in(b, found, &node->args->positional);
    find_specials_in(b, found, &node->args->named);
    find_specials(b, found, node->args->star);
    find_specials(b, found, node->args->star_star);
}

/* ---- Binding ------------------------------------------------------------------------------------------- */

/* `soft`: in an if or a conditional expression, where an unknown filter is an error only if it is reached. */
static void bind(binder *b, scope *s, tn_tnode *node, bool soft);

static void bind_list(binder *b, scope *s, const tn_tnodes *list, bool soft) {
    for (size_t i = 0; i < list->n; i++) bind(b, s, list->v[i], soft);
}

static void bind_children(binder *b, scope *s, tn_tnode *node, bool soft) {
    bind(b, s, node->a, soft);
    bind(b, s, node->b, soft);
    bind_list(b, s, &node->items, soft);
    bind_list(b, s, &node->more, soft);
    bind(b, s, node->c, soft);
    if (!node->args) return;
    bind_list(b, s, &node->args->positional, soft);
    bind_list(b, s, &node->args->named, soft);
    bind(b, s, node->args->star, soft);
    bind(b, s, node->args->star_star, soft);
}

static void bind_name(binder *b, scope *s, tn_tnode *node) {
    const scope *owner;
    if (b->loops && node->stores && tn_tstr_is(node->name, "loop"))
        tn_tfail(b->m, TN_ERR_FORMAT, "'loop' cannot be assigned to in a loop");
    const variable *v = find(b, s, node->name, &owner);
    node->ref = ref_to(s, owner, v);
    node->exports = node->stores && s == b->root && b->t->blocks->n;
}

static void bind_for(binder *b, scope *s, tn_tnode *node, bool soft) {
    tn_tfor_code *code = node->loop;
    bind(b, s, node->b, soft);
    b->loops++;
    if (node->c) {
        scope *test = scope_new(b, s, function_new(b, s->function));
        declare_target(b, test, node->d);
        analyze(b, test, node->c);
        bind(b, test, node->d, false);
        bind(b, test, node->c, false);
        scope_done(b, test, &code->test_scope);
        code->test_scope.n_slots = test->function->n_slots;
    }
    function_scope *function = code->recursive ? function_new(b, s->function) : s->function;
    scope *body = scope_new(b, s, function), *otherwise = scope_new(b, s, function);
    code->loop = declare_text(b, body, "loop");
    declare_target(b, body, node->a);
    analyze_list(b, body, &node->items);
    bind(b, body, node->a, false);
    bind_list(b, body, &node->items, false);
    scope_done(b, body, &code->scope);
    analyze_list(b, otherwise, &node->more);
    bind_list(b, otherwise, &node->more, false);
    scope_done(b, otherwise, &code->else_scope);
    if (code->recursive) code->n_slots = function->n_slots;
    b->loops--;
}

static void check_explicit_caller(binder *b, const tn_tnode *node, size_t i) {
    if (i + node->more.n < node->items.n)
        tn_tfail(b->m, TN_ERR_FORMAT, "the parameter 'caller' must have a default or be left out");
}

static void bind_macro(binder *b, scope *s, tn_tnode *node) {
    tn_tmacro_code *code = node->macro;
    scope *inner = scope_new(b, s, function_new(b, s->function));
    specials found = {.names = {"caller", "kwargs", "varargs"}};
    find_specials_in(b, &found, &node->body);
    code->node = node;
    code->parameters = tn_talloc(b->m, node->items.n, sizeof *code->parameters);
    for (size_t i = 0; i < node->items.n; i++) {
        const tn_tstr *name = node->items.v[i]->name;
        code->parameters[i] = declare(b, inner, name);
        for (int k = 0; k < 3; k++) {
            if (!tn_tstr_is(name, found.names[k])) continue;
            if (k == 0 && found.seen[0]) check_explicit_caller(b, node, i);
            if (k == 0) code->explicit_caller = true;
            if (k == 0) code->has_caller = found.seen[0];
            found.seen[k] = false;
        }
    }
    if (found.seen[0]) code->caller = declare_text(b, inner, "caller");
    if (found.seen[1]) code->kwargs = declare_text(b, inner, "kwargs");
    if (found.seen[2]) code->varargs = declare_text(b, inner, "varargs");
    code->has_caller = code->has_caller || found.seen[0];
    code->has_kwargs = found.seen[1];
    code->has_varargs = found.seen[2];
    analyze_list(b, inner, &node->more);
    analyze_list(b, inner, &node->body);
    bind_list(b, inner, &node->more, false);
    bind_list(b, inner, &node->body, false);
    scope_done(b, inner, &code->scope);
    code->scope.n_slots = inner->function->n_slots;
}

/* Set, filter and with blocks: `filter` is bound inside. */
static void bind_block(binder *b, scope *inner, tn_tnode *node, const tn_tnodes *body, tn_tnode *filter) {
    node->scope = tn_talloc(b->m, 1, sizeof *node->scope);
    analyze_list(b, inner, body);
    analyze(b, inner, filter);
    bind_list(b, inner, body, false);
    bind(b, inner, filter, false);
    scope_done(b, inner, node->scope);
}

static void bind_function(binder *b, tn_tnode *node, bool soft) {
    const bool filter = node->kind == TN_N_FILTER;
    node->function = filter ? tn_tfind_filter(node->name) : tn_tfind_test(node->name);
    if (!node->function && !soft)
        tn_tfail(b->m, TN_ERR_FORMAT, "no %s is named '%.*s'", filter ? "filter" : "test",
                 (int)(node->name->n < 100 ? node->name->n : 100), node->name->p);
}

static void bind(binder *b, scope *s, tn_tnode *node, bool soft) {
    if (!node) return;
    b->m->line = node->line;
    scope *inner = NULL;
    switch (node->kind) {
    case TN_N_NAME:
    case TN_N_NSREF: bind_name(b, s, node); break;
    case TN_N_IF:
    case TN_N_COND: bind_children(b, s, node, true); break;
    case TN_N_FILTER:
    case TN_N_TEST:
        bind_children(b, s, node, soft);
        b->m->line = node->line;
        bind_function(b, node, soft);
        break;
    case TN_N_FOR: bind_for(b, s, node, soft); break;
    case TN_N_CALL_BLOCK:
        bind_macro(b, s, node);
        bind(b, s, node->a, soft);
        break;
    case TN_N_MACRO: {
        bind_macro(b, s, node);
        const scope *owner;
        node->ref = ref_to(s, s, find(b, s, node->name, &owner));
        node->exports = s == b->root && b->t->blocks->n;
        break;
    }
    case TN_N_SET_BLOCK:
        bind_block(b, scope_new(b, s, s->function), node, &node->body, node->b);
        bind(b, s, node->a, soft);
        break;
    case TN_N_FILTER_BLOCK: bind_block(b, scope_new(b, s, s->function), node, &node->items, node->c); break;
    case TN_N_WITH:
        inner = scope_new(b, s, s->function);
        for (size_t i = 0; i < node->items.n; i++) declare_target(b, inner, node->items.v[i]);
        bind_list(b, inner, &node->items, false);
        bind_list(b, s, &node->more, soft);
        bind_block(b, inner, node, &node->body, NULL);
        break;
    case TN_N_BLOCK:
        inner = scope_new(b, NULL, function_new(b, NULL));
        bind_block(b, inner, node, &node->items, NULL);
        node->scope->n_slots = inner->function->n_slots;
        break;
    default: bind_children(b, s, node, soft);
    }
}

void tn_tbind(tn_template *t) {
    binder b = {.m = &t->m, .t = t};
    scope *root = scope_new(&b, NULL, function_new(&b, NULL));
    b.root = root;
    analyze_list(&b, root, &t->body);
    bind_list(&b, root, &t->body, false);
    scope_done(&b, root, &t->scope);
    t->scope.n_slots = root->function->n_slots;
}
