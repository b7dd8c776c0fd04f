/* How the rows of a text become one vector: what sentence-transformers wrote beside an encoder, in the folder of the module of
 * that kind (modules.c), or in the usual one. */
#include <stdio.h>
#include <string.h>

#include "../model/model.h"
#include "convert_impl.h"

static bool is_mode(const json_t *pooling, const char *old, const char *name) {
    const char *mode = json_string_value(json_object_get(pooling, "pooling_mode"));
    return json_is_true(json_object_get(pooling, old)) || (mode && !strcmp(mode, name));
}

/* Two of them at once make a longer vector of both, which files cannot say. */
static tn_status find_mode(const tn_converter *c, const json_t *pooling, tn_pooling *found) {
    static const struct {
        const char *old, *name;
        tn_pooling pooling;
    } modes[] = {{"pooling_mode_mean_tokens", "mean", TN_POOLING_MEAN},
                 {"pooling_mode_cls_token", "cls", TN_POOLING_FIRST},
                 {"pooling_mode_lasttoken", "lasttoken", TN_POOLING_LAST},
                 {"pooling_mode_max_tokens", "max", TN_POOLING_UNKNOWN},
                 {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", TN_POOLING_UNKNOWN},
                 {"pooling_mode_weightedmean_tokens", "weightedmean", TN_POOLING_UNKNOWN}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (!is_mode(pooling, modes[i].old, modes[i].name)) continue;
        *found = modes[i].pooling;
        n++;
    }
    if (n == 1 && *found != TN_POOLING_UNKNOWN) return TN_OK;
    return TN_NOT_KNOWN(c, "pooling: expected mean, cls or lasttoken, and one alone");
}

tn_status tn_convert_write_pooling(tn_converter *c) {
    char name[300], key[160];
    json_t *pooling;
    tn_pooling found = TN_POOLING_UNKNOWN;
    snprintf(name, sizeof name, "%s/config.json", c->pooling_dir ? c->pooling_dir : "1_Pooling");
    tn_status s = tn_convert_json(c, name, JSON_OBJECT, &pooling);
    if (s || !pooling) return s;
    s = find_mode(c, pooling, &found);
    json_decref(pooling);
    if (s) return s;
    snprintf(key, sizeof key, "%s.pooling_type", c->arch.name);
    tn_gguf_set_u32(c->writer, key, (uint32_t)found);
    return TN_OK;
}
