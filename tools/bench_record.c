/* The record of a run of `tern bench`: what ran, on what, and what was measured. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "sha256.h"
#include "terminal.h"

/* ---- Values; a failure of any leaves NULL, which the setter reports ---- */

static json_t *text(const char *s) {
    char safe[1024];
    tern_escape(safe, sizeof safe, s, strlen(s));
    return json_string(safe);
}

static json_t *count(uint64_t n) {
    return json_integer((json_int_t)(n <= INT64_MAX ? n : INT64_MAX));
}

static json_t *real_or_null(bool known, double value) {
    return known ? json_real(value) : json_null();
}

static void put(json_t *object, const char *key, json_t *value, bool *ok) {
    if (json_object_set_new(object, key, value) != 0) *ok = false;
}

/* ---- The machine ---- */

/* The distribution's name for itself; "" if it gives none. */
static void read_os_name(char *name, size_t cap) {
    FILE *f = fopen("/etc/os-release", "re");
    char line[256];
    name[0] = '\0';
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "PRETTY_NAME=", 12) != 0) continue;
        const char *begin = line + 12 + (line[12] == '"');
        snprintf(name, cap, "%.*s", (int)strcspn(begin, "\"\n"), begin);
    }
    fclose(f);
}

static json_t *os_object(bool *ok) {
    json_t *os = json_object();
    struct utsname system;
    char name[256];
    read_os_name(name, sizeof name);
    put(os, "name", text(name), ok);
    if (uname(&system) != 0) return os;
    put(os, "kernel", text(system.sysname), ok);
    put(os, "release", text(system.release), ok);
    put(os, "machine", text(system.machine), ok);
    return os;
}

static json_t *device_object(const tn_bench *b, bool *ok) {
    json_t *device = json_object();
    put(device, "cpu", text(b->device.cpu), ok);
    put(device, "features", text(b->device.features), ok);
    put(device, "isa", text(b->device.isa), ok);
    put(device, "cpus", count(b->device.n_cpus), ok);
    put(device, "cpus_allowed", count(b->device.n_allowed), ok);
    put(device, "cores", count(b->device.n_cores), ok);
    put(device, "performance_cores", count(b->device.n_fast_cores), ok);
    put(device, "quota_cpus", count(b->device.quota_cpus), ok);
    put(device, "memory_bytes", count(b->device.memory_bytes), ok);
    return device;
}

/* ---- The model ---- */

static int hash_descriptor(int fd, const char *path, uint64_t n_total, char hex[65]) {
    enum { CHUNK = 1 << 20 };
    tn_sha256 hash;
    uint64_t n_done = 0;
    uint8_t *chunk = malloc(CHUNK);
    int failed = chunk ? 0 : tn_cli_fail("cannot read: %s: out of memory", path);
    tn_sha256_init(&hash);
    while (!failed) {
        const ssize_t n = read(fd, chunk, CHUNK);
        if (tn_cli_interrupted())
            failed = TN_EXIT_INTERRUPTED;
        else if (n < 0 && errno != EINTR)
            failed = tn_cli_fail("cannot read: %s: %s", path, strerror(errno));
        if (n == 0) break;
        if (n < 0) continue;
        tn_sha256_add(&hash, chunk, (size_t)n);
        n_done += (uint64_t)n;
        tn_progress_show("hash", n_done, n_total);
    }
    tn_progress_clear();
    free(chunk);
    tn_sha256_end(&hash, hex);
    return failed;
}

static int hash_file(const char *path, uint64_t n_total, char hex[65]) {
    const int fd = tn_open_file(path, O_RDONLY);
    if (fd < 0) return tn_cli_fail("cannot read: %s: %s", path, strerror(errno));
    const int failed = hash_descriptor(fd, path, n_total, hex);
    close(fd);
    return failed;
}

static json_t *model_object(const tn_bench *b, const char *sha256, bool *ok) {
    json_t *model = json_object();
    put(model, "name", text(b->info.name), ok);
    put(model, "architecture", text(b->info.architecture), ok);
    put(model, "file", text(b->info.path), ok);
    put(model, "bytes", count(b->info.file_bytes), ok);
    put(model, "shards", count(b->info.n_shards), ok);
    put(model, "parameters", count(b->info.n_params), ok);
    put(model, "type", text(b->type), ok);
    put(model, "sha256", text(sha256), ok); /* of the file named; of the first of several shards */
    return model;
}

static json_t *precision_object(const tn_bench *b, bool *ok) {
    json_t *precision = json_object(), *kvs = json_array();
    for (size_t i = 0; i < b->grid.kvs.n; i++) {
        if (json_array_append_new(kvs, text(tn_kv_name((tern_kv_type)b->grid.kvs.items[i]))) != 0)
            *ok = false;
    }
    put(precision, "weights", text(b->type), ok);
    put(precision, "kv", kvs, ok);
    return precision;
}

/* ---- The tests: flat, with the same keys in each, so that they are the lines of a CSV file too ---- */

static void put_speeds(json_t *test, const tn_bench_result *r, bool *ok) {
    put(test, "tokens_per_s", json_real(r->tokens_per_s), ok);
    put(test, "tokens_per_s_min", json_real(r->tokens_per_s_min), ok);
    put(test, "tokens_per_s_max", json_real(r->tokens_per_s_max), ok);
    put(test, "token_ms_p50", json_real(r->token_ms[0]), ok);
    put(test, "token_ms_p90", json_real(r->token_ms[1]), ok);
    put(test, "token_ms_p99", json_real(r->token_ms[2]), ok);
    put(test, "ttft_ms", real_or_null(!r->decode, r->first_ms), ok);
    put(test, "tpot_ms", real_or_null(r->decode, r->next_ms), ok);
    put(test, "bytes_per_token", r->decode ? count((uint64_t)r->bytes_per_token) : json_null(), ok);
    put(test, "read_gb_per_s", real_or_null(r->decode, r->read_bytes_per_s * 1e-9), ok);
    put(test, "machine_read_gb_per_s", json_real(r->machine.read_bytes_per_s * 1e-9), ok);
    put(test, "machine_read_bytes", count(r->machine.buffer_bytes), ok);
    put(test, "gmac_per_s", json_real(r->macs_per_s * 1e-9), ok);
    put(test, "machine_gmac_per_s", json_real(r->machine.macs_per_s * 1e-9), ok);
    put(test, "barriers_per_layer", real_or_null(r->decode, r->barriers_per_layer), ok);
    put(test, "peak_memory_bytes", r->peak_bytes ? count(r->peak_bytes) : json_null(), ok);
}

static json_t *test_object(const tn_bench *b, const tn_bench_result *r, bool *ok) {
    json_t *test = json_object();
    char name[48];
    put(test, "test", text(tn_bench_test_name(name, r)), ok);
    put(test, "kind", text(r->decode ? "decode" : "prefill"), ok);
    put(test, "n_tokens", count(r->n_tokens), ok);
    put(test, "depth", count(r->depth), ok);
    put(test, "n_batch", count(r->n_batch), ok);
    put(test, "n_threads", count(r->n_threads), ok);
    put(test, "kv", text(tn_kv_name((tern_kv_type)r->kv)), ok);
    put(test, "isa", text(b->isa), ok);
    put(test, "warm_up_tokens", count(r->warm_up_tokens), ok);
    put(test, "n_runs", count(r->n_runs), ok);
    put_speeds(test, r, ok);
    return test;
}

json_t *tn_bench_record(const tn_bench *b, int *exit_code) {
    char sha256[65], date[32];
    const time_t now = time(NULL);
    struct tm utc;
    *exit_code = hash_file(b->info.path, b->info.file_bytes, sha256);
    if (*exit_code) return NULL;
    if (!gmtime_r(&now, &utc) || !strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc)) date[0] = '\0';
    bool ok = true;
    json_t *record = json_object(), *tests = json_array();
    for (size_t i = 0; i < b->n_results; i++) {
        if (json_array_append_new(tests, test_object(b, &b->results[i], &ok)) != 0) ok = false;
    }
    put(record, "tern", text(tern_version()), &ok);
    put(record, "date", text(date), &ok);
    put(record, "device", device_object(b, &ok), &ok);
    put(record, "os", os_object(&ok), &ok);
    put(record, "model", model_object(b, sha256, &ok), &ok);
    put(record, "precision", precision_object(b, &ok), &ok);
    put(record, "kernels", text(b->isa), &ok);
    put(record, "pinned", json_boolean(b->grid.pin), &ok);
    put(record, "tests", tests, &ok);
    if (ok) return record;
    json_decref(record);
    *exit_code = tn_cli_fail("cannot write the record: out of memory");
    return NULL;
}
