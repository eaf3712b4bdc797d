/* Prefetches memory before a loop reads it. */
#ifndef CH_KERNELS_VECTOR_PREFETCH_H
#define CH_KERNELS_VECTOR_PREFETCH_H

#include "tensor/kernels/vector/variant.h"

/* With CH_PREFETCH_TWO_STEPS, a line is prefetched into L2 when it is far ahead, and from there into L1 when it
   is near. variants.cmake says for which variants and why. A kernel that a variant inherits is tuned like its
   base. */
#ifdef CH_PREFETCH_TWO_STEPS
enum { PREFETCH_TWO_STEPS = 1 };
#else
enum { PREFETCH_TWO_STEPS = 0 };
#endif

/* Prefetches the line at `far`; also the one `back` bytes before it, if the variant prefetches in two steps
   or `always`. */
ALWAYS_INLINE void prefetch_line(const void *far, const int64_t back, const bool always) {
  __builtin_prefetch(far, 0, PREFETCH_TWO_STEPS ? 2 : 3);
  if (PREFETCH_TWO_STEPS || always) __builtin_prefetch((const char *)far - back, 0, 3);
}

#endif
