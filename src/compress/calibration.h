/* Calibration on a text: the autocorrelation of projections' inputs, the change of the predicted tokens from block to
 * block, and attention's share of the stream. */
#ifndef CH_COMPRESS_CALIBRATION_H
#define CH_COMPRESS_CALIBRATION_H

#include "compress/text_pass.h"

typedef struct ch_calibration_options {
  const char *const *projections; /* [projection_count]: names, such as "q_proj", of projections to observe */
  int projection_count;
  bool drift;             /* true to measure ch_calibration_drift and ch_calibration_shares */
  int64_t window;         /* window as in ch_text_pass_options */
  ch_compress_step *step; /* progress callback, or NULL */
  void *context;          /* context of `step` */
  ch_rank_group *ranks;   /* ranks as in ch_text_pass_options */
} ch_calibration_options;

/* Runs tokens [count] through the model, once. The model's projections must be matrices of their layers
 * (CH_MATERIALISE_DENSE). Memory: n^2 floats for every distinct input (q, k and v of a layer share theirs) of width
 * n. All ranks receive the whole calibration, bit-identical to that of one process. */
ch_status ch_calibrate(const ch_model *model, const int32_t *tokens, int64_t count,
                       const ch_calibration_options *options, ch_calibration **calibration, ch_error *error);
void ch_calibration_free(ch_calibration *calibration);
/* Returns the mean loss on the text; ch_calibration_tokens returns its number of tokens. */
double ch_calibration_loss(const ch_calibration *calibration);
int64_t ch_calibration_tokens(const ch_calibration *calibration);

#endif
