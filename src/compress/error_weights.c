/* The weights of errors in a search. */
#include "compress/error_weights.h"

#include <string.h>

#include "compress/truncation.h"

/* Returns how much an error counts; the factors are measured (docs/shrink-a-model.md). An output's error enters the
 * stream directly. A value's error is averaged over the positions that are attended to. Errors of queries and keys pass
 * the softmax, and a key's error affects all queries. */
static double importance_of(const char *projection) {
  if (strcmp(projection, "o_proj") == 0) return 3;
  return strcmp(projection, "k_proj") == 0 ? 2 : 1;
}

ch_status ch_error_weight(const ch_model *model, const ch_matrix *matrix, const ch_calibration *calibration,
                          const ch_compress_options *options, double *whole, double *weight,
                          ch_error *error) {
  *weight = 1;
  if (options->unweighted) return CH_OK;
  const double *shares = calibration ? ch_calibration_shares(calibration) : NULL;
  const ch_autocorrelation *inputs =
      calibration ? ch_calibration_of(calibration, matrix->layer, matrix->name) : NULL;
  ch_matrix_read(model, matrix, 0, matrix->out * matrix->in, whole);
  double square = ch_whitened_square(matrix->out, matrix->in, whole, inputs);
  if (square < 0) return ch_no_memory(error);
  *weight = square > 0 ? importance_of(matrix->name) * (shares ? shares[matrix->layer] : 1) / square : 0;
  return CH_OK;
}
