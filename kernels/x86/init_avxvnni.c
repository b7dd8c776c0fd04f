/* The rows of the kernel table that the avxvnni level overwrites. */
#include "levels_avx512.h"

void tn_kernels_fill_avxvnni(tn_kernels *table) {
#define X(NAME, name) table->weight[TN_DTYPE_##NAME].gemm = tn_gemm_##name##_q8_avxvnni;
    TN_AVX2_Q_TYPES(X)
#undef X
}
