/* tern doctor: what this machine offers, what this process may use of it, and what speed to expect of a model
 * and why. */
#include "doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal.h"

static const char help[] = "usage: tern doctor [-m M.gguf] [options]\n"
                           "Shows what this machine offers, what this process may use of it and how fast it\n"
                           "is, measured in about a second; with a model, what speed to expect and why.\n"
                           "\n"
                           "  -m, --model FILE    a model to predict the speed of; some tokens are computed\n"
                           "  -t, --threads N     threads (default: the cores this process may use)\n"
                           "  --kv f16|q8_0|f32   type of the KV cache (default f16)\n"
                           "  --json              one JSON object\n"
                           "  --arch-file FILE    YAML description that adds or replaces an architecture\n"
                           "  --pre NAME          pre-tokenizer to use, whatever the file says\n"
                           "  -q, --quiet         no warnings\n"
                           "  -h, --help          this text\n";

/* ---- Measuring ---- */

static const uint64_t buffer_bytes = (uint64_t)256 << 20;
static const double machine_seconds = 1.0, decode_seconds = 1.0;

enum { WARM_TOKENS = 2, MAX_DECODE_TOKENS = 32, PREFILL_TOKENS = 64, LONG_CONTEXT = 4096 };

static tern_status measure_machine(tn_doctor *d, tern_error *err) {
    const double seconds = d->n_threads > 1 ? machine_seconds / 2 : machine_seconds;
    tern_status status = tern_measure_machine(1, buffer_bytes, seconds, &d->one, err);
    d->all = d->one;
    if (status == TERN_OK && d->n_threads > 1)
        status = tern_measure_machine(d->n_threads, buffer_bytes, seconds, &d->all, err);
    return status;
}

static void sum_steps(const tern_session *session, tn_doctor_model *m) {
    tern_step_info step;
    for (uint32_t i = 0; tern_session_step(session, i, &step); i++) {
        m->weight_bytes += step.weight_bytes;
        m->macs += step.weight_macs;
        if (!step.outputs_only) m->macs_inner += step.weight_macs;
        const uint32_t seen = step.window && step.window < m->long_context ? step.window : m->long_context;
        m->long_kv_bytes += step.kv_bytes * seen;
    }
}

static tern_status cancel_if_interrupted(tern_status status, tern_error *err) {
    if (status != TERN_OK || !tn_cli_interrupted()) return status;
    return err->code = TERN_ERR_CANCELLED;
}

/* A few tokens one by one, then a few at once. The first are not timed: they bring the file into memory. */
static tern_status measure_model(tern_session *session, tn_doctor_model *m, tern_error *err) {
    int32_t ids[PREFILL_TOKENS];
    const uint32_t n_vocab = m->info.n_vocab, first = n_vocab > 512 ? 256 : 0;
    for (uint32_t i = 0; i < PREFILL_TOKENS; i++)
        ids[i] = (int32_t)(first + (i * UINT32_C(2654435761) >> 8) % (n_vocab - first));
    tern_status status = TERN_OK;
    double start = 0, now = 0;
    uint32_t n = 0;
    while (status == TERN_OK && n < WARM_TOKENS + MAX_DECODE_TOKENS &&
           (n < WARM_TOKENS + 2 || now - start < decode_seconds)) {
        status = tern_session_eval(session, &ids[n % PREFILL_TOKENS], 1, 1, err);
        now = tn_seconds();
        status = cancel_if_interrupted(status, err);
        if (++n == WARM_TOKENS) start = now;
    }
    m->decode_tokens = n - WARM_TOKENS;
    if (status == TERN_OK) m->decode_per_s = m->decode_tokens / (now - start);
    for (int i = 0; i < 2 && status == TERN_OK; i++) { /* twice, for the same reason */
        uint32_t kept;
        status = tern_session_truncate(session, 0, &kept, err);
        start = tn_seconds();
        if (status == TERN_OK) status = tern_session_eval(session, ids, PREFILL_TOKENS, 1, err);
        m->prefill_per_s = PREFILL_TOKENS / (tn_seconds() - start);
    }
    m->prefill_tokens = PREFILL_TOKENS;
    return status;
}

/* A model as large as what was read is bound by the bandwidth for its own size, caches included. */
static tern_status measure_own_bandwidth(const tn_doctor *d, tn_doctor_model *m, tern_error *err) {
    if (m->weight_bytes >= buffer_bytes) {
        m->machine = d->all;
        return TERN_OK;
    }
    return tern_measure_machine(d->n_threads, m->weight_bytes, 0.3, &m->machine, err);
}

static tern_status measure_with_model(tn_doctor *d, const tern_model *model, tern_error *err) {
    tn_doctor_model *m = &d->model;
    tern_session_options options;
    tern_session *session;
    tern_model_info_get(model, &m->info);
    tn_cli_session_options(d->options, &options);
    options.n_threads = d->n_threads;
    m->long_context = m->info.n_ctx_train < LONG_CONTEXT ? m->info.n_ctx_train : LONG_CONTEXT;
    tern_status status = tern_session_memory(model, &options, &m->memory, err);
    if (status != TERN_OK) return status;
    options.n_ctx = PREFILL_TOKENS;
    status = tn_cli_session_new(model, &options, &session, err);
    if (status != TERN_OK) return status;
    sum_steps(session, m);
    status = measure_own_bandwidth(d, m, err);
    if (status == TERN_OK) status = measure_model(session, m, err);
    tn_cli_session_free(session);
    return status;
}

/* ---- Prediction ---- */

/* Decode cannot be faster than its weights are read, nor than they are multiplied; what it reached of the
 * bandwidth is taken to be reached with more cache to read too. Prefill reads the weights once a batch:
 * arithmetic alone bounds it. */
static void predict(tn_doctor_model *m) {
    m->memory_bound_per_s = m->machine.read_bytes_per_s / (double)m->weight_bytes;
    m->multiply_bound_per_s = m->machine.macs_per_s / (double)m->macs;
    m->memory_is_nearer = m->memory_bound_per_s < m->multiply_bound_per_s;
    m->bandwidth_share = m->decode_per_s / m->memory_bound_per_s;
    m->prefill_bound_per_s = m->machine.macs_per_s / (double)m->macs_inner;
    m->prefill_share = m->prefill_per_s / m->prefill_bound_per_s;
    m->long_decode_per_s =
        m->machine.read_bytes_per_s * m->bandwidth_share / (double)(m->weight_bytes + m->long_kv_bytes);
}

/* ---- Printing ---- */

static void print_line(const char *label, const char *text) {
    printf("%-10s %s\n", label, text);
}

static const char *thread_word(uint32_t n) {
    return n == 1 ? "thread" : "threads";
}

static const char *why_kernels(const tern_machine *m) {
    if (m->isa_forced) return "forced by TERN_ISA";
    return strcmp(m->isa, "ref") == 0 ? "portable C: this version has nothing faster for this processor"
                                      : "the best that this version has for it";
}

static void print_machine(const tn_doctor *d) {
    const tern_machine *m = &d->machine;
    char total[24], free_now[24], buffer[24];
    print_line("cpu", m->cpu);
    print_line("features", *m->features ? m->features : "(none that matters to kernels)");
    printf("%-10s %s, %s; possible here: %s\n", "kernels", m->isa, why_kernels(m), m->isas);
    printf("%-10s %" PRIu32 " processors, %" PRIu32 " allowed to this process (affinity), on %" PRIu32
           " physical cores",
           "cores", m->n_cpus, m->n_allowed, m->n_cores);
    if (m->n_fast_cores < m->n_cores) printf(", %" PRIu32 " of them performance cores", m->n_fast_cores);
    putchar('\n');
    if (m->quota_cpus)
        printf("%-10s %" PRIu32 " CPUs' worth of time (cgroup)\n", "quota", m->quota_cpus);
    else
        print_line("quota", "none (cgroup)");
    printf("%-10s %" PRIu32 " by default: the %s%s\n", "threads", m->n_threads,
           m->quota_cpus && m->quota_cpus < m->n_fast_cores ? "quota"
           : m->n_fast_cores < m->n_cores                   ? "performance cores allowed"
                                                            : "physical cores allowed",
           d->n_threads == m->n_threads ? "" : "; -t is used below");
    printf("%-10s %s, %s available\n", "memory",
           m->memory_bytes ? tn_format_bytes(total, m->memory_bytes) : "unknown",
           m->available_bytes ? tn_format_bytes(free_now, m->available_bytes) : "unknown");
    printf("%-10s 1 thread %.1f GB/s", "reads", d->one.read_bytes_per_s * 1e-9);
    if (d->n_threads > 1)
        printf(", %" PRIu32 " threads %.1f GB/s", d->n_threads, d->all.read_bytes_per_s * 1e-9);
    printf(" (over %s)\n", tn_format_bytes(buffer, d->all.buffer_bytes));
    printf("%-10s 1 thread %.1f GMAC/s", "multiplies", d->one.macs_per_s * 1e-9);
    if (d->n_threads > 1) printf(", %" PRIu32 " threads %.1f GMAC/s", d->n_threads, d->all.macs_per_s * 1e-9);
    printf(" (8-bit integers, %s)\n", m->isa);
}

static void print_model(const tn_doctor *d) {
    const tn_doctor_model *m = &d->model;
    char a[24], b[24], path[512];
    tern_escape(path, sizeof path, m->info.path, strlen(m->info.path));
    printf("\n%-10s %s, %s, %" PRIu32 " %s\n", "model", *m->info.name ? m->info.name : path,
           tn_format_bytes(a, m->info.file_bytes), d->n_threads, thread_word(d->n_threads));
    printf("%-10s %s of weights a token, read at %.1f GB/s: at most %.1f tokens/s;\n", "decode",
           tn_format_bytes(a, m->weight_bytes), m->machine.read_bytes_per_s * 1e-9, m->memory_bound_per_s);
    printf("%-10s %.1f M multiply-adds a token: at most %.1f tokens/s\n", "", (double)m->macs * 1e-6,
           m->multiply_bound_per_s);
    printf("%-10s expect %.1f tokens/s: %.0f %% of the bandwidth, measured over %" PRIu32 " tokens\n", "",
           m->decode_per_s, 100 * m->bandwidth_share, m->decode_tokens);
    printf("%-10s expect %.1f tokens/s after %" PRIu32 " tokens, with %s of cache to read as well\n", "",
           m->long_decode_per_s, m->long_context, tn_format_bytes(b, m->long_kv_bytes));
    printf("%-10s at most %.1f tokens/s; expect %.1f: %.0f %% of the multiplies, measured over %" PRIu32
           " tokens\n",
           "prefill", m->prefill_bound_per_s, m->prefill_per_s, 100 * m->prefill_share, m->prefill_tokens);
    printf("%-10s %s\n", "bound by",
           m->memory_is_nearer ? "memory in decode (fewer bits a weight are faster), multiplies in prefill"
                               : "multiplies in decode too: this machine reads faster than it computes");
    printf("%-10s a context of %" PRIu32 " positions in the memory available\n", "fits",
           m->memory.n_ctx_fits);
}

/* ---- The command ---- */

static int examine(tn_doctor *d) {
    tern_error err;
    const tn_options *o = d->options;
    if (tern_machine_get(&d->machine, &err) != TERN_OK) return tn_cli_fail_library(&err);
    d->n_threads = o->n_threads ? (uint32_t)o->n_threads : d->machine.n_threads;
    if (d->n_threads > d->machine.n_allowed) d->n_threads = d->machine.n_allowed; /* as a session does */
    int exit_code = TN_EXIT_DONE;
    tern_model *model = NULL;
    if (o->model && !(model = tn_cli_open_model(o, TERN_OPEN_ALL, &exit_code))) return exit_code;
    d->has_model = model != NULL;
    tern_status status = measure_machine(d, &err);
    if (status == TERN_OK && model) status = measure_with_model(d, model, &err);
    if (status != TERN_OK) {
        exit_code = tn_cli_fail_library(&err);
    } else {
        if (model) predict(&d->model);
        if (o->json) exit_code = tn_doctor_print_json(d);
        if (!o->json) print_machine(d);
        if (!o->json && model) print_model(d);
    }
    tern_model_close(model);
    return exit_code;
}

static int run(const tn_options *options) {
    tn_doctor d = {.options = options};
    return examine(&d);
}

const tn_command tn_command_doctor = {
    .name = "doctor",
    .summary = "what this machine can do, and what speed to expect",
    .help = help,
    .accepted = TN_ACCEPT(MODEL) | TN_ACCEPT(THREADS) | TN_ACCEPT(KV) | TN_ACCEPT(JSON) |
                TN_ACCEPT(ARCH_FILE) | TN_ACCEPT(PRE) | TN_ACCEPT(QUIET),
    .model_operand = true,
    .run = run,
};
