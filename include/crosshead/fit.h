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

/* A point of a loss curve. */
typedef struct ch_curve_point {
  int64_t tokens; /* tokens (or images) trained on so far */
  double loss;    /* mean cross entropy, in nats; NaN if it was not finite */
} ch_curve_point;

/* A value and the ends of its 95 % confidence interval: 0 or INFINITY where the data do not bound it. */
typedef struct ch_estimate {
  double value, low, high;
} ch_estimate;

/* The law L(D) = (D_c/D)^alpha + L_0 of a loss after D tokens (MEA eq. 35). */
typedef struct ch_scaling_law {
  ch_estimate alpha;
  ch_estimate tokens; /* D_c in tokens; the value may be INFINITY if alpha is tiny */
  ch_estimate floor;  /* L_0 in nats, never below 0 */
  ch_estimate at;     /* L(budget) in nats; NaN without a budget */
  double budget;      /* tokens at which `at` is the loss; 0: none */
  double noise;       /* standard deviation of the last point from the law, without outliers, nats */
  double noise_power; /* the power of the loss that the noise is proportional to: 0, 0.5, 1, 1.5 or 2 */
  /* correlation of neighbouring points' deviations, from 0 to 0.95; it widens the intervals */
  double correlation;
  double first, last; /* tokens of the first and the last fitted point */
  int32_t points;     /* number of fitted points, after neighbours were merged */
  int32_t outliers;   /* number of fitted points with a weight below one half */
  /* root mean square of the smooth part of the deviations from the law, in nats, if it exceeds the rest: the law
   * then does not fit; else 0 */
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

/* A law of size and tokens. */
typedef struct ch_size_law {
  ch_size_form form;
  ch_estimate alpha_size, size;     /* alpha_N, and N_c in parameters; of a sum, alpha and A */
  ch_estimate alpha_tokens, tokens; /* alpha_D, and D_c in tokens; of a sum, beta and B */
  ch_estimate floor;                /* E of a sum, in nats; else 0 */
  ch_estimate at;                   /* L(at_size, at_tokens) in nats; NaN without them */
  double at_size, at_tokens;        /* parameters and tokens at which `at` is the loss; 0: none */
  double noise;                     /* standard deviation of ln L from the law, without outliers */
  /* root mean square of the smooth part of the deviations of ln L from the law, if it exceeds the rest: the law
   * then does not fit; else 0 */
  double systematic;
  double other_noise;     /* noise of the law of the other form, if systematic is not 0; else 0 */
  int32_t points;         /* number of models */
  int32_t sizes, lengths; /* number of different numbers of parameters, and of tokens, of the models */
  int32_t outliers;       /* number of models with a weight below one half */
  bool says_nothing;      /* true: neither exponent has a lower bound */
} ch_size_law;

/* ---- Stability ---- */

/* The verdict on the training losses of a run. */
typedef enum ch_stability_verdict {
  CH_STABLE = 0,
  CH_NOT_FINITE = 1,  /* a loss or gradient was not finite */
  CH_UNRECOVERED = 2, /* the loss did not recover from a spike */
  CH_RISING = 3,      /* the loss ends above an earlier level */
  CH_STUCK = 4        /* the loss fell far less than at smaller rates; only the runs of a sweep show it */
} ch_stability_verdict;

/* A stretch of losses far above those before it; docs/sweep.md defines it. */
typedef struct ch_spike {
  /* first and last step of the spike, counted from 1; an unfinished spike lasts to the last step */
  int64_t first, last;
  double height;  /* the highest loss minus the level before the spike, nats */
  bool recovered; /* true: the loss came back to its level */
} ch_spike;

/* The maximum number of spikes that ch_stability lists. */
enum { CH_SPIKES_KEPT = 64 };

/* The stability of a run. */
typedef struct ch_stability {
  ch_stability_verdict verdict;
  /* first step of the spike that decides the verdict, or the step with a loss that was not finite; else 0 */
  int64_t step;
  int64_t spikes;                /* number of all spikes, recovered or not */
  int32_t kept;                  /* number of spikes in `list` */
  ch_spike list[CH_SPIKES_KEPT]; /* [kept] the first spikes */
} ch_stability;

/* Returns "stable", "not_finite", "unrecovered_spike", "rising" or "stuck"; static storage. */
CH_API const char *ch_stability_name(ch_stability_verdict verdict);

/* ---- Curves in files ---- */

/* The settings of fits to files. Fill with ch_fit_defaults, then change what should differ: later versions may
 * add members. */
typedef struct ch_fit_settings {
  bool training;  /* true: fit the training losses of logs and results; default: their validation losses */
  int64_t budget; /* tokens at which a law predicts the loss; 0 (default): none */
  /* parameters without embeddings at which a law of size and tokens predicts the loss, with `budget`; 0
   * (default): none */
  int64_t parameters;
  /* number of tokens at the beginning of a curve whose points are left out; -1 (default): a tenth of the curve in
   * logs and results, 0 in tables */
  int64_t skip;
  ch_size_form form; /* form of a law of size and tokens; default CH_SIZE_FORM_RATIO */
} ch_fit_settings;

/* Fills in the defaults. */
CH_API void ch_fit_defaults(ch_fit_settings *settings);

/* The results for one curve. Strings belong to the fits. */
typedef struct ch_curve_fit {
  const char *name;       /* name of the file or the run */
  int32_t points;         /* number of points of the curve, including those that are left out */
  ch_stability stability; /* stability of the training losses, if the file has them; else of the points */
  bool has_law;           /* true if a law was fitted */
  ch_scaling_law law;     /* the law, if has_law is set */
  const char *no_law;     /* the reason why there is no law, a sentence; "" if there is one */
} ch_curve_fit;

/* The curves of a file. */
typedef struct ch_fits ch_fits;

/* Fits the law to every curve of the file PATH, and judges its stability. The file is a table of tokens and
 * losses (CSV, or columns separated by spaces), the log.jsonl of a run, or the results.json of a comparison or
 * sweep. settings may be NULL for the defaults. A curve without a law is not an error. Release *fits with
 * ch_fits_free. Errors: CH_ERROR_ARGUMENT for a negative budget, CH_ERROR_IO, CH_ERROR_MEMORY, and
 * CH_ERROR_FORMAT with the file and the line. */
CH_API ch_status ch_fit_file(const char *path, const ch_fit_settings *settings, ch_fits **fits,
                             ch_error *error);

/* Fits the law of size and tokens to the models of the file PATH: the results.json of a comparison, the
 * output of `crosshead runs --json`, or a table of parameters (without embeddings), tokens and losses.
 * settings may be NULL for the defaults; each of law, json and text may be NULL. *law becomes the law. *json
 * becomes the object of `crosshead fit --law size --json` (or chinchilla, by settings->form), and *text lines
 * for a terminal; both are NUL-terminated and the caller's: release them with ch_free. Errors: CH_ERROR_IO;
 * CH_ERROR_ARGUMENT for settings->skip, which is for curves; CH_ERROR_FORMAT with the file and the line, or
 * with the sentence of ch_size_law_fit; CH_ERROR_MEMORY. */
CH_API ch_status ch_size_law_fit_file(const char *path, const ch_fit_settings *settings, ch_size_law *law,
                                      char **json, char **text, ch_error *error);

/* Releases the fits. NULL is fine. */
CH_API void ch_fits_free(ch_fits *fits);

/* Returns the number of curves in the file, at least 1. */
CH_API int32_t ch_fits_count(const ch_fits *fits);

/* Returns curve `index`, from 0 to count - 1; it belongs to `fits`. NULL for another index. */
CH_API const ch_curve_fit *ch_fits_curve(const ch_fits *fits, int32_t index);

/* Writes the object of `crosshead fit --json`. *json is NUL-terminated and the caller's: release it with ch_free.
 * Errors: CH_ERROR_MEMORY. */
CH_API ch_status ch_fits_json(const ch_fits *fits, char **json, ch_error *error);

/* Writes the laws, spikes and verdicts in lines for a terminal. *text is NUL-terminated and the caller's: release
 * it with ch_free. Errors: CH_ERROR_MEMORY. */
CH_API ch_status ch_fits_text(const ch_fits *fits, char **text, ch_error *error);

/* ---- Fits of arrays ---- */

/* The minimum number of points of a curve, and of models, that a law is fitted to. */
enum { CH_SCALING_LEAST_POINTS = 8 };

/* Fits the law to tokens [n], which rise, and losses [n]; docs/sweep.md describes the method. budget: the tokens
 * of law->at; 0 for none. Of more than 400 points, neighbours are replaced by their median. Errors:
 * CH_ERROR_ARGUMENT for too few points, values that are not finite, tokens that are not positive or do not
 * rise, negative losses, a negative budget and a curve that does not fall; CH_ERROR_MEMORY. */
CH_API ch_status ch_scaling_law_fit(const double *tokens, const double *losses, int32_t n, double budget,
                                    ch_scaling_law *law, ch_error *error);

/* Returns the loss, in nats, that a fitted law predicts after `tokens` tokens. */
CH_API double ch_scaling_law_loss(const ch_scaling_law *law, double tokens);

/* The maximum number of models that a law of size and tokens is fitted to. */
enum { CH_SIZE_LAW_MOST_POINTS = 10000 };

/* Fits a law of the form to n models with sizes, tokens and losses [n], in any order; docs/sweep.md describes the
 * method. sizes: parameters without embeddings. at_size, at_tokens: the parameters and tokens of law->at; both
 * 0 for none. Errors: CH_ERROR_ARGUMENT for too few or too many models, fewer than three sizes or three numbers
 * of tokens, values that are not finite or not positive, and one of at_size and at_tokens alone;
 * CH_ERROR_MEMORY. */
CH_API ch_status ch_size_law_fit(ch_size_form form, const double *sizes, const double *tokens,
                                 const double *losses, int32_t n, double at_size, double at_tokens,
                                 ch_size_law *law, ch_error *error);

/* Returns the loss, in nats, that a fitted law predicts for `size` parameters and `tokens` tokens. */
CH_API double ch_size_law_loss(const ch_size_law *law, double size, double tokens);

/* Judges the training losses [n] of every step of a run, in nats; losses after one that is not finite are ignored.
 * Fills *stability.
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
