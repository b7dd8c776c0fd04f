#include "generator.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"

struct tn_generator {
    tn_session *session;
    const tn_tokenizer *tok;
    tn_sampler *sampler;
    tn_generator_config config;
    char **stop; /* config.n_stop copies */
    tn_text_stream stream;
    char *text; /* made but not yet given out: what may be the start of a stop string waits here */
    size_t n_text, cap_text, n_given;
    uint64_t n_tokens;
    int32_t last;      /* -1 before the first */
    bool pending;      /* the last token is not part of the session yet, but for a draft that guessed it */
    uint32_t n_before; /* tokens before it, which a cancelled evaluation may have left the session without */
    uint32_t row;      /* of logits, from which the next token is picked */
    tn_speculation speculation;
    uint32_t n_ahead,
        n_taken; /* drafted tokens that the last evaluation put into the session; of those, now text */
    tn_stop stopped;
    double first_s, seconds;
    tn_logprob *logprobs; /* NULL, or config.n_logprobs + 1 */
};

static tn_status out_of_memory(tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, "cannot generate", NULL, "out of memory");
}

static tn_status copy_stops(tn_generator *g, tn_error *err) {
    g->stop = calloc(g->config.n_stop + 1, sizeof *g->stop);
    if (!g->stop) return out_of_memory(err);
    for (size_t i = 0; i < g->config.n_stop; i++) {
        if (!g->config.stop[i] || !g->config.stop[i][0])
            return tn_fail(err, TN_ERR_ARG, "cannot generate", NULL, "stop string %zu is empty", i + 1);
        if (!(g->stop[i] = strdup(g->config.stop[i]))) return out_of_memory(err);
    }
    return TN_OK;
}

static tn_status start(tn_generator *g, const int32_t *prompt, size_t n_prompt, tn_error *err) {
    tn_status s;
    const uint32_t n_vocab = tn_session_config_of(g->session)->n_vocab;
    if (!tn_session_logits(g->session, 0))
        return tn_fail(err, TN_ERR_ARG, "cannot generate", NULL,
                       "the session holds no logits: evaluate a prompt first");
    if ((s = copy_stops(g, err)) ||
        (s = tn_sampler_new(&g->config.sampling, g->tok, n_vocab, &g->sampler, err)))
        return s;
    if (g->config.want_logprobs) {
        if (g->config.n_logprobs > n_vocab) g->config.n_logprobs = n_vocab;
        g->logprobs = calloc((size_t)g->config.n_logprobs + 1, sizeof *g->logprobs);
        if (!g->logprobs) return out_of_memory(err);
    }
    for (size_t i = 0; i < n_prompt; i++)
        if ((s = tn_sampler_accept(g->sampler, prompt[i], err))) return s;
    while (tn_session_logits(g->session, g->row + 1)) g->row++; /* the last row */
    tn_speculation_start(&g->speculation, g->config.draft);
    return TN_OK;
}

static bool reserve(tn_generator *g, size_t more) {
    if (g->cap_text - g->n_text >= more) return true;
    size_t cap = (g->n_text + more) * 2 + 64;
    char *bigger = realloc(g->text, cap);
    if (!bigger) return false;
    g->text = bigger;
    g->cap_text = cap;
    return true;
}

/* The text goes on from its beginning, the last tokens of the prompt. */
static tn_status go_on(tn_generator *g, const int32_t *begun, tn_error *err) {
    for (size_t i = 0; i < g->config.n_begun; i++) {
        if (g->config.constraint) {
            const tn_status s = tn_constraint_accept(g->config.constraint, begun[i], err);
            if (s) return s;
        }
        if (!reserve(g, tn_stream_bound(g->tok, begun[i]))) return out_of_memory(err);
        tn_stream_push(g->tok, &g->stream, begun[i], g->config.special, g->text); /* was shown before */
    }
    return TN_OK;
}

tn_status tn_generator_new(tn_session *session, const tn_tokenizer *tok, const tn_generator_config *config,
                           const int32_t *prompt, size_t n_prompt, tn_generator **out, tn_error *err) {
    *out = NULL;
    tn_generator *g = calloc(1, sizeof *g);
    if (!g) return out_of_memory(err);
    g->session = session;
    g->tok = tok;
    g->config = *config;
    g->last = -1;
    if (config->n_begun > n_prompt) g->config.n_begun = n_prompt;
    tn_status s = start(g, prompt, n_prompt, err);
    if (!s) s = go_on(g, prompt + n_prompt - g->config.n_begun, err);
    if (s) {
        tn_generator_free(g);
        return s;
    }
    *out = g;
    return TN_OK;
}

/* Drops from the session what was drafted and did not become text. */
static void take_back(tn_generator *g) {
    const uint32_t n = g->n_ahead - g->n_taken;
    if (n) tn_session_truncate(g->session, tn_session_position(g->session) - n);
    g->n_ahead = g->n_taken = 0;
}

void tn_generator_free(tn_generator *g) {
    if (!g) return;
    take_back(g);
    for (size_t i = 0; g->stop && i < g->config.n_stop; i++) free(g->stop[i]);
    free(g->stop);
    free(g->text);
    free(g->logprobs);
    tn_sampler_free(g->sampler);
    free(g);
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

/* Cuts the text at the earliest stop string. */
static bool cut_at_stop(tn_generator *g) {
    size_t earliest = g->n_text;
    for (size_t i = 0; i < g->config.n_stop; i++) {
        const char *at = g->n_text ? memmem(g->text, g->n_text, g->stop[i], strlen(g->stop[i])) : NULL;
        if (at && (size_t)(at - g->text) < earliest) earliest = (size_t)(at - g->text);
    }
    if (earliest == g->n_text) return false;
    g->n_text = earliest;
    return true;
}

/* Bytes at the end of the text that may be the start of a stop string. */
static size_t held_back(const tn_generator *g) {
    size_t longest = 0;
    for (size_t i = 0; i < g->config.n_stop; i++) {
        size_t n = strlen(g->stop[i]) - 1;
        for (n = n < g->n_text ? n : g->n_text; n > longest; n--)
            if (!memcmp(g->text + g->n_text - n, g->stop[i], n)) longest = n;
    }
    return longest;
}

static tn_status finish(tn_generator *g, tn_stop stop, const char **text, size_t *n, tn_stop *out,
                        tn_error *err) {
    if (!reserve(g, 16)) return out_of_memory(err);
    take_back(g);
    /* Of a character that was cut with the text the end may yet come, when it goes on (n_begun): it is not begun. */
    if (stop == TN_STOP_END || stop == TN_STOP_COMPLETE)
        g->n_text += tn_stream_flush(&g->stream, g->text + g->n_text);
    if (stop != TN_STOP_STRING && cut_at_stop(g)) stop = TN_STOP_STRING;
    *text = g->text;
    *n = g->n_given = g->n_text;
    *out = g->stopped = stop;
    return TN_OK;
}

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

/* Removes what the last call gave out. */
static void drop_given(tn_generator *g) {
    if (!g->n_given) return;
    memmove(g->text, g->text + g->n_given, g->n_text - g->n_given);
    g->n_text -= g->n_given;
    g->n_given = 0;
}

/* Drafted tokens that the next evaluation can hold and that can be taken back. */
static uint32_t most_ahead(const tn_generator *g) {
    const tn_session_config *c = tn_session_config_of(g->session);
    if (g->config.plain) return 0;
    uint64_t most = g->config.max_tokens - g->n_tokens - 1; /* those behind would never be asked for */
    const uint32_t limits[] = {c->n_outputs - 1, c->n_batch - 1, tn_session_retractable(g->session) - 1};
    for (int i = 0; i < 3; i++)
        if (limits[i] < most) most = limits[i];
    return most < TN_MAX_DRAFT ? (uint32_t)most : TN_MAX_DRAFT;
}

/* Drafts what may come behind the last token; the smaller model is cancelled with the session. */
static uint32_t draft(tn_generator *g) {
    tn_session_note(g->session, g->last);
    const uint32_t most = most_ahead(g);
    if (!most) return 0;
    if (g->config.draft) tn_session_obey(g->config.draft, g->session);
    const uint32_t n = tn_speculation_draft(&g->speculation, tn_session_tokens(g->session),
                                            tn_session_position(g->session) + 1, most);
    if (g->config.draft) tn_session_obey(g->config.draft, g->config.draft);
    return n;
}

/* Evaluates the last token, and behind it as many drafted ones as pay. */
static tn_status evaluate(tn_generator *g, tn_error *err) {
    const uint32_t position = tn_session_position(g->session);
    if (position < g->n_before) { /* an evaluation failed that had made the sequence a long one */
        const int32_t *lost = tn_session_tokens(g->session) + position;
        const tn_status failed = tn_session_eval(g->session, lost, g->n_before - position, 1, err);
        return failed ? failed : evaluate(g, err);
    }
    g->n_before = position;
    const uint32_t n = draft(g);
    int32_t ids[1 + TN_MAX_DRAFT] = {g->last};
    memcpy(ids + 1, g->speculation.draft, n * sizeof *ids);
    const double start = tn_clock_s();
    tn_status s = tn_session_eval(g->session, ids, n + 1, n + 1, err);
    if (!s) tn_speculation_timed(&g->speculation, n, tn_clock_s() - start);
    g->row = 0;
    g->n_ahead = s ? 0 : n;
    if (s != TN_ERR_NUMERIC || n == 0) return s;
    /* A drafted token may be at fault, which the text need never meet. */
    tn_session_truncate(g->session, position);
    return tn_session_eval(g->session, ids, 1, 1, err);
}

/* Makes the last token part of the session, by the draft that guessed it or by an evaluation. */
static tn_status settle(tn_generator *g, tn_error *err) {
    tn_status s = TN_OK;
    if (g->n_taken < g->n_ahead && g->speculation.draft[g->n_taken] == g->last) {
        g->n_taken++;
        g->row++;
    } else {
        take_back(g);
        s = evaluate(g, err);
    }
    g->pending = s != TN_OK;
    return s;
}

static tn_status pick(tn_generator *g, int32_t *token, tn_error *err) {
    const float *logits = tn_session_logits(g->session, g->row);
    const tn_status s = tn_sampler_pick(g->sampler, logits, g->config.constraint, token, err);
    if (!s) tn_speculation_learn(&g->speculation, *token);
    if (!s && g->logprobs)
        tn_logprobs(logits, tn_session_config_of(g->session)->n_vocab, *token, g->config.n_logprobs,
                    g->logprobs);
    return s;
}

/* Whether the constraint lets nothing more follow. */
static bool is_complete(const tn_generator *g) {
    return g->config.constraint && tn_constraint_is_complete(g->config.constraint);
}

static tn_status next(tn_generator *g, const char **text, size_t *n, tn_stop *stop, tn_error *err) {
    if (tn_session_is_cancelled(g->session))
        return tn_fail(err, TN_ERR_CANCELLED, "cancelled", NULL, "after %llu generated tokens",
                       (unsigned long long)g->n_tokens);
    tn_status s;
    int32_t token;
    if (is_complete(g)) return finish(g, TN_STOP_COMPLETE, text, n, stop, err);
    if (g->n_tokens >= g->config.max_tokens) return finish(g, TN_STOP_LIMIT, text, n, stop, err);
    if (g->pending) {
        const uint32_t position = tn_session_position(g->session) - (g->n_ahead - g->n_taken);
        if (position == tn_session_config_of(g->session)->n_ctx)
            return finish(g, TN_STOP_FULL, text, n, stop, err);
        if ((s = settle(g, err))) return s;
    }
    if ((s = pick(g, &token, err))) return s;
    if (tn_token_is_end(g->tok, token) && !g->config.ignore_end)
        return finish(g, TN_STOP_END, text, n, stop, err);
    if ((s = tn_sampler_accept(g->sampler, token, err))) return s;
    if (g->config.constraint && (s = tn_constraint_accept(g->config.constraint, token, err))) return s;
    if (!reserve(g, tn_stream_bound(g->tok, token))) return out_of_memory(err);
    g->last = token;
    g->pending = true;
    g->n_tokens++;
    g->n_text += tn_stream_push(g->tok, &g->stream, token, g->config.special, g->text + g->n_text);
    if (cut_at_stop(g)) return finish(g, TN_STOP_STRING, text, n, stop, err);
    if (is_complete(g)) return finish(g, TN_STOP_COMPLETE, text, n, stop, err);
    if (g->n_tokens >= g->config.max_tokens) return finish(g, TN_STOP_LIMIT, text, n, stop, err);
    g->n_given = g->n_text - held_back(g);
    *text = g->text ? g->text : "";
    *n = g->n_given;
    return TN_OK;
}

tn_status tn_generator_next(tn_generator *g, const char **text, size_t *n, tn_stop *stop, tn_error *err) {
    *text = "", *n = 0, *stop = g->stopped;
    drop_given(g);
    if (g->stopped) return TN_OK;
    const double start = tn_clock_s();
    const tn_status s = next(g, text, n, stop, err);
    const double taken = tn_clock_s() - start;
    g->seconds += taken;
    if (!s && g->first_s == 0) g->first_s = taken;
    return s;
}

tn_generated tn_generator_result(const tn_generator *g) {
    return (tn_generated){.stop = g->stopped,
                          .n_tokens = g->n_tokens,
                          .n_guessed = g->speculation.n_evaluated,
                          .n_right = g->speculation.n_right,
                          .first_s = g->first_s,
                          .seconds = g->seconds};
}
int32_t tn_generator_token(const tn_generator *g) {
    return g->last;
}
const tn_logprob *tn_generator_logprobs(const tn_generator *g, size_t *n) {
    const bool there = g->n_tokens && g->logprobs;
    *n = there ? (size_t)g->config.n_logprobs + 1 : 0;
    return there ? g->logprobs : NULL;
}
const tn_sampler *tn_generator_sampler(const tn_generator *g) {
    return g->sampler;
}
