/* Building a tokenizer from a vocabulary, and the way of a text through it: special tokens are cut out first,
 * what lies between goes to byte-level BPE or SentencePiece. */
#include "tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_impl.h"

/* Texts of the tokens that published chat formats end a turn or a text with. */
typedef struct tn_end_text {
    const char *text;
    bool control_only; /* some vocabularies have the HTML tag as a user-defined token */
} tn_end_text;

static const tn_end_text end_texts[] = {
    {"</s>", true},
    {"<eos>", true},
    {"<EOT>", false},
    {"<end_of_turn>", false},
    {"<end_of_utterance>", false},
    {"<|endoftext|>", false},
    {"<|end_of_text|>", false},
    {"<|end_of_turn|>", false},
    {"<|endofturn|>", false},
    {"<|END_OF_TURN_TOKEN|>", false},
    {"<|end|>", false},
    {"<|im_end|>", false},
    {"<|eot_id|>", false},
    {"<|eom_id|>", false},
    {"<|eot|>", false},
    {"<|return|>", false},
    {"<|call|>", false},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     false}, /* DeepSeek */
};

/* ---- Load ---------------------------------------------------------------------------------------------- */

static tn_status no_memory(tn_error *err) {
    return tn_fail(err, TN_ERR_MEMORY, "vocabulary", NULL, "out of memory");
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* The byte that the text "<0xHH>" names, or -1. */
static int byte_token_value(const char *text, uint32_t len) {
    if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static tn_status check_id(int64_t id, uint32_t n_tokens, const char *key, tn_error *err) {
    if (id >= -1 && id < (int64_t)n_tokens) return TN_OK;
    return tn_fail(err, TN_ERR_FORMAT, "vocabulary", key, "id %lld, but there are %u tokens", (long long)id,
                   n_tokens);
}

static tn_status check_source(const tn_vocab_source *source, tn_error *err) {
    if (source->n_tokens == 0)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.tokens", "missing or empty");
    if (source->n_tokens > INT32_MAX)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.tokens", "%u are too many",
                       source->n_tokens);
    const struct {
        int64_t id;
        const char *key;
    } ids[] = {{source->bos, "tokenizer.ggml.bos_token_id"},
               {source->eos, "tokenizer.ggml.eos_token_id"},
               {source->eot, "tokenizer.ggml.eot_token_id"},
               {source->unk, "tokenizer.ggml.unknown_token_id"}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        tn_status status = check_id(ids[i].id, source->n_tokens, ids[i].key, err);
        if (status != TN_OK) return status;
    }
    if (source->add_bos == 1 && source->bos < 0)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.add_bos_token",
                       "true, but there is no tokenizer.ggml.bos_token_id");
    if (source->add_eos == 1 && source->eos < 0)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.add_eos_token",
                       "true, but there is no tokenizer.ggml.eos_token_id");
    return TN_OK;
}

static bool needs_decoding(const tn_tokenizer *tok, const tn_token *token) {
    if (token->type == TN_TOKEN_BYTE) return true;
    if (token->type == TN_TOKEN_CONTROL || token->type == TN_TOKEN_UNKNOWN) return false;
    if (!tok->spm && token->type == TN_TOKEN_USER_DEFINED) return false;
    for (uint32_t i = 0; i < token->text_len; i++)
        if (token->text[i] & 0x80) return true; /* neither alphabet changes ASCII */
    return false;
}

/* Fills tokens[].bytes: most texts stand for themselves, the others are decoded into one block. */
static tn_status decode_tokens(tn_tokenizer *tok, tn_error *err) {
    size_t total = 1;
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        tn_token *token = &tok->tokens[i];
        token->bytes = token->text;
        token->bytes_len = token->text_len;
        if (!needs_decoding(tok, token)) continue;
        token->bytes = NULL;
        total += token->text_len;
    }
    char *dst = tok->decoded = malloc(total);
    if (!dst) return no_memory(err);
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        tn_token *token = &tok->tokens[i];
        if (token->bytes) continue;
        token->bytes = dst;
        if (token->type == TN_TOKEN_BYTE) {
            *dst = (char)byte_token_value(token->text, token->text_len);
            token->bytes_len = 1;
        } else {
            token->bytes_len =
                (uint32_t)(tok->spm ? tn_spm_decode : tn_bpe_decode)(token->text, token->text_len, dst);
        }
        dst += token->bytes_len;
    }
    return TN_OK;
}

static bool is_special(const tn_token *token) {
    return token->text_len && (token->type == TN_TOKEN_CONTROL || token->type == TN_TOKEN_UNKNOWN ||
                               token->type == TN_TOKEN_USER_DEFINED);
}

/* Whether SentencePiece meets the token's text in another form: files write its spaces as spaces, the text has marks. */
static bool needs_marks(const tn_tokenizer *tok, const tn_token *token) {
    return tok->spm && token->type == TN_TOKEN_USER_DEFINED && memchr(token->text, ' ', token->text_len);
}

static tn_status load_specials(tn_tokenizer *tok, tn_error *err) {
    size_t n = 0, n_marked = 0;
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        n += is_special(&tok->tokens[i]);
        if (needs_marks(tok, &tok->tokens[i]))
            n_marked += tok->tokens[i].text_len * (size_t)TN_SPACE_MARK_LEN;
    }
    tn_special *list = calloc(n + 1, sizeof *list);
    char *dst = tok->marked = malloc(n_marked + 1);
    if (!list || !dst) {
        free(list);
        return no_memory(err);
    }
    n = 0;
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        const tn_token *token = &tok->tokens[i];
        if (!is_special(token)) continue;
        tn_special special = {token->text, token->text_len, i, token->type != TN_TOKEN_USER_DEFINED};
        if (needs_marks(tok, token)) {
            special.text = dst;
            special.len = (uint32_t)tn_spm_mark_spaces(token->text, token->text_len, dst);
            dst += special.len;
        }
        list[n++] = special;
    }
    tn_specials_init(&tok->specials, list, (uint32_t)n);
    return TN_OK;
}

/* Byte tokens are the fallback for single bytes; what merging may reach goes into the text index. */
static tn_status index_token(tn_tokenizer *tok, uint32_t id, tn_error *err) {
    const tn_token *token = &tok->tokens[id];
    if (token->type == TN_TOKEN_BYTE) {
        int byte = byte_token_value(token->text, token->text_len);
        if (byte < 0) {
            char where[64];
            snprintf(where, sizeof where, "tokenizer.ggml.tokens[%u]", id);
            return tn_fail(err, TN_ERR_FORMAT, "vocabulary", where, "byte token '%.*s', expected <0xHH>",
                           token->text_len < 64 ? (int)token->text_len : 64, token->text);
        }
        if (tok->byte_ids[byte] == TN_NO_TOKEN) tok->byte_ids[byte] = id;
    } else if (token->type != TN_TOKEN_CONTROL && token->type != TN_TOKEN_UNKNOWN && token->text_len) {
        tn_text_index_add(&tok->by_text, id);
        if (token->text_len > tok->max_len) tok->max_len = token->text_len;
        tok->joins_words = tok->joins_words || (tok->spm && tn_spm_joins_words(token->text, token->text_len));
        tok->has_unused = tok->has_unused || token->type == TN_TOKEN_UNUSED;
    }
    return TN_OK;
}

static tn_status load_tokens(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err) {
    tok->n_tokens = source->n_tokens;
    tok->tokens = calloc(source->n_tokens, sizeof *tok->tokens);
    if (!tok->tokens || !tn_text_index_init(&tok->by_text, tok->tokens, source->n_tokens))
        return no_memory(err);
    memset(tok->byte_ids, 0xFF, sizeof tok->byte_ids);
    for (uint32_t i = 0; i < source->n_tokens; i++) {
        tn_token *token = &tok->tokens[i];
        int32_t type = source->types ? source->types[i] : TN_TOKEN_NORMAL;
        token->text = source->token_text[i];
        token->text_len = source->token_len[i];
        token->score = source->scores ? source->scores[i] : 0.0f;
        token->type = (uint8_t)(type >= TN_TOKEN_NORMAL && type <= TN_TOKEN_BYTE ? type : TN_TOKEN_NORMAL);
        tn_status status = index_token(tok, i, err);
        if (status != TN_OK) return status;
    }
    tn_status status = load_specials(tok, err);
    return status == TN_OK ? decode_tokens(tok, err) : status;
}

static bool is_end_text(const char *text, size_t len, bool control) {
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++)
        if (len == strlen(end_texts[i].text) && memcmp(text, end_texts[i].text, len) == 0)
            return control || !end_texts[i].control_only;
    return false;
}

static void mark_ends(tn_tokenizer *tok, const tn_vocab_source *source) {
    if (source->eos >= 0) tok->tokens[source->eos].is_end = true;
    if (source->eot >= 0) tok->tokens[source->eot].is_end = true;
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        tn_token *token = &tok->tokens[i];
        /* A file without types says nothing of what is special: go by the text alone. */
        bool control = token->type == TN_TOKEN_CONTROL || !source->types;
        if (control || token->type == TN_TOKEN_USER_DEFINED)
            token->is_end = token->is_end || is_end_text(token->text, token->text_len, control);
    }
}

static tn_status load_pretok(tn_tokenizer *tok, const char *name, bool *add_bos, tn_error *err) {
    const tn_pretok_spec *spec = name ? tn_pretok_find(name) : NULL;
    if (!spec) {
        char known[256];
        tn_pretok_names(known, sizeof known);
        if (!name)
            return tn_fail(err, TN_ERR_UNSUPPORTED, "vocabulary", "tokenizer.ggml.pre",
                           "missing; name the pre-tokenizer, one of: %s", known);
        return tn_fail(err, TN_ERR_UNSUPPORTED, "vocabulary", "tokenizer.ggml.pre",
                       "unknown pre-tokenizer '%.64s'; known: %s", name, known);
    }
    *add_bos = spec->add_bos;
    tok->ignore_merges = spec->ignore_merges;
    return tn_pretok_new(spec, &tok->pretok, err);
}

/* How the vocabulary writes U+FFFD: what a byte becomes that some vocabularies of byte-level BPE have no
 * letter for. */
static tn_status load_replacement(tn_tokenizer *tok, tn_error *err) {
    const char *text = "\xEF\xBF\xBD";
    for (size_t i = 0; i < 3; i++)
        if (tok->byte_ids[(uint8_t)text[i]] == TN_NO_TOKEN) return TN_OK;
    int32_t *ids;
    size_t n;
    tn_status status = tn_tokenize(tok, text, 3, 0, &ids, &n, err);
    for (size_t i = 0; status == TN_OK && i < n && i < 3; i++)
        tok->replacement[tok->n_replacement++] = ids[i];
    free(ids);
    return status;
}

static tn_status load(tn_tokenizer *tok, const tn_vocab_source *source, const char *pre, tn_error *err) {
    tn_status status = check_source(source, err);
    if (status != TN_OK) return status;
    const char *model = source->model;
    if (!model)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.model",
                       "missing; known: gpt2, llama");
    tok->spm = strcmp(model, "llama") == 0;
    if (!tok->spm && strcmp(model, "gpt2") != 0)
        return tn_fail(err, TN_ERR_UNSUPPORTED, "vocabulary", "tokenizer.ggml.model",
                       "unknown tokenizer model '%.64s'; known: gpt2, llama", model);
    if (tok->spm && !source->scores)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.scores", "missing");
    bool add_bos = tok->spm;
    if (!tok->spm) status = load_pretok(tok, pre ? pre : source->pre, &add_bos, err);
    if (status == TN_OK) status = load_tokens(tok, source, err);
    if (status == TN_OK && !tok->spm) status = tn_bpe_load(tok, source, err);
    if (status != TN_OK) return status;
    tok->bos = (int32_t)source->bos;
    tok->eos = (int32_t)source->eos;
    tok->unk = source->unk < 0 ? TN_NO_TOKEN : (uint32_t)source->unk;
    tok->add_bos = tok->bos >= 0 && (source->add_bos < 0 ? add_bos : source->add_bos);
    tok->add_eos = source->add_eos == 1;
    tok->add_space_prefix = tok->spm && source->add_space_prefix != 0;
    mark_ends(tok, source);
    /* Some files name their end of text here too; no text of a user's may become that. */
    if (tok->unk != TN_NO_TOKEN && (tok->tokens[tok->unk].is_end || (int32_t)tok->unk == tok->bos))
        tok->unk = TN_NO_TOKEN;
    return tok->spm ? TN_OK : load_replacement(tok, err);
}

tn_status tn_tokenizer_new(const tn_vocab_source *source, const char *pre_override, tn_tokenizer **out,
                           tn_error *err) {
    *out = NULL;
    tn_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok) return no_memory(err);
    tn_status status = load(tok, source, pre_override, err);
    if (status == TN_OK)
        *out = tok;
    else
        tn_tokenizer_free(tok);
    return status;
}

void tn_tokenizer_free(tn_tokenizer *tok) {
    if (!tok) return;
    free(tok->tokens);
    free(tok->decoded);
    free(tok->marked);
    tn_text_index_free(&tok->by_text);
    tn_pair_index_free(&tok->merges);
    tn_pretok_free(tok->pretok);
    tn_specials_free(&tok->specials);
    free(tok);
}

/* ---- Encode -------------------------------------------------------------------------------------------- */

tn_status tn_encoder_push(tn_encoder *enc, uint32_t id) {
    if (enc->n_ids == enc->cap_ids) {
        size_t cap = enc->cap_ids ? 2 * enc->cap_ids : 64;
        int32_t *ids = realloc(enc->ids, cap * sizeof *ids);
        if (!ids) return tn_fail(enc->err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
        enc->ids = ids;
        enc->cap_ids = cap;
    }
    enc->ids[enc->n_ids++] = (int32_t)id;
    return TN_OK;
}

tn_status tn_encoder_push_byte(tn_encoder *enc, uint8_t byte) {
    const tn_tokenizer *tok = enc->tok;
    uint32_t id = tok->byte_ids[byte];
    if (id == TN_NO_TOKEN) id = tok->unk;
    if (id != TN_NO_TOKEN) return tn_encoder_push(enc, id);
    if (tok->n_replacement == 0)
        return tn_fail(enc->err, TN_ERR_UNSUPPORTED, "tokenize", "text",
                       "the vocabulary has no token for byte 0x%02X and no unknown token", byte);
    tn_status status = TN_OK;
    for (size_t i = 0; status == TN_OK && i < tok->n_replacement; i++)
        status = tn_encoder_push(enc, (uint32_t)tok->replacement[i]);
    return status;
}

/* Cuts out the special tokens and encodes what lies between. User-defined tokens of SentencePiece are matched
 * later, in the text with its spaces marked. */
static tn_status encode(tn_encoder *enc, const char *text, size_t n, unsigned flags) {
    const tn_tokenizer *tok = enc->tok;
    unsigned kinds =
        (flags & TN_TOKENIZE_SPECIAL ? TN_SPECIAL_CONTROL : 0) | (tok->spm ? 0 : TN_SPECIAL_USER);
    tn_status status = TN_OK;
    for (size_t done = 0, at = 0; status == TN_OK && done < n; done += at) {
        const tn_special *special = tn_specials_next(&tok->specials, kinds, text + done, n - done, &at);
        status = (tok->spm ? tn_spm_encode : tn_bpe_encode)(enc, text + done, at);
        if (!special) continue;
        if (status == TN_OK) status = tn_encoder_push(enc, special->id);
        at += special->len;
    }
    return status;
}

/* BOS goes in front and EOS behind, unless the text itself has said so already. */
static tn_status encode_framed(tn_encoder *enc, const char *text, size_t n, unsigned flags) {
    const tn_tokenizer *tok = enc->tok;
    bool frame = flags & TN_TOKENIZE_BOS;
    tn_status status = TN_OK;
    if (frame && tok->add_bos) status = tn_encoder_push(enc, (uint32_t)tok->bos);
    size_t n_bos = enc->n_ids;
    if (status == TN_OK) status = encode(enc, text, n, flags);
    if (status != TN_OK) return status;
    if (n_bos && enc->n_ids > 1 && enc->ids[1] == tok->bos)
        memmove(enc->ids, enc->ids + 1, --enc->n_ids * sizeof *enc->ids);
    if (!frame || !tok->add_eos || (enc->n_ids > n_bos && enc->ids[enc->n_ids - 1] == tok->eos)) return TN_OK;
    return tn_encoder_push(enc, (uint32_t)tok->eos);
}

tn_status tn_tokenize(const tn_tokenizer *tok, const char *text, size_t n, unsigned flags, int32_t **ids,
                      size_t *n_ids, tn_error *err) {
    *ids = NULL;
    *n_ids = 0;
    /* Positions are 32 bits, and a space becomes three bytes. */
    if (n > UINT32_MAX / 4) return tn_fail(err, TN_ERR_ARG, "tokenize", "text", "%zu bytes are too many", n);
    tn_encoder enc = {.tok = tok, .err = err};
    tn_status status = encode_framed(&enc, text, n, flags);
    tn_merge_free(&enc.work);
    if (status == TN_OK && !enc.ids) {
        enc.ids = malloc(sizeof *enc.ids); /* no tokens, but memory for the caller to free */
        if (!enc.ids) status = tn_fail(err, TN_ERR_MEMORY, "tokenize", NULL, "out of memory");
    }
    if (status != TN_OK) {
        free(enc.ids);
        return status;
    }
    *ids = enc.ids;
    *n_ids = enc.n_ids;
    return TN_OK;
}

/* ---- Look up ------------------------------------------------------------------------------------------- */

uint32_t tn_tokenizer_n_tokens(const tn_tokenizer *tok) {
    return tok->n_tokens;
}

int32_t tn_tokenizer_bos(const tn_tokenizer *tok) {
    return tok->bos;
}

int32_t tn_tokenizer_eos(const tn_tokenizer *tok) {
    return tok->eos;
}

static const tn_token *token_at(const tn_tokenizer *tok, int32_t id) {
    return id >= 0 && (uint32_t)id < tok->n_tokens ? &tok->tokens[id] : NULL;
}

const char *tn_token_bytes(const tn_tokenizer *tok, int32_t id, bool special, size_t *len) {
    const tn_token *token = token_at(tok, id);
    bool silent =
        !token || (!special && (token->type == TN_TOKEN_CONTROL || token->type == TN_TOKEN_UNKNOWN));
    *len = silent ? 0 : token->bytes_len;
    return silent ? "" : token->bytes;
}

tn_token_type tn_token_type_of(const tn_tokenizer *tok, int32_t id) {
    const tn_token *token = token_at(tok, id);
    return token ? (tn_token_type)token->type : TN_TOKEN_UNKNOWN;
}

bool tn_token_is_end(const tn_tokenizer *tok, int32_t id) {
    const tn_token *token = token_at(tok, id);
    return token && token->is_end;
}
