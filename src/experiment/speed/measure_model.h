/* Measures the speed of a trained model. */
#ifndef CH_EXPERIMENT_SPEED_MEASURE_MODEL_H
#define CH_EXPERIMENT_SPEED_MEASURE_MODEL_H

#include "experiment/findings/comparison_results.h"
#include "train/run.h"

/* All measure for about a tenth of a second, or for the share `effort`, above 0 to 1, of that. */

/* Tokens per second of one sequence decoded through the cache, from the median time of a token. The model of
   `directory` first reads a prompt of at most half its context. The prompt is random. */
ch_status ch_measure_decoding(const char *directory, int64_t context, double effort, ch_stop_test stop,
                              void *stop_context, double *tokens_per_second, ch_error *error);

/* Like ch_measure_decoding, at 128 to 8192 tokens of context. The cache is filled with random states: that needs a
 * fraction of a second. Depths with a large cache are left out. curve [CH_DEPTHS] receives *points points. */
enum { CH_DEPTHS = 4 };
ch_status ch_measure_depths(const char *directory, double effort, ch_stop_test stop, void *stop_context,
                            ch_curve_point *curve, int *points, ch_error *error);

/* Images classified per second, from the median time of a batch. The images are random. */
ch_status ch_measure_prediction(const char *directory, double effort, ch_stop_test stop, void *stop_context,
                                double *images_per_second, ch_error *error);

#endif
