/* The laws of a ladder: fitted to the losses of models of rising size, with what follows from them. */
#ifndef CH_LAWS_LADDER_LAWS_H
#define CH_LAWS_LADDER_LAWS_H

#include "base/arena.h"
#include "laws/ladder_fit.h"

/* The models of a mechanism, the smallest first: its rungs. All arrays are the caller's. */
typedef struct ch_ladder_curve {
  const char *name;
  int32_t rungs;
  const double *flops;  /* [rungs] of all training of a model; rising */
  const double *losses; /* [rungs] at the end of training, nats; means over seeds where there are several */
  /* [shares * rungs] losses of the same runs at earlier shares of them, the same shares of all: share by
   * share. Their laws have the E and alpha of the last one's. NULL: none. */
  const double *earlier;
  int32_t shares;
  double target_flops; /* FLOPs of training the model whose loss is predicted; 0: none */
  /* Of training the largest model on one machine, and the relative standard error of that; 0: not known. */
  double seconds_per_flop, seconds_error;
} ch_ladder_curve;

struct ch_ladder_laws {
  ch_ladder_law *laws; /* [count] */
  ch_compute_law *fitted;
  int count;
  ch_ladder_crossing *crossings; /* [crossing_count] */
  int crossing_count;
  ch_ladder_basis basis;
  ch_arena arena;
};

/* Fits the laws of curves [count]. The intervals are of the profiles of the sum of squares: the range of a quantity
 * over all laws that the losses allow (docs/compare.md, "Larger models"). Release *laws with ch_ladder_laws_free.
 * Errors: CH_ERROR_ARGUMENT for fewer than CH_LADDER_LEAST_RUNGS rungs, rungs that do not rise, losses that are not
 * finite and positive, a baseline that is not there. */
ch_status ch_ladder_fit(const ch_ladder_curve *curves, int count, int baseline, ch_ladder_laws **laws,
                        ch_error *error);
/* NULL is fine. */
void ch_ladder_laws_free(ch_ladder_laws *laws);

/* Returns the loss that law `index` predicts for so much compute. */
double ch_ladder_loss(const ch_ladder_laws *laws, int index, double flops);

#endif
