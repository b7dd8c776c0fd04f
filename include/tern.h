/* tern: run language models on the CPU you have.
 *
 * The one public header. The handles: a model (a file, read-only, shared by any number of threads), a session (one
 * sequence of tokens and its cache, used by one thread at a time), a generator (text from a session), a template (what
 * makes a prompt of messages, shared as a model is) and a chat (a conversation over a session).
 *
 * Conventions
 *   Every function that can fail returns tern_status and takes a tern_error, which may be NULL. On failure the
 *   out parameters are NULL or zero and nothing is left to free. The library never exits, aborts on input, prints,
 *   or keeps global state, but for the table of kernels, filled once, and a flag that each thread has for its own calls.
 *   NULL for a handle, an out parameter or a text that such a function needs is TERN_ERR_ARG. The others need theirs.
 *   Options are structs whose first member is their size: fill one with its ..._defaults function, then set what
 *   you want. NULL means the defaults. So they can grow; one that no ..._defaults function filled is TERN_ERR_ARG.
 *   Structs that functions fill have no size: they stay as they are as long as the library's soname does.
 *   Text is UTF-8 with an explicit length; bytes of any value are accepted.
 *   Logits depend on the model file and the tokens before them, and on nothing else. */
#ifndef TERN_H
#define TERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_VERSION_MAJOR 0
#define TERN_VERSION_MINOR 1
#define TERN_VERSION_PATCH 0

#if defined(__GNUC__)
#define TERN_API __attribute__((visibility("default")))
#else
#define TERN_API
#endif

typedef enum tern_status {
    TERN_OK = 0,
    TERN_ERR_ARG,         /* a parameter that cannot be meant */
    TERN_ERR_IO,          /* the operating system refused */
    TERN_ERR_FORMAT,      /* a file contradicts its format or itself */
    TERN_ERR_UNSUPPORTED, /* well formed, but not computable by this version */
    TERN_ERR_MEMORY,      /* out of memory, or more would be needed than there is */
    TERN_ERR_FULL,        /* the context has no room for the tokens */
    TERN_ERR_NUMERIC,     /* a logit that is not finite */
    TERN_ERR_CANCELLED    /* by tern_session_cancel, or a progress callback returned false */
} tern_status;

typedef struct tern_error {
    tern_status code;
    char message[512]; /* "WHAT: WHERE: WHY", NUL-terminated UTF-8 without control characters */
} tern_error;

typedef struct tern_model tern_model;
typedef struct tern_session tern_session;
typedef struct tern_generator tern_generator;
typedef struct tern_template tern_template;

/* Memory by functions of the host's, to count or to limit it. alloc returns NULL to refuse: the call that needed it then fails with
 * TERN_ERR_MEMORY. alignment is 64. free gets the bytes that were asked for. They may be called by every thread that uses a handle
 * with them, and are kept until the last such handle is freed. Through them goes what is large: of a model its index, vocabulary
 * and graph; of a session its plan, cache, scratch, logits and tokens, the cache whole when the session is made, or for a fork
 * when it first writes. Handles, tables of a few KiB, what libraries take, what calls hand out and the mapped file do not. */
typedef struct tern_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment);
    void (*free)(void *user, void *memory, size_t bytes);
    void *user;
} tern_allocator;

/* "0.1.0" */
TERN_API const char *tern_version(void);

/* ---- Model ---------------------------------------------------------------------------------------------- */

typedef enum tern_open_level {
    TERN_OPEN_ALL,     /* ready to compute */
    TERN_OPEN_VOCAB,   /* the tokenizer alone: weights may be absent */
    TERN_OPEN_METADATA /* the file's metadata and tensor list alone: any well-formed file */
} tern_open_level;

typedef struct tern_model_options {
    size_t size;
    tern_open_level level;
    const char *pre_tokenizer; /* NULL: what the file says */
    const char *arch_file;     /* NULL, or a YAML description that adds or replaces an architecture */
    /* NULL, or told of things that are odd but no error (a tensor that no step uses). The line is safe to print. */
    void (*warn)(void *user, const char *line);
    void *user;
    /* Read the whole file before the model is opened, so that the first prompt need not wait for the disk; a model without takes
     * milliseconds to open, and its weights are read when they are first computed with. */
    bool preload;
    /* NULL, or called as preload goes on; false cancels. */
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    tern_allocator allocator; /* all zero, the default: the system's memory */
} tern_model_options;

TERN_API void tern_model_options_defaults(tern_model_options *options);

/* Maps and validates a model file (a split file by its first shard). The file must stay as it is while open. */
TERN_API tern_status tern_model_open(const char *path, const tern_model_options *options, tern_model **out,
                                     tern_error *err);

/* Where the bytes of a model are: in a file by its path, in a part of an open file (an app's package), or in memory. */
typedef struct tern_source {
    size_t size;
    const char *path; /* with fd or data: NULL, or what messages and tern_model_info call the model */
    int fd; /* a descriptor of a regular file; -1, the default: none. It may be closed once the model is open */
    uint64_t offset; /* of the model in that file, a multiple of 4 */
    const void *
        data; /* memory at a multiple of 4, which must stay as it is while the model is open; NULL, the default: none */
    uint64_t n_bytes; /* of data; of the part of the file, 0: to its end */
} tern_source;

TERN_API void tern_source_defaults(tern_source *source);

/* tern_model_open from any source; the same checks, the same bits. A split file needs its path. */
TERN_API tern_status tern_model_open_source(const tern_source *source, const tern_model_options *options,
                                            tern_model **out, tern_error *err);

/* All sessions of the model must be closed first. NULL is fine. */
TERN_API void tern_model_close(tern_model *model);

/* How the rows of a text's tokens become one vector. */
typedef enum tern_pooling {
    TERN_POOLING_MODEL, /* as the file says; where it says nothing the mean for encoders, else the last */
    TERN_POOLING_NONE,  /* a vector for each token */
    TERN_POOLING_MEAN,
    TERN_POOLING_CLS, /* the first token's row */
    TERN_POOLING_LAST
} tern_pooling;

typedef struct tern_model_info {
    const char *path, *format, *architecture, *name; /* owned by the model; "" where the file says nothing */
    uint64_t file_bytes;                             /* all shards */
    uint32_t n_shards;
    uint64_t n_params;    /* elements of all tensors */
    uint32_t n_vocab;     /* 0 without a vocabulary */
    uint32_t n_ctx_train; /* longest sequence the model was made for; 0 unless opened whole, as the rest */
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim;
    const char *tokenizer;          /* "gpt2/smollm" */
    bool encoder;                   /* every token sees the whole text, which is computed at once */
    uint64_t n_metadata, n_tensors; /* entries of the file, for tern_model_metadata and tern_model_tensor */
    tern_pooling pooling;           /* how tern_embed makes one vector of a text unless told otherwise */
} tern_model_info;

TERN_API void tern_model_info_get(const tern_model *model, tern_model_info *info);

/* Metadata entry i < n_metadata of tern_model_info: key, type name ("u32", "string[3]") and its value as text, arrays
 * cut to their first max_items elements. `value` is written to buffer (NUL-terminated, escaped, cut to cap bytes);
 * returns false past the end. */
TERN_API bool tern_model_metadata(const tern_model *model, uint64_t i, uint64_t max_items, char *key,
                                  size_t key_cap, char *type, size_t type_cap, char *value, size_t value_cap);
/* Element `item` of entry i for programs, not escaped: a number in decimal, "true" or "false", or a string's own bytes.
 * Copies at most cap bytes to dst (no NUL) and returns the length of the whole; SIZE_MAX if there is no such element.
 * *count, unless NULL, is the number of elements: 1 unless an array, 0 past the end. */
TERN_API size_t tern_model_metadata_item(const tern_model *model, uint64_t i, uint64_t item, char *dst,
                                         size_t cap, uint64_t *count);

typedef struct tern_tensor_info {
    const char *name; /* owned by the model; escape before printing */
    const char *type; /* "Q4_K" */
    uint32_t n_dims;
    uint64_t dims[4];
    uint64_t n_bytes;
    bool computable; /* this version has kernels for the type */
} tern_tensor_info;

/* Tensor i, in the file's order; false past the end. */
TERN_API bool tern_model_tensor(const tern_model *model, uint64_t i, tern_tensor_info *info);

/* Copies untrusted bytes with bad UTF-8, control characters and those that change the order of text (bidirectional overrides and
 * isolates) as \xNN; NUL-terminates, returns the length written. */
TERN_API size_t tern_escape(char *dst, size_t cap, const char *text, size_t n);

/* ---- Tokens --------------------------------------------------------------------------------------------- */

enum {
    TERN_TOKENIZE_BOS = 1,     /* BOS (and EOS) where the vocabulary asks for it */
    TERN_TOKENIZE_SPECIAL = 2, /* text of control tokens becomes those tokens */
    TERN_TOKENIZE_OPEN = 4     /* the text goes on: no EOS behind it */
};

/* *ids is freed by the caller with tern_free. */
TERN_API tern_status tern_tokenize(const tern_model *model, const char *text, size_t n, unsigned flags,
                                   int32_t **ids, size_t *n_ids, tern_error *err);

/* A text as chunks of n_ctx tokens that are evaluated on their own, one behind the other: its tokens in order, without EOS; where the
 * vocabulary asks for BOS that is the first of each chunk, in the place of the text's. What is left over is dropped, so that *n_ids, a
 * multiple of n_ctx, may be 0. *ids is freed with tern_free. */
TERN_API tern_status tern_tokenize_chunks(const tern_model *model, const char *text, size_t n, uint32_t n_ctx,
                                          int32_t **ids, size_t *n_ids, tern_error *err);
TERN_API void tern_free(void *memory);

/* The bytes of one token, owned by the model; may be part of a character. Control tokens give their text only if
 * special. An id out of range gives length 0. */
TERN_API const char *tern_token_text(const tern_model *model, int32_t id, bool special, size_t *n);
TERN_API bool tern_token_is_end(const tern_model *model, int32_t id); /* ends a generation */

/* ---- Chat templates -------------------------------------------------------------------------------------- */

/* What turns a conversation into the text that a model was taught: the Jinja that models ship, rendered as Python's
 * jinja2 does in transformers' set-up. It reaches nothing but its variables and the clock, and has budgets of steps,
 * memory and output. A template may be used by many threads. */
typedef struct tern_template_options {
    size_t size;
    const tern_model *model; /* whose template, bos_token and eos_token; NULL if there is a source */
    /* NULL: the model's default, and for conversations with tools its "tool_use" if it has one. */
    const char *name;
    const char *source; /* instead of the model's: n_source bytes */
    size_t n_source;
    const char *bos, *eos; /* instead of the model's */
} tern_template_options;

TERN_API void tern_template_options_defaults(tern_template_options *options);

/* The model must stay open. Fails with TERN_ERR_UNSUPPORTED if it has no template. */
TERN_API tern_status tern_template_open(const tern_template_options *options, tern_template **out,
                                        tern_error *err);
TERN_API void tern_template_free(tern_template *t); /* NULL is fine */

typedef struct tern_conversation {
    size_t size;
    const char *messages;       /* a JSON array: [{"role": "user", "content": "Hi"}] */
    const char *tools;          /* a JSON array, or NULL */
    const char *documents;      /* a JSON array, or NULL */
    const char *variables;      /* more of them, a JSON object, or NULL */
    bool add_generation_prompt; /* end where the model's answer begins; default true */
} tern_conversation;

TERN_API void tern_conversation_defaults(tern_conversation *conversation);

/* *text has n bytes and a NUL, and is freed with tern_free. */
TERN_API tern_status tern_template_render(const tern_template *t, const tern_conversation *conversation,
                                          char **text, size_t *n, tern_error *err);

/* The same as token ids. Text of a control token is that token only where the template wrote it: in what came with the
 * conversation it stays text. BOS stands in front once if the vocabulary or the template asks for it. *ids is freed
 * with tern_free. */
TERN_API tern_status tern_template_tokenize(const tern_template *t, const tern_conversation *conversation,
                                            int32_t **ids, size_t *n_ids, tern_error *err);

/* ---- Session -------------------------------------------------------------------------------------------- */

/* q8_0 (int8 with an f16 scale per 32) takes about half of f16; the model's heads must be a multiple of 32 wide. */
typedef enum tern_kv_type { TERN_KV_F32, TERN_KV_F16, TERN_KV_Q8_0 } tern_kv_type;

typedef struct tern_session_options {
    size_t size;
    uint32_t n_ctx;   /* positions; 0: what the model was made for, at most 4096 */
    uint32_t n_batch; /* tokens computed at once in prefill; default 512 */
    uint32_t
        n_threads; /* 0: from the physical performance cores, affinity and cgroup quota of this process; more than the
                         * processors allowed are as many as those: the others could only wait for them */
    uint32_t n_outputs; /* rows of logits kept from one eval; default 1, at most n_batch */
    tern_kv_type kv;    /* default f16 */
    /* NULL, or called between batches of a prefill; false cancels. */
    bool (*progress)(void *user, uint32_t done, uint32_t total);
    void *user;
    bool
        pin; /* bind each thread that the session starts to a processor of its own; the caller's thread stays free */
    bool
        embeddings; /* instead of logits keep the rows that they are made of, for tern_embed; n_outputs is then n_batch.
                     * Most encoders have nothing else. The batch of an encoder is the whole context. */
    /* NULL, or the host's own threads instead of the session's: runs task(arg, i) for each i < n (n is n_threads of tern_session_info) and returns
     * when all are done. All n must run at the same time, since they wait for each other; one may be the caller's. Called once a
     * batch, by the thread that evaluates. */
    void (*parallel)(void *parallel_user, uint32_t n, void (*task)(void *arg, uint32_t i), void *arg);
    void *parallel_user;
    tern_allocator allocator; /* all zero, the default: the model's */
} tern_session_options;

TERN_API void tern_session_options_defaults(tern_session_options *options);

typedef struct tern_memory {
    uint64_t weights_bytes; /* the mapped file */
    uint64_t kv_bytes;      /* when the context is full; touched only as it fills */
    uint64_t scratch_bytes; /* activations, logits and per-thread scratch */
    uint32_t n_ctx_fits;    /* the largest context whose total fits the memory available now */
} tern_memory;

/* What a session with these options would need, before anything is allocated. */
TERN_API tern_status tern_session_memory(const tern_model *model, const tern_session_options *options,
                                         tern_memory *memory, tern_error *err);

TERN_API tern_status tern_session_new(const tern_model *model, const tern_session_options *options,
                                      tern_session **out, tern_error *err);
TERN_API void tern_session_free(tern_session *session); /* NULL is fine */

/* A session with the same options that stands where this one does, with the same tokens and logits, for many answers to one prompt.
 * It takes microseconds and 4 bytes a token: what is computed stays shared, as blocks of 64 positions, until one of the two overwrites it;
 * threads and scratch come with the fork's first evaluation, which may therefore fail with TERN_ERR_MEMORY or TERN_ERR_IO. The two go
 * on, are forked and are freed in any order, each with the bits of a session that was computed alone. Threads may fork one session at
 * the same time, as long as none uses it otherwise. Guesses of a generator that still lives are forked too: free it before. */
TERN_API tern_status tern_session_fork(const tern_session *session, tern_session **out, tern_error *err);

typedef struct tern_session_info {
    uint32_t n_ctx, position; /* positions of the context; of them, those that hold a token */
    const int32_t *tokens;    /* of these positions, owned by the session until its next call */
    uint32_t n_threads;
    uint32_t n_barriers; /* meetings of the threads between steps, in all evals so far, modulo 2^32 */
    const char *isa;     /* "avx2": the instruction set of its kernels */
} tern_session_info;

TERN_API void tern_session_info_get(const tern_session *session, tern_session_info *info);

/* Appends n tokens (n >= 1). Keeps the logits of the last n_outputs of them; n_outputs <= the session's n_outputs
 * and <= n. On failure or cancellation the position is where the last whole batch ended, or 0 where the tokens before had to be
 * computed anew (of some models, when the sequence passes a length); tern_session_sync goes on from either. Of an encoder the n
 * tokens are the whole text: it cannot go on behind others, and truncation drops all. */
TERN_API tern_status tern_session_eval(tern_session *session, const int32_t *ids, size_t n,
                                       uint32_t n_outputs, tern_error *err);

/* The only calls for other threads, and for signal handlers. From tern_session_cancel to tern_session_resume every eval, sync, embed,
 * chat prompt and generator of the session returns TERN_ERR_CANCELLED, what runs already within a step of the model: less than a token
 * takes. Nothing is lost by it: once resumed, the same generator or a sync of the same tokens goes on with the same bits. A stop
 * button cancels, and who asks the next question resumes: no press is lost, and none hits a question that came later. NULL is fine.
 * The session must be alive. */
TERN_API void tern_session_cancel(tern_session *session);
TERN_API void tern_session_resume(tern_session *session);

/* Output row i of the last eval, owned by the session until its next call: n_vocab logits, or n_embd floats of a session that keeps
 * embeddings. NULL if there is no such row. *width, unless NULL, is the number of floats. */
TERN_API const float *tern_session_row(const tern_session *session, uint32_t i, uint32_t *width);

/* Makes the session hold exactly these n >= 1 tokens and the logits of the last n_outputs: what it holds already of their
 * beginning is kept, the rest evaluated. *reused, unless NULL, is how many tokens were kept; fewer than are in common where a
 * truncation cannot keep them, or where their logits are asked for. */
TERN_API tern_status tern_session_sync(tern_session *session, const int32_t *ids, size_t n,
                                       uint32_t n_outputs, uint32_t *reused, tern_error *err);

/* Drops every token from `position` on. *kept is the position reached: `position`, or 0 where sliding-window layers no longer
 * hold what is needed, and then the whole prefix has to be evaluated again. */
TERN_API tern_status tern_session_truncate(tern_session *session, uint32_t position, uint32_t *kept,
                                           tern_error *err);

/* ---- Embeddings ------------------------------------------------------------------------------------------------ */

typedef struct tern_embed_options {
    size_t size;
    tern_pooling pooling; /* default as the model says */
    bool normalize;       /* vectors of length 1, the default */
    unsigned flags;       /* of tern_tokenize; default BOS and SPECIAL */
} tern_embed_options;

TERN_API void tern_embed_options_defaults(tern_embed_options *options);

/* The vectors of a text that fits the context: one, or with TERN_POOLING_NONE one for each token, of *width floats, one behind
 * the other. The session must keep embeddings (or the model have nothing else); what it held before is dropped. *vectors is freed
 * by the caller with tern_free. */
TERN_API tern_status tern_embed(tern_session *session, const char *text, size_t n,
                                const tern_embed_options *options, float **vectors, size_t *n_vectors,
                                uint32_t *width, tern_error *err);

/* The same for n_ids tokens, all of which the caller has chosen. */
TERN_API tern_status tern_embed_tokens(tern_session *session, const int32_t *ids, size_t n_ids,
                                       const tern_embed_options *options, float **vectors, size_t *n_vectors,
                                       uint32_t *width, tern_error *err);

/* ---- Saved state ---------------------------------------------------------------------------------------- */

/* The tokens and the cache of a session, as a file or in memory: as many bytes as the positions filled take. A session of the
 * same model and type of cache, whose context holds them, goes on from there with the same bits, whatever its batch, threads or
 * processor. A file appears whole or not at all. */
TERN_API tern_status tern_session_save(const tern_session *session, const char *path, tern_error *err);
/* *bytes is freed by the caller with tern_free. */
TERN_API tern_status tern_session_save_memory(const tern_session *session, void **bytes, size_t *n,
                                              tern_error *err);

/* What is truncated, damaged, or of another version, model or type of cache is refused; the session is then as if fresh. It holds
 * no logits until the next eval or sync. */
TERN_API tern_status tern_session_load(tern_session *session, const char *path, tern_error *err);
TERN_API tern_status tern_session_load_memory(tern_session *session, const void *bytes, size_t n,
                                              tern_error *err);

/* ---- Speed: for bench, doctor and whoever wants to know why a model runs as it does -------------------------------- */

/* The program of one eval is a list of steps, between which the threads meet. Only the steps of the last layer's tail and of
 * the output head are `outputs_only`: they are done for the rows whose logits are kept, all others for every token. */
typedef struct tern_step_info {
    int32_t layer; /* -1: before or after the layers */
    bool outputs_only;
    char operations
        [128]; /* "norm quantize | matmul matmul matmul": for each row | for each thread's columns */
    uint64_t weight_bytes; /* read once an eval, however many tokens it has (at most the batch size) */
    uint64_t weight_macs;  /* multiply-adds with weights, for each token or row */
    uint64_t kv_bytes;     /* of the cache that a token reads for each position it sees; 0 unless attention */
    uint64_t kv_macs;      /* multiply-adds for each position that a token sees */
    uint32_t window;       /* most positions a token sees; 0: all */
} tern_step_info;

/* Step i, in order; false past the end. */
TERN_API bool tern_session_step(const tern_session *session, uint32_t i, tern_step_info *info);

typedef struct tern_machine {
    char cpu[128];         /* name of the processor; all texts are safe to print */
    char features[256];    /* its instruction sets that matter, separated by spaces */
    char isa[16];          /* the level whose kernels are used: "avx2" */
    char isas[128];        /* those possible here: "ref, avx2" */
    bool isa_forced;       /* by the environment variable TERN_ISA */
    uint32_t n_cpus;       /* processors of the machine that run */
    uint32_t n_allowed;    /* of those, within the affinity mask of this process */
    uint32_t n_cores;      /* distinct physical cores among the allowed */
    uint32_t n_fast_cores; /* of those, the performance cores, where the processor has two kinds */
    uint32_t quota_cpus;   /* CPUs' worth of time that control groups allow, rounded up; 0: no limit */
    uint32_t n_threads;    /* the default of a session */
    uint64_t memory_bytes, available_bytes; /* 0 where the system does not say */
} tern_machine;

/* Fails if TERN_ISA names a level that is unknown or not possible here. */
TERN_API tern_status tern_machine_get(tern_machine *machine, tern_error *err);

typedef struct tern_machine_speed {
    uint64_t
        buffer_bytes; /* what was read again and again: buffer_bytes asked for, at most a quarter of free memory */
    double read_bytes_per_s; /* by n_threads, each in order through its share */
    double
        macs_per_s; /* 8-bit integer multiply-adds of n_threads with the level's instruction, operands in registers */
} tern_machine_speed;

/* Measures with n_threads (0: the default) for about `seconds` (up to 60); figures are of the best of several passes. A buffer
 * that fits a cache measures the cache: ask for as much as a model reads for a token, to compare with that. */
TERN_API tern_status tern_measure_machine(uint32_t n_threads, uint64_t buffer_bytes, double seconds,
                                          tern_machine_speed *speed, tern_error *err);

/* ---- Generator ------------------------------------------------------------------------------------------ */

/* A chain of stages, in this order unless another is given: penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC,
 * temperature; then one draw. src/text/sampler.h says what each does and where it was published. The same seed and logits give
 * the same tokens on every machine. Strings and arrays are read by tern_generator_new, not kept. */
typedef struct tern_logit_bias {
    int32_t token;
    float bias; /* added to its logit, before all stages; -INFINITY bans it */
} tern_logit_bias;

typedef struct tern_sampling {
    size_t size;
    uint64_t seed;
    float temperature;               /* 0: greedy; default 0.8 */
    int32_t top_k;                   /* 0: all; default 40 */
    float top_p;                     /* 1: all; default 0.95 */
    float min_p;                     /* 0: all; default 0.05 */
    float repeat_penalty;            /* 1: none, the default */
    int32_t repeat_last_n;           /* tokens that penalties look back on, -1: all; default 64 */
    float presence_penalty;          /* 0: none, the default */
    float frequency_penalty;         /* 0: none, the default */
    float temperature_range;         /* temperature +- this, by entropy; 0: fixed, the default */
    float temperature_exponent;      /* default 1 */
    float typical_p;                 /* 1: all, the default */
    float top_n_sigma;               /* 0: all, the default */
    float xtc_probability;           /* 0: never, the default */
    float xtc_threshold;             /* default 0.1 */
    float dry_multiplier;            /* 0: none, the default */
    float dry_base;                  /* default 1.75 */
    int32_t dry_allowed_length;      /* default 2 */
    int32_t dry_last_n;              /* tokens that DRY looks back on, -1: all, the default */
    const char *const *dry_breakers; /* texts that no repetition reaches across; default newline : " * */
    size_t n_dry_breakers;
    float mirostat_tau; /* surprise aimed at, in bits, instead of the filters; 0: none, the default */
    float mirostat_eta; /* default 0.1 */
    const tern_logit_bias *bias; /* n_bias of them, at most 4096 */
    size_t n_bias;
    const char *samplers; /* the stages to apply, in order: "top-k,temperature"; NULL: as above */
} tern_sampling;

TERN_API void tern_sampling_defaults(tern_sampling *sampling);

/* The defaults, with what the model's file recommends in their place; strings are owned by the model. */
TERN_API tern_status tern_model_sampling(const tern_model *model, tern_sampling *sampling, tern_error *err);

typedef enum tern_stop_reason {
    TERN_STOP_NONE,    /* still going */
    TERN_STOP_END,     /* the model ended its turn */
    TERN_STOP_STRING,  /* a stop string appeared; it and what follows is not part of the text */
    TERN_STOP_LIMIT,   /* max_tokens */
    TERN_STOP_FULL,    /* the context is full */
    TERN_STOP_COMPLETE /* the grammar or schema lets nothing follow */
} tern_stop_reason;

typedef struct tern_generator_options {
    size_t size;
    const tern_sampling *sampling; /* NULL: those of tern_model_sampling */
    uint64_t max_tokens;           /* UINT64_MAX, the default: none */
    const char *const *stop;       /* n_stop NUL-terminated strings, copied */
    size_t n_stop;
    bool ignore_end; /* go on past end tokens */
    bool special;    /* write the text of control tokens */
    /* The last n_begun tokens of the prompt are the beginning of the text, shown before: grammar and text go on behind them. */
    size_t n_begun;
    /* NULL, or a grammar that the whole text must match (docs/CONSTRAINTS.md), n_grammar bytes. The text ends where nothing can
     * follow. */
    const char *grammar;
    size_t n_grammar;
    const char *json_schema; /* the same by a JSON schema, n_json_schema bytes; NULL if there is a grammar */
    size_t n_json_schema;
    bool want_logprobs;  /* see tern_generated */
    uint32_t n_logprobs; /* tokens beside the one made */
    /* Tokens are guessed from what stood in the text before, evaluated several at once and kept where the sampler picks the same:
     * the text does not change, it comes faster where it repeats itself. As far ahead as the session keeps rows of logits
     * (n_outputs, TERN_DRAFT_OUTPUTS is enough), and only while it pays. */
    bool plain; /* do without */
    /* NULL, or a session of a smaller model with the same vocabulary, which guesses instead. */
    tern_session *draft;
} tern_generator_options;

enum { TERN_DRAFT_OUTPUTS = 16 };

TERN_API void tern_generator_options_defaults(tern_generator_options *options);

/* Generates from where the session stands; the session must hold logits (eval with n_outputs >= 1 came last) and
 * outlive the generator, as must the draft's. While the generator lives the session may hold guesses beyond the text; they are
 * taken back when it ends and when it is freed. prompt/n_prompt are the tokens so far, for the repetition penalty; may be NULL/0. */
TERN_API tern_status tern_generator_new(tern_session *session, const tern_generator_options *options,
                                        const int32_t *prompt, size_t n_prompt, tern_generator **out,
                                        tern_error *err);
TERN_API void tern_generator_free(tern_generator *generator); /* NULL is fine */

/* Makes one token. (*text, *n) is what can now be shown: whole characters, possibly none, owned by the generator
 * until its next call. When *stop is not TERN_STOP_NONE the generation is over and *text is its last piece. A part of a character
 * becomes U+FFFD where the model ended its text; where the limit or the end of the context cut it, it is left out: the whole
 * character comes when the text goes on (n_begun). After an error, and when cancelled, it can be called again. */
TERN_API tern_status tern_generator_next(tern_generator *generator, const char **text, size_t *n,
                                         tern_stop_reason *stop, tern_error *err);

typedef struct tern_logprob {
    int32_t token;
    float logprob; /* natural logarithm of the probability by the logits alone: before chain and grammar */
} tern_logprob;

/* What came of a generation so far. The first token needs no evaluation, for the prompt's was done before: the speed of the others is
 * (n_tokens - 1) / (seconds - first_s). */
typedef struct tern_generated {
    tern_stop_reason stop; /* TERN_STOP_NONE too when it was cancelled */
    uint64_t n_tokens;
    uint64_t n_guessed, n_right; /* tokens evaluated as guesses; those of them that became text */
    double first_s, seconds;     /* in the call that made the first token; in all calls */
    int32_t token;               /* the last one made; -1 before the first */
    /* Of that token, in element 0, then of the n_logprobs of the options likeliest, best first: n_logprobs in all, owned by the
     * generator until its next call. NULL and 0 before the first token, or if they were not asked for. */
    const tern_logprob *logprobs;
    size_t n_logprobs;
} tern_generated;

TERN_API void tern_generator_result(const tern_generator *generator, tern_generated *result);

/* The stages in force with their values, as text: "top-k 40; top-p 0.95; temperature 0.8; draw". Cut to cap bytes. */
TERN_API void tern_generator_describe(const tern_generator *generator, char *dst, size_t cap);

/* ---- Chat ------------------------------------------------------------------------------------------------ */

/* A conversation over a session: its messages, and which of them the model sees. What the session holds already of a prompt is not
 * computed again: after a turn, a changed message or an answer taken back, only what follows the first difference is. */
typedef struct tern_chat tern_chat;

typedef enum tern_when_full {
    TERN_WHEN_FULL_STOP, /* TERN_ERR_FULL */
    TERN_WHEN_FULL_DROP  /* the oldest turns are no longer shown to the model */
} tern_when_full;

typedef struct tern_chat_options {
    size_t size;
    tern_when_full when_full;
    /* Positions to keep free for an answer; default 512, at most a quarter of the context. */
    uint32_t n_reserve;
    const tern_template *chat_template; /* makes the prompt; it must outlive the chat */
    /* Or this does, if not NULL: turns messages, a JSON array of {"role": ..., "content": ...} and a NUL, into the tokens of a prompt
     * behind which the answer begins. *ids is freed with tern_free. */
    tern_status (*render)(void *user, const char *messages, size_t n, int32_t **ids, size_t *n_ids,
                          tern_error *err);
    void *user;
} tern_chat_options;

TERN_API void tern_chat_options_defaults(tern_chat_options *options);

/* One of chat_template and render must be set; the session must outlive the chat. */
TERN_API tern_status tern_chat_new(tern_session *session, const tern_chat_options *options, tern_chat **out,
                                   tern_error *err);
TERN_API void tern_chat_free(tern_chat *chat); /* NULL is fine */

typedef struct tern_message {
    const char *role, *text; /* NUL-terminated, owned by the chat until its next change */
    size_t n;                /* bytes of the text */
    bool dropped;            /* the model no longer sees it */
} tern_message;

TERN_API size_t tern_chat_n_messages(const tern_chat *chat);
TERN_API bool tern_chat_message(const tern_chat *chat, size_t i,
                                tern_message *message); /* false past the end */

/* Appends a message; role is "user", "assistant", or any that the template knows. Bad UTF-8 becomes U+FFFD. */
TERN_API tern_status tern_chat_add(tern_chat *chat, const char *role, const char *text, size_t n,
                                   tern_error *err);

/* Sets the system message, which comes first; n == 0 removes it. */
TERN_API tern_status tern_chat_set_system(tern_chat *chat, const char *text, size_t n, tern_error *err);

TERN_API void tern_chat_truncate(tern_chat *chat, size_t n_messages); /* keeps the first ones */
TERN_API void tern_chat_set_when_full(tern_chat *chat, tern_when_full when_full);

/* Brings the session to the point where the answer to the last message begins, its logits ready. When the prompt leaves no room for
 * the reserve and turns may be dropped, so many are that the rest fills at most half of the context, if it can; the system message
 * and the last turn are always kept. */
typedef struct tern_chat_prompt {
    const int32_t *ids; /* owned by the chat until its next prompt */
    size_t n_ids;
    uint32_t n_reused; /* of them, that the session held */
    size_t n_dropped;  /* messages dropped by this call */
    double seconds;    /* that the call took */
} tern_chat_prompt;

TERN_API tern_status tern_chat_begin(tern_chat *chat, tern_chat_prompt *prompt, tern_error *err);

/* The same with the beginning of an answer, n_answer tokens, behind the prompt: for one that ran into the end of the context and can go
 * on when turns are dropped. */
TERN_API tern_status tern_chat_continue(tern_chat *chat, const int32_t *answer, size_t n_answer,
                                        tern_chat_prompt *prompt, tern_error *err);

/* ---- Quantization: a model file with other tensor types ---------------------------------------------------------------- */

typedef struct tern_tensor_choice {
    const char *tensor; /* its whole name */
    const char *type;   /* "Q4_K" */
} tern_tensor_choice;

/* What becomes of a tensor. All texts are valid during the call alone. */
typedef struct tern_quantized_tensor {
    const char *name; /* escape before printing */
    const char *from, *type, *wanted;
    const char *why; /* "", or why type is not what was wanted, or why the tensor is kept as it is */
    uint64_t n_elements, from_bytes, n_bytes;
} tern_quantized_tensor;

/* Automatic recipes: what a type does to the model, for a group of tensors: those of one role in a third of the layers, or one that
 * belongs to no layer. */
typedef struct tern_quantize_candidate {
    const char *type;
    uint64_t n_bytes;  /* of the group */
    double divergence; /* of the model with this group alone made of the type from the model itself: nats */
} tern_quantize_candidate;

typedef struct tern_quantize_group {
    const char *pattern;              /* of the tensors' names: printable */
    bool layered;                     /* else one tensor that belongs to no layer */
    uint32_t first_layer, last_layer; /* both included */
    uint32_t n_tensors;
    uint64_t n_elements;
    const tern_quantize_candidate *candidates;
    size_t n_candidates, chosen;
} tern_quantize_group;

typedef struct tern_quantized {
    uint64_t n_elements, from_bytes, n_bytes; /* of all tensors */
    uint32_t n_fallbacks;                     /* tensors whose rows did not fit the type wanted */
    uint32_t n_shards;                        /* files written; 0 in a dry run */
    char *recipe;                             /* the recipe as applied, YAML; freed with tern_free */
    double divergence; /* with a text: the sum of the groups' divergences, an estimate for the whole */
} tern_quantized;

typedef struct tern_quantize_options {
    size_t size;
    const char *type;    /* a mix of types: "Q4_K_M"; NULL where there is a recipe or target_bpw */
    const char *recipe;  /* NULL, or a file with a recipe: docs/QUANTIZE.md */
    const char *imatrix; /* NULL, or a file with an importance matrix */
    const tern_tensor_choice *choices; /* n_choices types for single tensors, before all rules */
    size_t n_choices;
    const char *const *overrides; /* n_overrides metadata entries "KEY=VALUE" */
    size_t n_overrides;
    uint32_t n_threads;    /* 0: as a session's; the bytes do not depend on it */
    uint64_t split_bytes;  /* tensor data of a shard at most; 0: one file */
    bool keep_split;       /* shards as the input's */
    bool allow_requantize; /* of tensors that are quantized already */
    bool dry_run;          /* nothing is written */
    /* NULL, or told of each tensor before the first is made. */
    void (*tensor)(void *user, const tern_quantized_tensor *tensor);
    /* NULL, or called as the work goes on; false cancels. */
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
    double target_bpw; /* 0, or bits a weight that all tensors share, without type and recipe */
    /* NULL, or n_text bytes: types under a target (of target_bpw or the recipe) are chosen by how far the model's predictions for
     * this text move, not by squared error. Of a long text some chunks are used. */
    const char *text;
    size_t n_text;
    void (*group)(void *user, const tern_quantize_group *group); /* NULL, or told of each group and choice */
    /* NULL, or called while measuring; false cancels. total is 0 as long as the model itself is evaluated. */
    bool (*measuring)(void *user, uint64_t done, uint64_t total);
    /* NULL, or a file that keeps what is measured: what is in it is not measured again. Made where it is not there. */
    const char *measures;
    /* NULL, or told what will be made, sizes and recipe, before the first tensor is. */
    void (*applied)(void *user, const tern_quantized *plan);
} tern_quantize_options;

TERN_API void tern_quantize_options_defaults(tern_quantize_options *options);

/* Writes `out` (with several shards OUT-00001-of-0000N.gguf and so on) from the model file `in`. It appears whole or not at all,
 * and never in the place of the input. Exactly one of type, recipe and target_bpw is set. A weight that is not finite is an error.
 * *result may be NULL, and in a dry run `out`. */
TERN_API tern_status tern_quantize(const char *in, const char *out, const tern_quantize_options *options,
                                   tern_quantized *result, tern_error *err);

/* ---- Scores --------------------------------------------------------------------------------------------- */

/* The logarithms of the probabilities that n logits stand for: the same bits on every machine. Terms that are below e^-40 of the
 * largest are not counted in the sum. */
TERN_API void tern_log_softmax(const float *logits, size_t n, double *log_probs);

/* Kullback and Leibler's divergence of q from p in nats, both of tern_log_softmax: the sum of p (log p - log q). */
TERN_API double tern_kl_divergence(const double *log_p, const double *log_q, size_t n);

/* ---- Importance ----------------------------------------------------------------------------------------- */

typedef struct tern_imatrix_options {
    size_t size;
    uint32_t n_ctx;      /* tokens of a chunk, each evaluated on its own; default 512 */
    uint32_t n_batch;    /* tokens computed at once; default 512 */
    uint32_t n_threads;  /* 0: as a session's. The sums depend on neither */
    const char *dataset; /* a name of the text, kept in the file; default "" */
    /* NULL, or called after each chunk; false cancels. */
    bool (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} tern_imatrix_options;

TERN_API void tern_imatrix_options_defaults(tern_imatrix_options *options);

/* Writes an importance matrix in GGUF form, for tern_quantize: of the layers' matrices the sums of the squares of what each column
 * was multiplied by. ids are the chunks one behind the other; those of an unfinished one are left out. The file appears whole or
 * not at all. */
TERN_API tern_status tern_imatrix(const tern_model *model, const int32_t *ids, size_t n_ids,
                                  const tern_imatrix_options *options, const char *out, tern_error *err);

/* ---- Converting ----------------------------------------------------------------------------------------- */

typedef struct tern_convert_options {
    size_t size;
    /* Of matrices: "f32", "f16", "bf16", "q8_0"; "auto", the default: the checkpoint's if that has 16 bits, else f16. */
    const char *type;
    const char *pre_tokenizer; /* NULL: found by what the checkpoint says */
    const char *arch_file;     /* NULL, or a YAML description that adds or replaces an architecture */
    /* NULL, or called between pieces of work; false ends it with TERN_ERR_CANCELLED. */
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void (*warn)(void *user, const char *line); /* as in tern_model_options */
    void *user;
} tern_convert_options;

TERN_API void tern_convert_options_defaults(tern_convert_options *options);

/* Makes a GGUF file of a checkpoint directory in Hugging Face's form (config.json, *.safetensors, tokenizer files). The file
 * appears whole or not at all, and only if it opens as a model. Memory does not grow with the checkpoint. */
TERN_API tern_status tern_convert(const char *dir, const char *out, const tern_convert_options *options,
                                  tern_error *err);

#ifdef __cplusplus
}
#endif

#endif
