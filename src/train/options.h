/* The options of a training run, as the library uses them. <crosshead/train.h> has the public settings, in
 * which some values are left to be chosen. */
#ifndef CH_TRAIN_OPTIONS_H
#define CH_TRAIN_OPTIONS_H

#include <crosshead/train.h>
#include <stdbool.h>

#include "base/error.h"
#include "config/config.h"
#include "tensor/tensor.h"

/* Members marked [same] decide the result: a run can only be resumed with the values it was started with. */
typedef struct ch_train_options {
  int64_t batch; /* [same] sequences of a forward and backward pass */
  /* [same] tokens of a sequence; 1 in models of images, and "tokens" below are images there */
  int64_t sequence;
  int64_t accumulate; /* [same] batches whose gradients are summed for one step */
  /* [same] sequences computed at a time, a divisor of `batch`: less memory, the same result up to
     rounding; 0 = chosen (see ch_trainer_create) */
  int64_t micro_batch;
  int64_t steps;              /* optimizer steps of the whole run [same with the cosine schedule] */
  double lr;                  /* [same] peak learning rate */
  ch_train_schedule schedule; /* [same] */
  int64_t warmup;             /* [same] steps of linear warm-up; −1 = 5 % of the steps, at most 1000 */
  double beta1, beta2, eps;   /* [same] AdamW's */
  double weight_decay;        /* [same] on matrices only */
  double clip;                /* [same] largest global gradient norm; 0 = no clipping */
  uint64_t seed;              /* [same] of the initial weights; the source has its own copy for the order */
  bool documents;         /* [same] attention stays inside documents; the source must fill document_start */
  bool flip;              /* [same] of images, as `crop`: how they are augmented (images/augment.h) */
  int64_t crop;           /* [same] */
  double label_smoothing; /* [same] of images: share of the target that is spread over all classes */
  bool recompute;         /* drop cheap activations and compute them twice: less memory, the same result */
  bool whole_tables; /* over ranks: each has the lookup tables of gates whole, not a share of the columns */
  /* [same] CH_F32; CH_BF16: products of BF16 with all else in F32; CH_F64: the reference path */
  ch_dtype dtype;
  int64_t eval_every;       /* steps between evaluations; 0 = one, after the last step */
  int64_t eval_tokens;      /* validation tokens of an evaluation, rounded up to whole sequences; 0 = all */
  int64_t checkpoint_every; /* steps between checkpoints; 0 = by the clock, every ten minutes */
} ch_train_options;

/* Fills the defaults. `steps` is 0 and must be set; `sequence` is the model's context, at most 512. */
void ch_train_options_default(const ch_config *config, ch_train_options *options);

/* Puts what the settings say over the options; what they leave to the run or to the defaults stays. How
   images are augmented is for the caller to decide: it depends on them. */
void ch_train_options_put(const ch_train_settings *settings, ch_train_options *options);

/* Checks ranges and contradictions; messages name the member as the command line does (--batch …). */
ch_status ch_train_options_check(const ch_train_options *options, const ch_config *config, ch_error *error);

/* Returns the type of weights, gradients, moments and losses. */
ch_dtype ch_train_real(const ch_train_options *options);
/* Tokens of one optimizer step: batch * accumulate * sequence. */
int64_t ch_train_step_tokens(const ch_train_options *options);
/* Returns the fewest steps that train on at least `tokens` tokens. */
int64_t ch_train_steps_for(const ch_train_options *options, int64_t tokens);

#endif
