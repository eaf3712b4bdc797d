/* Counts the allocations of a program by replacing the C library's functions. Only one file of a program may include
 * this header. Without glibc and under AddressSanitizer, nothing is counted. */
#ifndef TESTS_COUNT_ALLOCATIONS_H
#define TESTS_COUNT_ALLOCATIONS_H

#include <stddef.h>

static long allocations;

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
#define COUNTS_ALLOCATIONS 1
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

void *malloc(size_t size) {
  __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
  return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
  __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
  return __libc_realloc(memory, size);
}
#else
#define COUNTS_ALLOCATIONS 0
#endif

#endif
