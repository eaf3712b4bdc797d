/* What is measured on a trained model besides its loss. */
#ifndef CH_TRAIN_COMPARE_MEASURE_H
#define CH_TRAIN_COMPARE_MEASURE_H

#include "train/compare_results.h"
#include "train/run.h"

/* Tokens a second of one sequence decoded through the cache, from the median time of a token. The model of `directory`
   reads a prompt first, at most half of its context. The prompt's ids only need to be in the vocabulary. */
ch_status ch_measure_decoding(const char *directory, int64_t context, ch_stop_test stop, void *stop_context,
                              double *tokens_per_second, ch_error *error);

/* The same at depths from 128 to 8192 tokens in the cache, which is filled with made-up states, each in a fraction of a second;
   depths whose cache would be large are left out. curve [CH_DEPTHS] receives *points of them. */
enum { CH_DEPTHS = 4 };
ch_status ch_measure_depths(const char *directory, ch_stop_test stop, void *stop_context,
                            ch_curve_point *curve, int *points, ch_error *error);

/* Images told apart in a second, from the median time of a batch. The images are made up. */
ch_status ch_measure_seeing(const char *directory, ch_stop_test stop, void *stop_context,
                            double *images_per_second, ch_error *error);

/* The median of n values; sorts them. 0 when there are none. */
double ch_median(double *values, int64_t n);

#endif
