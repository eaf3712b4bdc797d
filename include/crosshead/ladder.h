/* The laws of a ladder, which say what larger models would reach: L = E + A C^-alpha of each mechanism, L the
 * validation loss and C the FLOPs of training, fitted to models of rising size. A comparison with `ladder`
 * set trains the models (compare.h). Link libcrosshead-train.
 *
 *   ch_error error;
 *   ch_comparison *comparison;
 *   ch_compare_settings settings;
 *   ch_compare_defaults(&settings);
 *   settings.text.data = "book.txt";
 *   settings.report.out = "comparison";
 *   settings.schedule.ladder = ""; // an eighth, a quarter, half of the parameters, and all
 *   if (ch_compare_mechanisms(&settings, &comparison, &error) == CH_OK) {
 *     const ch_ladder_laws *laws = ch_comparison_laws(comparison);
 *     if (laws) printf("alpha %.3f\n", ch_ladder_laws_at(laws, 0)->alpha.value);
 *     ch_comparison_free(comparison);
 *   } */
#ifndef CROSSHEAD_LADDER_H
#define CROSSHEAD_LADDER_H

#include <crosshead/common.h>
#include <crosshead/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  CH_LADDER_LEAST_RUNGS = 4,  /* sizes that a law needs */
  CH_LADDER_MOST_RUNGS = 16,  /* sizes; and */
  CH_LADDER_MOST_SHARES = 3,  /* the most earlier shares of a run that are used */
  CH_LADDER_MOST_CURVES = 64, /* mechanisms */
};

/* The results for a mechanism. Intervals have 95 % confidence; a bound is INFINITY if there is none, NaN if
 * nothing is known. */
typedef struct ch_ladder_law {
  const char *name;
  ch_estimate floor;     /* E, nats */
  ch_estimate amplitude; /* A, nats at one FLOP */
  ch_estimate alpha;
  ch_estimate target; /* predicted loss of a run with target_flops; NaN without a target */
  double target_flops;
  /* The largest model as those below it predict it, with the interval for a single run, and what it reached.
   * The interval is NaN where those below leave no degree of freedom. */
  ch_estimate top;
  double top_loss;
  /* How many times its compute, or its training time, the baseline needs for the same loss: at the target, or
   * of the largest model where there is no target. 1 of the baseline itself. */
  ch_estimate multiplier, time_multiplier;
  const double *rung_multipliers; /* [rungs] that of each model, from its own loss and the baseline's law */
  int32_t rungs;
  bool says_nothing; /* the rungs do not bound alpha: they hardly fall, or fall by no law of this form */
} ch_ladder_law;

/* The compute at which one mechanism overtakes another. An end of the interval far from the sizes and the
 * target is open: 0, or INFINITY. */
typedef struct ch_ladder_crossing {
  int32_t below, above; /* laws: which has the lower loss with less compute than `flops`, and with more */
  ch_estimate flops;
  double share; /* share of the resampled fits that cross at all */
} ch_ladder_crossing;

/* The basis of the fitted laws. */
typedef struct ch_ladder_basis {
  int32_t baseline; /* index of the law that multipliers refer to */
  bool one_floor;   /* E is the same of all: own ones would not fit better (F test, 25 %) */
  int32_t shares;   /* earlier shares that were used: 0 where the laws fit them worse than the ends */
  double noise;     /* standard deviation of a loss from the laws, lack of fit included, nats */
  int32_t degrees;  /* of freedom */
} ch_ladder_basis;

/* The laws of a comparison with a ladder (ch_comparison_laws). */
typedef struct ch_ladder_laws ch_ladder_laws;

/* Returns the law of curve `index` of 0 ... count - 1; it belongs to `laws`. NULL for another index. */
CH_API const ch_ladder_law *ch_ladder_laws_at(const ch_ladder_laws *laws, int32_t index);
CH_API int32_t ch_ladder_laws_count(const ch_ladder_laws *laws);
/* Returns crossing `index`, of those up to the target (or ten times the largest rung); NULL after the
 * last. */
CH_API const ch_ladder_crossing *ch_ladder_crossing_at(const ch_ladder_laws *laws, int32_t index);
CH_API void ch_ladder_basis_of(const ch_ladder_laws *laws, ch_ladder_basis *basis);

#ifdef __cplusplus
}
#endif
#endif
