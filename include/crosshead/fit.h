/* Scaling laws and stability of loss curves. Link libcrosshead-train.
 *
 *   ch_fits *fits;
 *   char *text;
 *   if (ch_fit_file("model/log.jsonl", NULL, &fits, NULL) == CH_OK) {
 *     if (ch_fits_text(fits, &text, NULL) == CH_OK) {
 *       puts(text);
 *       ch_free(text);
 *     }
 *     ch_fits_free(fits);
 *   }
 *
 * From simple to advanced: what fits return (a law, a law of size and tokens, stability); curves in files;
 * fits of arrays. */
#ifndef CROSSHEAD_FIT_H
#define CROSSHEAD_FIT_H

#include <crosshead/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The scaling law ---- */

/* A loss after training on so many tokens (or images). */
typedef struct ch_curve_point {
  int64_t tokens;
  double loss; /* mean cross entropy, in nats; NaN where it was not finite */
} ch_curve_point;

/* A value and the ends of its 95 % confidence interval: -INFINITY or INFINITY where the curve does not bound
 * it. */
typedef struct ch_estimate {
  double value, low, high;
} ch_estimate;

/* The law L(D) = (D_c/D)^alpha + L_0 of a loss after D tokens (MEA eq. 35). */
typedef struct ch_scaling_law {
  ch_estimate alpha;
  ch_estimate tokens; /* D_c; its value may be INFINITY where alpha is tiny */
  ch_estimate floor;  /* L_0, never below 0 */
  ch_estimate at;     /* L(budget); NaN without a budget */
  double budget;      /* tokens at which `at` is the loss; 0: none */
  double noise;       /* standard deviation of the last point from the law, without outliers; and */
  double noise_power; /* the power of the loss that the noise is proportional to: 0, 0.5, 1, 1.5 or 2 */
  /* correlation of neighbouring points' deviations, from 0 to 0.95; it widens the intervals */
  double correlation;
  double first, last; /* tokens of the first and the last fitted point */
  int32_t points;     /* fitted to */
  int32_t outliers;   /* fitted points with a weight below one half */
  /* root mean square of what is a smooth curve in the deviations from the law, when it is more than the rest:
     the law does not fit; else 0 */
  double systematic;
  double log_unit, amplitude; /* the law in the form amplitude * (D / e^log_unit)^-alpha + L_0 */
} ch_scaling_law;

/* ---- The law of size and tokens ---- */

/* The form of a law of the losses of several models, of N parameters without embeddings, each trained on D
 * tokens. */
typedef enum ch_size_form {
  /* L(N, D) = ((N_c/N)^(alpha_N/alpha_D) + D_c/D)^alpha_D (MEA eq. 34, Kaplan et al. 2020) */
  CH_SIZE_FORM_RATIO = 0,
  CH_SIZE_FORM_SUM = 1 /* L(N, D) = E + A/N^alpha + B/D^beta (Hoffmann et al. 2022) */
} ch_size_form;

typedef struct ch_size_law {
  ch_size_form form;
  ch_estimate alpha_size, size;     /* alpha_N, and N_c in parameters; of a sum, alpha and A */
  ch_estimate alpha_tokens, tokens; /* alpha_D, and D_c; of a sum, beta and B */
  ch_estimate floor; /* of a sum, E, which is 0 at the end of an interval that has no lower bound; else 0 */
  ch_estimate at;    /* L(at_size, at_tokens); NaN without them */
  double at_size, at_tokens; /* 0: none */
  double noise;              /* standard deviation of ln L from the law, without outliers */
  /* root mean square of what is a smooth curve in these deviations, when it is more than the rest: the law
   * does not fit; else 0 */
  double systematic;
  double other_noise;     /* then, the noise of the other form; else 0 */
  int32_t points;         /* models */
  int32_t sizes, lengths; /* different numbers of parameters and of tokens among them */
  int32_t outliers;       /* models that weigh less than half */
  bool says_nothing;      /* neither exponent is bounded below */
} ch_size_law;

/* ---- Stability ---- */

typedef enum ch_stability_verdict {
  CH_STABLE = 0,
  CH_NOT_FINITE = 1,  /* a loss or gradient was not finite */
  CH_UNRECOVERED = 2, /* a spike that the loss did not come back from */
  CH_RISING = 3,      /* the loss ends above where it was */
  CH_STUCK = 4        /* it fell far less than at smaller rates; found by comparing the runs of a sweep */
} ch_stability_verdict;

/* A stretch of losses far above those before it; docs/sweep.md says how far. */
typedef struct ch_spike {
  int64_t first, last; /* steps from 1; last: the last step so far, where the spike is not over */
  double height;       /* highest loss over the level before */
  bool recovered;
} ch_spike;

enum { CH_SPIKES_KEPT = 64 };

typedef struct ch_stability {
  ch_stability_verdict verdict;
  int64_t step;   /* the first step of the spike, or the step with a loss that was not finite; else 0 */
  int64_t spikes; /* number of all spikes, recovered or not */
  int32_t kept;   /* how many of them, from the first, are in the list */
  ch_spike list[CH_SPIKES_KEPT];
} ch_stability;

/* Returns "stable", "not_finite", "unrecovered_spike", "rising" or "stuck"; static storage. */
CH_API const char *ch_stability_name(ch_stability_verdict verdict);

/* ---- Curves in files ---- */

/* Fill with ch_fit_defaults, then change what should differ: members may be added in later versions. */
typedef struct ch_fit_settings {
  bool training;  /* fit the training losses of logs and results; default: their validation losses */
  int64_t budget; /* tokens at which the law's loss is wanted; 0 (default): none */
  /* without embeddings, at which a law of size and tokens is wanted; 0 (default): nowhere */
  int64_t parameters;
  /* Points up to so many tokens are left out; -1 (default): of logs and results the first tenth, of tables
     none. */
  int64_t skip;
  ch_size_form form; /* of a law of size and tokens; default: CH_SIZE_FORM_RATIO */
} ch_fit_settings;

CH_API void ch_fit_defaults(ch_fit_settings *settings);

/* The results for one curve. */
typedef struct ch_curve_fit {
  const char *name;       /* name of the file or the run */
  int32_t points;         /* points of the curve, including those that are left out */
  ch_stability stability; /* stability of the training losses, if the file has them; else of the points */
  bool has_law;
  ch_scaling_law law;
  const char *no_law; /* why there is no law; "" if there is one */
} ch_curve_fit;

/* The curves of a file. */
typedef struct ch_fits ch_fits;

/* Fits the law to every curve of the file PATH, a table of tokens and losses (CSV, or columns separated by
 * spaces), the log.jsonl of a run, or the results.json of a comparison or sweep, and judges its stability;
 * settings may be NULL. A curve that has no law is no error. Release *fits with ch_fits_free. Errors:
 * CH_ERROR_IO, and CH_ERROR_FORMAT with the file and the line. */
CH_API ch_status ch_fit_file(const char *path, const ch_fit_settings *settings, ch_fits **fits,
                             ch_error *error);

/* Fits the law of size and tokens to the models of the file PATH: the results.json of a comparison, the
 * output of `crosshead runs --json`, or a table of parameters (without embeddings), tokens and losses;
 * settings may be NULL. *law, *json and *text may be NULL: the law, the object of `crosshead fit --law size
 * --json` (or chinchilla, by settings->form), and the lines for a terminal, the latter two NUL-terminated and
 * the caller's: release them with ch_free. Errors: CH_ERROR_IO, and CH_ERROR_FORMAT with the file and the
 * line or with what ch_size_law_fit says of its models. */
CH_API ch_status ch_size_law_fit_file(const char *path, const ch_fit_settings *settings, ch_size_law *law,
                                      char **json, char **text, ch_error *error);

/* NULL is fine. */
CH_API void ch_fits_free(ch_fits *fits);

/* Returns how many curves the file has: at least 1. */
CH_API int32_t ch_fits_count(const ch_fits *fits);

/* Returns curve `index` of 0 ... count - 1; it belongs to `fits`. NULL for another index. */
CH_API const ch_curve_fit *ch_fits_curve(const ch_fits *fits, int32_t index);

/* *json becomes the object of `crosshead fit --json`; NUL-terminated and the caller's: release it with
 * ch_free. */
CH_API ch_status ch_fits_json(const ch_fits *fits, char **json, ch_error *error);

/* *text becomes the laws, spikes and verdicts in lines for a terminal; NUL-terminated and the caller's. */
CH_API ch_status ch_fits_text(const ch_fits *fits, char **text, ch_error *error);

/* ---- Fits of arrays ---- */

/* The fewest points of a fit. */
enum { CH_SCALING_LEAST_POINTS = 8 };

/* Fits the law to tokens [n] and losses [n], of rising tokens; docs/sweep.md says what is minimised and where
 * the intervals come from. budget: the tokens of law->at; 0 for none. Of more than 400 points, neighbours are
 * replaced by their median. Errors (CH_ERROR_ARGUMENT): too few points, values that are not finite or not
 * positive, tokens that do not rise, a curve that does not fall. */
CH_API ch_status ch_scaling_law_fit(const double *tokens, const double *losses, int32_t n, double budget,
                                    ch_scaling_law *law, ch_error *error);

/* Returns the loss that a fitted law predicts for so many tokens. */
CH_API double ch_scaling_law_loss(const ch_scaling_law *law, double tokens);

/* The most models of a fit; the fewest are CH_SCALING_LEAST_POINTS. */
enum { CH_SIZE_LAW_MOST_POINTS = 10000 };

/* Fits a law of the form to n models with sizes, tokens and losses [n], in any order; docs/sweep.md says what
 * is minimised. at_size, at_tokens: where law->at is wanted; 0 for nowhere. Errors (CH_ERROR_ARGUMENT): too
 * few models, fewer than three sizes or three numbers of tokens, and values that are not finite or not
 * positive. */
CH_API ch_status ch_size_law_fit(ch_size_form form, const double *sizes, const double *tokens,
                                 const double *losses, int32_t n, double at_size, double at_tokens,
                                 ch_size_law *law, ch_error *error);

/* Returns the loss that a fitted law predicts for a size and so many tokens. */
CH_API double ch_size_law_loss(const ch_size_law *law, double size, double tokens);

/* Judges the training losses [n] of every step of a run; losses after one that is not finite do not count.
 *
 *   double losses[] = {3.2, 3.1, 3.0, 2.9};
 *   ch_stability stability;
 *   ch_stability_judge(losses, 4, &stability);
 *   puts(ch_stability_name(stability.verdict)); */
CH_API void ch_stability_judge(const double *losses, int64_t n, ch_stability *stability);

#ifdef __cplusplus
}
#endif
#endif
