/* The stages that look back on the text: penalties and DRY. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "sampler_impl.h"

enum { MAX_HISTORY = 1 << 20 };

static uint32_t reach(int32_t last_n) {
    return last_n < 0 || last_n > MAX_HISTORY ? MAX_HISTORY : (uint32_t)last_n;
}

static bool stage_in_force(const tn_sampler *s, unsigned stage) {
    for (uint32_t i = 0; i < s->n_stages; i++)
        if (s->stages[i] == stage) return true;
    return false;
}

static void find_breakers(tn_sampler *s, const tn_tokenizer *tok) {
    const tn_sampler_params *p = &s->params;
    for (uint32_t id = 0; id < s->n_vocab; id++) {
        size_t len;
        const char *text = tn_token_bytes(tok, (int32_t)id, true, &len);
        for (size_t i = 0; i < p->n_dry_breakers; i++) {
            const size_t n = strlen(p->dry_breakers[i]);
            if (n && memmem(text, len, p->dry_breakers[i], n))
                s->history.breakers[id / 64] |= UINT64_C(1) << id % 64;
        }
    }
}

/* Memory of the whole reach is taken here; of a reach that is never filled the system backs only what is touched. */
tn_status tn_history_new(tn_sampler *s, const tn_tokenizer *tok, tn_error *err) {
    tn_history *h = &s->history;
    bool ok = true;
    if (stage_in_force(s, TN_STAGE_PENALTIES)) {
        h->repeat = reach(s->params.repeat_last_n);
        ok = (h->n_seen = calloc(s->n_vocab, sizeof *h->n_seen)) != NULL;
    }
    if (stage_in_force(s, TN_STAGE_DRY)) {
        h->dry = reach(s->params.dry_last_n);
        h->back = calloc(h->dry, sizeof *h->back);
        h->match = calloc(h->dry, sizeof *h->match);
        h->dry_length = calloc(s->n_vocab, sizeof *h->dry_length);
        h->breakers = calloc(s->n_vocab / 64 + 1, sizeof *h->breakers);
        ok = ok && h->back && h->match && h->dry_length && h->breakers;
    }
    h->cap = h->repeat > h->dry ? h->repeat : h->dry;
    if (h->cap) ok = (h->ring = calloc(h->cap, sizeof *h->ring)) != NULL && ok;
    if (!ok) return tn_fail(err, TN_ERR_MEMORY, "sampler", NULL, "out of memory");
    if (h->dry && tok) find_breakers(s, tok);
    return TN_OK;
}

void tn_history_free(tn_history *h) {
    free(h->ring);
    free(h->n_seen);
    free(h->breakers);
    free(h->back);
    free(h->match);
    free(h->dry_length);
}

void tn_history_push(tn_history *h, int32_t token) {
    if (!h->cap) return;
    if (h->n_seen) {
        if (h->len >= h->repeat) h->n_seen[h->ring[(h->at + h->cap - h->repeat) % h->cap]]--;
        h->n_seen[token]++;
    }
    h->ring[h->at] = token;
    h->at = (h->at + 1) % h->cap;
    h->len += h->len < h->cap;
}

/* Sets a candidate's logit to a lower one less an amount, which is meant for logits divided by the temperature so far. It stays
 * finite, so that not all can be lost. */
static void lower(tn_sampler *s, uint32_t i, double logit, double amount) {
    const double lowered = logit - amount / s->inverse;
    if (s->logits[i] > -INFINITY)
        s->logits[i] = (float)(lowered > -(double)FLT_MAX ? lowered : -(double)FLT_MAX);
}

void tn_apply_penalties(tn_sampler *s) {
    const tn_sampler_params *p = &s->params;
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t n_seen = s->history.n_seen[s->ids[i]];
        if (!n_seen) continue;
        const double logit = (double)s->logits[i], repeat = (double)p->repeat_penalty;
        lower(s, i, logit > 0 ? logit / repeat : logit * repeat,
              (double)p->presence_penalty + (double)p->frequency_penalty * n_seen);
    }
    s->weighed = false;
}

/* match[i] for 0 < i < n by the Z algorithm (Gusfield 1997, section 1.4): what is known of the stretch [left, right) that
 * equals the beginning is not compared again. */
static void find_matches(const int32_t *back, uint32_t n, uint32_t *match) {
    uint32_t left = 0, right = 0;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t len = 0;
        if (i < right) len = match[i - left] < right - i ? match[i - left] : right - i;
        while (i + len < n && back[len] == back[i + len]) len++;
        match[i] = len;
        if (i + len > right) left = i, right = i + len;
    }
}

static bool is_breaker(const tn_history *h, int32_t token) {
    return h->breakers[token / 64] >> token % 64 & 1;
}

static double power(double base, uint32_t n) {
    double product = 1;
    for (; n && product < 1e30; n--) product *= base;
    return product;
}

/* Marks (or clears again) the tokens that followed an earlier occurrence of the text's end with the longest of them. Returns
 * whether there is any. */
static bool mark_repetitions(tn_sampler *s, uint32_t n, uint32_t n_free, bool clear) {
    tn_history *h = &s->history;
    bool any = false;
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t len = h->match[i] < n_free ? h->match[i] : n_free;
        const int32_t next = h->back[i - 1];
        if (len == 0 || len < (uint32_t)s->params.dry_allowed_length || is_breaker(h, next)) continue;
        any = true;
        if (clear)
            h->dry_length[next] = 0;
        else if (len > h->dry_length[next])
            h->dry_length[next] = len;
    }
    return any;
}

void tn_apply_dry(tn_sampler *s) {
    tn_history *h = &s->history;
    const uint32_t n = h->len < h->dry ? h->len : h->dry;
    for (uint32_t i = 0; i < n; i++) h->back[i] = h->ring[(h->at + h->cap - 1 - i) % h->cap];
    uint32_t n_free = 0; /* tokens behind the last breaker */
    while (n_free < n && !is_breaker(h, h->back[n_free])) n_free++;
    if (n_free < (uint32_t)s->params.dry_allowed_length) return;
    find_matches(h->back, n, h->match);
    if (!mark_repetitions(s, n, n_free, false)) return;
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t len = h->dry_length[s->ids[i]];
        if (!len) continue;
        const double factor = power((double)s->params.dry_base, len - (uint32_t)s->params.dry_allowed_length);
        lower(s, i, (double)s->logits[i], (double)s->params.dry_multiplier * factor);
    }
    mark_repetitions(s, n, n_free, true);
    s->weighed = false;
}
