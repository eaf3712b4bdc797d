/* What a kernel file sees of the variant it is compiled for: its element type, its vectors, its names.
 *
 * Each file of this folder is compiled once per variant (see src/CMakeLists.txt) and defines its functions with
 * KERNEL(name), which the variant's table in table.c collects. Write plain loops that the compiler vectorises, or GCC
 * vector extensions on `vec`; both become SSE2, AVX2 or AVX-512 by the variant's flags.
 */
#ifndef CH_KERNELS_VARIANT_H
#define CH_KERNELS_VARIANT_H

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tensor/kernels.h"

#define CH_PASTE2(a, b) a##_##b
#define CH_PASTE(a, b) CH_PASTE2(a, b)
#define KERNEL(name) CH_PASTE(ch_kernel_##name, CH_KERNEL_VARIANT)

#ifdef CH_KERNEL_F64
typedef double real;
#define CH_KERNEL_DTYPE CH_F64
#else
typedef float real;
#define CH_KERNEL_DTYPE CH_F32
#endif

#if defined(__AVX512F__)
#define VEC_BYTES 64
#elif defined(__AVX2__)
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif
/* Elements in a vector. */
enum { VL = VEC_BYTES / (int)sizeof(real) };
typedef real vec __attribute__((vector_size(VEC_BYTES)));

static inline vec load(const real *p) {
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline void store(real *p, vec v) {
  memcpy(p, &v, sizeof v);
}

/* The part of 0 … n-1 that this thread of `threads` gets: contiguous and fixed, so that sums repeat exactly. */
static inline void thread_range(int64_t n, int thread, int threads, int64_t *first, int64_t *last) {
  *first = n * thread / threads;
  *last = n * (thread + 1) / threads;
}

#endif
