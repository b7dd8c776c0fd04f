/* A host's long life in short: errands with the library, in random order for a given time, for a Python test.
 *
 *   soak SECONDS FOLDER MODEL...
 *
 * In a round some threads of the host run errands at once, with the same models and templates and sessions of their own. What an
 * errand asks (texts, lengths, seeds) comes from its number alone; how it is done (threads, batch, guesses, a kept session or a
 * new one) from the run. Every answer must be that of the errand's first time.
 *
 * The process has two lives, each of half the time. In the first, models, templates and a session for each model stay open from
 * round to round; in the second everything is closed between rounds. After each round, what the process holds must be what it
 * held after the first ones: the heap in use to the byte, anonymous memory, address space, descriptors and threads. Pages of
 * files are the system's to keep or drop, and do not count; what the allocator keeps free is given back first, and of stacks the
 * caller sees to it that none are kept (tests/test_soak.py). FOLDER takes the files that errands write and remove. */
#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tern.h"

/* The sanitizers have an allocator, shadow memory and threads' stacks of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
size_t __sanitizer_get_current_allocated_bytes(void); /* gcc comes without the header */
static const bool is_sanitized = true;
static long heap_in_use(void) {
    return (long)__sanitizer_get_current_allocated_bytes();
}
static long heap_reserved(void) {
    return 0;
}
#else
static const bool is_sanitized = false;
static long heap_in_use(void) {
    malloc_trim(0);
    const struct mallinfo2 info = mallinfo2();
    return (long)(info.uordblks + info.hblkhd);
}
static long heap_reserved(void) {
    return (long)mallinfo2().arena;
}
#endif

enum {
    N_ERRANDS = 96,
    N_OPEN_ERRANDS = 24, /* of them, while everything stays open: all are done once before the first look */
    MAX_HOSTS = 4,
    MAX_MODELS = 8,
    HEAP_SLACK_BYTES = 256, /* a chunk of the allocator's may be 16 bytes more than asked for */
    SLACK_BYTES = 32 << 10,
    TEXT_BYTES = 4096,
    N_CTX = 256
};

#ifdef __SANITIZE_THREAD__ /* a hundred times slower: errands are to meet there, and end in the time given */
enum { ERRANDS_A_ROUND = 4, WARM_UP = 2 };
#else
enum { ERRANDS_A_ROUND = 24, WARM_UP = 4 };
#endif

typedef uint64_t rng;

static uint64_t draw(rng *r, uint64_t n) { /* 0 .. n - 1; splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = *r += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}

static void hash(uint64_t *h, const void *data, size_t n) { /* FNV-1a */
    for (const unsigned char *p = data, *end = p + n; p < end; p++) *h = (*h ^ *p) * 0x100000001b3u;
}

/* What an errand works with; what it makes is freed by finish_errand, whatever became of it. */
typedef struct errand {
    const char *path, *folder;
    int host;
    tern_model *model;
    const tern_template *shared_template; /* NULL for an encoder */
    tern_session **kept;                  /* the model's session, that errands share */
    bool keeps;                           /* it is never replaced */
    bool first;                           /* of all: what may make that session larger is done */
    rng what, *how;
    uint64_t answer;
    tern_session *session;
    tern_generator *generator;
    tern_template *own_template;
    tern_chat *chat;
    int32_t *ids;
    size_t n_ids;
    void *memory; /* of tern_free */
} errand;

static void finish_errand(errand *e) {
    tern_generator_free(e->generator);
    tern_chat_free(e->chat);
    tern_template_free(e->own_template);
    tern_session_free(e->session);
    tern_free(e->ids);
    tern_free(e->memory);
}

/* ---- Texts and sessions ---- */

static size_t make_text(rng *what, size_t max_words, char *text) {
    static const char *const words[] = {"the ",   "sea ", "of ",   "a ",   "12 ",    "cat, ",
                                        "naïve ", "\n",   "日本 ", "({[ ", "don't ", "🙂"};
    const size_t n_words = 1 + draw(what, max_words);
    size_t n = 0;
    for (size_t i = 0; i < n_words && n + 16 < TEXT_BYTES; i++) {
        const char *word = words[draw(what, sizeof words / sizeof *words)];
        memcpy(text + n, word, strlen(word));
        n += strlen(word);
    }
    return n;
}

static tern_status tokenize(errand *e, size_t max_words, tern_error *err) {
    char text[TEXT_BYTES];
    const size_t n = make_text(&e->what, max_words, text);
    tern_free(e->ids);
    return tern_tokenize(e->model, text, n, TERN_TOKENIZE_BOS, &e->ids, &e->n_ids, err);
}

static void any_options(errand *e, tern_session_options *options) {
    static const uint32_t batches[] = {1, 7, 64, 512};
    tern_session_options_defaults(options);
    options->n_ctx = N_CTX;
    options->n_batch = batches[draw(e->how, 4)];
    options->n_threads = 1 + (uint32_t)draw(e->how, 3);
    options->n_outputs = options->n_batch < 64 || draw(e->how, 2) ? 1 : TERN_DRAFT_OUTPUTS;
}

/* The shared session, or sometimes another in its place. */
static tern_status take_session(errand *e, tern_session **session, tern_error *err) {
    tern_session_options options;
    if (!e->keeps && draw(e->how, 8) == 0) tern_session_free(*e->kept), *e->kept = NULL;
    any_options(e, &options);
    const tern_status status = *e->kept ? TERN_OK : tern_session_new(e->model, &options, e->kept, err);
    *session = *e->kept;
    return status;
}

static tern_status generate(errand *e, tern_session *session, tern_generator_options *options,
                            tern_error *err) {
    tern_sampling sampling;
    tern_stop_reason stop = TERN_STOP_NONE;
    tern_sampling_defaults(&sampling);
    sampling.seed = draw(&e->what, 1000);
    sampling.temperature = draw(&e->what, 3) ? 0.9f : 0;
    options->sampling = &sampling;
    options->max_tokens = 1 + draw(&e->what, 40);
    options->plain = draw(e->how, 2);
    tern_generator_free(e->generator);
    e->generator = NULL;
    tern_status status = tern_generator_new(session, options, e->ids, e->n_ids, &e->generator, err);
    while (status == TERN_OK && stop == TERN_STOP_NONE) {
        const char *text;
        size_t n;
        status = tern_generator_next(e->generator, &text, &n, &stop, err);
        tern_generated made;
        tern_generator_result(e->generator, &made);
        if (status == TERN_OK) hash(&e->answer, text, n), hash(&e->answer, &made.token, sizeof made.token);
    }
    hash(&e->answer, &stop, sizeof stop);
    return status;
}

/* ---- Errands ---- */

static tern_status do_tokenize(errand *e, tern_error *err) {
    const tern_status status = tokenize(e, 600, err);
    for (size_t i = 0; status == TERN_OK && i < e->n_ids; i++) {
        size_t n;
        const char *text = tern_token_text(e->model, e->ids[i], true, &n);
        hash(&e->answer, &e->ids[i], sizeof e->ids[i]), hash(&e->answer, text, n);
    }
    return status;
}

static tern_status do_generate(errand *e, tern_error *err) {
    tern_session *session;
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    tern_status status = tokenize(e, 40, err);
    if (status == TERN_OK) status = take_session(e, &session, err);
    if (status == TERN_OK) status = tern_session_sync(session, e->ids, e->n_ids, 1, NULL, err);
    return status == TERN_OK ? generate(e, session, &options, err) : status;
}

static tern_status do_constrained(errand *e, tern_error *err) {
    static const char grammar[] = "root ::= (\"cat\" | \"dog\" | [a-e]+) (\" \" root)?";
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}, \"s\": {\"type\": "
        "\"string\", \"maxLength\": 8}}, \"required\": [\"n\"], \"additionalProperties\": false}";
    tern_session *session;
    tern_generator_options options;
    tern_generator_options_defaults(&options);
    if (draw(&e->what, 2))
        options.grammar = grammar, options.n_grammar = strlen(grammar);
    else
        options.json_schema = schema, options.n_json_schema = strlen(schema);
    tern_status status = tokenize(e, 20, err);
    if (status == TERN_OK) status = take_session(e, &session, err);
    if (status == TERN_OK) status = tern_session_sync(session, e->ids, e->n_ids, 1, NULL, err);
    return status == TERN_OK ? generate(e, session, &options, err) : status;
}

/* What the shared session holds goes on in another one: by a state in memory, in a file, or a fork. Sometimes it goes on itself
 * first, so that of a fork's blocks now the one and now the other takes a copy. */
static tern_status do_state(errand *e, tern_error *err) {
    tern_session *session;
    tern_session_options options;
    tern_generator_options generator;
    char path[512];
    size_t n;
    snprintf(path, sizeof path, "%s/state%d", e->folder, e->host);
    tern_generator_options_defaults(&generator);
    any_options(e, &options);
    tern_status status = tokenize(e, 40, err);
    if (status == TERN_OK) status = take_session(e, &session, err);
    if (status == TERN_OK) status = tern_session_sync(session, e->ids, e->n_ids, 1, NULL, err);
    const uint64_t way = e->first ? 0 : draw(e->how, 3);
    if (status == TERN_OK)
        status = way == 0 ? tern_session_fork(session, &e->session, err)
                          : tern_session_new(e->model, &options, &e->session, err);
    if (way == 1) {
        if (status == TERN_OK) status = tern_session_save_memory(session, &e->memory, &n, err);
        if (status == TERN_OK) status = tern_session_load_memory(e->session, e->memory, n, err);
    } else if (way == 2) {
        if (status == TERN_OK) status = tern_session_save(session, path, err);
        if (status == TERN_OK) status = tern_session_load(e->session, path, err);
        unlink(path);
    }
    const uint64_t answer = e->answer;
    const rng what = e->what;
    if (status == TERN_OK && (e->first || draw(e->how, 2))) {
        status = generate(e, session, &generator, err);
        e->answer = answer, e->what = what;
    }
    if (status == TERN_OK) status = tern_session_sync(e->session, e->ids, e->n_ids, 1, NULL, err);
    return status == TERN_OK ? generate(e, e->session, &generator, err) : status;
}

/* Turns of a chat, more than the context holds. */
static tern_status do_chat(errand *e, tern_error *err) {
    tern_session *session;
    tern_chat_options chat_options;
    tern_chat_prompt prompt;
    tern_generator_options generator;
    tern_generator_options_defaults(&generator);
    tern_chat_options_defaults(&chat_options);
    chat_options.chat_template = e->shared_template;
    chat_options.when_full = TERN_WHEN_FULL_DROP;
    tern_status status = take_session(e, &session, err);
    if (status == TERN_OK) status = tern_chat_new(session, &chat_options, &e->chat, err);
    for (size_t turn = 1 + draw(&e->what, 5); status == TERN_OK && turn > 0; turn--) {
        char text[TEXT_BYTES];
        status = tern_chat_add(e->chat, "user", text, make_text(&e->what, 20, text), err);
        if (status == TERN_OK) status = tern_chat_begin(e->chat, &prompt, err);
        if (status == TERN_OK) hash(&e->answer, prompt.ids, prompt.n_ids * sizeof *prompt.ids);
        if (status == TERN_OK) status = generate(e, session, &generator, err);
        if (status == TERN_OK) status = tern_chat_add(e->chat, "assistant", "Yes.", 4, err);
    }
    return status;
}

static tern_status do_template(errand *e, tern_error *err) {
    char messages[TEXT_BYTES];
    size_t n = 0, n_text;
    const uint64_t n_messages = 1 + draw(&e->what, 12);
    tern_template_options options;
    tern_conversation conversation;
    tern_template_options_defaults(&options);
    tern_conversation_defaults(&conversation);
    for (uint64_t i = 0; i < n_messages; i++)
        n += (size_t)snprintf(messages + n, sizeof messages - n,
                              "%c{\"role\": \"%s\", \"content\": \"message %" PRIu64 "\"}", i ? ',' : '[',
                              i % 2 ? "assistant" : "user", draw(&e->what, 1000000));
    snprintf(messages + n, sizeof messages - n, "]");
    options.model = e->model;
    conversation.messages = messages;
    const bool own = draw(e->how, 4) == 0;
    tern_status status = own ? tern_template_open(&options, &e->own_template, err) : TERN_OK;
    const tern_template *t = own ? e->own_template : e->shared_template;
    if (status == TERN_OK) status = tern_template_render(t, &conversation, (char **)&e->memory, &n_text, err);
    if (status == TERN_OK) hash(&e->answer, e->memory, n_text);
    return status;
}

static tern_status do_embed(errand *e, tern_error *err) {
    char text[TEXT_BYTES];
    size_t n_vectors;
    uint32_t width;
    tern_session_options options;
    any_options(e, &options);
    options.embeddings = true, options.n_outputs = 1;
    tern_status status = tern_session_new(e->model, &options, &e->session, err);
    const size_t n = make_text(&e->what, 30, text);
    if (status == TERN_OK)
        status = tern_embed(e->session, text, n, NULL, (float **)&e->memory, &n_vectors, &width, err);
    if (status == TERN_OK) hash(&e->answer, e->memory, n_vectors * width * sizeof(float));
    return status;
}

/* The file opened once more, as a program that looks at it does. */
static tern_status do_open(errand *e, tern_error *err) {
    tern_model *model;
    tern_model_info info;
    tern_memory memory;
    tern_status status = tern_model_open(e->path, NULL, &model, err);
    if (status != TERN_OK) return status;
    tern_model_info_get(model, &info);
    hash(&e->answer, &info.n_params, sizeof info.n_params);
    for (uint64_t i = 0; i < info.n_metadata; i++) {
        char key[128], type[32], value[256];
        tern_model_metadata(model, i, 4, key, sizeof key, type, sizeof type, value, sizeof value);
        hash(&e->answer, key, strlen(key)), hash(&e->answer, value, strlen(value));
    }
    status = tern_session_memory(model, NULL, &memory, err);
    hash(&e->answer, &memory.weights_bytes, sizeof memory.weights_bytes);
    tern_model_close(model);
    return status;
}

static tern_status do_quantize(errand *e, tern_error *err) {
    static const char *const types[] = {"Q8_0", "Q4_0", "Q4_K_M", "IQ4_NL", "Q3_K_S"};
    tern_quantize_options options;
    tern_model_info info;
    char path[512], bytes[4096];
    tern_model_info_get(e->model, &info);
    if (info.file_bytes > 8 << 20) return do_open(e, err); /* a real model takes too long */
    tern_quantize_options_defaults(&options);
    options.type = types[draw(&e->what, 5)];
    options.allow_requantize = true;
    options.n_threads = 1 + (uint32_t)draw(e->how, 3);
    snprintf(path, sizeof path, "%s/quantized%d", e->folder, e->host);
    const tern_status status = tern_quantize(e->path, path, &options, NULL, err);
    FILE *file = status == TERN_OK ? fopen(path, "rb") : NULL;
    for (size_t n; file && (n = fread(bytes, 1, sizeof bytes, file)) > 0;) hash(&e->answer, bytes, n);
    if (file) fclose(file);
    unlink(path);
    return status;
}

/* What must be refused, each time in the same words. */
static tern_status do_wrong(errand *e, tern_error *err) {
    static const char damaged[] = "tern state?";
    tern_session_options options;
    tern_template_options source;
    tern_generator_options generator;
    tern_error refused;
    tern_model *model;
    uint32_t n_right = 0;
    any_options(e, &options);
    tern_template_options_defaults(&source);
    source.source = "{% for m in messages %}", source.n_source = strlen(source.source);
    tern_generator_options_defaults(&generator);
    generator.grammar = "root ::= (", generator.n_grammar = strlen(generator.grammar);
    tern_status status = tokenize(e, 20, err);
    if (status == TERN_OK) status = tern_session_new(e->model, &options, &e->session, err);
    if (status == TERN_OK) status = tern_session_eval(e->session, e->ids, e->n_ids, 1, err);
    if (status != TERN_OK) return status;
    for (int i = 0; i < 5; i++) {
        refused = (tern_error){0};
        switch (i) {
        case 0: n_right += tern_model_open(e->folder, NULL, &model, &refused) == TERN_ERR_IO; break;
        case 1: n_right += tern_template_open(&source, &e->own_template, &refused) != TERN_OK; break;
        case 2:
            n_right +=
                tern_generator_new(e->session, &generator, NULL, 0, &e->generator, &refused) != TERN_OK;
            break;
        case 3:
            n_right += tern_session_eval(e->session, (const int32_t[]){-1}, 1, 1, &refused) == TERN_ERR_ARG;
            break;
        default:
            n_right += tern_session_load_memory(e->session, damaged, sizeof damaged, &refused) != TERN_OK;
        }
        hash(&e->answer, refused.message, strlen(refused.message));
    }
    if (n_right == 5) return TERN_OK;
    snprintf(err->message, sizeof err->message,
             "only %u of 5 mistakes were refused as they should be; last: %.200s", n_right, refused.message);
    return TERN_ERR_ARG;
}

static const struct kind {
    const char *name;
    bool encoder; /* an encoder can too */
    tern_status (*run)(errand *e, tern_error *err);
} kinds[] = {
    {"tokenize", true, do_tokenize}, {"generate", false, do_generate}, {"constrained", false, do_constrained},
    {"state", false, do_state},      {"chat", false, do_chat},         {"template", false, do_template},
    {"embed", true, do_embed},       {"open", true, do_open},          {"quantize", true, do_quantize},
    {"wrong", false, do_wrong},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* ---- Rounds ---- */

/* What a process holds between rounds. */
typedef struct holding {
    long heap_bytes, memory_bytes, address_bytes /* without the heap's */, n_descriptors, n_threads;
} holding;

static long count_entries(const char *path) {
    long n = 0;
    DIR *folder = opendir(path);
    while (folder && readdir(folder)) n++;
    if (folder) closedir(folder);
    return n;
}

static holding look(void) {
    holding h = {.heap_bytes = heap_in_use(),
                 .n_descriptors = count_entries("/proc/self/fd"),
                 .n_threads = count_entries("/proc/self/task")};
    char line[512];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "RssAnon: %ld", &h.memory_bytes);
        sscanf(line, "VmSize: %ld", &h.address_bytes);
    }
    if (file) fclose(file);
    h.memory_bytes *= 1024, h.address_bytes = h.address_bytes * 1024 - heap_reserved();
    return h;
}

typedef struct soak {
    const char *folder;
    char **paths;
    int n_models;
    rng how;
    tern_model *models[MAX_MODELS];
    tern_template *templates[MAX_MODELS];
    bool stays_open;
    tern_session *kept[MAX_MODELS];                       /* then: the first thread's sessions */
    atomic_uint_least64_t answers[MAX_MODELS][N_ERRANDS]; /* 0: not asked yet */
    atomic_uint_least64_t n_done[N_KINDS], n_compared;
} soak;

/* A thread of the host. */
typedef struct host {
    soak *s;
    int number, failed;
    rng how;
    tern_session *own[MAX_MODELS], **kept;
    bool first;
} host;

static int run_errand(host *h, int m, uint64_t number) {
    soak *s = h->s;
    const struct kind *kind = &kinds[number % N_KINDS];
    tern_model_info info;
    tern_model_info_get(s->models[m], &info);
    if (info.encoder && !kind->encoder) return 0;
    errand e = {.path = s->paths[m], .folder = s->folder, .host = h->number, .model = s->models[m]};
    e.shared_template = s->templates[m], e.kept = &h->kept[m], e.how = &h->how;
    e.keeps = h->kept != h->own, e.first = h->first;
    e.what = number * 1000 + (uint64_t)m;
    e.answer = 0xcbf29ce484222325u;
    tern_error err = {0};
    const tern_status status = kind->run(&e, &err);
    finish_errand(&e);
    uint64_t first = 0;
    const bool compared =
        status == TERN_OK && !atomic_compare_exchange_strong(&s->answers[m][number], &first, e.answer);
    if (status != TERN_OK || (compared && first != e.answer)) {
        fprintf(stderr, "soak: %s: errand %" PRIu64 ", %s: %s\n", s->paths[m], number, kind->name,
                status != TERN_OK ? err.message : "not the answer of the first time");
        return 1;
    }
    atomic_fetch_add(&s->n_compared, compared);
    atomic_fetch_add(&s->n_done[number % N_KINDS], 1);
    return 0;
}

static void *run_host(void *arg) {
    host *h = arg;
    const uint64_t n_models = (uint64_t)h->s->n_models,
                   n_errands = h->s->stays_open ? N_OPEN_ERRANDS : N_ERRANDS;
    for (int i = 0; !h->failed && i < ERRANDS_A_ROUND; i++)
        h->failed = run_errand(h, (int)draw(&h->how, n_models), draw(&h->how, n_errands));
    for (int m = 0; m < h->s->n_models; m++) tern_session_free(h->own[m]);
    return NULL;
}

static tern_status open_model(soak *s, int m, tern_error *err) {
    tern_template_options options;
    tern_model_info info;
    tern_template_options_defaults(&options);
    const tern_status status = tern_model_open(s->paths[m], NULL, &s->models[m], err);
    if (status != TERN_OK) return status;
    tern_model_info_get(s->models[m], &info);
    options.model = s->models[m];
    return info.encoder ? TERN_OK : tern_template_open(&options, &s->templates[m], err);
}

static int open_all(soak *s) {
    tern_error err;
    for (int m = 0; m < s->n_models; m++)
        if (open_model(s, m, &err) != TERN_OK) return fprintf(stderr, "soak: %s\n", err.message), 1;
    return 0;
}

static void close_all(soak *s) {
    for (int m = 0; m < s->n_models; m++) {
        tern_session_free(s->kept[m]), s->kept[m] = NULL;
        tern_template_free(s->templates[m]), s->templates[m] = NULL;
        tern_model_close(s->models[m]), s->models[m] = NULL;
    }
}

static void start_host(host *h, soak *s, int number) {
    *h = (host){.s = s, .number = number, .how = draw(&s->how, UINT64_MAX)};
    h->kept = s->stays_open && number == 0 ? s->kept : h->own;
}

/* Each errand that there is while everything stays open, so that what stays has its size. */
static int run_all_errands(soak *s) {
    host h;
    start_host(&h, s, 0);
    h.first = true;
    for (int m = 0; !h.failed && m < s->n_models; m++)
        for (uint64_t number = 0; !h.failed && number < N_OPEN_ERRANDS; number++)
            h.failed = run_errand(&h, m, number);
    return h.failed;
}

static int run_round(soak *s) {
    host hosts[MAX_HOSTS];
    pthread_t threads[MAX_HOSTS];
    const int n_hosts = 1 + (int)draw(&s->how, MAX_HOSTS);
    int failed = s->stays_open ? 0 : open_all(s), n_started = 0;
    for (; !failed && n_started < n_hosts; n_started++) {
        start_host(&hosts[n_started], s, n_started);
        if (pthread_create(&threads[n_started], NULL, run_host, &hosts[n_started]) != 0) break;
    }
    if (n_started < n_hosts && !failed) failed = fprintf(stderr, "soak: a thread was refused\n");
    for (int i = 0; i < n_started; i++) pthread_join(threads[i], NULL), failed |= hosts[i].failed;
    if (!s->stays_open) close_all(s);
    return failed;
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print_holding(const char *when, const holding *h) {
    printf(
        "%s: heap %ld bytes, anonymous memory %ld KiB, address space %ld KiB, %ld descriptors, %ld threads\n",
        when, h->heap_bytes, h->memory_bytes >> 10, h->address_bytes >> 10, h->n_descriptors - 3,
        h->n_threads - 2);
}

static void keep_most(holding *most, const holding *h) {
    const long *from = &h->heap_bytes;
    long *to = &most->heap_bytes;
    for (size_t i = 0; i < sizeof *h / sizeof *from; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

static bool is_within(const holding *h, const holding *most) {
    const long slack = most->memory_bytes / 100 > SLACK_BYTES ? most->memory_bytes / 100 : SLACK_BYTES;
    const bool memory = h->memory_bytes <= most->memory_bytes + slack &&
                        h->address_bytes <= most->address_bytes + SLACK_BYTES;
    return h->heap_bytes <= most->heap_bytes + HEAP_SLACK_BYTES && h->n_descriptors == most->n_descriptors &&
           h->n_threads == most->n_threads && (memory || is_sanitized);
}

static int run_life(soak *s, bool stays_open, double seconds, uint64_t *n_rounds) {
    const double end = now_s() + seconds;
    holding most = {0}, last = {0};
    s->stays_open = stays_open;
    bool failed = stays_open && (open_all(s) || run_all_errands(s)), held = true;
    for (uint64_t n = 1; !failed && held && (n <= 2 * WARM_UP || now_s() < end); n++, ++*n_rounds) {
        failed = run_round(s);
        last = look();
        if (n <= WARM_UP) keep_most(&most, &last);
        held = is_within(&last, &most);
    }
    if (stays_open) close_all(s);
    if (failed) return 1;
    printf("%s\n", stays_open ? "all stays open" : "all is closed between rounds");
    print_holding("  most in the first rounds", &most);
    print_holding("  in the last", &last);
    if (!held)
        fprintf(stderr, "soak: round %" PRIu64 ": the process holds more than in the first ones\n",
                *n_rounds);
    return !held;
}

int main(int argc, char **argv) {
    if (argc < 4 || argc - 3 > MAX_MODELS) return 2;
    static soak s;
    uint64_t n_rounds = 0;
    const double seconds = strtod(argv[1], NULL);
    s.folder = argv[2], s.paths = argv + 3, s.n_models = argc - 3, s.how = 1;
    if (run_life(&s, true, seconds / 2, &n_rounds) || run_life(&s, false, seconds / 2, &n_rounds)) return 1;
    for (int k = 0; k < N_KINDS; k++) {
        if (!s.n_done[k]) return fprintf(stderr, "soak: no errand of the kind %s\n", kinds[k].name), 1;
        printf("%s %" PRIu64 "%s", kinds[k].name, atomic_load(&s.n_done[k]), k + 1 < N_KINDS ? ", " : "\n");
    }
    printf("%" PRIu64 " rounds, %" PRIu64 " answers as the first time\n", n_rounds,
           atomic_load(&s.n_compared));
    return 0;
}
