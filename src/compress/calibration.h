/* Calibration: what the inputs of projections look like on a text, and how blocks change the words they would say. */
#ifndef CH_COMPRESS_CALIBRATION_H
#define CH_COMPRESS_CALIBRATION_H

#include "compress/text_pass.h"

typedef struct ch_calibration_options {
  /* [projection_count] full names of those whose inputs are wanted: "q_proj" */
  const char *const *projections;
  int projection_count;
  bool drift;     /* ch_calibration_drift and ch_calibration_shares are wanted */
  int64_t window; /* ch_text_pass_options' */
  ch_compress_step *step;
  void *context;
  ch_rank_group *ranks; /* ch_text_pass_options' */
} ch_calibration_options;

/* Runs tokens [count] through the model, once. Its projections must be matrices of their layers
 * (CH_MATERIALISE_DENSE). Memory: n^2 floats for every distinct input (q, k and v of a layer share theirs) of width
 * n. All ranks have the whole calibration, with the bits that one process has. */
ch_status ch_calibrate(const ch_model *model, const int32_t *tokens, int64_t count,
                       const ch_calibration_options *options, ch_calibration **calibration, ch_error *error);
void ch_calibration_free(ch_calibration *calibration);
/* Returns the mean loss on the text; ch_calibration_tokens returns its number of tokens. */
double ch_calibration_loss(const ch_calibration *calibration);
int64_t ch_calibration_tokens(const ch_calibration *calibration);

#endif
