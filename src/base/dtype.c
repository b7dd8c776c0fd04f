#include "dtype.h"

const tn_dtype_info tn_dtypes[TN_DTYPE_COUNT] = {
#define X(name, id, elems, bytes, act) {#name, id, elems, bytes, TN_ACT_##act},
#include "dtype.def"
#undef X
};

bool tn_dtype_from_ggml(uint32_t ggml_id, tn_dtype *out) {
    for (int t = 0; t < TN_DTYPE_COUNT; t++) {
        if (tn_dtypes[t].ggml_id != ggml_id) continue;
        *out = (tn_dtype)t;
        return true;
    }
    return false;
}
