/* The laws of a ladder, fitted to the losses of models of rising size, with predictions, multipliers and crossings. */
#ifndef CH_LAWS_LADDER_LAWS_H
#define CH_LAWS_LADDER_LAWS_H

#include "base/arena.h"
#include "laws/ladder_fit.h"

/* The models of a mechanism, the smallest first: its rungs. The caller owns all arrays. */
typedef struct ch_ladder_curve {
  const char *name;
  int32_t rungs;
  const double *flops; /* [rungs]: FLOPs of a model's whole training; rising */
  /* [rungs]: losses at the end of training, nats; means over seeds if there are several */
  const double *losses;
  /* [shares * rungs], share by share: losses of these runs at earlier shares of their training; NULL: none. All runs
   * have the same shares. One E and one alpha hold for the ends and for the earlier shares. */
  const double *earlier;
  int32_t shares;      /* number of earlier shares */
  double target_flops; /* FLOPs of training the model whose loss is predicted; 0: none */
  /* seconds_per_flop: time per FLOP of training the largest model on one machine, 0 if not known; seconds_error:
   * relative standard error of seconds_per_flop */
  double seconds_per_flop, seconds_error;
} ch_ladder_curve;

struct ch_ladder_laws {
  ch_ladder_law *laws;    /* [count] */
  ch_compute_law *fitted; /* [count] */
  int count;
  ch_ladder_crossing *crossings; /* [crossing_count] */
  int crossing_count;
  ch_ladder_basis basis;
  ch_arena arena;
};

/* Fits the laws of curves [count]. The intervals come from profiles of the sum of squares: the range of a quantity
 * over all laws that the losses allow (docs/compare.md, "Larger models"). Release *laws with ch_ladder_laws_free.
 * Errors: CH_ERROR_ARGUMENT for a number of curves, rungs or shares out of range, FLOPs that do not rise, losses that
 * are not finite and positive, a baseline out of range. */
ch_status ch_ladder_fit(const ch_ladder_curve *curves, int count, int baseline, ch_ladder_laws **laws,
                        ch_error *error);
/* Frees the laws. `laws` may be NULL. */
void ch_ladder_laws_free(ch_ladder_laws *laws);

/* Returns the loss that law `index` predicts for so much compute. */
double ch_ladder_loss(const ch_ladder_laws *laws, int index, double flops);

#endif
