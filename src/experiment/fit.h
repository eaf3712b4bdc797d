/* Fits laws to the loss curves or to the models in a file. */
#ifndef CH_EXPERIMENT_FIT_H
#define CH_EXPERIMENT_FIT_H

#include <crosshead/fit.h>
#include <jansson.h>

#include "base/arena.h"
#include "base/text.h"

struct ch_fits {
  const char *file;
  ch_curve_fit *curves; /* [count] */
  int32_t count;
  ch_arena arena;
};

/* Reads the curves in the file at `path` and fits a law to each. Release the arena of *fits, also on failure. */
ch_status ch_fit_curves(const char *path, const ch_fit_settings *settings, ch_fits *fits, ch_error *error);

/* Returns the object of `crosshead fit --json`, or NULL when out of memory. The caller releases it with json_decref. */
json_t *ch_fits_to_json(const ch_fits *fits);

/* Adds warnings about a fitted law, one sentence per line: the law does not fit, or a value is not bounded. */
void ch_scaling_law_warnings(const ch_scaling_law *law, ch_text *text);
void ch_size_law_warnings(const ch_size_law *law, ch_text *text);

/* Returns the names [4] of the law's parameters: exponent and scale of size, then exponent and scale of tokens. */
const char *const *ch_size_law_names(ch_size_form form);

/* Reads the models in the file at `path` and fits the law of size and tokens. */
ch_status ch_fit_models(const char *path, const ch_fit_settings *settings, ch_size_law *law, ch_error *error);

/* Returns the object of `crosshead fit --law size --json`, or NULL when out of memory. The caller releases it with
 * json_decref. */
json_t *ch_size_law_to_json(const char *file, const ch_size_law *law);

#endif
