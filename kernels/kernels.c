#include "kernels.h"

#include "../src/base/checked.h"

size_t tn_act_row_bytes(tn_act kind, size_t k) {
    switch (kind) {
    case TN_ACT_F32: return tn_round_up(k * sizeof(float), 64);
    case TN_ACT_Q8_32: return tn_act_s_offset(kind, k) + tn_round_up(k / 32 * sizeof(int32_t), 64);
    case TN_ACT_Q8_256: return tn_act_s_offset(kind, k) + tn_round_up(k / 16 * sizeof(int16_t), 64);
    default: return 0;
    }
}

void tn_kernels_fill(tn_kernels *table, tn_isa isa) {
    tn_kernels_fill_ref(table);
#if defined(__x86_64__)
    if (isa >= TN_ISA_AVX2) tn_kernels_fill_avx2(table);
#endif
    table->isa = isa;
}
