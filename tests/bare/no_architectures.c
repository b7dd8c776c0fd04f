/* Stands in for the list that the build makes of models/: no architecture is known. */
#include "src/model/arch.h"

const tn_arch_source tn_arch_builtin[] = {{NULL, NULL, 0}};
const char tn_arch_text[] = "";
const uint32_t tn_arch_line_at[] = {0};
