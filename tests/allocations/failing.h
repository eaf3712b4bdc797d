/* An allocator whose n-th allocation fails, in the place of the C library's: for a program that links it, or one that
 * is started with it in LD_PRELOAD. Only with glibc, and not under sanitizers, which have allocators of their own. */
#ifndef TESTS_ALLOCATIONS_FAILING_H
#define TESTS_ALLOCATIONS_FAILING_H

#include <stdbool.h>

/* From now on allocations are counted, and number n (from 1) fails, once. Those that libgomp, oneDNN, BLAS, the C++
   library and the dynamic linker ask for are neither counted nor failed: they end the process by themselves when memory
   is out, and Crosshead cannot know. Nor are Oniguruma's: its compiler frees a block twice then. */
void failing_start(long n);
/* Counts no longer; whether allocation n came. */
bool failing_stop(void);
/* How many blocks were allocated since failing_start, up to failing_stop, and not freed. */
long failing_left(void);

/* In a program started with LD_PRELOAD, FAILING_ALLOCATION=n does what failing_start does before main, and
   FAILING_UNREACHED names a file that is created if the program ends before allocation n. */

#endif
