/* The variant that a kernel file is compiled for: its element type, its vectors, its names.
 *
 * Each file of tensor/kernels is compiled once per variant (variants.cmake) and defines its functions with
 * KERNEL(name); variant_table.c collects them in the variant's table. Write plain loops that the compiler
 * vectorises, or GCC vector extensions on `vec`; both become SSE2, AVX2 or AVX-512 by the variant's flags. */
#ifndef CH_KERNELS_VECTOR_VARIANT_H
#define CH_KERNELS_VECTOR_VARIANT_H

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "tensor/kernels.h"

#define CH_PASTE2(a, b) a##_##b
#define CH_PASTE(a, b) CH_PASTE2(a, b)
#define CH_TEXT2(a) #a
#define CH_TEXT(a) CH_TEXT2(a)
#define KERNEL(name) CH_PASTE(ch_kernel_##name, CH_KERNEL_VARIANT)
/* A variant that differs from another one in a few kernels inherits the rest from it. */
#ifdef CH_KERNEL_BASE
#define INHERITED(name) CH_PASTE(ch_kernel_##name, CH_KERNEL_BASE)
#else
#define INHERITED(name) KERNEL(name)
#endif
/* The element type `real`, and integers of its width. */
#ifdef CH_KERNEL_F64
typedef double real;
typedef int64_t real_bits;
#define CH_KERNEL_DTYPE CH_F64
#define CH_KERNEL_TYPE_NAME "f64"
#else
typedef float real;
typedef int32_t real_bits;
#define CH_KERNEL_DTYPE CH_F32
#define CH_KERNEL_TYPE_NAME "f32"
#endif

#if defined(__AVX512F__)
#define VEC_BYTES 64
#if defined(__AVX512BF16__)
#define CH_KERNEL_ISA_NAME "avx512_bf16"
#elif defined(__AVX512VNNI__)
#define CH_KERNEL_ISA_NAME "avx512_vnni"
#else
#define CH_KERNEL_ISA_NAME "avx512"
#endif
#elif defined(__AVX2__)
#define VEC_BYTES 32
#define CH_KERNEL_ISA_NAME "avx2"
#else
#define VEC_BYTES 16
#define CH_KERNEL_ISA_NAME "plain"
#endif
/* Elements in a vector. */
enum { VL = VEC_BYTES / (int)sizeof(real) };
typedef real vec __attribute__((vector_size(VEC_BYTES)));
/* The integers of a vec: results of its comparisons (0 or -1 per lane), and lane bits. */
typedef real_bits ivec __attribute__((vector_size(VEC_BYTES)));

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE vec load(const real *p) {
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}

ALWAYS_INLINE void store(real *p, vec v) {
  memcpy(p, &v, sizeof v);
}

ALWAYS_INLINE vec splat(real value) {
  return value - (vec){0}; /* minus, so that -0 stays -0 */
}

/* vec_fma is a b + c and vec_fnma is c - a b, rounded once for F32 if the instruction set has fused
   operations. The compiler fuses nothing (-ffp-contract=off): it would do so in one loop and not in another,
   and a row's bits would depend on the number of rows. */
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
ALWAYS_INLINE vec vec_fma(vec a, vec b, vec c) {
  return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

ALWAYS_INLINE vec vec_fnma(vec a, vec b, vec c) {
  return (vec)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
#elif defined(__FMA__) && !defined(CH_KERNEL_F64)
ALWAYS_INLINE vec vec_fma(vec a, vec b, vec c) {
  return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

ALWAYS_INLINE vec vec_fnma(vec a, vec b, vec c) {
  return (vec)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
#elif defined(__aarch64__) && !defined(CH_KERNEL_F64)
ALWAYS_INLINE vec vec_fma(vec a, vec b, vec c) {
  return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

ALWAYS_INLINE vec vec_fnma(vec a, vec b, vec c) {
  return (vec)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
ALWAYS_INLINE vec vec_fma(vec a, vec b, vec c) {
  return a * b + c;
}

ALWAYS_INLINE vec vec_fnma(vec a, vec b, vec c) {
  return c - a * b;
}
#endif

ALWAYS_INLINE real real_fma(real a, real b, real c) {
#if (defined(__FMA__) || defined(__aarch64__)) && !defined(CH_KERNEL_F64)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/* Keeps a loaded vector in its register, where the compiler would rather read memory again in each use. */
#if defined(__AVX512F__)
#define KEEP_LOADED(v) __asm__("" : "+v"(v))
#elif defined(__x86_64__)
#define KEEP_LOADED(v) __asm__("" : "+x"(v))
#else
#define KEEP_LOADED(v) (void)(v)
#endif

/* Loads the first `count` elements (0 … VL) and zeros in the other lanes. Reads nothing past them. */
ALWAYS_INLINE vec load_part(const real *p, int64_t count) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
#else
  vec v = {0};
  memcpy(&v, p, (size_t)count * sizeof(real));
  return v;
#endif
}

/* Writes the first `count` lanes only. */
ALWAYS_INLINE void store_part(real *p, vec v, int64_t count) {
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1), (__m512)v);
#else
  memcpy(p, &v, (size_t)count * sizeof(real));
#endif
}

/* Loads a whole vector, or the `left` elements that remain of the row. */
ALWAYS_INLINE vec load_some(const real *p, int64_t left) {
  return left >= VL ? load(p) : load_part(p, left);
}

ALWAYS_INLINE void store_some(real *p, vec v, int64_t left) {
  if (left >= VL)
    store(p, v);
  else
    store_part(p, v, left);
}

/* Stores a vector, or adds it to what is there. */
ALWAYS_INLINE void put(real *p, vec v, int64_t left, bool accumulate) {
  store_some(p, accumulate ? load_some(p, left) + v : v, left);
}

/* Returns mask ? a : b lane by lane, for a mask from a comparison. */
ALWAYS_INLINE vec choose(ivec mask, vec a, vec b) {
  return (vec)(((ivec)a & mask) | ((ivec)b & ~mask));
}

/* vec_max is a > b ? a : b, and vec_min is a < b ? a : b. A NaN in a or b gives b. */
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
ALWAYS_INLINE vec vec_max(vec a, vec b) {
  return (vec)_mm512_max_ps((__m512)a, (__m512)b);
}

ALWAYS_INLINE vec vec_min(vec a, vec b) {
  return (vec)_mm512_min_ps((__m512)a, (__m512)b);
}
#elif defined(__AVX2__) && !defined(CH_KERNEL_F64)
ALWAYS_INLINE vec vec_max(vec a, vec b) {
  return (vec)_mm256_max_ps((__m256)a, (__m256)b);
}

ALWAYS_INLINE vec vec_min(vec a, vec b) {
  return (vec)_mm256_min_ps((__m256)a, (__m256)b);
}
#else
ALWAYS_INLINE vec vec_max(vec a, vec b) {
  return choose(a > b, a, b);
}

ALWAYS_INLINE vec vec_min(vec a, vec b) {
  return choose(a < b, a, b);
}
#endif

/* lanes_sum and lanes_max return the sum and the maximum of the lanes. The order is fixed, so that results
   repeat exactly. */
#if defined(__AVX512F__) && !defined(CH_KERNEL_F64)
ALWAYS_INLINE real lanes_sum(vec v) {
  return _mm512_reduce_add_ps((__m512)v);
}

ALWAYS_INLINE real lanes_max(vec v) {
  return _mm512_reduce_max_ps((__m512)v);
}
#else
ALWAYS_INLINE real lanes_sum(vec v) {
  real lane[VL];
  memcpy(lane, &v, sizeof lane);
  for (int width = VL / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++) lane[i] += lane[i + width];
  return lane[0];
}

ALWAYS_INLINE real lanes_max(vec v) {
  real lane[VL];
  memcpy(lane, &v, sizeof lane);
  for (int width = VL / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++) lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
  return lane[0];
}
#endif

/* Computes the range of 0 … n-1 for this thread of `threads`. It is contiguous and fixed, so that sums repeat
   exactly. */
static inline void thread_range(int64_t n, int thread, int threads, int64_t *first, int64_t *last) {
  *first = n * thread / threads;
  *last = n * (thread + 1) / threads;
}

/* Like thread_range, in whole vectors; the last part also gets the rest of n. */
static inline void vector_part(int64_t n, int part, int parts, int64_t *first, int64_t *last) {
  thread_range((n + VL - 1) / VL, part, parts, first, last);
  *first *= VL;
  *last = *last * VL < n ? *last * VL : n;
}

/* Computes the calling thread's vector_part in a parallel region. */
static inline void vector_range(int64_t n, int64_t *first, int64_t *last) {
  vector_part(n, omp_get_thread_num(), omp_get_num_threads(), first, last);
}

/* Below this many elements of work, a second thread costs more than it gains. */
enum { CH_PARALLEL_ELEMENTS = 1 << 14 };

/* Runs a statement on [first, last) of 0 … n-1: divided among all threads if `parallel` is true, else as a
   whole by the caller. `omp parallel if` is not used: it would create a team of one thread, whose memory is
   allocated and freed between two larger teams. In decoding that is slower than the operation. A call inside a
   parallel region, where attention produces its tiles, runs as a whole too. */
#define FOR_RANGE(n, parallel, statement)                                                                    \
  do {                                                                                                       \
    int64_t first = 0, last = (n);                                                                           \
    if ((parallel) && team->workers > 1 && !omp_in_parallel())                                               \
      _Pragma("omp parallel private(first, last) num_threads(team->workers)") {                              \
        thread_range((n), omp_get_thread_num(), omp_get_num_threads(), &first, &last);                       \
        statement;                                                                                           \
      }                                                                                                      \
    else                                                                                                     \
      statement;                                                                                             \
  } while (0)

/* Returns the number of parts of a sum over rows: one per thread of the team, or 1 if `parallel` is false or the
   caller is inside a parallel region. Parts are added in their order, so the result depends on their number, but
   not on how many workers share them. */
static inline int parts_of_team(const ch_team *team, bool parallel) {
  return parallel && !omp_in_parallel() ? team->threads : 1;
}

/* Runs its body for every part, inside a parallel region or outside. */
#define EACH_PART(part, parts)                                                                               \
  for (int part = omp_get_thread_num(); part < (parts); part += omp_get_num_threads())

/* Prototypes of the table's functions. */
#define CH_KERNEL(origin, result, name, parameters)                                                          \
  extern result KERNEL(name) parameters;                                                                     \
  extern result INHERITED(name) parameters;
#include "tensor/kernel_list.h"
extern const ch_kernels KERNEL(table);

#endif
