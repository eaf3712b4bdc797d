/* The weight of a matrix's error relative to others in a search for ranks and atoms. */
#ifndef CH_COMPRESS_ERROR_WEIGHTS_H
#define CH_COMPRESS_ERROR_WEIGHTS_H

#include "compress/matrices.h"

/* Sets *weight, by which |(W' - W) R|^2 is multiplied: 1 with options->unweighted. Otherwise the error is relative to
 * |W R|^2, times the layer's attention's share of the stream (if calibration measured it), times 3 for the output
 * projection and 2 for keys. calibration may be NULL: R = 1. `whole` [out, in] receives the matrix; it is untouched
 * with options->unweighted. */
ch_status ch_error_weight(const ch_model *model, const ch_matrix *matrix, const ch_calibration *calibration,
                          const ch_compress_options *options, double *whole, double *weight, ch_error *error);

#endif
