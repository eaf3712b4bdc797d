/* An allocator that replaces the C library's and fails the n-th allocation, for a program that links it or
 * that is started with it in LD_PRELOAD. It needs glibc and does not work under sanitizers, which have
 * allocators of their own. */
#ifndef TESTS_ALLOCATIONS_FAILING_H
#define TESTS_ALLOCATIONS_FAILING_H

#include <stdbool.h>

/* Starts counting allocations; number n (from 1) fails, once. Allocations by libgomp, oneDNN, BLAS, the C++
   library and the dynamic linker are neither counted nor failed: these libraries abort when memory is out,
   and Crosshead cannot prevent it. Oniguruma is excluded because its compiler then frees a block twice. */
void failing_start(long n);
/* Stops counting. Returns true if allocation n was reached. */
bool failing_stop(void);
/* Returns how many blocks were allocated between failing_start and failing_stop and not freed. */
long failing_left(void);

/* In a program started with LD_PRELOAD, FAILING_ALLOCATION=n calls failing_start before main.
   FAILING_UNREACHED names a file that is created if the program ends before allocation n. */

#endif
