/* Recipes to YAML. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../base/c_locale.h"
#include "recipe.h"

/* A text of the YAML library's, which is UTF-8, in double quotes: what is no plain ASCII by its number, since white space and line
 * breaks of other kinds would be read as something else. */
static void print_quoted(FILE *f, const char *text) {
    fputc('"', f);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        unsigned n_more = *at < 0xC0 ? 0 : *at < 0xE0 ? 1 : *at < 0xF0 ? 2 : 3;
        uint32_t c = n_more ? *at & (0x3Fu >> n_more) : *at;
        for (; n_more > 0 && at[1]; n_more--) c = c << 6 | (*++at & 0x3F);
        if (c >= 0x20 && c < 0x7F)
            fprintf(f, "%s%c", c == '"' || c == '\\' ? "\\" : "", (int)c);
        else
            fprintf(f, "\\U%08" PRIX32, c);
    }
    fputc('"', f);
}

static void print_rule(FILE *f, const tn_rule *rule) {
    fputs("  - {tensors: [", f);
    for (size_t i = 0; i < rule->n_patterns; i++) {
        if (i) fputs(", ", f);
        print_quoted(f, rule->patterns[i]);
    }
    fputs("]", f);
    if (rule->layers_text) {
        fputs(", layers: ", f);
        print_quoted(f, rule->layers_text);
    }
    if (rule->imatrix >= 0) fprintf(f, ", imatrix: %s", rule->imatrix ? "true" : "false");
    if (rule->min_gqa) fprintf(f, ", min_gqa: %" PRIu32, rule->min_gqa);
    if (rule->experts) fprintf(f, ", experts: %" PRIu32, rule->experts);
    if (rule->min_experts) fprintf(f, ", min_experts: %" PRIu32, rule->min_experts);
    if (rule->model_layers) fprintf(f, ", n_layers: %" PRIu32, rule->model_layers);
    fprintf(f, ", type: %s}\n", tn_dtypes[rule->type].name);
}

static void print_target(FILE *f, const tn_recipe *recipe) {
    if (!recipe->n_ladder) {
        fprintf(f, "type: %s\n", tn_dtypes[recipe->type].name);
        return;
    }
    if (recipe->target_bytes) fprintf(f, "target_size: %" PRIu64 "\n", recipe->target_bytes);
    char number[32];
    tn_snprintf(number, sizeof number, "%.6g", recipe->target_bpw);
    if (recipe->target_bpw > 0) fprintf(f, "target_bpw: %s\n", number);
    fputs("ladder: [", f);
    for (size_t i = 0; i < recipe->n_ladder; i++)
        fprintf(f, "%s%s", i ? ", " : "", tn_dtypes[recipe->ladder[i]].name);
    fputs("]\n", f);
}

/* Of a role the first rule, which decides; NULL if there is none. */
static const tn_rule *first_of(const tn_recipe *recipe, tn_rule_role role) {
    for (size_t i = 0; i < recipe->n_rules; i++)
        if (recipe->rules[i].role == role) return &recipe->rules[i];
    return NULL;
}

/* `first` or NULL: of the tensors that are embeddings, where these are the output too and the rule for the output comes later. When
 * read, the output comes before the embedding, and behind all patterns. */
static void print_rules(FILE *f, const tn_recipe *recipe, const tn_rule *first) {
    static const char *const embeddings[] = {"token_embd.weight", "per_layer_token_embd.weight"};
    bool any = false;
    for (size_t i = 0; i < recipe->n_rules; i++) {
        if (recipe->rules[i].role != TN_RULE_PATTERNS) continue;
        if (!any) fputs("rules:\n", f);
        any = true;
        print_rule(f, &recipe->rules[i]);
    }
    if (first && !any) fputs("rules:\n", f);
    if (first)
        print_rule(f,
                   &(tn_rule){.patterns = embeddings, .n_patterns = 2, .imatrix = -1, .type = first->type});
}

char *tn_recipe_text(const tn_recipe *recipe) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    const tn_rule *output = first_of(recipe, TN_RULE_OUTPUT);
    const tn_rule *embedding = first_of(recipe, TN_RULE_EMBEDDING);
    const bool before = embedding && output && embedding < output;
    print_target(f, recipe);
    if (recipe->file_type >= 0) fprintf(f, "file_type: %" PRId64 "\n", recipe->file_type);
    if (output) fprintf(f, "output: %s\n", tn_dtypes[output->type].name);
    if (embedding && !before) fprintf(f, "embedding: %s\n", tn_dtypes[embedding->type].name);
    print_rules(f, recipe, before ? embedding : NULL);
    const bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
