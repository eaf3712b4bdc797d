/* Measures the speed of a trained model. */
#ifndef CH_EXPERIMENT_SPEED_MEASURE_MODEL_H
#define CH_EXPERIMENT_SPEED_MEASURE_MODEL_H

#include "experiment/findings/comparison_results.h"
#include "train/run.h"

/* A measurement takes about a tenth of a second (a depth 0.03 seconds) times `effort`, which is above 0 and at most
   1. */

/* Measures tokens per second of one sequence that is decoded with the cache, from the median time of a token. The model
   in `directory` first processes arbitrary tokens: half of `context`, but at most 512. */
ch_status ch_measure_decoding(const char *directory, int64_t context, double effort, ch_stop_test stop,
                              void *stop_context, double *tokens_per_second, ch_error *error);

/* Works like ch_measure_decoding, at depths of 128 to 8192 tokens. The cache is filled with random states. Depths whose
 * cache exceeds 256 MiB are left out. curve [CH_DEPTHS] receives *points points: depth, tokens per second. */
enum { CH_DEPTHS = 4 };
ch_status ch_measure_depths(const char *directory, double effort, ch_stop_test stop, void *stop_context,
                            ch_curve_point *curve, int *points, ch_error *error);

/* Measures images classified per second, from the median time of a batch of 32 arbitrary images. */
ch_status ch_measure_prediction(const char *directory, double effort, ch_stop_test stop, void *stop_context,
                                double *images_per_second, ch_error *error);

#endif
