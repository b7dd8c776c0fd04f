/* Multiple choice: which continuation of a question the model finds likeliest.
 *
 * A choice's log-likelihood is the sum over the tokens in which "question choice" differs from the question alone; divided by the
 * bytes of the choice it does not favour short ones. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval.h"
#include "json_read.h"
#include "terminal.h"

typedef struct tn_choice_run {
    tn_eval *eval;
    size_t line;   /* from 1 */
    int32_t *held; /* tokens in the session */
    size_t n_held;
    double log_likelihood; /* of the choice being scored */
    tn_mean right, right_normalized;
} tn_choice_run;

static int bad(const tn_choice_run *r, const char *why) {
    return tn_cli_fail("cannot read questions: %s: line %zu: %s", r->eval->options->file, r->line, why);
}

static int add_likelihood(void *user, const float *logits, int32_t token) {
    tn_choice_run *r = user;
    tern_log_softmax(logits, r->eval->info.n_vocab, r->eval->log_probs);
    r->log_likelihood += r->eval->log_probs[token];
    return TN_EXIT_DONE;
}

static size_t common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b) {
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

/* Scores ids[first .. n-1]; what the session still holds of an earlier text is not computed again. */
static int score_ids(tn_choice_run *r, int32_t *ids, size_t first, size_t n) {
    if (first < 1) return bad(r, "a question has no token before its choice");
    if (first >= n) return bad(r, "a choice adds no token to its question");
    if (n - 1 > r->eval->n_ctx) return bad(r, "a question is longer than the context (-c)");
    size_t kept = common(r->held, r->n_held, ids, first - 1);
    r->log_likelihood = 0;
    const int failed = tn_eval_rows(r->eval, ids, &kept, first, n, add_likelihood, r);
    memcpy(r->held, ids, (n - 1) * sizeof *ids);
    r->n_held = kept;
    return failed;
}

static int score_choice(tn_choice_run *r, const char *question, size_t n_question, const char *choice,
                        size_t n_choice) {
    char *text = malloc(n_question + n_choice + 1);
    int32_t *alone = NULL, *ids = NULL;
    size_t n_alone = 0, n = 0;
    tern_error err;
    if (!text) return bad(r, "out of memory");
    memcpy(text, question, n_question);
    const bool space = n_question && !strchr(" \t\n", question[n_question - 1]) && choice[0] != ' ';
    if (space) text[n_question] = ' ';
    memcpy(text + n_question + space, choice, n_choice);
    const tern_model *model = r->eval->model;
    int failed = TN_EXIT_DONE;
    const unsigned flags = TERN_TOKENIZE_BOS | TERN_TOKENIZE_OPEN;
    if (tern_tokenize(model, question, n_question, flags, &alone, &n_alone, &err) != TERN_OK ||
        tern_tokenize(model, text, n_question + space + n_choice, flags, &ids, &n, &err) != TERN_OK)
        failed = tn_cli_fail_library(&err);
    if (!failed) failed = score_ids(r, ids, common(alone, n_alone, ids, n), n);
    tern_free(alone), tern_free(ids), free(text);
    return failed;
}

static int score_question(tn_choice_run *r, const json_t *object) {
    const json_t *question = json_object_get(object, "question"),
                 *choices = json_object_get(object, "choices"), *answer = json_object_get(object, "answer");
    const size_t n = json_array_size(choices);
    if (!json_is_string(question) || n < 2 || !json_is_integer(answer) || json_integer_value(answer) < 0 ||
        (uint64_t)json_integer_value(answer) >= n)
        return bad(r,
                   "expected question (text), choices (two or more texts), answer (number of one, from 0)");
    size_t best = 0, best_normalized = 0;
    double top = 0, top_normalized = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *choice = json_array_get(choices, i);
        const size_t n_choice = json_string_length(choice);
        if (n_choice == 0) return bad(r, "a choice is no text, or an empty one");
        const int failed = score_choice(r, json_string_value(question), json_string_length(question),
                                        json_string_value(choice), n_choice);
        if (failed) return failed;
        const double normalized = r->log_likelihood / (double)n_choice;
        if (i == 0 || r->log_likelihood > top) top = r->log_likelihood, best = i;
        if (i == 0 || normalized > top_normalized) top_normalized = normalized, best_normalized = i;
    }
    const size_t right = (size_t)json_integer_value(answer);
    tn_mean_add(&r->right, best == right);
    tn_mean_add(&r->right_normalized, best_normalized == right);
    return TN_EXIT_DONE;
}

static int score_line(tn_choice_run *r, const char *line, size_t n) {
    json_error_t why;
    size_t blank = 0;
    while (blank < n && (line[blank] == ' ' || line[blank] == '\t' || line[blank] == '\r')) blank++;
    if (blank == n) return TN_EXIT_DONE;
    json_t *object = tn_json_read(line, n, JSON_REJECT_DUPLICATES, &why);
    const int failed = object ? score_question(r, object) : bad(r, why.text);
    json_decref(object);
    return failed;
}

static int score_file(tn_choice_run *r, const tn_text *file) {
    for (size_t at = 0; at < file->n;) {
        const char *line = file->bytes + at, *end = memchr(line, '\n', file->n - at);
        const size_t n = end ? (size_t)(end - line) : file->n - at;
        char what[64];
        r->line++;
        const int failed = score_line(r, line, n);
        if (failed) return failed;
        at += n + 1;
        snprintf(what, sizeof what, "%.1f %% right, bytes", 100 * r->right.mean);
        tn_progress_show(what, at, file->n + 1);
    }
    return r->right.n ? TN_EXIT_DONE : bad(r, "there are no questions");
}

int tn_eval_choice(tn_eval *e) {
    tn_choice_run r = {.eval = e};
    tn_text file;
    const uint32_t longest = e->info.n_ctx_train < 4096 ? e->info.n_ctx_train : 4096;
    int failed = tn_cli_read(e->options->file, &file);
    if (failed) return failed;
    failed = tn_eval_start(e, e->options->n_ctx ? (uint32_t)e->options->n_ctx : longest);
    if (!failed && !(r.held = malloc(e->n_ctx * sizeof *r.held))) failed = bad(&r, "out of memory");
    if (!failed) failed = score_file(&r, &file);
    if (!failed) {
        tn_eval_put_count(e, "questions", r.right.n);
        tn_eval_put_with_error(e, "accuracy_percent", 100 * r.right.mean, 100 * tn_mean_error(&r.right));
        tn_eval_put_with_error(e, "accuracy_normalized_percent", 100 * r.right_normalized.mean,
                               100 * tn_mean_error(&r.right_normalized));
    }
    free(r.held);
    free(file.bytes);
    return failed;
}
