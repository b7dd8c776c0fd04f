/* Statements: output, branches, loops, assignments, macros. */
#include <string.h>

#include "template_run.h"

typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;

static flow exec_body(tn_trun *r, const tn_tnodes *body);

/* ---- Scopes -------------------------------------------------------------------------------------------- */

static void enter_scope(tn_trun *r, const tn_tscope *scope) {
    for (size_t i = 0; i < scope->n_loads; i++) {
        const tn_tload *load = &scope->loads[i];
        tn_tval v = TN_TMISSING;
        if (load->kind == TN_LOAD_PARAMETER) continue;
        if (load->kind == TN_LOAD_ALIAS) v = *tn_tslot(r, load->from);
        if (load->kind == TN_LOAD_RESOLVE) {
            const tn_tpair *found = tn_tdict_find_str(&r->m, r->variables, load->name);
            if (found) v = found->value;
        }
        r->frame->slots[load->slot] = v;
    }
}

/* What a macro made inside still sees is gone. */
static void leave_scope(tn_trun *r, const tn_tscope *scope) {
    for (size_t i = 0; i < scope->n_loads; i++) r->frame->slots[scope->loads[i].slot] = TN_TMISSING;
}

static tn_tframe *frame_new(tn_trun *r, tn_tframe *outer, uint32_t n_slots) {
    tn_tframe *frame = tn_talloc(&r->m, 1, sizeof *frame);
    frame->slots = tn_talloc(&r->m, n_slots, sizeof *frame->slots);
    frame->outer = outer;
    return frame;
}

static void store(tn_trun *r, const tn_tnode *name, tn_tval v) {
    *tn_tslot(r, name->ref) = v;
    if (name->exports) tn_tdict_set(&r->m, r->variables, tn_tstring(name->name), v);
}

static void check_namespace(tn_trun *r, const tn_tnode *target) {
    if (target->kind == TN_N_NSREF && tn_tslot(r, target->ref)->kind != TN_T_NAMESPACE)
        tn_tfail(&r->m, TN_ERR_FORMAT, "cannot assign attribute on non-namespace object");
    for (size_t i = 0; i < target->items.n; i++) check_namespace(r, target->items.v[i]);
}

static void store_attribute(tn_trun *r, const tn_tnode *target, tn_tval v) {
    if (target->attribute->p[0] == '_')
        tn_tfail(&r->m, TN_ERR_FORMAT,
                 "names with an underscore in front cannot be stored on a namespace: '%.*s'",
                 (int)(target->attribute->n < 100 ? target->attribute->n : 100), target->attribute->p);
    tn_tdict_set(&r->m, tn_tslot(r, target->ref)->d, tn_tstring(target->attribute), v);
}

static void assign(tn_trun *r, const tn_tnode *target, tn_tval v) {
    if (target->kind == TN_N_NAME) {
        store(r, target, v);
        return;
    }
    if (target->kind == TN_N_NSREF) {
        store_attribute(r, target, v);
        return;
    }
    tn_titer *items = tn_titerate(r, v);
    tn_tlist *unpacked = tn_tlist_new(&r->m, target->items.n + 1);
    for (tn_tval item; unpacked->n <= target->items.n && tn_titer_next(r, items, &item);)
        tn_tlist_add(&r->m, unpacked, item);
    if (unpacked->n > target->items.n)
        tn_tfail(&r->m, TN_ERR_FORMAT, "too many values to unpack (expected %zu)", target->items.n);
    if (unpacked->n < target->items.n)
        tn_tfail(&r->m, TN_ERR_FORMAT, "not enough values to unpack (expected %zu, got %zu)", target->items.n,
                 unpacked->n);
    for (size_t i = 0; i < unpacked->n; i++) assign(r, target->items.v[i], unpacked->v[i]);
}

/* ---- Captured output ----------------------------------------------------------------------------------- */

/* The body's output, of which *what is FLOW_ON unless a break or continue dropped it. */
static tn_tval capture(tn_trun *r, const tn_tnodes *body, flow *what) {
    tn_tbuf b = {.m = &r->m}, *out = r->out;
    r->out = &b;
    *what = exec_body(r, body);
    r->out = out;
    return tn_tbuf_done(&b);
}

/* Filter and call blocks write texts alone. */
static void put_text(tn_trun *r, tn_tval v) {
    if (v.kind != TN_T_STR)
        tn_tfail(&r->m, TN_ERR_FORMAT, "a filter or call block must make a string, not '%s'",
                 tn_ttype_name(v));
    tn_tbuf_str(r->out, v.s);
}

static flow exec_set_block(tn_trun *r, const tn_tnode *node) {
    flow what;
    enter_scope(r, node->scope);
    tn_tval v = capture(r, &node->body, &what);
    if (what != FLOW_ON) return what;
    if (node->b) v = tn_teval_filter(r, node->b, v);
    check_namespace(r, node->a);
    assign(r, node->a, v);
    leave_scope(r, node->scope);
    return FLOW_ON;
}

static flow exec_filter_block(tn_trun *r, const tn_tnode *node) {
    flow what;
    enter_scope(r, node->scope);
    tn_tval v = capture(r, &node->items, &what);
    if (what != FLOW_ON) return what;
    put_text(r, tn_teval_filter(r, node->c, v));
    leave_scope(r, node->scope);
    return FLOW_ON;
}

static flow exec_with(tn_trun *r, const tn_tnode *node) {
    enter_scope(r, node->scope);
    for (size_t i = 0; i < node->items.n; i++) assign(r, node->items.v[i], tn_teval(r, node->more.v[i]));
    flow what = exec_body(r, &node->body);
    leave_scope(r, node->scope);
    return what;
}

static void exec_block(tn_trun *r, const tn_tnode *node) {
    tn_tframe *frame = r->frame;
    r->frame = frame_new(r, NULL, node->scope->n_slots);
    enter_scope(r, node->scope);
    exec_body(r, &node->items);
    r->frame = frame;
}

/* ---- Macros -------------------------------------------------------------------------------------------- */

static tn_tval macro_new(tn_trun *r, const tn_tmacro_code *code) {
    tn_tmacro *macro = tn_talloc(&r->m, 1, sizeof *macro);
    *macro = (tn_tmacro){.code = code, .frame = r->frame};
    return (tn_tval){.kind = TN_T_MACRO, .macro = macro};
}

/* The value of a named argument, which is then used up. */
static tn_tval take_named(const tn_targs *args, bool *used, const tn_tstr *name) {
    for (size_t i = 0; i < args->n_named; i++) {
        if (used[i] || !tn_tstr_equal(args->names[i], name)) continue;
        used[i] = true;
        return args->named[i];
    }
    return TN_TMISSING;
}

static void fill_defaults(tn_trun *r, const tn_tmacro_code *code) {
    const tn_tnodes *names = &code->node->items, *defaults = &code->node->more;
    for (size_t i = 0; i < names->n; i++) {
        tn_tval *slot = tn_tslot(r, code->parameters[i]);
        if (slot->kind != TN_T_MISSING) continue;
        size_t n_without = names->n - defaults->n;
        tn_tval v = i >= n_without ? tn_teval(r, defaults->v[i - n_without])
                                   : tn_tundef(&r->m, "parameter '%.*s' was not provided",
                                               (int)(names->v[i]->name->n < 100 ? names->v[i]->name->n : 100),
                                               names->v[i]->name->p);
        *slot = v;
    }
}

static void set_extra(tn_trun *r, const tn_tmacro_code *code, const tn_targs *args, const bool *used) {
    const size_t n = code->node->items.n;
    if (code->has_kwargs) {
        tn_tdict *kwargs = tn_tdict_new(&r->m, 0);
        for (size_t i = 0; i < args->n_named; i++)
            if (!used[i]) tn_tdict_set(&r->m, kwargs, tn_tstring(args->names[i]), args->named[i]);
        *tn_tslot(r, code->kwargs) = (tn_tval){.kind = TN_T_DICT, .d = kwargs};
    } else {
        for (size_t i = 0; i < args->n_named; i++)
            if (!used[i])
                tn_tfail(&r->m, TN_ERR_FORMAT, "the macro takes no keyword argument '%.*s'",
                         (int)(args->names[i]->n < 100 ? args->names[i]->n : 100), args->names[i]->p);
    }
    if (code->has_varargs) {
        tn_tlist *varargs = tn_tlist_new(&r->m, 0);
        for (size_t i = n; i < args->n_positional; i++) tn_tlist_add(&r->m, varargs, args->positional[i]);
        *tn_tslot(r, code->varargs) = tn_ttuple_val(varargs);
    } else if (args->n_positional > n) {
        tn_tfail(&r->m, TN_ERR_FORMAT, "the macro takes not more than %zu argument(s)", n);
    }
}

static void set_arguments(tn_trun *r, const tn_tmacro_code *code, const tn_targs *args) {
    const tn_tnodes *names = &code->node->items;
    bool *used = tn_talloc(&r->m, args->n_named + 1, sizeof *used);
    bool found_caller = code->explicit_caller;
    for (size_t i = 0; i < names->n; i++)
        *tn_tslot(r, code->parameters[i]) =
            i < args->n_positional ? args->positional[i] : take_named(args, used, names->v[i]->name);
    if (code->has_caller && !found_caller) {
        tn_tval caller = take_named(args, used, tn_tliteral(&r->m, "caller").s);
        if (caller.kind == TN_T_MISSING || caller.kind == TN_T_NONE)
            caller = tn_tundef(&r->m, "No caller defined");
        *tn_tslot(r, code->caller) = caller;
    }
    set_extra(r, code, args, used);
    fill_defaults(r, code);
}

tn_tval tn_tcall_macro(tn_trun *r, const tn_tmacro *macro, const tn_targs *args) {
    const tn_tmacro_code *code = macro->code;
    const uint32_t line = r->m.line;
    tn_tframe *frame = r->frame;
    flow what;
    tn_tenter(&r->m);
    r->frame = frame_new(r, macro->frame, code->scope.n_slots);
    enter_scope(r, &code->scope);
    set_arguments(r, code, args);
    tn_tval v = capture(r, &code->node->body, &what);
    r->frame = frame;
    r->m.line = line;
    tn_tleave(&r->m);
    return v;
}

static void exec_call_block(tn_trun *r, const tn_tnode *node) {
    tn_tval caller = macro_new(r, node->macro);
    const tn_targs none = {0};
    put_text(r, node->a ? tn_teval_call(r, node->a, caller) : tn_tcall_macro(r, caller.macro, &none));
}

/* ---- Loops --------------------------------------------------------------------------------------------- */

/* What the test of a loop sees. */
typedef struct tested {
    const tn_tnode *node;
    tn_tframe *frame;
} tested;

static tn_tval target_value(tn_trun *r, const tn_tnode *target) {
    if (target->kind == TN_N_NAME) return *tn_tslot(r, target->ref);
    tn_tlist *l = tn_tlist_new(&r->m, target->items.n);
    for (size_t i = 0; i < target->items.n; i++) tn_tlist_add(&r->m, l, target_value(r, target->items.v[i]));
    return tn_ttuple_val(l);
}

static bool next_tested(tn_trun *r, tn_titer *it, tn_tval *out) {
    const tested *test = it->state;
    tn_tframe *frame = r->frame;
    bool found = false;
    r->frame = test->frame;
    for (tn_tval item; !found && tn_titer_next(r, it->inner, &item);) {
        assign(r, test->node->d, item);
        found = tn_ttruth(&r->m, tn_teval(r, test->node->c));
    }
    if (found) *out = target_value(r, test->node->d);
    r->frame = frame;
    return found;
}

static tn_titer *loop_items(tn_trun *r, const tn_tnode *node, tn_tval iterable) {
    tn_titer *items = tn_titerate(r, iterable);
    if (!node->c) return items;
    tested *test = tn_talloc(&r->m, 1, sizeof *test);
    test->node = node;
    test->frame =
        frame_new(r, node->loop->recursive ? r->frame->outer : r->frame, node->loop->test_scope.n_slots);
    tn_tframe *frame = r->frame;
    r->frame = test->frame;
    enter_scope(r, &node->loop->test_scope);
    r->frame = frame;
    tn_titer *filtered = tn_talloc(&r->m, 1, sizeof *filtered);
    *filtered = (tn_titer){.next = next_tested, .inner = items, .state = test};
    return filtered;
}

static bool next_of_loop(tn_trun *r, tn_tloop *loop, tn_tval *item) {
    if (loop->after.kind != TN_T_MISSING) {
        *item = loop->after;
        loop->after = TN_TMISSING;
    } else if (!tn_titer_next(r, loop->items, item)) {
        return false;
    }
    loop->index0++;
    loop->before = loop->current;
    loop->current = *item;
    return true;
}

static flow run_loop(tn_trun *r, const tn_tnode *node, tn_tval iterable, tn_tframe *around, int64_t depth0) {
    const tn_tfor_code *code = node->loop;
    tn_tloop *loop = tn_talloc(&r->m, 1, sizeof *loop);
    *loop = (tn_tloop){
        .iterable = iterable, .index0 = -1, .length = -1, .depth0 = depth0, .node = node, .frame = around};
    loop->items = loop_items(r, node, iterable);
    loop->sized = !node->c;
    bool otherwise = node->more.n != 0;
    for (tn_tval item; next_of_loop(r, loop, &item);) {
        tn_tcharge(&r->m, 1);
        *tn_tslot(r, code->loop) = (tn_tval){.kind = TN_T_LOOP, .loop = loop};
        assign(r, node->a, item);
        enter_scope(r, &code->scope);
        flow what = exec_body(r, &node->items);
        if (what == FLOW_BREAK) break;
        if (what == FLOW_ON) otherwise = false; /* jinja2 counts only iterations that came to their end */
        r->m.line = node->line;
    }
    leave_scope(r, &code->scope);
    if (!otherwise) return FLOW_ON;
    enter_scope(r, &code->else_scope);
    flow what = exec_body(r, &node->more);
    leave_scope(r, &code->else_scope);
    return what;
}

/* A recursive loop is a function that returns its output. */
static tn_tval run_recursive_loop(tn_trun *r, const tn_tnode *node, tn_tval iterable, tn_tframe *around,
                                  int64_t depth0) {
    tn_tbuf b = {.m = &r->m}, *out = r->out;
    tn_tframe *frame = r->frame;
    tn_tenter(&r->m);
    r->frame = frame_new(r, around, node->loop->n_slots);
    r->out = &b;
    run_loop(r, node, iterable, around, depth0);
    r->out = out;
    r->frame = frame;
    tn_tleave(&r->m);
    return tn_tbuf_done(&b);
}

tn_tval tn_tcall_loop(tn_trun *r, const tn_tloop *loop, const tn_targs *args) {
    if (!loop->node->loop->recursive)
        tn_tfail(&r->m, TN_ERR_FORMAT, "the loop must have the 'recursive' marker to be called recursively");
    if (args->n_positional != 1 || args->n_named) tn_tfail(&r->m, TN_ERR_FORMAT, "loop() takes one argument");
    return run_recursive_loop(r, loop->node, args->positional[0], loop->frame, loop->depth0 + 1);
}

static flow exec_for(tn_trun *r, const tn_tnode *node) {
    tn_tval iterable = tn_teval(r, node->b);
    r->m.line = node->line;
    if (!node->loop->recursive) return run_loop(r, node, iterable, r->frame, 0);
    tn_tbuf_str(r->out, run_recursive_loop(r, node, iterable, r->frame, 0).s);
    return FLOW_ON;
}

/* ---- All ----------------------------------------------------------------------------------------------- */

static flow exec_if(tn_trun *r, const tn_tnode *node) {
    for (size_t i = 0; i < node->items.n; i++) {
        const tn_tnode *clause = node->items.v[i];
        if (!clause->a || tn_ttruth(&r->m, tn_teval(r, clause->a))) return exec_body(r, &clause->items);
    }
    return FLOW_ON;
}

static flow exec_output(tn_trun *r, const tn_tnode *node) {
    for (size_t i = 0; i < node->items.n; i++) {
        tn_tval v = tn_teval(r, node->items.v[i]);
        r->m.line = node->items.v[i]->line;
        tn_tprint(r->out, v);
    }
    return FLOW_ON;
}

static void exec_set(tn_trun *r, const tn_tnode *node) {
    check_namespace(r, node->a);
    tn_tval v = tn_teval(r, node->b);
    r->m.line = node->line;
    assign(r, node->a, v);
}

static flow exec(tn_trun *r, const tn_tnode *node) {
    r->m.line = node->line;
    switch (node->kind) {
    case TN_N_OUTPUT: return exec_output(r, node);
    case TN_N_IF: return exec_if(r, node);
    case TN_N_FOR: return exec_for(r, node);
    case TN_N_SET: exec_set(r, node); return FLOW_ON;
    case TN_N_SET_BLOCK: return exec_set_block(r, node);
    case TN_N_MACRO: store(r, node, macro_new(r, node->macro)); return FLOW_ON;
    case TN_N_CALL_BLOCK: exec_call_block(r, node); return FLOW_ON;
    case TN_N_FILTER_BLOCK: return exec_filter_block(r, node);
    case TN_N_WITH: return exec_with(r, node);
    case TN_N_BLOCK: exec_block(r, node); return FLOW_ON;
    case TN_N_BREAK: return FLOW_BREAK;
    default: return FLOW_CONTINUE;
    }
}

static flow exec_body(tn_trun *r, const tn_tnodes *body) {
    flow what = FLOW_ON;
    tn_tenter(&r->m);
    for (size_t i = 0; what == FLOW_ON && i < body->n; i++) {
        tn_tcharge(&r->m, 1);
        what = exec(r, body->v[i]);
    }
    tn_tleave(&r->m);
    return what;
}

void tn_texec_template(tn_trun *r, const tn_template *t) {
    r->frame = frame_new(r, NULL, t->scope.n_slots);
    enter_scope(r, &t->scope);
    exec_body(r, &t->body);
}
