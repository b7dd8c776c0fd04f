/* Checked arithmetic, messages, arena, reader, file maps, processor and threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "src/base/arena.h"
#include "src/base/cgroup.h"
#include "src/base/checked.h"
#include "src/base/cpu.h"
#include "src/base/fmap.h"
#include "src/base/match.h"
#include "src/base/memory.h"
#include "src/base/processors.h"
#include "src/base/reader.h"
#include "src/base/status.h"

static char dir[64]; /* made once, removed at the end */

static void sums_products_and_alignments_that_do_not_fit_are_refused(void **state) {
    (void)state;
    uint64_t out;
    assert_true(tn_add_u64(UINT64_MAX - 1, 1, &out) && out == UINT64_MAX);
    assert_false(tn_add_u64(UINT64_MAX, 1, &out));
    assert_true(tn_mul_u64(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &out));
    assert_true(out == 0xffffffff00000000);
    assert_false(tn_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_false(tn_mul_u64((UINT64_C(1) << 63) + 2, 2, &out));
    assert_true(tn_align_u64(0, 32, &out) && out == 0);
    assert_true(tn_align_u64(33, 32, &out) && out == 64);
    assert_true(tn_align_u64(UINT64_MAX - 31, 32, &out) && out == UINT64_MAX - 31);
    assert_false(tn_align_u64(UINT64_MAX - 30, 32, &out));
    assert_int_equal(tn_round_up(13, 12), 24);
}

/* ---- Messages ---- */

static void check_escape(const char *text, size_t n, size_t cap, const char *expected) {
    char dst[64];
    memset(dst, '#', sizeof dst);
    assert_int_equal(tn_escape(dst, cap, text, n), strlen(expected));
    assert_string_equal(dst, expected);
    assert_int_equal(dst[cap], '#');
}

static void escape_leaves_good_text_and_spells_out_the_rest(void **state) {
    (void)state;
    check_escape("plain \\ 'text'", 14, 40, "plain \\ 'text'");
    check_escape("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 12, 40,
                 "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    check_escape("a\0b\n\x1b[31m\x7f", 10, 40, "a\\x00b\\x0a\\x1b[31m\\x7f");
    check_escape("\xc2\x9b"
                 "1m",
                 4, 40,
                 "\\xc2\\x9b"
                 "1m");                          /* U+009B, an escape sequence's start */
    check_escape("\xc2\xa0", 2, 40, "\xc2\xa0"); /* the first beyond C1 */
    check_escape("\xe2\x80\xae"
                 "cba",
                 6, 60,
                 "\\xe2\\x80\\xae"
                 "cba"); /* U+202E, what follows is shown from right to left */
    check_escape("\xe2\x80\xa8\xe2\x81\xa6", 6, 60, "\\xe2\\x80\\xa8\\xe2\\x81\\xa6"); /* U+2028, U+2066 */
    check_escape("\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa", 12, 60,
                 "\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa"); /* their neighbours */
    check_escape("\xff\xc3", 2, 40, "\\xff\\xc3");                    /* never, and cut off */
    check_escape("\xc0\xaf", 2, 40, "\\xc0\\xaf");                    /* overlong */
    check_escape("\xe0\x9f\xbf", 3, 40, "\\xe0\\x9f\\xbf");           /* overlong */
    check_escape("\xed\xa0\x80", 3, 40, "\\xed\\xa0\\x80");           /* surrogate */
    check_escape("\xf4\x90\x80\x80", 4, 40, "\\xf4\\x90\\x80\\x80");  /* above U+10FFFF */
    check_escape("", 0, 40, "");
}

static void escape_cuts_at_whole_characters(void **state) {
    (void)state;
    char untouched = '#';
    assert_int_equal(tn_escape(&untouched, 0, "abc", 3), 0);
    assert_int_equal(untouched, '#');
    check_escape("abc", 3, 1, "");
    check_escape("abc", 3, 3, "ab");
    check_escape("ab\xe2\x82\xac", 5, 5, "ab");
    check_escape("ab\xe2\x82\xac", 5, 6, "ab\xe2\x82\xac");
    check_escape("ab\n", 3, 6, "ab");
    check_escape("ab\n", 3, 7, "ab\\x0a");
}

/* Counts over all byte strings of three, and of four from some leads, against what Unicode's tables give: 95
 * printable characters in one byte, 1920 in two less 32 of C1, 61440 in three less 11 that break or turn lines; 0x30000 behind F0, 0x10000
 * behind F4. */
static void printable_agrees_with_unicode_on_every_short_string(void **state) {
    (void)state;
    unsigned count = 0, f0 = 0, f4 = 0;
    for (uint32_t i = 0; i < 1u << 24; i++) {
        char s[4] = {0, (char)(i >> 16), (char)(i >> 8), (char)i};
        count += tn_is_printable(s + 1, 3);
        if ((i >> 22) != 2) continue; /* no second byte of a character */
        s[0] = (char)0xf0;
        f0 += tn_is_printable(s, 4);
        s[0] = (char)0xf4;
        f4 += tn_is_printable(s, 4);
    }
    assert_int_equal(count, 95 * 95 * 95 + 2 * 95 * (1920 - 32) + 61440 - 11);
    assert_int_equal(f0, 0x30000);
    assert_int_equal(f4, 0x10000);
    for (int lead = 0xf5; lead <= 0xff; lead++)
        assert_false(tn_is_printable((char[]){(char)lead, -128, -128, -128}, 4));
    assert_false(tn_is_printable("\xf0\x90\x80"
                                 "a",
                                 4));
    assert_true(tn_is_printable("", 0));
}

static void a_failure_fills_code_and_message(void **state) {
    (void)state;
    tn_error err;
    assert_int_equal(tn_fail(&err, TN_ERR_FORMAT, "cannot open", "a\nb", "key '%s' is %d", "\x1b]0;x\a", 7),
                     TN_ERR_FORMAT);
    assert_int_equal(err.code, TN_ERR_FORMAT);
    assert_string_equal(err.message, "cannot open: a\\x0ab: key '\\x1b]0;x\\x07' is 7");
    tn_fail(&err, TN_ERR_IO, "what", NULL, "why");
    assert_string_equal(err.message, "what: why");
    assert_int_equal(tn_fail(NULL, TN_ERR_IO, "what", NULL, "why"), TN_ERR_IO);
}

static void a_long_message_is_cut_at_a_character_and_keeps_the_end_of_the_path(void **state) {
    (void)state;
    tn_error err;
    char path[2001], why[2001];
    for (int i = 0; i < 2000; i += 2) memcpy(path + i, "\xc3\xa9", 2);
    memcpy(path + 1992, "end.gguf", 9);
    memset(why, 'w', 2000);
    why[2000] = '\0';
    for (int shift = 0; shift < 4; shift++) {
        tn_fail(&err, TN_ERR_IO, "what", path + shift, "reason: %s \xe2\x82\xac", why);
        size_t n = strlen(err.message);
        assert_true(n >= sizeof err.message - 8 && n < sizeof err.message);
        assert_true(tn_is_printable(err.message, n));
        assert_non_null(strstr(err.message, "end.gguf: reason: ww"));
    }
    for (int i = 0; i < 8; i++) { /* a three-byte character across the end of the buffer */
        for (int k = 0; k + 3 < 2000; k += 3) memcpy(why + k, "\xe2\x82\xac", 3);
        why[1800] = '\0';
        tn_fail(&err, TN_ERR_IO, "what", NULL, "%.*s%s", i, "12345678", why);
        assert_true(tn_is_printable(err.message, strlen(err.message)));
    }
}

/* ---- Arena and reservations ---- */

static bool all_bytes_are(const uint8_t *p, size_t n, int value) {
    while (n > 0 && p[n - 1] == value) n--;
    return n == 0;
}

static void arena_memory_is_zeroed_aligned_and_apart(void **state) {
    (void)state;
    tn_arena arena = {0};
    static const size_t sizes[] = {0, 1, 15, 16, 63, 64, 65, 1000, 5000, 20000, 70000, 3, 1u << 20, 64, 7};
    enum { N = sizeof sizes / sizeof *sizes };
    uint8_t *blocks[40 * N];
    for (int i = 0; i < 40 * N; i++) {
        size_t n = sizes[i % N];
        blocks[i] = tn_arena_alloc(&arena, n, 1);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % (n >= 64 ? 64 : 16), 0);
        assert_true(all_bytes_are(blocks[i], n, 0));
#ifdef __SANITIZE_ADDRESS__
        assert_true(__asan_address_is_poisoned(blocks[i] + n));
#endif
        memset(blocks[i], 1 + i % 200, n);
    }
    for (int i = 0; i < 40 * N; i++) {
        assert_true(all_bytes_are(blocks[i], sizes[i % N], 1 + i % 200));
    }
    assert_true(arena.total_bytes >= 40u << 20 && arena.total_bytes < 48u << 20);
    tn_arena_free(&arena);
    assert_null(arena.head);
    assert_int_equal(arena.total_bytes, 0);
    assert_string_equal(tn_arena_strdup(&arena, "abcdef", 3), "abc");
    tn_arena_free(&arena);
}

static void arena_refuses_sizes_that_overflow(void **state) {
    (void)state;
    tn_arena arena = {0};
    assert_null(tn_arena_alloc(&arena, SIZE_MAX / 2 + 1, 2));
    assert_null(tn_arena_alloc(&arena, SIZE_MAX, 1));
    assert_null(tn_arena_alloc(&arena, SIZE_MAX - 64, 1));
    assert_null(tn_arena_strdup(&arena, "", SIZE_MAX));
    assert_int_equal(arena.total_bytes, 0);
    assert_non_null(tn_arena_alloc(&arena, 1, 1));
    tn_arena_free(&arena);
}

static void reserved_space_is_zero_and_costs_nothing_until_touched(void **state) {
    (void)state;
    assert_null(tn_reserve(SIZE_MAX));
    size_t bytes = ((size_t)8 << 30) + 1;
    uint8_t *base = tn_reserve(bytes);
    assert_non_null(base);
    assert_int_equal(base[bytes - 1], 0);
    base[bytes - 1] = base[0] = 1;
    tn_unreserve(base, bytes);
    tn_unreserve(NULL, bytes);
}

/* ---- Patterns ---- */

/* By the definition of each sign, one way after the other. */
static bool matches(const char *pattern, const char *name, size_t n) {
    if (!*pattern) return n == 0;
    if (*pattern == '*') return matches(pattern + 1, name, n) || (n && matches(pattern, name + 1, n - 1));
    return n && (*pattern == '?' || *pattern == *name) && matches(pattern + 1, name + 1, n - 1);
}

static void patterns_match_as_their_signs_say(void **state) {
    (void)state;
    enum { MAX_PATTERN = 5, N_PATTERNS = 5 * 5 * 5 * 5 * 5, MAX_NAME = 6 };
    static const char signs[] = {'\0', 'a', 'b', '*', '?'}; /* the first ends a pattern */
    size_t n_matched = 0;
    for (int p = 0; p < N_PATTERNS; p++) {
        char pattern[MAX_PATTERN + 1] = "";
        for (int k = 0, digits = p; k < MAX_PATTERN; k++, digits /= 5) pattern[k] = signs[digits % 5];
        for (size_t n = 0; n <= MAX_NAME; n++) {
            for (unsigned i = 0; i < 1u << n; i++) {
                char name[MAX_NAME] = "";
                for (size_t k = 0; k < n; k++) name[k] = i >> k & 1 ? 'b' : 'a';
                assert_int_equal(tn_match(pattern, name, n), matches(pattern, name, n));
                n_matched += matches(pattern, name, n);
            }
        }
    }
    assert_in_range(n_matched, 10000, 200000);
    assert_true(tn_match("blk.*.ffn_down.weight", "blk.12.ffn_down.weight.more", 22));
    assert_true(tn_match("a?c", "a\0c", 3));
    assert_false(tn_match("a", "a\0", 2));
}

/* ---- Reader and file maps ---- */

static void the_reader_never_passes_its_end(void **state) {
    (void)state;
    static const uint8_t bytes[13] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    tn_reader r = {.base = bytes, .size = sizeof bytes};
    uint32_t u32;
    uint64_t u64;
    const uint8_t *p;
    assert_true(tn_read_u32(&r, &u32) && u32 == 0x04030201);
    assert_true(tn_read_u64(&r, &u64) && u64 == 0x0c0b0a0908070605);
    assert_false(tn_read_u64(&r, &u64) || tn_read_u32(&r, &u32));
    assert_false(tn_read_bytes(&r, 2, &p) || tn_read_bytes(&r, UINT64_MAX, &p) ||
                 tn_read_bytes(&r, UINT64_MAX - 11, &p));
    assert_int_equal(r.pos, 12);
    assert_true(tn_read_bytes(&r, 1, &p) && *p == 13);
    assert_true(tn_read_bytes(&r, 0, &p));
    assert_int_equal(tn_reader_left(&r), 0);
}

static const char *in_dir(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void write_text(const char *name, const char *text) {
    FILE *f = fopen(in_dir(name), "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void only_regular_files_are_mapped(void **state) {
    (void)state;
    tn_fmap map;
    tn_error err;
    write_text("file", "hello");
    assert_int_equal(tn_fmap_open(&map, in_dir("file"), &err), TN_OK);
    assert_true(map.size == 5 && memcmp(map.data, "hello", 5) == 0);
    assert_true(tn_fmap_is_whole(&map));
    assert_int_equal(truncate(in_dir("file"), 4), 0);
    assert_false(tn_fmap_is_whole(&map));
    tn_fmap_close(&map);
    assert_null(map.data);
    write_text("empty", "");
    assert_int_equal(tn_fmap_open(&map, in_dir("empty"), &err), TN_OK);
    assert_true(map.data == NULL && map.size == 0);
    tn_fmap_close(&map);
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    static const char *const bad[][2] = {{"fifo", "FIFO"}, {"", "directory"}, {"absent", "No such file"}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tn_fmap_open(&map, in_dir(bad[i][0]), &err), TN_ERR_IO);
        assert_non_null(strstr(err.message, bad[i][1]));
        assert_non_null(strstr(err.message, dir));
        assert_null(map.data);
    }
    assert_int_equal(tn_fmap_open(&map, "/dev/zero", &err), TN_ERR_IO);
    assert_non_null(strstr(err.message, "character device"));
}

/* ---- Processor ---- */

static void the_instruction_set_can_be_forced_and_nonsense_is_an_error(void **state) {
    (void)state;
    tn_isa isa;
    tn_error err;
    unsetenv("TERN_ISA");
    assert_int_equal(tn_isa_choose(&isa, &err), TN_OK);
    assert_true(tn_isa_supported(isa));
    for (int i = isa + 1; i < TN_ISA_COUNT; i++) assert_false(tn_isa_supported((tn_isa)i));
    for (int i = 0; i < TN_ISA_COUNT; i++) {
        setenv("TERN_ISA", tn_isa_name((tn_isa)i), 1);
        bool works = tn_isa_supported((tn_isa)i);
        assert_int_equal(tn_isa_choose(&isa, &err), works ? TN_OK : TN_ERR_UNSUPPORTED);
        if (works) assert_int_equal(isa, i);
    }
    static const char *const unknown[] = {"AVX2", "avx", "avx2 ", "sse\x1b[0m", "avx1024"};
    for (int i = 0; i < 5; i++) {
        setenv("TERN_ISA", unknown[i], 1);
        assert_int_equal(tn_isa_choose(&isa, &err), TN_ERR_ARG);
        assert_non_null(strstr(err.message, "TERN_ISA"));
        assert_non_null(strstr(err.message, "possible here: ref"));
        assert_null(strchr(err.message, 0x1b));
    }
    unsetenv("TERN_ISA");
}

/* The kernel's own list is the independent source. */
static void avx2_is_supported_where_the_kernel_lists_its_flags(void **state) {
    (void)state;
    FILE *f = fopen("/proc/cpuinfo", "r");
    assert_non_null(f);
    static char line[1 << 16];
    bool listed = false;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "flags", 5) != 0) continue;
        listed = strstr(line, " avx2 ") && strstr(line, " fma ") && strstr(line, " f16c ");
        break;
    }
    fclose(f);
#if !defined(__x86_64__)
    listed = false; /* under an emulator the list is that of the machine beneath */
#endif
    assert_int_equal(tn_isa_supported(TN_ISA_AVX2), listed);
    char name[200];
    tn_cpu_name(name, sizeof name);
    assert_true(strlen(name) > 2 && tn_is_printable(name, strlen(name)));
    char small[8];
    tn_cpu_name(small, sizeof small);
    assert_true(strlen(small) < 8);
}

static int default_threads(void) {
    tn_cpu_counts counts;
    tn_cpu_counts_get(&counts);
    return tn_default_threads(&counts);
}

static void one_allowed_cpu_gives_one_thread(void **state) {
    (void)state;
    cpu_set_t before, one;
    if (sched_getaffinity(0, sizeof before, &before) != 0) skip(); /* more than 1,024 CPUs */
    int all = default_threads();
    assert_true(all >= 1 && all <= CPU_COUNT(&before));
    CPU_ZERO(&one);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &before)) cpu++;
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int threads = default_threads();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(threads, 1);
    assert_int_equal(default_threads(), all);
}

static void make_dirs(const char *path) {
    char copy[512];
    snprintf(copy, sizeof copy, "%s", in_dir(path));
    for (char *p = copy + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        assert_true(mkdir(copy, 0700) == 0 || errno == EEXIST);
        *p = '/';
    }
}

/* A tree of /proc/self/cgroup and quota files under its own root. */
static void cgroup_file(const char *root, const char *path, const char *text) {
    char name[200];
    snprintf(name, sizeof name, "%s/%s", root, path);
    make_dirs(name);
    write_text(name, text);
}

static void cpu_file(const char *root, int cpu, const char *name, int value) {
    char path[100], text[16];
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/%s", cpu, name);
    snprintf(text, sizeof text, "%d\n", value);
    cgroup_file(root, path, text);
}

static void cpu_topology(const char *root, int cpu, int core) {
    cpu_file(root, cpu, "topology/core_id", core);
    cpu_file(root, cpu, "topology/physical_package_id", 0);
}

/* Ranks the processors of a tree, those in `allowed`, and writes them as "0 2 (8 9) [1 3]": slow ones in parentheses, siblings
 * in brackets. */
static const char *ranking(const char *root, const int *allowed, size_t n) {
    static char text[200];
    tn_processor list[16];
    for (size_t i = 0; i < n; i++) list[i].cpu = allowed[i];
    tn_processors_rank(in_dir(root), list, n);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const tn_processor *p = &list[i];
        const size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%s%s%d%s%s", i ? " " : "", p->sibling ? "[" : "",
                 p->slow ? "(" : "", p->cpu, p->slow ? ")" : "", p->sibling ? "]" : "");
    }
    return text;
}

/* An Intel hybrid: four threads on two performance cores, four efficiency cores. */
static void efficiency_cores_and_siblings_come_last(void **state) {
    (void)state;
    const int cores[] = {0, 0, 4, 4, 8, 9, 10, 11}, all[] = {7, 6, 5, 4, 3, 2, 1, 0};
    for (int cpu = 0; cpu < 8; cpu++) cpu_topology("hybrid", cpu, cores[cpu]);
    assert_string_equal(ranking("hybrid", all, 8), "0 2 4 5 6 7 [1] [3]");
    cgroup_file("hybrid", "sys/devices/cpu_atom/cpus", "4,6-7\n");
    assert_string_equal(ranking("hybrid", all, 8), "0 2 5 (4) (6) (7) [1] [3]");
    assert_string_equal(ranking("hybrid", (const int[]){6, 7}, 2),
                        "6 7"); /* none that is faster is allowed */
    assert_string_equal(ranking("hybrid", (const int[]){1, 3, 6}, 3), "1 3 (6)");
}

/* An Arm phone: four small cores, three of middle size, a large one. */
static void cores_of_less_than_half_the_capacity_are_slow(void **state) {
    (void)state;
    const int capacity[] = {250, 250, 250, 250, 780, 780, 780, 1024}, all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int cpu = 0; cpu < 8; cpu++)
        cpu_topology("phone", cpu, cpu), cpu_file("phone", cpu, "cpu_capacity", capacity[cpu]);
    assert_string_equal(ranking("phone", all, 8), "4 5 6 7 (0) (1) (2) (3)");
    assert_string_equal(ranking("nothing", all, 3), "0 1 2"); /* a system that tells nothing */
}

static int limit_of(const char *root) {
    return tn_cgroup_cpu_limit(in_dir(root));
}

static void cgroups_limit_memory(void **state) {
    (void)state;
    cgroup_file("m2", "proc/self/cgroup", "0::/a/b\n");
    assert_true(tn_cgroup_memory_left(in_dir("m2")) == UINT64_MAX);
    cgroup_file("m2", "sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_true(tn_cgroup_memory_left(in_dir("m2")) == UINT64_MAX);
    cgroup_file("m2", "sys/fs/cgroup/a/memory.max", "5000000\n");
    cgroup_file("m2", "sys/fs/cgroup/a/memory.stat", "anon_thp 7\nanon 1000000\nfile 3000000\n");
    assert_true(tn_cgroup_memory_left(in_dir("m2")) == 4000000);
    cgroup_file("m2", "sys/fs/cgroup/a/b/memory.max", "0\n");
    assert_true(tn_cgroup_memory_left(in_dir("m2")) == 0);
    cgroup_file("m1", "proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/y\n");
    cgroup_file("m1", "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "3000000\n");
    cgroup_file("m1", "sys/fs/cgroup/memory/x/memory.stat", "rss 5\ntotal_rss 3000001\n");
    assert_true(tn_cgroup_memory_left(in_dir("m1")) == 0);
    cgroup_file("m1", "sys/fs/cgroup/memory/x/memory.stat", "rss 5\ntotal_rss 1000000\n");
    cgroup_file("m1", "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(tn_cgroup_memory_left(in_dir("m1")) == 2000000);
}

static void cgroup_2_quotas_limit_through_every_parent(void **state) {
    (void)state;
    cgroup_file("v2", "proc/self/cgroup", "0::/a/b\n");
    assert_int_equal(limit_of("v2"), 0);
    cgroup_file("v2", "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(limit_of("v2"), 0);
    cgroup_file("v2", "sys/fs/cgroup/a/cpu.max", "350000 100000\n");
    assert_int_equal(limit_of("v2"), 4);
    cgroup_file("v2", "sys/fs/cgroup/a/b/cpu.max", "600000 100000\n");
    assert_int_equal(limit_of("v2"), 4);
    cgroup_file("v2", "sys/fs/cgroup/a/b/cpu.max", "1000 100000\n");
    assert_int_equal(limit_of("v2"), 1);
    cgroup_file("v2", "sys/fs/cgroup/a/b/cpu.max", "garbage\n");
    cgroup_file("v2", "sys/fs/cgroup/a/cpu.max", "5 0\n");
    assert_int_equal(limit_of("v2"), 0);
    cgroup_file("v2", "sys/fs/cgroup/cpu.max", "200000 100000\n"); /* as inside a container */
    assert_int_equal(limit_of("v2"), 2);
    assert_int_equal(limit_of("nothing-here"), 0);
}

static void cgroup_1_quotas_limit_by_the_cpu_controller(void **state) {
    (void)state;
    cgroup_file("v1", "proc/self/cgroup",
                "7:cpuset:/x\n4:cpu,cpuacct:/docker/0123\n1:name=systemd:/y\n0::/\n");
    cgroup_file("v1", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    cgroup_file("v1", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(limit_of("v1"), 0);
    cgroup_file("v1", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(limit_of("v1"), 3);
    cgroup_file("v1", "sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "50000\n");
    cgroup_file("v1", "sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_period_us", "25000\n");
    assert_int_equal(limit_of("v1"), 2);
    cgroup_file("v1", "proc/self/cgroup", "7:cpuset:/docker/0123\n");
    assert_int_equal(limit_of("v1"), 0);
}

/* ---- */

static int make_dir(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tern-test-base-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_products_and_alignments_that_do_not_fit_are_refused),
        cmocka_unit_test(escape_leaves_good_text_and_spells_out_the_rest),
        cmocka_unit_test(escape_cuts_at_whole_characters),
        cmocka_unit_test(printable_agrees_with_unicode_on_every_short_string),
        cmocka_unit_test(a_failure_fills_code_and_message),
        cmocka_unit_test(a_long_message_is_cut_at_a_character_and_keeps_the_end_of_the_path),
        cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(arena_refuses_sizes_that_overflow),
        cmocka_unit_test(reserved_space_is_zero_and_costs_nothing_until_touched),
        cmocka_unit_test(patterns_match_as_their_signs_say),
        cmocka_unit_test(the_reader_never_passes_its_end),
        cmocka_unit_test(only_regular_files_are_mapped),
        cmocka_unit_test(the_instruction_set_can_be_forced_and_nonsense_is_an_error),
        cmocka_unit_test(avx2_is_supported_where_the_kernel_lists_its_flags),
        cmocka_unit_test(one_allowed_cpu_gives_one_thread),
        cmocka_unit_test(efficiency_cores_and_siblings_come_last),
        cmocka_unit_test(cores_of_less_than_half_the_capacity_are_slow),
        cmocka_unit_test(cgroups_limit_memory),
        cmocka_unit_test(cgroup_2_quotas_limit_through_every_parent),
        cmocka_unit_test(cgroup_1_quotas_limit_by_the_cpu_controller),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
