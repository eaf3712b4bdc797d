/* The options of a training run, as the library uses them. <crosshead/train.h> has the public settings, in
 * which some values may be left open. */
#ifndef CH_TRAIN_OPTIONS_H
#define CH_TRAIN_OPTIONS_H

#include <crosshead/train.h>
#include <stdbool.h>

#include "base/error.h"
#include "config/config.h"
#include "tensor/tensor.h"

/* Members marked [same] decide the result: a run can only be resumed with the values it was started with. */
typedef struct ch_train_options {
  int64_t batch;    /* [same] sequences of a forward and backward pass */
  int64_t sequence; /* [same] tokens of a sequence; 1 in models of images, whose "tokens" below are images */
  int64_t accumulate; /* [same] batches whose gradients are summed for one step */
  /* [same] sequences computed at a time, a divisor of `batch`: fewer need less memory and change only the rounding;
     0 = chosen (see ch_trainer_create) */
  int64_t micro_batch;
  int64_t steps;              /* [same unless the schedule is constant] optimizer steps of the whole run */
  double lr;                  /* [same] peak learning rate */
  ch_train_schedule schedule; /* [same] schedule of the learning rate */
  int64_t warmup;             /* [same] steps of linear warm-up; −1 = 5 % of the steps, at most 1000 */
  double beta1, beta2, eps;   /* [same] parameters of AdamW */
  double weight_decay;        /* [same] decay of matrices; vectors do not decay */
  double clip;                /* [same] largest global gradient norm; 0 = no clipping */
  uint64_t seed;              /* [same] seed of the initial weights; the batch source has its own */
  bool documents; /* [same] true if attention stays inside documents; the source fills document_start */
  bool flip;      /* [same] images: true if random ones are mirrored (images/augment.h) */
  int64_t crop;   /* [same] images: largest random shift in pixels (images/augment.h) */
  double label_smoothing; /* [same] images: share of the target that is spread over all classes */
  bool recompute;    /* true to drop cheap activations and recompute them: less memory, the same result */
  bool whole_tables; /* true if each rank has whole lookup tables of gates, not a share of their columns */
  /* [same] CH_F32; CH_BF16: products of BF16, all else in F32; CH_F64: the reference path */
  ch_dtype dtype;
  int64_t eval_every;       /* steps between evaluations; 0 = one, after the last step */
  int64_t eval_tokens;      /* validation tokens of an evaluation, rounded up to whole sequences; 0 = all */
  int64_t checkpoint_every; /* steps between checkpoints; 0 = by the clock, every ten minutes */
} ch_train_options;

/* Fills in the defaults. `steps` is 0 and must be set; `sequence` is the model's context, at most 512, or 1 for
   images. */
void ch_train_options_default(const ch_config *config, ch_train_options *options);

/* Copies every setting that has a value into the options. Other options stay. The caller sets flip and crop,
   which depend on the images. */
void ch_train_options_put(const ch_train_settings *settings, ch_train_options *options);

/* Checks ranges and contradictions. Messages name settings of ch_train_settings in braces, such as {batch}. */
ch_status ch_train_options_check(const ch_train_options *options, const ch_config *config, ch_error *error);

/* Returns the type of weights, gradients, moments and losses. */
ch_dtype ch_train_real(const ch_train_options *options);
/* Returns the tokens of one optimizer step: batch * accumulate * sequence. */
int64_t ch_train_step_tokens(const ch_train_options *options);
/* Returns the fewest steps that train on at least `tokens` tokens. */
int64_t ch_train_steps_for(const ch_train_options *options, int64_t tokens);

#endif
