/* What sentence-transformers puts behind a model: modules.json lists its parts, each with a folder of its own. */
#ifndef TN_CONVERT_MODULES_H
#define TN_CONVERT_MODULES_H

#include "convert_impl.h"

/* Reads the list. The products ("Dense") among them become a part of the checkpoint where the description has a tensor of
 * them: those of the module at place i, counted from 0, as "dense_i.NAME", its config.json as "modules.dense_i" of
 * expressions. Of other modules that are not converted the user is told. */
tn_status tn_modules_read(tn_converter *c);

#endif
