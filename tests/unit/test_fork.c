/* Forks: the bits of a session that was computed alone, whoever writes, truncates or is freed first; and what they share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/model/model.h"
#include "src/session/blocks.h"
#include "src/session/session.h"
#include "src/session/state.h"
#include "tests/unit/tiny_session.h"

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */

enum { N_BLOCKS = 9, BLOCK_BYTES = 4096, N_OWNERS = 6 };

/* Owners that share, write and leave at random against plain copies. */
static void shared_blocks_are_as_copies(void **state) {
    (void)state;
    const tn_allocator system = {0};
    uint64_t seed = 3;
    for (int round = 0; round < 200; round++) {
        tn_blocks owners[N_OWNERS] = {0};
        static uint8_t copies[N_OWNERS][N_BLOCKS]; /* what every byte of a block is; 0: never written */
        assert_true(tn_blocks_new(&owners[0], N_BLOCKS, BLOCK_BYTES, &system));
        memset(copies, 0, sizeof copies);
        for (int step = 0; step < 60; step++) {
            const size_t a = tiny_random(&seed) % N_OWNERS, b = tiny_random(&seed) % N_OWNERS;
            const uint32_t i = (uint32_t)(tiny_random(&seed) % N_BLOCKS);
            if (owners[a].n && !owners[b].n && a != b) {
                assert_true(tn_blocks_share(&owners[b], &owners[a], i));
                memset(copies[b], 0, N_BLOCKS);
                memcpy(copies[b], copies[a], i);
            } else if (owners[a].n && tiny_random(&seed) % 6 == 0 && round % 2) {
                tn_blocks_free(&owners[a]);
            } else if (owners[a].n) {
                const bool keep = copies[a][i] && tiny_random(&seed) % 2;
                assert_true(tn_blocks_write(&owners[a], i, keep));
                if (keep) assert_int_equal(owners[a].at[i][BLOCK_BYTES - 1], copies[a][i]);
                copies[a][i] = (uint8_t)(1 + tiny_random(&seed) % 255);
                memset(owners[a].at[i], copies[a][i], BLOCK_BYTES);
            }
            for (size_t o = 0; o < N_OWNERS; o++)
                for (uint32_t k = 0; k < owners[o].n; k++)
                    if (copies[o][k]) {
                        assert_int_equal(owners[o].at[k][0], copies[o][k]);
                        assert_int_equal(owners[o].at[k][BLOCK_BYTES - 1], copies[o][k]);
                    }
        }
        for (size_t o = 0; o < N_OWNERS; o++) tn_blocks_free(&owners[o]);
    }
}

typedef struct counter {
    size_t held, most;
} counter;

static void *count_alloc(void *user, size_t bytes, size_t alignment) {
    counter *c = user;
    c->held += bytes;
    if (c->held > c->most) c->most = c->held;
    return aligned_alloc(alignment, bytes);
}

static void count_free(void *user, void *memory, size_t bytes) {
    counter *c = user;
    c->held -= bytes;
    free(memory);
}

static void write_all(tn_blocks *b, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; i++) assert_true(tn_blocks_write(b, i, true));
}

/* A fork that is forked in every block while it grows, and then goes back and grows again, holds its blocks once. */
static void a_fork_that_is_forked_at_every_block_holds_no_more_for_it(void **state) {
    (void)state;
    enum { MANY = 64 };
    const size_t whole = (size_t)MANY * BLOCK_BYTES;
    counter c = {0};
    const tn_allocator counting = {count_alloc, count_free, &c};
    tn_blocks first, fork, other;
    assert_true(tn_blocks_new(&first, MANY, BLOCK_BYTES, &counting));
    write_all(&first, 0, 1);
    assert_true(tn_blocks_share(&fork, &first, 1));
    tn_blocks_free(&first);
    for (int lap = 0; lap < 3; lap++)
        for (uint32_t i = 0; i < MANY; i++) {
            write_all(&fork, i, i + 1);
            assert_true(tn_blocks_share(&other, &fork, lap ? MANY : i + 1));
            write_all(&fork, i, i + 1);
            tn_blocks_free(&other);
        }
    assert_true(c.held <= 2 * whole);
    assert_true(c.most <=
                3 * whole); /* `first`'s blocks live until the fork has a copy of the one that it shared */
    tn_blocks_free(&fork);
    assert_int_equal(c.held, 0);
}

/* ---- Sessions ---------------------------------------------------------------------------------------------------- */

typedef struct family {
    tn_model *m;
    tn_kv_type kv;
    uint32_t n_ctx, n_batch;
} family;

enum { N_IDS = 1400, MAX_FORKS = 8 };

/* A session and the tokens that it must hold. */
typedef struct member {
    tn_session *s;
    int32_t ids[N_IDS];
    uint32_t n;
} member;

static family family_of(const tiny_shape *shape, tn_kv_type kv, uint32_t n_ctx, uint32_t n_batch) {
    tiny_shape copy = *shape;
    if (kv == TN_KV_Q8_0) copy.head_dim = 32;
    return (family){tiny_open(&copy), kv, n_ctx, n_batch};
}

static tn_session *fresh(const family *f) {
    return tiny_session(f->m, f->n_ctx, f->n_batch, 1, f->kv);
}

static void go_on(member *a, const int32_t *ids, uint32_t n) {
    tiny_eval(a->s, ids, n);
    memcpy(a->ids + a->n, ids, n * sizeof *ids);
    a->n += n;
}

static void fork_of(member *b, const member *a) {
    tn_error err = {0};
    *b = *a;
    if (tn_session_fork(a->s, &b->s, &err)) fail_msg("%s", err.message);
}

static size_t row_bytes(const family *f) {
    return f->m->hparams.n_vocab * sizeof(float);
}

/* The logits of the member, which has just evaluated, are those of its tokens evaluated in a session that knows nothing else. */
static void assert_as_alone(const family *f, const member *a) {
    tn_session *alone = fresh(f);
    tiny_eval(alone, a->ids, a->n);
    assert_int_equal(tn_session_position(a->s), a->n);
    assert_memory_equal(tn_session_tokens(a->s), a->ids, a->n * sizeof *a->ids);
    assert_memory_equal(tn_session_logits(a->s, 0), tn_session_logits(alone, 0), row_bytes(f));
    tn_session_free(alone);
}

static const struct {
    const tiny_shape *shape;
    tn_kv_type kv;
    uint32_t n_ctx, n_batch, n, more; /* more: tokens of a long turn, of whole blocks too */
} cases[] = {
    {&tiny_llama, TN_KV_F16, 256, 32, 70, 20},     {&tiny_llama, TN_KV_F32, 256, 32, 128, 20},
    {&tiny_llama, TN_KV_Q8_0, 400, 200, 131, 150}, {&tiny_gemma3, TN_KV_F16, 1400, 32, 100, 20},
    {&tiny_gemma3, TN_KV_F16, 1400, 32, 900, 150}, {&tiny_gemma3, TN_KV_Q8_0, 1400, 200, 960, 200},
};

static size_t resident_bytes(void) {
    unsigned long all, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &all, &resident), 2);
    fclose(f);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Of 4096 tokens a fork has a list of its own and shares the 1 MiB that was computed of them; the first token that it goes on by takes
 * one block. The shortest of the times is printed: others have the processor too. */
static void a_fork_takes_no_memory_until_it_grows(void **state) {
    (void)state;
    enum { N_FORKS = 100, N = 4096 };
    family f = family_of(&tiny_llama, TN_KV_F16, N + 100, 512);
    static int32_t ids[N];
    tn_session *forks[N_FORKS], *s = fresh(&f);
    double shortest = 1;
    tiny_ids(ids, N, f.m->hparams.n_vocab, 5);
    tiny_eval(s, ids, N);
    const size_t before = resident_bytes();
    for (int i = 0; i < N_FORKS; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        assert_int_equal(tn_session_fork(s, &forks[i], NULL), TN_OK);
        clock_gettime(CLOCK_MONOTONIC, &end);
        const double seconds =
            (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
        if (seconds < shortest) shortest = seconds;
    }
    const size_t each = (resident_bytes() - before) / N_FORKS;
    printf("a fork of %d tokens: %.1f us, %zu bytes\n", N, 1e6 * shortest, each);
    assert_true(each < 2 * sizeof ids); /* the list, and tables of the blocks */
    for (int i = 0; i < N_FORKS; i++) {
        tiny_eval(forks[i], ids, 1);
        assert_memory_equal(tn_session_logits(forks[i], 0), tn_session_logits(forks[0], 0), row_bytes(&f));
    }
    for (int i = 0; i < N_FORKS; i++) tn_session_free(forks[i]);
    tn_session_free(s);
    tn_model_close(f.m);
}

/* A prefix, two forks of it and a fork of a fork, which take turns; then each is taken back into what it shares. */
static void forks_go_on_with_the_bits_of_sessions_alone(void **state) {
    (void)state;
    static member all[4];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        family f = family_of(cases[c].shape, cases[c].kv, cases[c].n_ctx, cases[c].n_batch);
        int32_t ids[N_IDS];
        tiny_ids(ids, N_IDS, f.m->hparams.n_vocab, 11 + c);
        all[0] = (member){.s = fresh(&f)};
        go_on(&all[0], ids, cases[c].n);
        fork_of(&all[1], &all[0]);
        assert_as_alone(&f, &all[1]); /* the logits too */
        go_on(&all[1], ids + 3, 5);
        fork_of(&all[2], &all[1]);
        fork_of(&all[3], &all[0]);
        for (uint32_t turn = 0; turn < 3; turn++)
            for (uint32_t i = 0; i < 4; i++) {
                go_on(&all[i], ids + 7 * i + turn, i == turn ? cases[c].more : 1);
                assert_as_alone(&f, &all[i]);
            }
        for (uint32_t i = 0; i < 4; i++) {
            all[i].n = cases[c].n - 10 - 13 * i;
            assert_int_equal(tn_session_truncate(all[i].s, all[i].n), all[i].n);
        }
        for (uint32_t i = 0; i < 4; i++) {
            go_on(&all[i], ids + 90 + i, 30);
            assert_as_alone(&f, &all[i]);
        }
        for (uint32_t i = 0; i < 4; i++) { /* those left do not notice */
            tn_session_free(all[i].s);
            for (uint32_t k = i + 1; k < 4; k++) {
                go_on(&all[k], ids + k, 2);
                assert_as_alone(&f, &all[k]);
            }
        }
        tn_model_close(f.m);
    }
}

/* Evaluations, forks, truncations, saved states and ends at random. */
static void any_order_of_calls_gives_the_same_bits(void **state) {
    (void)state;
    static member all[MAX_FORKS];
    for (uint64_t seed = 1; seed <= 4; seed++) {
        uint64_t random = seed;
        family f = family_of(seed % 2 ? &tiny_gemma3 : &tiny_llama, TN_KV_F16, seed % 2 ? 1300 : 400, 24);
        int32_t ids[N_IDS];
        tiny_ids(ids, N_IDS, f.m->hparams.n_vocab, seed);
        memset(all, 0, sizeof all);
        all[0].s = fresh(&f);
        go_on(&all[0], ids, seed % 2 ? 600 : 100);
        for (int step = 0; step < 120; step++) {
            member *a = &all[tiny_random(&random) % MAX_FORKS], *b = &all[tiny_random(&random) % MAX_FORKS];
            const uint32_t what = (uint32_t)(tiny_random(&random) % 8), n = 1 + (uint32_t)(random >> 40) % 40;
            if (!a->s) continue;
            if (a != b && !b->s) {
                fork_of(b, a);
            } else if (what == 0 && a != b) {
                tn_session_free(a->s);
                a->s = NULL;
            } else if (what == 1) {
                a->n = tn_session_truncate(a->s, a->n > n ? a->n - n : 0);
            } else if (a->n + n < f.n_ctx) {
                go_on(a, ids + tiny_random(&random) % 1000, n);
                assert_as_alone(&f, a);
            }
        }
        for (size_t i = 0; i < MAX_FORKS; i++) tn_session_free(all[i].s);
        tn_model_close(f.m);
    }
}

/* ---- State of forks ---------------------------------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t data[1 << 20];
    size_t n, at;
} bytes;

static tn_status append(void *user, const void *data, size_t n, tn_error *err) {
    bytes *b = user;
    (void)err;
    assert_true(n <= sizeof b->data - b->n);
    memcpy(b->data + b->n, data, n);
    b->n += n;
    return TN_OK;
}

static tn_status take(void *user, void *data, size_t n, tn_error *err) {
    bytes *b = user;
    (void)err;
    memcpy(data, b->data + b->at, n);
    b->at += n;
    return TN_OK;
}

/* A fork's state is its own, and to restore one into a session leaves its forks as they were. */
static void states_of_forks_are_their_own(void **state) {
    (void)state;
    static bytes saved;
    static member a, b, c;
    family f = family_of(&tiny_gemma3, TN_KV_F16, 1000, 32);
    int32_t ids[N_IDS];
    tiny_ids(ids, N_IDS, f.m->hparams.n_vocab, 5);
    memset(&saved, 0, sizeof saved);
    a = (member){.s = fresh(&f)};
    go_on(&a, ids, 700);
    fork_of(&b, &a);
    go_on(&b, ids + 20, 50);
    assert_int_equal(tn_state_save(b.s, 1, append, &saved, NULL), TN_OK);
    fork_of(&c, &a);
    assert_int_equal(tn_state_load(a.s, 1, saved.n, "a state", take, &saved, NULL), TN_OK);
    memcpy(a.ids, b.ids, sizeof a.ids);
    a.n = b.n;
    member *const all[] = {&c, &a, &b};
    for (int i = 0; i < 3; i++) {
        go_on(all[i], ids + i, 3);
        assert_as_alone(&f, all[i]);
    }
    for (int i = 0; i < 3; i++) tn_session_free(all[i]->s);
    tn_model_close(f.m);
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

static void *generate(void *user) {
    member *a = user;
    static const int32_t ids[40] = {1, 2, 3};
    for (uint32_t i = 0; i < 40; i++) go_on(a, ids + i % 4, 1 + i % 3);
    return NULL;
}

static void *fork_and_generate(void *user) {
    member *a = user;
    member b;
    fork_of(&b, a);
    generate(&b);
    *a = b;
    return NULL;
}

/* Forked by several threads at once, then all go on at the same time, the first among them. */
static void forks_live_on_threads_of_their_own(void **state) {
    (void)state;
    static member all[4];
    for (int round = 0; round < 3; round++) {
        family f = family_of(round % 2 ? &tiny_gemma3 : &tiny_llama, TN_KV_F16, 900, 32);
        int32_t ids[N_IDS];
        tiny_ids(ids, N_IDS, f.m->hparams.n_vocab, 5);
        pthread_t threads[4];
        member first = {.s = fresh(&f)};
        go_on(&first, ids, round % 2 ? 700 : 90);
        for (int i = 0; i < 3; i++) {
            all[i] = first;
            assert_int_equal(pthread_create(&threads[i], NULL, fork_and_generate, &all[i]), 0);
        }
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, generate, &all[i]), 0);
        all[3] = first;
        generate(&all[3]);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 4; i++) {
            assert_as_alone(&f, &all[i]);
            tn_session_free(all[i].s);
        }
        tn_model_close(f.m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_blocks_are_as_copies),
        cmocka_unit_test(a_fork_takes_no_memory_until_it_grows),
        cmocka_unit_test(a_fork_that_is_forked_at_every_block_holds_no_more_for_it),
        cmocka_unit_test(forks_go_on_with_the_bits_of_sessions_alone),
        cmocka_unit_test(any_order_of_calls_gives_the_same_bits),
        cmocka_unit_test(states_of_forks_are_their_own),
        cmocka_unit_test(forks_live_on_threads_of_their_own),
    };
    const struct CMUnitTest of_threads[] = {cmocka_unit_test(forks_live_on_threads_of_their_own)};
    return tiny_is_thin() ? cmocka_run_group_tests(of_threads, NULL, NULL)
                          : cmocka_run_group_tests(tests, NULL, NULL);
}
