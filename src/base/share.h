/* Divides a number of things into ranges whose sizes differ by at most one. */
#ifndef CH_BASE_SHARE_H
#define CH_BASE_SHARE_H

#include <stdint.h>

/* Returns the index of the first of `count` things in part `part` of `parts`. For part == parts, returns count. */
static inline int64_t ch_share_begin(int64_t count, int part, int parts) {
  return count / parts * part + count % parts * part / parts;
}

#endif
