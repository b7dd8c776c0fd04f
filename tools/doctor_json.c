/* What `tern doctor` found, as JSON. Figures have their units in their names. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "json_print.h"

static json_t *text(const char *s) {
    char safe[1024];
    tern_escape(safe, sizeof safe, s, strlen(s));
    return json_string(safe);
}

static json_t *count(uint64_t n) {
    return json_integer((json_int_t)(n <= INT64_MAX ? n : INT64_MAX));
}

/* A failure of a value leaves NULL, which the setter refuses. */
static void put(json_t *object, const char *key, json_t *value, bool *ok) {
    if (json_object_set_new(object, key, value) != 0) *ok = false;
}

static void put_machine(json_t *root, const tn_doctor *d, bool *ok) {
    const tern_machine *m = &d->machine;
    put(root, "tern", text(tern_version()), ok);
    put(root, "cpu", text(m->cpu), ok);
    put(root, "features", text(m->features), ok);
    put(root, "isa", text(m->isa), ok);
    put(root, "isa_forced", json_boolean(m->isa_forced), ok);
    put(root, "isas_possible", text(m->isas), ok);
    put(root, "cpus", count(m->n_cpus), ok);
    put(root, "cpus_allowed", count(m->n_allowed), ok);
    put(root, "cores", count(m->n_cores), ok);
    put(root, "performance_cores", count(m->n_fast_cores), ok);
    put(root, "quota_cpus", m->quota_cpus ? count(m->quota_cpus) : json_null(), ok);
    put(root, "default_threads", count(m->n_threads), ok);
    put(root, "threads", count(d->n_threads), ok);
    put(root, "memory_bytes", count(m->memory_bytes), ok);
    put(root, "available_bytes", count(m->available_bytes), ok);
    put(root, "read_buffer_bytes", count(d->all.buffer_bytes), ok);
    put(root, "read_gb_per_s_1_thread", json_real(d->one.read_bytes_per_s * 1e-9), ok);
    put(root, "read_gb_per_s", json_real(d->all.read_bytes_per_s * 1e-9), ok);
    put(root, "gmac_per_s_1_thread", json_real(d->one.macs_per_s * 1e-9), ok);
    put(root, "gmac_per_s", json_real(d->all.macs_per_s * 1e-9), ok);
}

static json_t *model_object(const tn_doctor_model *m, bool *ok) {
    json_t *model = json_object();
    put(model, "file", text(m->info.path), ok);
    put(model, "name", text(m->info.name), ok);
    put(model, "weight_bytes_per_token", count(m->weight_bytes), ok);
    put(model, "macs_per_token", count(m->macs), ok);
    put(model, "read_gb_per_s", json_real(m->machine.read_bytes_per_s * 1e-9), ok);
    put(model, "gmac_per_s", json_real(m->machine.macs_per_s * 1e-9), ok);
    put(model, "decode_bound_memory_per_s", json_real(m->memory_bound_per_s), ok);
    put(model, "decode_bound_multiply_per_s", json_real(m->multiply_bound_per_s), ok);
    put(model, "decode_bound_by", text(m->memory_is_nearer ? "memory" : "multiplies"), ok);
    put(model, "decode_tokens_per_s", json_real(m->decode_per_s), ok);
    put(model, "decode_bandwidth_share", json_real(m->bandwidth_share), ok);
    put(model, "decode_tokens_measured", count(m->decode_tokens), ok);
    put(model, "long_context", count(m->long_context), ok);
    put(model, "long_kv_bytes_per_token", count(m->long_kv_bytes), ok);
    put(model, "long_decode_tokens_per_s", json_real(m->long_decode_per_s), ok);
    put(model, "prefill_bound_per_s", json_real(m->prefill_bound_per_s), ok);
    put(model, "prefill_tokens_per_s", json_real(m->prefill_per_s), ok);
    put(model, "prefill_multiply_share", json_real(m->prefill_share), ok);
    put(model, "prefill_tokens_measured", count(m->prefill_tokens), ok);
    put(model, "n_ctx_fits", count(m->memory.n_ctx_fits), ok);
    return model;
}

int tn_doctor_print_json(const tn_doctor *d) {
    json_t *root = json_object();
    bool ok = true;
    put_machine(root, d, &ok);
    if (d->has_model) put(root, "model", model_object(&d->model, &ok), &ok);
    const int exit_code = ok ? tn_json_print(stdout, root, JSON_INDENT(2) | JSON_REAL_PRECISION(7))
                             : tn_cli_fail("cannot print JSON: out of memory");
    json_decref(root);
    return exit_code;
}
