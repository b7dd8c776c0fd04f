/* SentencePiece's unigram model (Kudo 2018): of all ways to cut the normalized text into tokens, the one with the
 * highest sum of scores (log probabilities), found by Viterbi's algorithm over the bytes. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/utf8.h"
#include "tokenizer_impl.h"

/* How much worse than the worst token a character without one is. */
static const double unknown_penalty = 10.0;

tn_status tn_unigram_load(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err) {
    double worst = 0;
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        const tn_token *token = &tok->tokens[i];
        if (!isfinite(token->score))
            return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.scores",
                           "score %u is not finite", i);
        if (token->type == TN_TOKEN_NORMAL && token->score < worst) worst = token->score;
    }
    tok->unk_score = worst - unknown_penalty;
    tok->remove_extra_spaces = source->remove_extra_spaces != 0;
    tn_status status = tn_charsmap_read(&tok->charsmap, source->charsmap, source->n_charsmap_bytes, err);
    return status == TN_OK ? tn_tokenizer_index_matched(tok, false, err) : status;
}

/* ---- Normalization ------------------------------------------------------------------------------------- */

typedef struct tn_marked_text {
    char *bytes;
    size_t len, cap;
    bool add_prefix;    /* a space is still to come in front */
    bool space_pending; /* where extra spaces go: one is owed before the next character */
} tn_marked_text;

static bool append(tn_marked_text *out, const char *text, size_t n) {
    if (out->cap - out->len <= n) { /* so that there are bytes even for an empty text */
        size_t cap = 2 * out->cap + n + 64;
        char *bytes = realloc(out->bytes, cap);
        if (!bytes) return false;
        out->bytes = bytes;
        out->cap = cap;
    }
    memcpy(out->bytes + out->len, text, n);
    out->len += n;
    return true;
}

/* A stretch without spaces. */
static bool append_word(tn_marked_text *out, const char *text, size_t n) {
    if ((out->add_prefix || out->space_pending) && !append(out, TN_SPACE_MARK, TN_SPACE_MARK_LEN))
        return false;
    out->add_prefix = out->space_pending = false;
    return append(out, text, n);
}

static bool append_space(tn_marked_text *out, bool remove_extra) {
    if (!remove_extra) return append_word(out, TN_SPACE_MARK, TN_SPACE_MARK_LEN);
    out->space_pending = out->len > 0; /* none in front, and none behind: what is owed then is never paid */
    return true;
}

static bool append_normalized(const tn_tokenizer *tok, tn_marked_text *out, const char *text, size_t n) {
    bool fine = true;
    for (size_t i = 0, word; fine && i < n; i += word) {
        for (word = 0; i + word < n && text[i + word] != ' ';) word++;
        fine = word ? append_word(out, text + i, word) : append_space(out, tok->remove_extra_spaces);
        if (!word) word = 1;
    }
    return fine;
}

/* The whole text, its spaces marked. User-defined tokens stay as they are. */
static bool normalize(const tn_tokenizer *tok, const char *text, size_t n, tn_marked_text *out) {
    *out = (tn_marked_text){.add_prefix = tok->add_space_prefix};
    size_t next_user = 0, width;
    const tn_prefix *user = NULL;
    for (size_t i = 0; i < n; i += width) {
        const char *by = text + i;
        size_t by_len = 0;
        if (next_user <= i) { /* looked for once a token, not once a character */
            user = tn_special_next(&tok->specials, TN_SPECIAL_USER, text + i, n - i, &next_user);
            next_user += i;
        }
        if (user && next_user == i) {
            if (!append_word(out, by, width = user->len)) return false;
            next_user = i + width;
            continue;
        }
        width = tn_charsmap_match(&tok->charsmap, text + i, n - i, &by, &by_len);
        if (!width) width = by_len = tn_utf8_char(text + i, n - i);
        if (!width) { /* a bad byte */
            width = 1;
            by = "\xEF\xBF\xBD";
            by_len = 3;
        }
        if (!append_normalized(tok, out, by, by_len)) return false;
    }
    return true;
}

/* ---- Viterbi ------------------------------------------------------------------------------------------- */

/* The best way to reach a byte: by this token, or by an unknown character, from `from`. */
typedef struct tn_step {
    double score;
    uint32_t from, id; /* id TN_NO_TOKEN: unknown */
} tn_step;

static void improve(tn_step *to, double score, size_t from, uint32_t id) {
    if (score > to->score) *to = (tn_step){score, (uint32_t)from, id};
}

/* What a user-defined token or the map of normalization leaves need not be whole characters: other bytes are by themselves. */
static void find_steps(const tn_tokenizer *tok, const char *text, size_t n, tn_step *steps) {
    for (size_t i = 0; i <= n; i++) steps[i] = (tn_step){.score = i ? -DBL_MAX : 0};
    for (size_t i = 0; i < n;) {
        size_t width = tn_utf8_char(text + i, n - i);
        if (!width) width = 1;
        bool whole_char = false;
        tn_prefix_walk walk = {.set = &tok->matched};
        for (size_t end = i; end < n && tn_prefix_step(&walk, (uint8_t)text[end]); end++) {
            if (!walk.n_ending) continue;
            improve(&steps[end + 1], steps[i].score + (double)tok->tokens[walk.ending->id].score, i,
                    walk.ending->id);
            whole_char = whole_char || end + 1 - i == width;
        }
        if (!whole_char) improve(&steps[i + width], steps[i].score + tok->unk_score, i, TN_NO_TOKEN);
        i += width;
    }
}

/* The path runs from the end to the start; turns it around, so that `from` says where the step at a place leads. */
static void reverse_path(tn_step *steps, size_t n) {
    uint32_t at = (uint32_t)n, to = 0, id = TN_NO_TOKEN;
    while (true) {
        tn_step step = steps[at];
        steps[at].from = to;
        steps[at].id = id;
        if (at == 0) return;
        to = at;
        id = step.id;
        at = step.from;
    }
}

/* With marked spaces, without user-defined tokens. */
static tn_status encode_run(tn_encoder *enc, const char *text, size_t n) {
    if (n == 0) return TN_OK;
    tn_step *steps = malloc((n + 1) * sizeof *steps);
    if (!steps) return tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    find_steps(enc->tok, text, n, steps);
    reverse_path(steps, n);
    tn_status status = TN_OK;
    for (size_t at = 0; status == TN_OK && at < n;) {
        size_t to = steps[at].from;
        if (steps[at].id != TN_NO_TOKEN) {
            status = tn_encoder_push(enc, steps[at].id);
        } else { /* unknown characters in a row are one unknown piece */
            while (to < n && steps[to].id == TN_NO_TOKEN) to = steps[to].from;
            status = tn_encoder_push_unknown(enc, text + at, to - at);
        }
        at = to;
    }
    free(steps);
    return status;
}

tn_status tn_unigram_encode(tn_encoder *enc, const char *text, size_t n) {
    tn_marked_text marked;
    tn_status status = TN_OK;
    if (!normalize(enc->tok, text, n, &marked))
        status = tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    else if (marked.len > UINT32_MAX - 1)
        status = tn_fail(enc->err, TN_ERR_ARG, "tokenize", "text", "%zu normalized bytes are too many",
                         marked.len);
    for (size_t done = 0, at = 0; status == TN_OK && done < marked.len; done += at) {
        const tn_prefix *user = tn_special_next(&enc->tok->specials, TN_SPECIAL_USER, marked.bytes + done,
                                                marked.len - done, &at);
        status = encode_run(enc, marked.bytes + done, at);
        if (!user) continue;
        if (status == TN_OK) status = tn_encoder_push(enc, user->id);
        at += user->len;
    }
    free(marked.bytes);
    return status;
}
