/* What of PCRE2 the library uses: it links with no_jit.c, or that is left out. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

int main(void) {
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR) "a", 1, 0, &error, &at, NULL);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(context, 100);
    const int n = pcre2_match(code, (PCRE2_SPTR) "a", 1, 0, 0, data, context);
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(data);
    const int bad = n != 1 || found[0] != 0;
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    return bad;
}
