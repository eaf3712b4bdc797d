/* The coordinate check: sizes of activations of models of several widths, over the first steps of training. */
#ifndef CH_EXPERIMENT_COORDINATE_CHECK_H
#define CH_EXPERIMENT_COORDINATE_CHECK_H

#include <crosshead/sweep.h>

#include "experiment/findings/comparison_results.h"

struct ch_coordinates {
  ch_comparison about; /* command, data, training and machine, without models; its arena holds all results */
  ch_coordinate_grid grid;
  ch_coordinate_model *models; /* [grid.model_count] */
};

/* Checks that all settings are given and in range. Messages name settings in braces, such as {widths}. */
ch_status ch_coordinates_settings_check(const ch_coordinate_settings *settings, ch_error *error);

/* Trains the models, measures their activations and writes results.json. Release coordinates->about.arena, also on
 * failure. */
ch_status ch_coordinates_make(const ch_coordinate_settings *settings, ch_coordinates *coordinates,
                              ch_error *error);

/* Returns the slope of log(sizes) against log(widths), both [count], by least squares over the sizes that are finite
 * and above 0; NaN if fewer than two are. */
double ch_coordinate_slope(const int64_t *widths, const double *sizes, int count);

/* Returns the contents of results.json, or NULL when out of memory. The caller releases them with json_decref. */
json_t *ch_coordinates_to_json(const ch_coordinates *coordinates);

#endif
