/* What the parts of the reader of descriptions share (arch.c, arch_steps.c): the YAML tree with checked access. Every
 * failure is an error with line and column. */
#ifndef TN_MODEL_ARCH_YAML_H
#define TN_MODEL_ARCH_YAML_H

#include "../../formats/yaml_doc.h"
#include "arch.h"

/* One parse: the YAML tree, where to report, where to allocate. */
typedef struct tn_yaml {
    yaml_document_t doc;
    const char *label;
    tn_arena *arena;
    tn_arch *arch; /* as far as it has been read */
    tn_error *err;
} tn_yaml;

/* "LABEL:LINE:COLUMN: why 'what'"; what may be NULL. */
tn_status tn_yaml_bad(const tn_yaml *c, const yaml_node_t *node, const char *why, const char *what);
tn_status tn_yaml_no_memory(const tn_yaml *c);

yaml_node_t *tn_yaml_node(tn_yaml *c, int index);
const char *tn_yaml_scalar(const yaml_node_t *node); /* NULL if it is none */
size_t tn_yaml_map_size(const yaml_node_t *map);
size_t tn_yaml_seq_size(const yaml_node_t *seq);
yaml_node_t *tn_yaml_get(tn_yaml *c, const yaml_node_t *map, const char *key); /* NULL: not there */

/* A mapping whose keys are all among `known` (any keys if NULL) and given once. */
tn_status tn_yaml_check_map(tn_yaml *c, const yaml_node_t *map, const char *const *known);

tn_status tn_yaml_string(tn_yaml *c, const yaml_node_t *node, const char **out);
tn_status tn_yaml_number(tn_yaml *c, const yaml_node_t *node, double *out);
tn_status tn_yaml_bool(tn_yaml *c, const yaml_node_t *node, bool *out);
/* An expression whose names are all known by now. */
tn_status tn_yaml_expr(tn_yaml *c, const yaml_node_t *node, const char **out);
/* The same, where a name that is no hyper-parameter may be one of a checkpoint's configuration. */
tn_status tn_yaml_hf_expr(tn_yaml *c, const yaml_node_t *node, const char **out);

/* The fields of embed, and the lists of steps (arch_steps.c). */
tn_status tn_arch_parse_embed(tn_yaml *c, const yaml_node_t *map, tn_step *out);
tn_status tn_arch_parse_steps(tn_yaml *c, const yaml_node_t *seq, bool in_layer, tn_step **out, size_t *n);

/* The fields `hf` (arch_hf.c): of a hyper-parameter, of a tensor, and the section, which may be NULL. */
tn_status tn_arch_parse_hf_hparam(tn_yaml *c, const yaml_node_t *node, tn_hparam_def *def);
tn_status tn_arch_parse_hf_parts(tn_yaml *c, const yaml_node_t *node, tn_tensor_def *def);
tn_status tn_arch_parse_hf(tn_yaml *c, const yaml_node_t *map);

#endif
