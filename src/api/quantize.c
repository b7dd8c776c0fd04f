/* Quantization: recipe, plan, writer and run put together. */
#include "../quantize/quantize.h"

#include <stdlib.h>

#include "../base/outfile.h"
#include "../quantize/budget.h"
#include "../quantize/run.h"
#include "quantize_auto.h"

#define WHAT "cannot quantize"

typedef struct job {
    const tern_quantize_options *o;
    const char *in;
    tn_arena arena;
    tn_file *file;
    tn_imatrix *imatrix;
    tn_recipe recipe;
    tn_plan_item *items;
    tn_gguf_writer *writer;
} job;

void tern_quantize_options_defaults(tern_quantize_options *o) {
    *o = (tern_quantize_options){.size = sizeof *o};
}

static tn_status read_recipe(job *j, tn_error *err) {
    const bool has_target = j->o->target_bpw > 0;
    if ((j->o->type != NULL) + (j->o->recipe != NULL) + has_target != 1)
        return tn_fail(err, TN_ERR_ARG, WHAT, j->in, "expected either a type, a recipe or a target");
    if (has_target) {
        if (j->o->target_bpw > 32)
            return tn_fail(err, TN_ERR_ARG, WHAT, j->in, "expected at most 32 bits a weight, found %g",
                           j->o->target_bpw);
        j->recipe = tn_recipe_of_target(j->o->target_bpw);
        return TN_OK;
    }
    return j->o->type ? tn_recipe_builtin(j->o->type, &j->arena, &j->recipe, err)
                      : tn_recipe_load(j->o->recipe, &j->arena, &j->recipe, err);
}

static tn_status read_choices(job *j, tn_chosen **out, tn_error *err) {
    const tn_status s = tn_api_items(j->o->choices, j->o->n_choices, "choices", err);
    if (s != TN_OK) return s;
    tn_chosen *chosen = tn_arena_alloc(&j->arena, j->o->n_choices, sizeof *chosen);
    if (!chosen) return tn_fail(err, TN_ERR_MEMORY, WHAT, j->in, "out of memory");
    for (size_t i = 0; i < j->o->n_choices; i++) {
        const tern_tensor_choice *choice = &j->o->choices[i];
        int type = 0;
        if (!choice->tensor || !choice->type)
            return tn_fail(err, TN_ERR_ARG, "bad options", "choices", "number %zu has a NULL", i + 1);
        while (type < TN_DTYPE_COUNT && strcmp(tn_dtypes[type].name, choice->type) != 0) type++;
        if (type == TN_DTYPE_COUNT || !tn_can_quantize((tn_dtype)type))
            return tn_fail(err, TN_ERR_ARG, WHAT, j->in, "'%s' is not a type that can be made", choice->type);
        if (!tn_file_tensor(j->file, choice->tensor))
            return tn_fail(err, TN_ERR_ARG, WHAT, j->in, "there is no tensor '%s'", choice->tensor);
        chosen[i] = (tn_chosen){choice->tensor, (tn_dtype)type};
    }
    *out = chosen;
    return TN_OK;
}

/* Gives the items that no rule named their types, where the recipe has a target. */
static tn_status share(job *j, const tn_plan_request *request, tern_quantized *sum, tn_error *err) {
    if (!j->o->text) return tn_plan_budget(j->file, request, j->imatrix, &j->arena, j->items, err);
    const tn_auto_request automatic = {
        .file = j->file,
        .plan = request,
        .imatrix = j->imatrix,
        .n_threads = tn_api_threads(j->o->n_threads),
    };
    tn_auto_result found;
    tn_status s = tn_api_plan_auto(j->o, &automatic, &j->arena, j->items, &found, err);
    if (s != TN_OK) return s;
    sum->divergence = found.divergence;
    return tn_auto_rules(&found, &j->arena, &j->recipe, err);
}

static tn_status make_plan(job *j, tern_quantized *sum, tn_error *err) {
    tn_chosen *chosen = NULL;
    tn_status s = read_choices(j, &chosen, err);
    if (s != TN_OK) return s;
    const tn_plan_request request = {
        .recipe = &j->recipe,
        .chosen = chosen,
        .n_chosen = j->o->n_choices,
        .has_imatrix = j->imatrix != NULL,
        .allow_requantize = j->o->allow_requantize,
    };
    s = tn_plan_types(j->file, &request, &j->arena, &j->items, err);
    return s == TN_OK ? share(j, &request, sum, err) : s;
}

static void tell_plan(const job *j, tern_quantized *sum) {
    for (uint64_t i = 0; i < tn_file_n_tensors(j->file); i++) {
        const tn_plan_item *item = &j->items[i];
        const tn_tensor *t = item->tensor;
        const tern_quantized_tensor told = {
            .name = t->cname,
            .from = tn_dtypes[t->dtype].name,
            .type = tn_dtypes[item->type].name,
            .wanted = tn_dtypes[item->wanted].name,
            .why = item->why,
            .n_elements = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3],
            .from_bytes = t->n_bytes,
            .n_bytes = item->n_bytes,
        };
        sum->n_elements += told.n_elements;
        sum->from_bytes += told.from_bytes;
        sum->n_bytes += told.n_bytes;
        sum->n_fallbacks += item->type != item->wanted;
        if (j->o->tensor) j->o->tensor(j->o->user, &told);
    }
}

static tn_status set_metadata(job *j, tn_error *err) {
    tn_gguf_set_all(j->writer, j->file);
    tn_gguf_set_u32(j->writer, "general.quantization_version", 2);
    /* Without a number of its own the input's would be wrong; 1024 says that the types have to be looked at. */
    const int64_t file_type = j->recipe.file_type >= 0 ? j->recipe.file_type : 1024;
    tn_gguf_set_u32(j->writer, "general.file_type", (uint32_t)file_type);
    if (j->imatrix) {
        const char *slash = strrchr(j->o->imatrix, '/'), *name = slash ? slash + 1 : j->o->imatrix;
        const int32_t n = (int32_t)tn_imatrix_n_entries(j->imatrix);
        tn_gguf_set_text(j->writer, "quantize.imatrix.file", name, strlen(name));
        tn_gguf_set(j->writer, "quantize.imatrix.entries_count", TN_META_I32, &n);
    }
    tn_status s = TN_OK;
    for (size_t i = 0; s == TN_OK && i < j->o->n_overrides; i++)
        s = tn_quantize_override(j->writer, j->file, j->o->overrides[i], err);
    return s;
}

static void declare_tensors(job *j) {
    uint32_t shard = 0;
    for (uint64_t i = 0; i < tn_file_n_tensors(j->file); i++) {
        const tn_tensor *t = j->items[i].tensor;
        const uint32_t own = tn_file_shard_of(j->file, t);
        if (j->o->keep_split && own != shard) tn_gguf_new_shard(j->writer);
        shard = own;
        tn_gguf_add_tensor(j->writer, t->cname, j->items[i].type, t->n_dims, t->dims);
    }
    tn_gguf_split_by_bytes(j->writer, j->o->split_bytes);
}

static tn_status write_file(job *j, const char *out, tern_quantized *sum, tn_error *err) {
    j->writer = tn_gguf_writer_new(out);
    if (!j->writer) return tn_fail(err, TN_ERR_MEMORY, WHAT, j->in, "out of memory");
    tn_status s = set_metadata(j, err);
    if (s != TN_OK) return s;
    declare_tensors(j);
    const tn_quantize_run run = {
        .file = j->file,
        .items = j->items,
        .imatrix = j->imatrix,
        .n_threads = tn_api_threads(j->o->n_threads),
        .progress = j->o->progress,
        .user = j->o->user,
    };
    s = tn_gguf_begin(j->writer, j->file, err);
    if (s == TN_OK) s = tn_quantize_tensors(&run, j->writer, err);
    if (s == TN_OK) s = tn_file_check_whole(j->file, err);
    if (s != TN_OK) return s;
    sum->n_shards = tn_gguf_n_shards(j->writer);
    tn_gguf_writer *writer = j->writer;
    j->writer = NULL;
    return tn_gguf_commit(writer, err);
}

/* An importance matrix of another model would change the choice of types and weigh nothing. */
static tn_status check_imatrix(const job *j, tn_error *err) {
    for (uint64_t i = 0; i < tn_file_n_tensors(j->file); i++) {
        const tn_tensor *t = tn_file_tensor_at(j->file, i);
        const float *weights;
        const tn_status s =
            tn_imatrix_find(j->imatrix, t->cname, t->dims[0], t->dims[2] * t->dims[3], &weights, err);
        if (s != TN_OK || weights) return s;
    }
    return tn_fail(err, TN_ERR_ARG, WHAT, j->o->imatrix, "none of its entries is of a tensor of '%s'", j->in);
}

/* Whether the file can be written at all, which is not to be learned after hours of measuring. */
static tn_status check_place(const char *out, tn_error *err) {
    tn_outfile probe;
    const tn_status s = tn_outfile_open(&probe, out, err);
    tn_outfile_discard(&probe);
    return s;
}

static tn_status run_job(job *j, const char *out, tern_quantized *sum, tn_error *err) {
    tn_status s = read_recipe(j, err);
    if (s == TN_OK) s = tn_file_open(j->in, &j->file, err);
    if (s == TN_OK && j->o->imatrix) s = tn_imatrix_open(j->o->imatrix, &j->imatrix, err);
    if (s == TN_OK && j->imatrix) s = check_imatrix(j, err);
    if (s == TN_OK && !j->o->dry_run) s = check_place(out, err);
    if (s == TN_OK) s = make_plan(j, sum, err);
    if (s != TN_OK) return s;
    sum->recipe = tn_recipe_text(&j->recipe);
    if (!sum->recipe) return tn_fail(err, TN_ERR_MEMORY, WHAT, j->in, "out of memory");
    tell_plan(j, sum);
    if (j->o->applied) j->o->applied(j->o->user, sum);
    return j->o->dry_run ? TN_OK : write_file(j, out, sum, err);
}

tern_status tern_quantize(const char *in, const char *out, const tern_quantize_options *options,
                          tern_quantized *result, tern_error *err) {
    tern_quantize_options o;
    tern_quantized sum = {0};
    tn_error e = {0};
    tern_quantize_options_defaults(&o);
    tn_status s = tn_api_options(&o, sizeof o, options, &e);
    if (s == TN_OK) s = tn_api_texts(o.overrides, o.n_overrides, "overrides", &e);
    if (result) *result = sum;
    if (s != TN_OK) return tn_api_give(err, s, &e);
    if (!in || (!out && !o.dry_run)) return tn_api_null(err, __func__);
    job j = {.o = &o, .in = in};
    s = run_job(&j, out, &sum, &e);
    tn_gguf_abort(j.writer);
    tn_imatrix_close(j.imatrix);
    tn_file_close(j.file);
    tn_arena_free(&j.arena);
    if (s != TN_OK || !result) {
        free(sum.recipe);
        sum.recipe = NULL;
    }
    if (s != TN_OK) sum = (tern_quantized){0};
    if (result) *result = sum;
    return tn_api_give(err, s, &e);
}
