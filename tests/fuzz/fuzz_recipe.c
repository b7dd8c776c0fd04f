/* Recipes of quantization: the YAML, and the head of a file whose tensors get types by it. What a recipe prints says the same. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "src/quantize/recipe.h"

static const char words[] =
    "`base: `type: `output: `embedding: `file_type: `rules:`  - {tensors: `layers: `imatrix: true`min_gqa: "
    "`experts: `min_experts: "
    "`n_layers: `target_bpw: `target_size: `ladder: "
    "[`Q4_K`Q6_K`F16`Q8_0`IQ2_XXS`Q4_K_M`IQ1_S`Q3_K_L`ffn_down`attn_v.weight`*`?"
    "`1/8`7/8`last `first `every `after `0-3`, `{`}`[`]`\n`\n  - `&a `*a`4.5`500M`1.5G`true`4294967296`-1";

static void plan(const tn_recipe *recipe, fuzz_bytes head, tn_arena *arena, bool flags[2]) {
    tn_file *file;
    tn_error err;
    tn_plan_item *items;
    tn_status s = tn_file_open(fuzz_write_head(head), &file, &err);
    fuzz_check_status((int)s, &err);
    if (s) return;
    const tn_plan_request request = {.recipe = recipe, .has_imatrix = flags[0], .allow_requantize = flags[1]};
    s = tn_plan_types(file, &request, arena, &items, &err);
    fuzz_check_status((int)s, &err);
    for (uint64_t i = 0; !s && i < tn_file_n_tensors(file); i++) {
        FUZZ_CHECK(items[i].type < TN_DTYPE_COUNT && items[i].why);
        FUZZ_CHECK(items[i].tensor->dims[0] % tn_dtypes[items[i].type].block_elems == 0);
    }
    tn_file_close(file);
}

static void run(const uint8_t *data, size_t n) {
    fuzz_bytes parts[FUZZ_MAX_PARTS];
    const size_t n_parts = fuzz_split(data, n, parts);
    tn_arena arena = {0};
    tn_recipe recipe, again;
    tn_error err;
    tn_status s = tn_recipe_load(fuzz_write("recipe.yaml", parts[0], 0), &arena, &recipe, &err);
    fuzz_check_status((int)s, &err);
    char *text = s ? NULL : tn_recipe_text(&recipe);
    if (text) {
        s = tn_recipe_load(fuzz_write("again.yaml", (fuzz_bytes){(const uint8_t *)text, strlen(text)}, 0),
                           &arena, &again, &err);
        if (s) fuzz_check(false, err.message, __FILE__, __LINE__);
        char *second = tn_recipe_text(&again);
        FUZZ_CHECK(second && strcmp(text, second) == 0);
        free(second), free(text);
        if (n_parts > 1) plan(&recipe, parts[1], &arena, (bool[2]){n & 1, n & 2});
    }
    tn_arena_free(&arena);
}

const fuzz_target fuzz_recipe = {"recipe", run, NULL, words, 32768};
