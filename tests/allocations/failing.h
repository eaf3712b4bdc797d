/* An allocator that replaces the C library's, and whose n-th allocation fails. Programs link it, or are started with it
 * in LD_PRELOAD. It needs glibc, and does not work with sanitizers, which have their own allocators. */
#ifndef TESTS_ALLOCATIONS_FAILING_H
#define TESTS_ALLOCATIONS_FAILING_H

#include <stdbool.h>

/* Starts counting allocations. Only number n (from 1) fails. Allocations by libgomp, oneDNN, BLAS, OpenCL, the C++
   library and the dynamic linker do not count: these libraries abort if out of memory, which Crosshead cannot prevent.
   Those of Oniguruma do not count because its compiler then frees a block twice. */
void failing_start(long n);
/* Stops counting. Returns true if allocation n was reached. */
bool failing_stop(void);
/* Returns the number of blocks that were allocated between failing_start and failing_stop and not freed. */
long failing_left(void);

/* In a program started with LD_PRELOAD, FAILING_ALLOCATION=n calls failing_start before main.
   FAILING_UNREACHED names a file that is created if the program ends before allocation n. */

#endif
