#include "speculation.h"

#include <math.h>
#include <string.h>

#include "../base/clock.h"
#include "lookup.h"

enum { N_PLAIN = 3, FIRST_PAUSE = 16, LONGEST_PAUSE = 512 };

/* The least that a token more can cost, relative to one: no error of measurement may make wrong drafts look free. */
static const double least_cost = 0.02;

void tn_speculation_start(tn_speculation *spec, tn_session *model) {
    *spec = (tn_speculation){.model = model, .pause = FIRST_PAUSE};
    /* Where it begins: longer matches and clearer leads are right more often; costs on the low side, so that they are tried and
     * measured. */
    for (int i = 0; i < TN_DRAFT_CLASSES; i++) spec->right[i] = 0.1 * (1 + i);
    for (int n = 1; n < TN_MAX_DRAFT + 2; n++) spec->cost[n] = 1 + 0.08 * (n - 1);
}

/* What a thing costs when nothing disturbs it: falls at once, rises slowly. */
static void settle(double *estimate, double found) {
    *estimate = found < *estimate ? found : *estimate + (found - *estimate) / 8;
}

/* ---- How many ---------------------------------------------------------------------------------------------------- */

/* The number of the first n drafted tokens with the most tokens made a unit of time. */
static uint32_t worth(const tn_speculation *spec, uint32_t n) {
    double made = 1, all_right = 1, best = 1;
    uint32_t count = 0;
    for (uint32_t k = 1; k <= n; k++) {
        all_right *= spec->right[spec->class[k - 1]];
        made += all_right;
        if (made / spec->cost[k + 1] <= best) continue;
        best = made / spec->cost[k + 1];
        count = k;
    }
    return count;
}

/* ---- By lookup --------------------------------------------------------------------------------------------------- */

static uint32_t draft_by_lookup(tn_speculation *spec, const int32_t *ids, uint32_t n, uint32_t max) {
    const uint32_t match = tn_lookup(ids, n, spec->draft, max);
    if (!match) return 0;
    memset(spec->class, (int)(match < TN_DRAFT_CLASSES ? match : TN_DRAFT_CLASSES) - 1, max);
    return max;
}

/* ---- By a model -------------------------------------------------------------------------------------------------- */

/* The likeliest token, and how far ahead of the second it is, as a class. */
static int32_t likeliest(const float *logits, uint32_t n_vocab, uint8_t *class) {
    static const float leads[TN_DRAFT_CLASSES - 1] = {0.5f, 1, 2, 3, 4, 6, 8};
    uint32_t best = 0;
    float second = -INFINITY;
    for (uint32_t i = 1; i < n_vocab; i++) {
        if (logits[i] > logits[best])
            second = logits[best], best = i;
        else if (logits[i] > second)
            second = logits[i];
    }
    *class = 0;
    while (*class < TN_DRAFT_CLASSES - 1 && logits[best] - second >= leads[*class]) ++*class;
    return (int32_t)best;
}

/* Brings the smaller model to the end of the text, whose logits are then there. */
static bool follow(tn_session *model, const int32_t *ids, uint32_t n) {
    uint32_t reused;
    return tn_session_sync(model, ids, n, 1, &reused, NULL) == TN_OK;
}

/* Tokens made a unit of time, that of drafting included. */
static double rate(const tn_speculation *spec, uint32_t k, double made) {
    return made / (spec->cost[k + 1] + spec->draft_s / spec->one_s * k);
}

/* Whether one more token, as likely right as the best class, could raise the rate. */
static bool may_pay(const tn_speculation *spec, uint32_t k, double made, double all_right) {
    double likely = 0;
    for (int i = 0; i < TN_DRAFT_CLASSES; i++) likely = fmax(likely, spec->right[i]);
    return rate(spec, k + 1, made + all_right * likely) > rate(spec, k, made);
}

static void pause_or_go_on(tn_speculation *spec, bool pays) {
    if (pays) {
        spec->pause = FIRST_PAUSE;
        return;
    }
    spec->n_paused = spec->pause;
    if (spec->pause < LONGEST_PAUSE) spec->pause *= 2;
}

static uint32_t draft_by_model(tn_speculation *spec, const int32_t *ids, uint32_t n, uint32_t max) {
    const tn_session_config *config = tn_session_config_of(spec->model);
    if (spec->n_paused) return spec->n_paused--, 0;
    if (config->n_ctx - n < max) max = config->n_ctx > n ? config->n_ctx - n : 0;
    if (!max || !follow(spec->model, ids, n)) return 0;
    double made = 1, all_right = 1;
    uint32_t k = 0;
    while (k < max && may_pay(spec, k, made, all_right)) {
        const double start = tn_clock_s();
        if (k && tn_session_eval(spec->model, &spec->draft[k - 1], 1, 1, NULL)) break;
        spec->draft[k] = likeliest(tn_session_logits(spec->model, 0), config->n_vocab, &spec->class[k]);
        const double taken = tn_clock_s() - start;
        if (k && spec->draft_s > 0) settle(&spec->draft_s, taken);
        if (k && !(spec->draft_s > 0)) spec->draft_s = taken;
        all_right *= spec->right[spec->class[k++]];
        made += all_right;
    }
    pause_or_go_on(spec, k > 0 && rate(spec, k, made) > 1);
    return k;
}

/* ---- The whole ---------------------------------------------------------------------------------------------------- */

uint32_t tn_speculation_draft(tn_speculation *spec, const int32_t *ids, uint32_t n, uint32_t max) {
    if (max > TN_MAX_DRAFT) max = TN_MAX_DRAFT;
    spec->n_checked = spec->n_draft = 0;
    if (spec->n_plain == N_PLAIN)
        spec->n_draft = spec->model ? draft_by_model(spec, ids, n, max) : draft_by_lookup(spec, ids, n, max);
    return spec->n_sent = worth(spec, spec->n_draft);
}

void tn_speculation_timed(tn_speculation *spec, uint32_t n_sent, double seconds) {
    spec->n_evaluated += n_sent;
    if (n_sent == 0) {
        if (spec->n_plain == 0) spec->one_s = seconds;
        if (spec->n_plain < N_PLAIN) spec->n_plain++;
        settle(&spec->one_s, seconds);
    } else {
        settle(&spec->cost[n_sent + 1], fmax(seconds / spec->one_s, 1 + least_cost * n_sent));
    }
}

/* Of a draft that was not evaluated the first token is compared all the same: that is for nothing, and a class that did not pay
 * gets its chance again. */
void tn_speculation_learn(tn_speculation *spec, int32_t token) {
    if (spec->n_checked >= spec->n_draft) return;
    const bool right = spec->draft[spec->n_checked] == token;
    double *share = &spec->right[spec->class[spec->n_checked]];
    *share += ((right ? 1.0 : 0.0) - *share) / 16;
    spec->n_right += right && spec->n_checked < spec->n_sent;
    spec->n_checked = right ? spec->n_checked + 1 : spec->n_draft;
}
