/* Counts calls of malloc, calloc and realloc; preloaded into an interpreter that is told to use them for everything. */
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static long n_allocations;

long allocation_count(void) { return __atomic_load_n(&n_allocations, __ATOMIC_RELAXED); }

static void count(void) { __atomic_fetch_add(&n_allocations, 1, __ATOMIC_RELAXED); }

void *malloc(size_t size) { count(); return __libc_malloc(size); }
void *calloc(size_t n, size_t size) { count(); return __libc_calloc(n, size); }
void *realloc(void *old, size_t size) { count(); return __libc_realloc(old, size); }
