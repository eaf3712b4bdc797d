/* Asking for memory before a loop comes to it. */
#ifndef CH_KERNELS_ASKING_H
#define CH_KERNELS_ASKING_H

#include "tensor/kernels/variant.h"

/* Processors that choose AVX-512 without products of pairs of BF16 are Intel's. Their first cache has requests for few lines under way:
   what is far ahead is asked into the second, and from there, when it is nearer, into the first. A file knows which processor it serves
   only if f32_avx512_bf16 does not inherit it (src/CMakeLists.txt). */
#if defined(__AVX512F__) && !defined(__AVX512BF16__)
enum { ASKS_TWICE = 1 };
#else
enum { ASKS_TWICE = 0 };
#endif

/* The line at `far`; the one `back` bytes before it again, where that is better on this processor or `always`. */
ALWAYS_INLINE void ask_for_line(const void *far, const int64_t back, const bool always) {
  __builtin_prefetch(far, 0, ASKS_TWICE ? 2 : 3);
  if (ASKS_TWICE || always) __builtin_prefetch((const char *)far - back, 0, 3);
}

#endif
