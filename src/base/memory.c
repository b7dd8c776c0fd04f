#include "memory.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cgroup.h"
#include "checked.h"

static uint64_t of_machine(void) {
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f) return UINT64_MAX;
    char line[128];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    fclose(f);
    return kib ? (uint64_t)kib << 10 : UINT64_MAX;
}

/* 0 when it does not fit. */
static size_t whole_pages(size_t bytes) {
    uint64_t rounded;
    if (!tn_align_u64(bytes, (uint64_t)sysconf(_SC_PAGESIZE), &rounded) || rounded > SIZE_MAX) return 0;
    return (size_t)rounded;
}

void *tn_reserve(size_t bytes) {
    size_t size = whole_pages(bytes);
    if (size == 0) return NULL;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

void tn_unreserve(void *base, size_t bytes) {
    if (base) munmap(base, whole_pages(bytes));
}

void *tn_memory_take(const tn_allocator *allocator, size_t bytes) {
    return allocator->alloc ? allocator->alloc(allocator->user, bytes, 64) : tn_reserve(bytes);
}

void tn_memory_give(const tn_allocator *allocator, void *memory, size_t bytes) {
    if (!memory) return;
    if (allocator->alloc)
        allocator->free(allocator->user, memory, bytes);
    else
        tn_unreserve(memory, bytes);
}

void tn_memory_expect_all(const tn_allocator *allocator, void *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    if (!allocator->alloc) madvise(memory, whole_pages(bytes), MADV_HUGEPAGE);
#endif
}

void tn_memory_discard(const tn_allocator *allocator, void *memory, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)memory + page - 1) / page * page,
                    end = ((uintptr_t)memory + bytes) / page * page;
    if (!allocator->alloc && begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

uint64_t tn_memory_available(void) {
    const uint64_t machine = of_machine(), group = tn_cgroup_memory_left("");
    return machine < group ? machine : group;
}
