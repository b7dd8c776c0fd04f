/* Building a tokenizer from a vocabulary. */
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

/* In tokenizer.ggml.model's words. */
static const tn_text_model models[] = {
    {.name = "gpt2",
     .load = tn_bpe_load,
     .encode = tn_bpe_encode,
     .decode = tn_bpe_decode,
     .pretokenizes = true},
    {.name = "llama",
     .encode = tn_spm_encode,
     .decode = tn_spm_decode,
     .marks_spaces = true,
     .needs_scores = true,
     .add_bos = true,
     .add_space_prefix = true},
    {.name = "gemma4",
     .load = tn_bpe_load_merges,
     .encode = tn_spm_encode,
     .decode = tn_spm_decode,
     .marks_spaces = true,
     .add_bos = true},
    {.name = "t5",
     .load = tn_unigram_load,
     .encode = tn_unigram_encode,
     .decode = tn_spm_decode,
     .marks_spaces = true,
     .needs_scores = true,
     .add_eos = true,
     .add_space_prefix = true},
    {.name = "bert",
     .load = tn_wordpiece_load,
     .encode = tn_wordpiece_encode,
     .decode = tn_spm_decode,
     .add_bos = true,
     .add_sep = true,
     .add_space_prefix = true}, /* that is, the first word's token is decoded without a space */
    {.name = "rwkv", .load = tn_rwkv_load, .encode = tn_rwkv_encode, .decode = tn_rwkv_decode},
};

/* ---- Tokens -------------------------------------------------------------------------------------------- */

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
               {source->unk, "tokenizer.ggml.unknown_token_id"},
               {source->sep, "tokenizer.ggml.seperator_token_id"}};
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
    if (!tok->model->marks_spaces && token->type == TN_TOKEN_USER_DEFINED) return false;
    for (uint32_t i = 0; i < token->text_len; i++) /* no alphabet changes ASCII but for the backslash */
        if (token->text[i] & 0x80 || token->text[i] == '\\') return true;
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
    char *dst = tn_arena_alloc(&tok->arena, total, 1);
    if (!dst) return no_memory(err);
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        tn_token *token = &tok->tokens[i];
        if (token->bytes) continue;
        token->bytes = dst;
        if (token->type == TN_TOKEN_BYTE) {
            *dst = (char)byte_token_value(token->text, token->text_len);
            token->bytes_len = 1;
        } else {
            token->bytes_len = (uint32_t)tok->model->decode(token->text, token->text_len, dst);
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
    return tok->model->marks_spaces && token->type == TN_TOKEN_USER_DEFINED &&
           memchr(token->text, ' ', token->text_len);
}

static tn_status load_specials(tn_tokenizer *tok, tn_error *err) {
    size_t n = 0, n_marked = 0;
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        n += is_special(&tok->tokens[i]);
        if (needs_marks(tok, &tok->tokens[i]))
            n_marked += tok->tokens[i].text_len * (size_t)TN_SPACE_MARK_LEN;
    }
    tn_prefix *list = tn_arena_alloc(&tok->arena, n + 1, sizeof *list);
    char *dst = tn_arena_alloc(&tok->arena, n_marked + 1, 1);
    if (!list || !dst) return no_memory(err);
    n = 0;
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        const tn_token *token = &tok->tokens[i];
        if (!is_special(token)) continue;
        tn_prefix special = {token->text, token->text_len, i, token->type != TN_TOKEN_USER_DEFINED};
        if (needs_marks(tok, token)) {
            special.text = dst;
            special.len = (uint32_t)tn_spm_mark_spaces(token->text, token->text_len, dst);
            dst += special.len;
        }
        list[n++] = special;
    }
    tn_prefixes_init(&tok->specials, list, (uint32_t)n);
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
        tok->joins_words = tok->joins_words ||
                           (tok->model->marks_spaces && tn_spm_joins_words(token->text, token->text_len));
        tok->has_unused = tok->has_unused || token->type == TN_TOKEN_UNUSED;
    }
    return TN_OK;
}

static tn_status load_tokens(tn_tokenizer *tok, const tn_vocab_source *source, tn_error *err) {
    tok->n_tokens = source->n_tokens;
    tok->tokens = tn_arena_alloc(&tok->arena, source->n_tokens, sizeof *tok->tokens);
    if (!tok->tokens || !tn_text_index_init(&tok->by_text, tok->tokens, source->n_tokens, &tok->arena))
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

tn_status tn_tokenizer_index_matched(tn_tokenizer *tok, bool bytes, tn_error *err) {
    tn_prefix *list = tn_arena_alloc(&tok->arena, tok->n_tokens, sizeof *list);
    if (!list) return no_memory(err);
    uint32_t n = 0;
    for (uint32_t i = 0; i < tok->n_tokens; i++) {
        const tn_token *token = &tok->tokens[i];
        uint32_t len = bytes ? token->bytes_len : token->text_len;
        if (token->type == TN_TOKEN_NORMAL && len)
            list[n++] = (tn_prefix){.text = bytes ? token->bytes : token->text, .len = len, .id = i};
    }
    tn_prefixes_init(&tok->matched, list, n);
    return TN_OK;
}

/* ---- The whole ----------------------------------------------------------------------------------------- */

static const tn_text_model *find_model(const char *name) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0) return &models[i];
    return NULL;
}

static tn_status choose_model(tn_tokenizer *tok, const char *name, tn_error *err) {
    tok->model = name ? find_model(name) : NULL;
    if (tok->model) return TN_OK;
    char known[64] = "";
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (i) strcat(known, ", ");
        strcat(known, models[i].name);
    }
    if (!name)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.model", "missing; known: %s", known);
    return tn_fail(err, TN_ERR_UNSUPPORTED, "vocabulary", "tokenizer.ggml.model",
                   "unknown tokenizer model '%.64s'; known: %s", name, known);
}

static tn_status unknown_pretok(const char *name, tn_error *err) {
    char known[320] = "";
    const char *next;
    size_t len = 0;
    for (size_t i = 0; (next = tn_pretok_name(i)) && len + strlen(next) + sizeof ", ..." < sizeof known; i++)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "", next);
    const char *more = next ? ", ..." : "";
    if (!name)
        return tn_fail(err, TN_ERR_UNSUPPORTED, "vocabulary", "tokenizer.ggml.pre",
                       "missing; name the pre-tokenizer, one of: %s%s", known, more);
    return tn_fail(err, TN_ERR_UNSUPPORTED, "vocabulary", "tokenizer.ggml.pre",
                   "unknown pre-tokenizer '%.64s'; known: %s%s", name, known, more);
}

static tn_status load_pretok(tn_tokenizer *tok, const tn_pretok_spec *spec, tn_error *err) {
    tok->ignore_merges = spec->ignore_merges;
    tok->nfc = spec->nfc;
    return tn_pretok_new(spec, &tok->pretok, err);
}

static bool decide(int8_t said, bool otherwise) {
    return said < 0 ? otherwise : said;
}

/* What goes around a framed text. `defaults` holds where the file says nothing. */
static void load_frame(tn_tokenizer *tok, const tn_vocab_source *source, const tn_text_model *defaults) {
    tok->bos = (int32_t)source->bos;
    tok->eos = (int32_t)source->eos;
    tok->add_bos = tok->bos >= 0 && decide(source->add_bos, defaults->add_bos);
    tok->frame_end = -1;
    if (decide(source->add_eos, defaults->add_eos)) tok->frame_end = tok->eos;
    if (decide(source->add_sep, defaults->add_sep) && source->sep >= 0) tok->frame_end = (int32_t)source->sep;
    tok->unk = source->unk < 0 ? TN_NO_TOKEN : (uint32_t)source->unk;
    /* Some files name their end of text here too; no text of a user's may become that. */
    if (tok->unk != TN_NO_TOKEN && (tok->tokens[tok->unk].is_end || (int32_t)tok->unk == tok->bos))
        tok->unk = TN_NO_TOKEN;
    tok->add_space_prefix = tok->model->add_space_prefix;
    if (tok->model->marks_spaces)
        tok->add_space_prefix = decide(source->add_space_prefix, tok->add_space_prefix);
}

static tn_status load(tn_tokenizer *tok, const tn_vocab_source *source, const char *pre, tn_error *err) {
    tn_status status = check_source(source, err);
    if (status == TN_OK) status = choose_model(tok, source->model, err);
    if (status != TN_OK) return status;
    tn_text_model defaults = *tok->model;
    if (tok->model->pretokenizes) {
        const char *name = pre ? pre : source->pre;
        const tn_pretok_spec *spec = name ? tn_pretok_find(name) : NULL;
        if (!spec) return unknown_pretok(name, err);
        defaults.add_bos = spec->add_bos;
        defaults.add_sep = spec->add_sep;
        if (spec->marks_spaces)
            tok->model = find_model("gemma4");
        else if ((status = load_pretok(tok, spec, err)) != TN_OK)
            return status;
    }
    if (tok->model->needs_scores && !source->scores)
        return tn_fail(err, TN_ERR_FORMAT, "vocabulary", "tokenizer.ggml.scores", "missing");
    if ((status = load_tokens(tok, source, err)) != TN_OK) return status;
    mark_ends(tok, source);
    load_frame(tok, source, &defaults);
    return tok->model->load ? tok->model->load(tok, source, err) : TN_OK;
}

tn_status tn_tokenizer_new(const tn_vocab_source *source, const char *pre_override, tn_tokenizer **out,
                           tn_error *err) {
    *out = NULL;
    tn_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok) return no_memory(err);
    tok->arena.allocator = source->allocator;
    tn_status status = load(tok, source, pre_override, err);
    if (status == TN_OK)
        *out = tok;
    else
        tn_tokenizer_free(tok);
    return status;
}

void tn_tokenizer_free(tn_tokenizer *tok) {
    if (!tok) return;
    tn_pretok_free(tok->pretok);
    tn_arena_free(&tok->arena);
    free(tok);
}
