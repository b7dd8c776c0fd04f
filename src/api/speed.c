/* For those who want to know why a model runs as it does: steps, the machine and its speed. */
#include <stdio.h>
#include <string.h>

#include "../base/cpu.h"
#include "../base/machine.h"
#include "../exec/measure.h"
#include "../graph/describe.h"
#include "api.h"

bool tern_session_step(const tern_session *session, uint32_t i, tern_step_info *info) {
    const tn_graph *graph = session->graph;
    const tn_dtype kv = tn_kv_dtype(tn_session_config_of(session->s)->kv);
    *info = (tern_step_info){0};
    if (i >= (uint32_t)graph->n_steps) return false;
    tn_step_summary step;
    tn_graph_describe_step(graph, (int32_t)i, &step);
    *info = (tern_step_info){.layer = step.layer,
                             .outputs_only = step.outputs_only,
                             .weight_bytes = step.weight_bytes,
                             .weight_macs = step.weight_macs,
                             .kv_bytes = tn_dtype_row_bytes(kv, step.kv_elements),
                             .kv_macs = step.kv_macs,
                             .window = step.window};
    memcpy(info->operations, step.text, sizeof info->operations);
    return true;
}

tern_status tern_machine_get(tern_machine *machine, tern_error *err) {
    if (!machine) return tn_api_null(err, __func__);
    tn_error e = {0};
    tn_machine m;
    memset(machine, 0, sizeof *machine);
    const tn_status s = tn_machine_get(&m, &e);
    if (s) return tn_api_give(err, s, &e);
    memcpy(machine->cpu, m.cpu, sizeof machine->cpu);
    memcpy(machine->features, m.features, sizeof machine->features);
    memcpy(machine->isas, m.isas, sizeof machine->isas);
    snprintf(machine->isa, sizeof machine->isa, "%s", tn_isa_name(m.isa));
    machine->isa_forced = m.isa_forced;
    machine->n_cpus = (uint32_t)m.cpus.n_online;
    machine->n_allowed = (uint32_t)m.cpus.n_allowed;
    machine->n_cores = (uint32_t)m.cpus.n_cores;
    machine->n_fast_cores = (uint32_t)m.cpus.n_fast_cores;
    machine->quota_cpus = (uint32_t)m.cpus.quota;
    machine->n_threads = (uint32_t)m.default_threads;
    machine->memory_bytes = m.memory_bytes;
    machine->available_bytes = m.available_bytes;
    return TERN_OK;
}

tern_status tern_measure_machine(uint32_t n_threads, uint64_t buffer_bytes, double seconds,
                                 tern_machine_speed *speed, tern_error *err) {
    if (!speed) return tn_api_null(err, __func__);
    tn_error e = {0};
    tn_isa isa;
    tn_machine_speed m = {0};
    tn_status s = tn_isa_choose(&isa, &e);
    if (!s && (n_threads > 1024 || !(seconds > 0 && seconds <= 60)))
        s = tn_fail(&e, TN_ERR_ARG, "cannot measure the machine", NULL,
                    "%u threads of at most 1024, %g seconds of at most 60", n_threads, seconds);
    if (!s) s = tn_measure_machine(tn_api_threads(n_threads), buffer_bytes, isa, seconds, &m, &e);
    *speed = (tern_machine_speed){m.buffer_bytes, m.read_bytes_per_s, m.macs_per_s};
    return tn_api_give(err, s, &e);
}
