/* What a file of an unknown architecture asks for, told by its tensors: steps that descriptions do not have yet, or
 * nothing but a description. */
#include <stdio.h>
#include <string.h>

#include "model.h"

/* Tensors of steps that are not there. */
static const struct {
    const char *part; /* of a tensor's name */
    const char *step;
} lacking[] = {
    {"attn_rel_b", "attention: biases by distance"},
    {"indexer", "attention: positions chosen by an index"},
    {"cross_attn", "attention: to another sequence"},
    {"ssm_", "a state-space step"},
    {"time_mix", "a recurrent step"},
    {"channel_mix", "a recurrent step"},
    {"shortconv", "a convolution step"},
    {"per_layer_", "embed: a part for each layer"},
    {"enc.", "an encoder beside a decoder"},
    {"dec.", "a decoder beside an encoder"},
};
enum { N_LACKING = sizeof lacking / sizeof *lacking, MAX_TOLD = 4 };

typedef struct report {
    char *text;
    size_t cap;
    int n_told;
} report;

static void tell(report *r, const char *step, const char *tensor) {
    if (strstr(r->text, step) || r->n_told == MAX_TOLD) return;
    const size_t n = strlen(r->text);
    snprintf(r->text + n, r->cap - n, "%s%s (tensor '%.64s')", r->n_told ? ", " : "", step, tensor);
    r->n_told++;
}

/* Whether a name in a file is a description's name in some layer. */
static bool is_named(const char *pattern, const char *name) {
    const char *at = strstr(pattern, "{i}");
    if (!at) return !strcmp(pattern, name);
    const size_t n = (size_t)(at - pattern);
    if (strncmp(pattern, name, n) != 0) return false;
    const size_t digits = strspn(name + n, "0123456789");
    return digits > 0 && !strcmp(at + 3, name + n + digits);
}

static bool is_known(const tn_arch *archs, size_t n_archs, const char *name) {
    for (size_t a = 0; a < n_archs; a++)
        for (size_t t = 0; t < archs[a].n_tensors; t++)
            if (archs[a].tensors[t].name && is_named(archs[a].tensors[t].name, name)) return true;
    return false;
}

/* All built-in descriptions; 0 where memory fails. */
static size_t parse_all(tn_arena *arena, tn_arch **out) {
    size_t n = 0;
    while (tn_arch_builtin[n].name) n++;
    if (!(*out = tn_arena_alloc(arena, n, sizeof **out))) return 0;
    for (size_t i = 0; i < n; i++)
        if (tn_arch_parse_builtin(&tn_arch_builtin[i], arena, &(*out)[i], NULL)) return 0;
    return n;
}

void tn_model_missing(const tn_model *m, char *text, size_t cap) {
    report r = {text, cap, 0};
    tn_arena arena = {0};
    tn_arch *archs = NULL;
    const size_t n_archs = parse_all(&arena, &archs);
    *text = 0;
    for (uint64_t t = 0; t < tn_file_n_tensors(m->file); t++) {
        const tn_tensor *tensor = tn_file_tensor_at(m->file, t);
        char name[96];
        tn_escape(name, sizeof name, tensor->name.ptr, tensor->name.len);
        size_t i = 0;
        while (i < N_LACKING && !strstr(name, lacking[i].part)) i++;
        if (i < N_LACKING)
            tell(&r, lacking[i].step, name);
        else if (!is_known(archs, n_archs, name))
            tell(&r, "a step that no description has", name);
    }
    tn_arena_free(&arena);
    if (!r.n_told)
        snprintf(text, cap, "a description alone, its tensors are those of known steps (--arch-file)");
}
