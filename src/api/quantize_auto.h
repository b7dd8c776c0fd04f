/* Automatic recipes: the text, the model and its divergence, which src/quantize knows nothing of. */
#ifndef TN_API_QUANTIZE_AUTO_H
#define TN_API_QUANTIZE_AUTO_H

#include "../quantize/auto.h"
#include "api.h"

/* tn_plan_auto with the options' text: `request` says all but how to measure. Tells options->group of each group. */
tn_status tn_api_plan_auto(const tern_quantize_options *options, const tn_auto_request *request,
                           tn_arena *arena, tn_plan_item *items, tn_auto_result *out, tn_error *err);

#endif
