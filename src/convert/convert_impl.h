/* What the parts of the converter share. */
#ifndef TN_CONVERT_CONVERT_IMPL_H
#define TN_CONVERT_CONVERT_IMPL_H

#include <jansson.h>
#include <stdbool.h>

#include "../../formats/gguf_writer.h"
#include "../../formats/names.h"
#include "../../formats/safetensors.h"
#include "../base/arena.h"
#include "../model/arch.h"
#include "convert.h"

#define TN_CONVERT_WHAT "cannot convert"

/* A tensor of the checkpoint under the name that descriptions use. */
typedef struct tn_source {
    tn_str name; /* first: an index over names is built on it */
    const tn_st_tensor *tensor;
    const tn_st_tensor
        *block_scales; /* the tensor's elements are codes of MXFP4, two a byte; NULL: they are of its type */
    bool used;
} tn_source;

/* A tensor of the file to be, and what its rows are made of. */
typedef struct tn_job {
    const char *name;
    const tn_tensor_def *def;
    const tn_hf_part *part;
    uint32_t layer;
    tn_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[4];   /* as in GGUF: the row length first */
    bool by_element;    /* what the part says of rows is said of elements */
    tn_source *source;  /* the first slice; NULL: computed */
    tn_source **slices; /* all slices of the last dimension, where part->name has "{e}" */
} tn_job;

typedef struct tn_converter {
    const char *dir;
    const tn_convert_options *options;
    tn_dtype type; /* of matrices */
    tn_arena arena;
    json_t *config, *tokenizer_config, *generation_config; /* the last two may be NULL */
    json_t *text_config;                                   /* in config, before it; may be NULL */
    json_t *modules;         /* the configurations of modules behind the model */
    const char *pooling_dir; /* of the module for pooling; NULL: not listed */
    const char *config_path;
    tn_arch arch;
    tn_checkpoint *checkpoint;
    tn_source *sources; /* in the order of the files */
    tn_names source_names;
    uint32_t n_layers, n_vocab;
    double *values; /* hyper-parameter h of layer i: [h * n_layers + i] */
    size_t n_known; /* hyper-parameters that have values */
    tn_job *jobs;
    size_t n_jobs;
    uint64_t n_params;
    tn_gguf_writer *writer;
    const char *out;
    bool reads_out; /* a file that was read is the output */
    tn_error *err;
} tn_converter;

/* Fails with "cannot convert: DIR: WHY". */
#define TN_BAD(c, ...)       tn_fail((c)->err, TN_ERR_FORMAT, TN_CONVERT_WHAT, (c)->dir, __VA_ARGS__)
#define TN_NOT_KNOWN(c, ...) tn_fail((c)->err, TN_ERR_UNSUPPORTED, TN_CONVERT_WHAT, (c)->dir, __VA_ARGS__)
tn_status tn_convert_no_memory(const tn_converter *c);

/* "DIR/NAME" from the arena; NULL when memory is out. All files beside the tensors are found by it, so that none is written over. */
const char *tn_convert_path(tn_converter *c, const char *name);

/* The JSON file of that name, with a root of that kind; NULL where there is none. */
tn_status tn_convert_json(tn_converter *c, const char *name, json_type root, json_t **out);

/* ---- Sources in the checkpoint's configuration (sources.c) ------------------------------------------------- */

/* Where an expression is evaluated. */
typedef struct tn_place {
    uint64_t layer, row; /* i, r */
    uint64_t element;    /* j + 1 of n_elements; 0: not within a tensor */
    uint64_t n_elements;
    bool listed; /* out: a list of the configuration was looked into */
    uint64_t
        list_length; /* out: of one that has another number of values than there are layers, or elements; + 1 */
} tn_place;

/* The value of the first expression whose names are all there; *found is false if there is none. */
tn_status tn_convert_source(const tn_converter *c, tn_place *at, const tn_hf_source *source, double *value,
                            bool *found);

/* One expression whose names must be there. */
tn_status tn_convert_expr(const tn_converter *c, tn_place *at, const char *expr, double *value);

/* The same for a whole number up to 2^53. */
tn_status tn_convert_whole(const tn_converter *c, tn_place *at, const char *expr, uint64_t *value);

/* Whether the conditions of the description hold in each layer; behind the hyper-parameters. */
tn_status tn_convert_require(const tn_converter *c);

/* ---- The rest, in order ------------------------------------------------------------------------------------- */

tn_status tn_convert_find_arch(tn_converter *c);       /* arch.c: by config.json's architectures */
tn_status tn_convert_read_hparams(tn_converter *c);    /* hparams.c: values, and metadata */
tn_status tn_convert_write_pooling(tn_converter *c);   /* pooling.c: how rows become the vector of a text */
tn_status tn_convert_plan_tensors(tn_converter *c);    /* tensors.c: a job for each */
tn_status tn_convert_write_general(tn_converter *c);   /* general.c: name, size, sampling, file type */
tn_status tn_convert_write_card(tn_converter *c);      /* model_card.c: licence, tags, origins */
tn_status tn_convert_write_tokenizer(tn_converter *c); /* tokenizer.c: vocabulary, chat template */
tn_status tn_convert_write_tensors(tn_converter *c);   /* rows.c: the data */

#endif
