/* Checkpoints to model files. */
#include <string.h>

#include "../convert/convert.h"
#include "api.h"

void tern_convert_options_defaults(tern_convert_options *o) {
    *o = (tern_convert_options){.size = sizeof *o, .type = "auto"};
}

/* Types that a converter writes; others are a quantizer's. */
static bool find_type(const char *name, tn_convert_options *out) {
    static const tn_dtype types[] = {TN_DTYPE_F32, TN_DTYPE_F16, TN_DTYPE_BF16, TN_DTYPE_Q8_0};
    out->same_type = !strcasecmp(name, "auto");
    bool found = out->same_type;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcasecmp(name, tn_dtypes[types[i]].name) != 0) continue;
        out->type = types[i];
        found = true;
    }
    return found;
}

tern_status tern_convert(const char *dir, const char *out, const tern_convert_options *options,
                         tern_error *err) {
    if (!dir || !out) return tn_api_null(err, __func__);
    tern_convert_options o;
    tn_error e = {0};
    tern_convert_options_defaults(&o);
    tn_status s = tn_api_options(&o, sizeof o, options, &e);
    if (!s) s = tn_api_texts(&o.type, 1, "type", &e);
    if (s) return tn_api_give(err, s, &e);
    tn_convert_options inner = {.pre = o.pre_tokenizer,
                                .arch_file = o.arch_file,
                                .progress = o.progress,
                                .warn = o.warn,
                                .user = o.user};
    s = find_type(o.type, &inner) ? tn_convert(dir, out, &inner, &e)
                                  : tn_fail(&e, TN_ERR_ARG, "cannot convert", dir,
                                            "type '%s', expected f32, f16, bf16, q8_0 or auto", o.type);
    return tn_api_give(err, s, &e);
}
