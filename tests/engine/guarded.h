/* A second engine for tests: the processor's kernels, on memory that other code cannot access.
 *
 * Values are in pages without any access rights. Each kernel and each product opens them while it runs, and closes them
 * while attention requests a tile from an operation. An operation, cache, session or optimizer that reads or writes a
 * value directly ends with a segmentation fault. The linker redirects ch_kernels_of_engines and the products of
 * tensor/gemm.h to guarded.c (tests/CMakeLists.txt). Only one thread may run at a time. */
#ifndef TESTS_ENGINE_GUARDED_H
#define TESTS_ENGINE_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

/* If `yes`, engines that are created from now on compute in guarded memory. */
void use_guarded_memory(bool yes);

/* Allocates guarded memory, which is never released. Returns NULL if out of memory. */
void *guarded_bytes(size_t bytes);

/* Returns the number of kernels, products and copies that have run on guarded memory. */
long guarded_calls(void);

#endif
