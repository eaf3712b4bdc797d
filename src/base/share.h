/* Divides a number of things into ranges of equal size, or of sizes that differ by one. */
#ifndef CH_BASE_SHARE_H
#define CH_BASE_SHARE_H

#include <stdint.h>

/* Returns the beginning of part `part` of `parts` among `count` things; part `parts` begins where the last
   one ends. */
static inline int64_t ch_share_begin(int64_t count, int part, int parts) {
  return count / parts * part + count % parts * part / parts;
}

#endif
