/* The laws of a ladder, as other parts of the experiments read them. */
#ifndef CH_LAWS_LADDER_LAWS_H
#define CH_LAWS_LADDER_LAWS_H

#include "base/arena.h"
#include "laws/ladder_fit.h"

struct ch_ladder_laws {
  ch_ladder_law *laws; /* [count] */
  ch_compute_law *fitted;
  int count;
  ch_ladder_crossing *crossings; /* [crossing_count] */
  int crossing_count;
  ch_ladder_basis basis;
  ch_arena arena;
};

#endif
