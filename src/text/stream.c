/* Token ids to text, piece by piece, never cutting a character. */
#include <string.h>

#include "../base/utf8.h"
#include "tokenizer_impl.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
enum { REPLACEMENT_LEN = 3 };

size_t tn_stream_bound(const tn_tokenizer *tok, int32_t id) {
    size_t len;
    tn_token_bytes(tok, id, true, &len);
    return REPLACEMENT_LEN * (len + sizeof((tn_text_stream *)0)->held); /* every byte may be a bad one */
}

/* The first token of a SentencePiece text begins with the space that tokenizing put there. */
static void drop_prefix(const tn_tokenizer *tok, tn_text_stream *stream, const char **bytes, size_t *len) {
    if (*len == 0 || stream->started) return;
    stream->started = true;
    if (!tok->add_space_prefix || **bytes != ' ') return;
    ++*bytes;
    --*len;
}

/* Copies whole characters and replaces bad ones; returns the bytes written and how many at the end are a
 * beginning. */
static size_t copy_whole(char *dst, const char *text, size_t n, size_t *n_cut) {
    size_t len = 0;
    *n_cut = 0;
    for (size_t i = 0; i < n;) {
        tn_utf8_span span = tn_utf8_look(text + i, n - i);
        if (span.kind == TN_UTF8_CUT) {
            *n_cut = span.len;
            break;
        }
        bool whole = span.kind == TN_UTF8_WHOLE;
        size_t width = whole ? span.len : REPLACEMENT_LEN;
        memcpy(dst + len, whole ? text + i : replacement, width);
        len += width;
        i += span.len;
    }
    return len;
}

size_t tn_stream_push(const tn_tokenizer *tok, tn_text_stream *stream, int32_t id, bool special, char *dst) {
    size_t len, n_cut, n_out = 0;
    const char *bytes = tn_token_bytes(tok, id, special, &len);
    drop_prefix(tok, stream, &bytes, &len);
    /* Complete the held character byte by byte: at most three bytes go this way. */
    while (stream->n_held && len) {
        stream->held[stream->n_held++] = (unsigned char)*bytes++;
        len--;
        n_out += copy_whole(dst + n_out, (const char *)stream->held, stream->n_held, &n_cut);
        memmove(stream->held, stream->held + stream->n_held - n_cut, n_cut);
        stream->n_held = (uint8_t)n_cut;
    }
    if (!len) return n_out;
    n_out += copy_whole(dst + n_out, bytes, len, &n_cut);
    memcpy(stream->held, bytes + len - n_cut, n_cut);
    stream->n_held = (uint8_t)n_cut;
    return n_out;
}

size_t tn_stream_flush(tn_text_stream *stream, char *dst) {
    if (!stream->n_held) return 0;
    stream->n_held = 0;
    memcpy(dst, replacement, REPLACEMENT_LEN); /* what is held is one beginning of a character */
    return REPLACEMENT_LEN;
}
