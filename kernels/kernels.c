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

/* The levels that this architecture's build has. */
static tn_kernels_fill_fn *const fill_levels[TN_ISA_COUNT] = {
    [TN_ISA_REF] = tn_kernels_fill_ref,
#if defined(__x86_64__)
    [TN_ISA_AVX2] = tn_kernels_fill_avx2,     [TN_ISA_AVXVNNI] = tn_kernels_fill_avxvnni,
    [TN_ISA_AVX512] = tn_kernels_fill_avx512, [TN_ISA_AVX512VNNI] = tn_kernels_fill_avx512vnni,
#elif defined(__aarch64__)
    [TN_ISA_NEON] = tn_kernels_fill_neon,
    [TN_ISA_DOTPROD] = tn_kernels_fill_dotprod,
    [TN_ISA_I8MM] = tn_kernels_fill_i8mm,
#endif
};

void tn_kernels_fill(tn_kernels *table, tn_isa isa) {
    for (int level = TN_ISA_REF; level <= (int)isa; level++) {
        if (fill_levels[level] && tn_isa_supported((tn_isa)level)) fill_levels[level](table);
    }
    table->isa = isa;
}
