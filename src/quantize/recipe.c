#include "recipe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/checked.h"
#include "../base/match.h"
#include "quantize.h"

/* ---- Names ---- */

/* Weights that are small, or that nothing multiplies: they stay as they are. Beside these, everything of one row, and all whose
 * name does not end in "weight". */
static const char *const kept[] = {
    "*_norm.weight*",
    "*ffn_gate_inp.weight*",
    "*altup*",
    "*laurel*",
    "*per_layer_model_proj*",
    "position_embd.weight",
    "token_types.weight",
    "*ssm_conv1d*",
    "*shortconv.conv.weight*",
    "*indexer.k_proj.weight*",
    "*indexer.q_proj.weight*",
    "*time_mix_first.weight*",
    "*time_mix_w?.weight*",
    "*time_mix_v?.weight*",
    "*time_mix_a?.weight*",
    "*time_mix_g?.weight*",
    "*time_mix_decay_w?.weight*",
    "*time_mix_lerp_fused.weight*",
    "*attn_rel_b.weight*",
    "*.position_embd*",
    "*.rel_pos*",
    "*.patch_embd*",
    "*.patch_merger*",
};

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

static bool is_kept(const tn_tensor *t) {
    if (t->dims[1] * t->dims[2] * t->dims[3] <= 1 || !ends_with(t->cname, "weight")) return true;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (tn_match(kept[i], t->cname, strlen(t->cname))) return true;
    }
    return false;
}

/* ---- Facts of the model that rules ask for ---- */

typedef struct facts {
    bool tied, has_imatrix; /* tied: the token embedding is the output too */
    uint32_t n_layers, gqa, n_experts;
} facts;

int64_t tn_layer_of(const char *name) {
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return -1;
    char *end;
    const unsigned long layer = strtoul(name + 4, &end, 10);
    return *end == '.' && layer < 1000000 ? (int64_t)layer : -1;
}

/* A number of the model's architecture, 0 if the file does not say; of an array the first. */
static uint32_t arch_number(const tn_file *file, const char *key) {
    tn_str arch;
    const tn_meta *meta = tn_file_meta(file, "general.architecture");
    char whole[256];
    if (!meta || !tn_meta_str(meta, 0, &arch) || arch.len > 100) return 0;
    snprintf(whole, sizeof whole, "%.*s.%s", (int)arch.len, arch.ptr, key);
    uint64_t value;
    return tn_meta_u64(tn_file_meta(file, whole), 0, &value) && value < UINT32_MAX ? (uint32_t)value : 0;
}

static facts find_facts(const tn_file *file, bool has_imatrix) {
    facts f = {.tied = !tn_file_tensor(file, "output.weight"), .has_imatrix = has_imatrix};
    for (uint64_t i = 0; i < tn_file_n_tensors(file); i++) {
        const int64_t layer = tn_layer_of(tn_file_tensor_at(file, i)->cname);
        if (layer >= f.n_layers) f.n_layers = (uint32_t)layer + 1;
    }
    const uint32_t heads = arch_number(file, "attention.head_count");
    const uint32_t kv_heads = arch_number(file, "attention.head_count_kv");
    f.gqa = kv_heads ? heads / kv_heads : 1;
    f.n_experts = arch_number(file, "expert_count");
    return f;
}

/* ---- Rules ---- */

static bool is_embedding(const char *name) {
    return strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0;
}

static bool names_tensor(const tn_rule *rule, const char *name, const facts *f) {
    if (rule->role == TN_RULE_EMBEDDING) return is_embedding(name);
    if (rule->role == TN_RULE_OUTPUT)
        return strcmp(name, "output.weight") == 0 || (f->tied && is_embedding(name));
    for (size_t i = 0; i < rule->n_patterns; i++) {
        if (tn_match(rule->patterns[i], name, strlen(name))) return true;
    }
    return false;
}

static uint64_t bound(uint32_t num, uint32_t den, uint32_t n_layers) {
    return den ? (uint64_t)num * n_layers / den : num;
}

static bool in_layers(const tn_rule *rule, int64_t layer, uint32_t n_layers) {
    if (rule->n_ranges == 0) return true;
    for (size_t i = 0; i < rule->n_ranges && layer >= 0; i++) {
        const tn_layer_range *r = &rule->layers[i];
        const uint64_t at = (uint64_t)layer, first = bound(r->first_num, r->first_den, n_layers);
        if (at < first || at >= bound(r->last_num, r->last_den, n_layers)) continue;
        if (!r->every || (at - first) % r->every == r->every - 1) return true;
    }
    return false;
}

static bool applies(const tn_rule *rule, const tn_tensor *t, const facts *f) {
    return (rule->imatrix < 0 || (rule->imatrix == 1) == f->has_imatrix) &&
           (!rule->min_gqa || f->gqa >= rule->min_gqa) && (!rule->experts || f->n_experts == rule->experts) &&
           (!rule->min_experts || f->n_experts >= rule->min_experts) &&
           (!rule->model_layers || f->n_layers == rule->model_layers) && names_tensor(rule, t->cname, f) &&
           in_layers(rule, tn_layer_of(t->cname), f->n_layers);
}

/* ---- Fallbacks ---- */

/* What stands in where rows are not a multiple of 256: a 32-wide type of at least as many bits. */
static const struct {
    tn_dtype type, instead;
} fallbacks[] = {
    {TN_DTYPE_Q2_K, TN_DTYPE_Q4_0},      {TN_DTYPE_Q3_K, TN_DTYPE_Q4_0},
    {TN_DTYPE_Q4_K, TN_DTYPE_Q5_0},      {TN_DTYPE_Q5_K, TN_DTYPE_Q5_1},
    {TN_DTYPE_Q6_K, TN_DTYPE_Q8_0},      {TN_DTYPE_IQ4_XS, TN_DTYPE_IQ4_NL},
    {TN_DTYPE_IQ3_S, TN_DTYPE_IQ4_NL},   {TN_DTYPE_IQ3_XXS, TN_DTYPE_IQ4_NL},
    {TN_DTYPE_IQ2_S, TN_DTYPE_IQ4_NL},   {TN_DTYPE_IQ2_XS, TN_DTYPE_IQ4_NL},
    {TN_DTYPE_IQ2_XXS, TN_DTYPE_IQ4_NL}, {TN_DTYPE_IQ1_S, TN_DTYPE_IQ4_NL},
    {TN_DTYPE_IQ1_M, TN_DTYPE_IQ4_NL},   {TN_DTYPE_TQ1_0, TN_DTYPE_Q4_0},
    {TN_DTYPE_TQ2_0, TN_DTYPE_Q4_0},
};

static bool fits(const tn_tensor *t, tn_dtype type) {
    return t->dims[0] % tn_dtypes[type].block_elems == 0;
}

/* The output matrix is too important for a narrow one. */
static tn_dtype fallback_of(const tn_tensor *t, tn_dtype type, bool is_output) {
    if (is_output && fits(t, TN_DTYPE_Q8_0)) return TN_DTYPE_Q8_0;
    for (size_t i = 0; i < sizeof fallbacks / sizeof *fallbacks; i++) {
        if (fallbacks[i].type == type && fits(t, fallbacks[i].instead)) return fallbacks[i].instead;
    }
    return TN_DTYPE_F16;
}

/* ---- Plans ---- */

static bool is_float(tn_dtype type) {
    return tn_dtypes[type].block_elems == 1;
}

static char *format_why(tn_arena *arena, const tn_tensor *t, tn_dtype wanted) {
    char text[128];
    const int n =
        snprintf(text, sizeof text, "rows of %" PRIu64 " are no multiple of %" PRIu32 ", the block of %s",
                 t->dims[0], tn_dtypes[wanted].block_elems, tn_dtypes[wanted].name);
    return tn_arena_strdup(arena, text, (size_t)n);
}

tn_dtype tn_plan_type(const tn_tensor *t, tn_dtype wanted, bool is_output) {
    return fits(t, wanted) ? wanted : fallback_of(t, wanted, is_output);
}

uint64_t tn_plan_target(const tn_file *file, const tn_recipe *recipe) {
    if (recipe->target_bytes) return recipe->target_bytes;
    double elements = 0;
    for (uint64_t i = 0; i < tn_file_n_tensors(file); i++) {
        const tn_tensor *t = tn_file_tensor_at(file, i);
        elements += (double)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]);
    }
    return (uint64_t)(elements * recipe->target_bpw / 8);
}

tn_status tn_plan_give(const tn_file *file, const tn_plan_request *request, tn_dtype wanted, bool is_output,
                       tn_arena *arena, tn_plan_item *item, tn_error *err) {
    const tn_tensor *t = item->tensor;
    item->wanted = wanted;
    item->type = tn_plan_type(t, wanted, is_output);
    item->why = item->type == wanted ? "" : format_why(arena, t, wanted);
    item->n_bytes = t->n_bytes;
    if (!item->why)
        return tn_fail(err, TN_ERR_MEMORY, "cannot quantize", tn_file_path(file), "out of memory");
    if (item->type == t->dtype) return TN_OK;
    if (!is_float(t->dtype) && !is_float(item->type) && !request->allow_requantize) {
        return tn_fail(
            err, TN_ERR_ARG, "cannot quantize", tn_file_path(file),
            "tensor '%s' is %s already, and quantizing again loses more; allow it with --allow-requantize",
            t->cname, tn_dtypes[t->dtype].name);
    }
    const uint64_t rows = t->dims[1] * t->dims[2] * t->dims[3]; /* checked when the file was opened */
    if (tn_mul_u64(rows, tn_dtype_row_bytes(item->type, t->dims[0]), &item->n_bytes)) return TN_OK;
    return tn_fail(err, TN_ERR_ARG, "cannot quantize", tn_file_path(file), "tensor '%s' is too large",
                   t->cname);
}

/* The choice for a tensor, or the first rule that names it; by_default if there is none. */
static tn_dtype wanted_type(const tn_plan_request *request, const tn_tensor *t, const facts *f,
                            bool *is_output, bool *by_default) {
    const tn_recipe *recipe = request->recipe;
    *is_output = *by_default = false;
    for (size_t i = 0; i < request->n_chosen; i++) {
        if (strcmp(request->chosen[i].tensor, t->cname) == 0) return request->chosen[i].type;
    }
    for (size_t i = 0; i < recipe->n_rules; i++) {
        if (!applies(&recipe->rules[i], t, f)) continue;
        *is_output = recipe->rules[i].role == TN_RULE_OUTPUT;
        return recipe->rules[i].type;
    }
    *by_default = true;
    return recipe->n_ladder ? recipe->ladder[0] : recipe->type;
}

static tn_status plan_tensor(const tn_file *file, const tn_plan_request *request, const tn_tensor *t,
                             const facts *f, tn_arena *arena, tn_plan_item *item, tn_error *err) {
    *item = (tn_plan_item){
        .tensor = t, .type = t->dtype, .wanted = t->dtype, .why = "kept", .n_bytes = t->n_bytes};
    if (is_kept(t) || tn_dtypes[t->dtype].act == TN_ACT_NONE) return TN_OK;
    bool is_output;
    const tn_dtype wanted = wanted_type(request, t, f, &is_output, &item->by_default);
    return tn_plan_give(file, request, wanted, is_output, arena, item, err);
}

tn_status tn_plan_types(const tn_file *file, const tn_plan_request *request, tn_arena *arena,
                        tn_plan_item **items, tn_error *err) {
    const facts f = find_facts(file, request->has_imatrix);
    const uint64_t n = tn_file_n_tensors(file);
    *items = tn_arena_alloc(arena, n, sizeof **items);
    if (!*items) return tn_fail(err, TN_ERR_MEMORY, "cannot quantize", tn_file_path(file), "out of memory");
    tn_status status = TN_OK;
    for (uint64_t i = 0; status == TN_OK && i < n; i++)
        status = plan_tensor(file, request, tn_file_tensor_at(file, i), &f, arena, &(*items)[i], err);
    return status;
}
