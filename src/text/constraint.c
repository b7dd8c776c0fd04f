#include "constraint.h"

#include <stdlib.h>
#include <string.h>

#include "matcher.h"
#include "tokenizer_impl.h"

/* No published token is longer than a few hundred bytes; a longer one is never allowed. */
enum { MAX_TOKEN_LEN = 1024, MASK_CACHE_BYTES = 16 << 20 };

/* The vocabulary sorted by bytes: a trie without its nodes. Of a token only what it does not share with the one before it is
 * kept. */
typedef struct tn_sorted_token {
    uint32_t id, tail; /* offset in tails */
    uint16_t shared, len;
} tn_sorted_token;

struct tn_constraint {
    tn_grammar *grammar;
    tn_matcher *matcher;
    const tn_tokenizer *tok;
    uint32_t n_words; /* of a mask */
    tn_sorted_token *sorted;
    uint32_t n_sorted;
    uint8_t *tails;
    uint64_t *ends;    /* the mask of tokens that end a turn; none if they are not allowed */
    uint64_t *masks;   /* n_masks of them */
    uint16_t *mask_of; /* for each state: number + 1 of its mask */
    uint32_t n_masks, n_used;
    uint32_t state;
    bool drops_space; /* the next token's leading space is no part of the text: see tn_stream_push */
};

/* ---- New ---------------------------------------------------------------------------------------------------- */

typedef struct tn_token_text {
    const char *bytes;
    uint32_t len, id;
} tn_token_text;

static int by_bytes(const void *a, const void *b) {
    const tn_token_text *x = a, *y = b;
    const int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);
    if (order) return order;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static uint32_t shared_length(const tn_token_text *a, const tn_token_text *b) {
    uint32_t n = 0;
    while (n < a->len && n < b->len && a->bytes[n] == b->bytes[n]) n++;
    return n;
}

static bool keep_tails(tn_constraint *c, const tn_token_text *texts, uint32_t n) {
    size_t n_bytes = 0, at = 0;
    for (uint32_t i = 0; i < n; i++)
        n_bytes += texts[i].len - (i ? shared_length(&texts[i - 1], &texts[i]) : 0);
    c->sorted = calloc(n + 1, sizeof *c->sorted);
    c->tails = calloc(n_bytes + 1, 1);
    if (!c->sorted || !c->tails || n_bytes > UINT32_MAX) return false;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t shared = i ? shared_length(&texts[i - 1], &texts[i]) : 0;
        c->sorted[i] = (tn_sorted_token){texts[i].id, (uint32_t)at, (uint16_t)shared, (uint16_t)texts[i].len};
        memcpy(c->tails + at, texts[i].bytes + shared, texts[i].len - shared);
        at += texts[i].len - shared;
    }
    c->n_sorted = n;
    return true;
}

static bool sort_tokens(tn_constraint *c) {
    const uint32_t n_tokens = tn_tokenizer_n_tokens(c->tok);
    tn_token_text *texts = calloc(n_tokens + 1, sizeof *texts);
    uint32_t n = 0;
    if (!texts) return false;
    for (uint32_t id = 0; id < n_tokens; id++) {
        size_t len;
        const char *bytes = tn_token_bytes(c->tok, (int32_t)id, false, &len);
        if (len == 0 || len > MAX_TOKEN_LEN || tn_token_is_end(c->tok, (int32_t)id)) continue;
        texts[n++] = (tn_token_text){bytes, (uint32_t)len, id};
    }
    qsort(texts, n, sizeof *texts, by_bytes);
    const bool ok = keep_tails(c, texts, n);
    free(texts);
    return ok;
}

static tn_status init(tn_constraint *c, bool allow_end, tn_error *err) {
    const uint32_t n_masks = MASK_CACHE_BYTES / 8 / c->n_words;
    c->n_masks = n_masks < 4 ? 4 : n_masks < TN_MAX_STATES ? n_masks : TN_MAX_STATES;
    c->ends = calloc(c->n_words, sizeof *c->ends);
    c->masks = calloc((size_t)c->n_masks * c->n_words, sizeof *c->masks);
    c->mask_of = calloc(TN_MAX_STATES, sizeof *c->mask_of);
    if (!c->ends || !c->masks || !c->mask_of || !sort_tokens(c))
        return tn_fail(err, TN_ERR_MEMORY, "grammar", NULL, "out of memory");
    for (uint32_t id = 0; allow_end && id < tn_tokenizer_n_tokens(c->tok); id++)
        if (tn_token_is_end(c->tok, (int32_t)id)) c->ends[id / 64] |= UINT64_C(1) << id % 64;
    c->drops_space = c->tok->add_space_prefix;
    return tn_matcher_new(c->grammar, &c->matcher, &c->state, err);
}

tn_status tn_constraint_new(tn_grammar *grammar, const tn_tokenizer *tok, uint32_t n_vocab, bool allow_end,
                            tn_constraint **out, tn_error *err) {
    *out = NULL;
    tn_constraint *c = calloc(1, sizeof *c);
    if (!c) {
        tn_grammar_free(grammar);
        return tn_fail(err, TN_ERR_MEMORY, "grammar", NULL, "out of memory");
    }
    c->grammar = grammar;
    c->tok = tok;
    c->n_words = n_vocab / 64 + 1;
    const tn_status status = init(c, allow_end, err);
    if (status != TN_OK) {
        tn_constraint_free(c);
        return status;
    }
    *out = c;
    return TN_OK;
}

void tn_constraint_free(tn_constraint *c) {
    if (!c) return;
    tn_matcher_free(c->matcher);
    tn_grammar_free(c->grammar);
    free(c->sorted);
    free(c->tails);
    free(c->ends);
    free(c->masks);
    free(c->mask_of);
    free(c);
}

/* ---- Masks ---------------------------------------------------------------------------------------------------- */

/* The state behind n bytes, less the space that the text does not get. */
static uint32_t walk(tn_constraint *c, const char *bytes, size_t n, bool drop_space) {
    uint32_t state = c->state;
    for (size_t i = drop_space && n && bytes[0] == ' ' ? 1 : 0; i < n && state > TN_STATE_DEAD; i++)
        state = tn_matcher_step(c->matcher, state, (uint8_t)bytes[i]);
    return state;
}

/* Sets the bits of all tokens whose bytes can follow. Tokens are met in the order of their bytes: the states behind the bytes
 * that one shares with the next are kept, and where one cannot follow, all that share the bad byte cannot. False when the
 * matcher has no room. */
static bool walk_tokens(tn_constraint *c, uint64_t *mask) {
    uint32_t states[MAX_TOKEN_LEN + 1];
    uint32_t dead_at = UINT32_MAX; /* where the last token has a byte that cannot follow */
    uint8_t first = 0;
    states[0] = c->state;
    for (uint32_t i = 0; i < c->n_sorted; i++) {
        const tn_sorted_token *token = &c->sorted[i];
        const uint8_t *tail = c->tails + token->tail;
        if (token->shared > dead_at) continue;
        if (token->shared == 0) first = *tail;
        dead_at = UINT32_MAX;
        for (uint32_t at = token->shared; at < token->len && dead_at == UINT32_MAX; at++, tail++) {
            const bool dropped = at == 0 && c->drops_space && first == ' ';
            states[at + 1] = dropped ? states[0] : tn_matcher_step(c->matcher, states[at], *tail);
            if (states[at + 1] == TN_STATE_FULL) return false;
            if (states[at + 1] == TN_STATE_DEAD) dead_at = at;
        }
        const bool empty = c->drops_space && first == ' ' && token->len == 1;
        if (dead_at == UINT32_MAX && !empty) mask[token->id / 64] |= UINT64_C(1) << token->id % 64;
    }
    return true;
}

static void forget_masks(tn_constraint *c) {
    memset(c->mask_of, 0, TN_MAX_STATES * sizeof *c->mask_of);
    c->n_used = 0;
}

/* Makes room for new states; false if the present one alone is too large. */
static bool make_room(tn_constraint *c) {
    forget_masks(c);
    return (c->state = tn_matcher_compact(c->matcher, c->state)) != TN_STATE_FULL;
}

static tn_status no_room(tn_error *err) {
    return tn_fail(err, TN_ERR_UNSUPPORTED, "grammar", NULL,
                   "the text so far can go on in too many ways, or is nested too deeply");
}

static bool has_any(const uint64_t *mask, uint32_t n_words) {
    for (uint32_t i = 0; i < n_words; i++)
        if (mask[i]) return true;
    return false;
}

tn_status tn_constraint_mask(tn_constraint *c, const uint64_t **out, tn_error *err) {
    *out = NULL;
    if (c->state == TN_STATE_FULL) return no_room(err);
    if (!c->mask_of[c->state]) {
        if (c->n_used == c->n_masks) forget_masks(c);
        uint64_t *mask = c->masks + (size_t)c->n_used * c->n_words;
        memset(mask, 0, c->n_words * sizeof *mask);
        if (!walk_tokens(c, mask)) {
            if (!make_room(c)) return no_room(err);
            mask = c->masks;
            memset(mask, 0, c->n_words * sizeof *mask);
            if (!walk_tokens(c, mask)) return no_room(err);
        }
        if (tn_matcher_may_end(c->matcher, c->state))
            for (uint32_t i = 0; i < c->n_words; i++) mask[i] |= c->ends[i];
        c->mask_of[c->state] = (uint16_t)++c->n_used;
    }
    const uint64_t *mask = c->masks + (size_t)(c->mask_of[c->state] - 1) * c->n_words;
    if (!has_any(mask, c->n_words))
        return tn_fail(err, TN_ERR_UNSUPPORTED, "grammar", NULL,
                       "no token of the vocabulary can follow the text so far");
    *out = mask;
    return TN_OK;
}

bool tn_constraint_allows(tn_constraint *c, int32_t token) {
    if (c->state == TN_STATE_FULL) return false;
    if (tn_token_is_end(c->tok, token))
        return c->ends[token / 64] >> token % 64 & 1 && tn_matcher_may_end(c->matcher, c->state);
    size_t n;
    const char *bytes = tn_token_bytes(c->tok, token, false, &n);
    const bool empty = n == 0 || n > MAX_TOKEN_LEN || (c->drops_space && n == 1 && bytes[0] == ' ');
    if (empty) return false;
    uint32_t next = walk(c, bytes, n, c->drops_space);
    if (next == TN_STATE_FULL && make_room(c)) next = walk(c, bytes, n, c->drops_space);
    return next > TN_STATE_DEAD;
}

tn_status tn_constraint_accept(tn_constraint *c, int32_t token, tn_error *err) {
    size_t n;
    const char *bytes = tn_token_bytes(c->tok, token, false, &n);
    if (c->state == TN_STATE_FULL) return no_room(err);
    uint32_t next = walk(c, bytes, n, c->drops_space);
    if (next == TN_STATE_FULL && make_room(c)) next = walk(c, bytes, n, c->drops_space);
    if (next == TN_STATE_FULL) return no_room(err);
    if (next == TN_STATE_DEAD)
        return tn_fail(err, TN_ERR_ARG, "grammar", "token", "%d cannot follow the text so far", token);
    c->state = next;
    if (c->drops_space && n) {
        c->drops_space = false;
        forget_masks(c); /* that of the start counted with the space */
    }
    return TN_OK;
}

bool tn_constraint_is_complete(const tn_constraint *c) {
    return c->state != TN_STATE_FULL && tn_matcher_must_end(c->matcher, c->state);
}

bool tn_constraint_may_end(const tn_constraint *c) {
    return c->state != TN_STATE_FULL && tn_matcher_may_end(c->matcher, c->state);
}
