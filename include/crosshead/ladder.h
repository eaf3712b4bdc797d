/* The laws of a ladder, which predict the losses of larger models: L = E + A C^-alpha of each mechanism, L the
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
  CH_LADDER_LEAST_RUNGS = 4,  /* minimum number of sizes of a law */
  CH_LADDER_MOST_RUNGS = 16,  /* maximum number of sizes of a law */
  CH_LADDER_MOST_SHARES = 3,  /* maximum number of earlier shares of a run that a fit uses */
  CH_LADDER_MOST_CURVES = 64, /* maximum number of mechanisms */
};

/* The law of a mechanism. Intervals have 95 % confidence; a bound is INFINITY if there is none, NaN if nothing is
 * known. */
typedef struct ch_ladder_law {
  const char *name;      /* name of the mechanism, as `mechanisms` spells it */
  ch_estimate floor;     /* E, nats */
  ch_estimate amplitude; /* A, nats at one FLOP */
  ch_estimate alpha;
  ch_estimate target;  /* predicted loss of a run with target_flops, nats; NaN without a target */
  double target_flops; /* FLOPs of training a model of the target size; 0 without a target */
  /* loss of the largest model that the smaller models predict, with the interval for a single run; the interval
   * is NaN if they leave no degree of freedom */
  ch_estimate top;
  double top_loss; /* measured loss of the largest model, nats */
  /* compute, and training time, that the baseline needs for the same loss, relative to this mechanism: at the target,
   * or without a target at the largest model; 1 for the baseline */
  ch_estimate multiplier, time_multiplier;
  /* [rungs] compute multiplier at each size, from the measured loss and the baseline's law */
  const double *rung_multipliers;
  int32_t rungs;     /* number of sizes */
  bool says_nothing; /* true: the losses do not bound alpha; they hardly fall, or by no law of this form */
} ch_ladder_law;

/* The compute at which one mechanism overtakes another. */
typedef struct ch_ladder_crossing {
  /* index of the law with the lower loss below `flops`, and of the one with the lower loss above */
  int32_t below, above;
  /* FLOPs of training at the crossing; an end of the interval far from the sizes and the target is open: 0, or
   * INFINITY */
  ch_estimate flops;
  double share; /* share of the resampled fits in which the two laws cross; NaN without a degree of freedom */
} ch_ladder_crossing;

/* The basis of the fitted laws. */
typedef struct ch_ladder_basis {
  int32_t baseline; /* index of the law that multipliers refer to */
  bool one_floor;   /* true: all laws share one E, because separate ones fit no better (F test, 25 %) */
  /* number of earlier shares of the runs in the fit; 0: the laws do not fit earlier shares */
  int32_t shares;
  double noise;    /* standard deviation of a loss from the laws, lack of fit included, nats */
  int32_t degrees; /* degrees of freedom of the fit */
} ch_ladder_basis;

/* The laws of a comparison with a ladder (ch_comparison_laws). They belong to the comparison. */
typedef struct ch_ladder_laws ch_ladder_laws;

/* Returns law `index`, 0 ... count - 1; it belongs to `laws`. NULL for another index. */
CH_API const ch_ladder_law *ch_ladder_laws_at(const ch_ladder_laws *laws, int32_t index);
/* Returns the number of laws. */
CH_API int32_t ch_ladder_laws_count(const ch_ladder_laws *laws);
/* Returns crossing `index`, from 0, of those up to the target or, without a target, up to ten times the compute of
 * the largest model; it belongs to `laws`. NULL after the last. */
CH_API const ch_ladder_crossing *ch_ladder_crossing_at(const ch_ladder_laws *laws, int32_t index);
/* Fills in the basis of the laws. */
CH_API void ch_ladder_basis_of(const ch_ladder_laws *laws, ch_ladder_basis *basis);

#ifdef __cplusplus
}
#endif
#endif
