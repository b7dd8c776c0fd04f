/* The rows of the kernel table that the avx512vnni level overwrites. */
#include "levels_avx512.h"

void tn_kernels_fill_avx512vnni(tn_kernels *table) {
#define X(NAME, name) table->weight[TN_DTYPE_##NAME].gemm = tn_gemm_##name##_q8_avx512vnni;
    TN_AVX2_Q_TYPES(X)
#undef X
#define X(NAME, name) table->weight[TN_DTYPE_##NAME].gemv = tn_gemv_##name##_q8_avx512vnni;
    TN_AVX2_Q_TYPES(X)
#undef X
}
