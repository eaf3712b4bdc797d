/* The weight of a matrix' error among those of all matrices, when ranks and atoms are searched. */
#ifndef CH_COMPRESS_ERROR_WEIGHTS_H
#define CH_COMPRESS_ERROR_WEIGHTS_H

#include "compress/matrices.h"

/* *weight of |(W' - W) R|^2: 1 with options->unweighted. Otherwise that error is taken relative to |W R|^2, times the
 * share that the layer's attention has of the stream it is added to (where calibration measured it), times 3 for the
 * output projection and 2 for keys. calibration may be NULL: R = 1. `whole` is room for the matrix [out, in], which
 * it then holds; untouched with options->unweighted. */
ch_status ch_error_weight(const ch_model *model, const ch_matrix *matrix, const ch_calibration *calibration,
                          const ch_compress_options *options, double *whole, double *weight, ch_error *error);

#endif
