/* Patterns are matched without PCRE2's compiler of machine code, which its archive brings along all the same: 240 KB that ask the
 * system for memory to execute. It is not taken where its functions are here; none of them is called. */
const char *_pcre2_jit_get_target_8(void);
int _pcre2_jit_check_exec_8(void);
int pcre2_jit_match_8(void);
void _pcre2_jit_free_8(void);
void _pcre2_jit_free_rodata_8(void);
unsigned long _pcre2_jit_get_size_8(void);

const char *_pcre2_jit_get_target_8(void) {
    return "";
}
int _pcre2_jit_check_exec_8(void) {
    return 0;
}
int pcre2_jit_match_8(void) {
    return -45; /* PCRE2_ERROR_JIT_BADOPTION */
}
void _pcre2_jit_free_8(void) {
}
void _pcre2_jit_free_rodata_8(void) {
}
unsigned long _pcre2_jit_get_size_8(void) {
    return 0;
}
