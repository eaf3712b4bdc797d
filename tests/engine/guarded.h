/* A second engine for tests: the processor's kernels, on memory that the program itself cannot touch.
 *
 * Values lie in pages without any rights. Each kernel and each product opens them for as long as it runs, and closes
 * them while attention asks an operation for a tile. An operation, a cache, a session or an optimizer that reads or
 * writes a value itself dies of a segmentation fault. The linker directs ch_kernels_of_engines and the products of
 * tensor/gemm.h here (tests/CMakeLists.txt). One thread at a time. */
#ifndef TESTS_ENGINE_GUARDED_H
#define TESTS_ENGINE_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

/* Makes engines that are created from now on compute in guarded memory, or not. */
void use_guarded_memory(bool yes);

/* Some of that memory. */
void *guarded_bytes(size_t bytes);

/* How many kernels have run on guarded memory. */
long guarded_calls(void);

#endif
