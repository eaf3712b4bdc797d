/* The fields of a trainer, for the files that implement it. Other files use trainer.h. */
#ifndef CH_TRAIN_TRAINER_PRIVATE_H
#define CH_TRAIN_TRAINER_PRIVATE_H

#include "train/balance.h"
#include "train/optimizer.h"
#include "train/step_over_ranks.h"
#include "train/trainer.h"

struct ch_trainer {
  ch_config config;
  ch_params params;
  ch_train_options options; /* options with micro_batch and warmup resolved */
  bool chosen_micro_batch;  /* true if the trainer chose micro_batch; a checkpoint's value may replace it */
  bool chosen_warmup;       /* true if the trainer chose the warm-up; a checkpoint's value may replace it */
  ch_batch_source source;
  ch_rank_group *ranks; /* ranks that train one model together; NULL: this process alone */
  int rank_count;       /* number of ranks */
  ch_engine engine;
  ch_parameter_set set;
  ch_expert_balance balance;
  ch_runner *trainable, *forward; /* runners of training and evaluation, both of micro_batch sequences */
  ch_relay relay;                 /* transfer of sums between the ranks' micro-batches */
  const ch_gradient_listener *listener; /* listener of training passes: the relay's, or NULL */
  ch_batch batch;      /* batch * accumulate sequences of a whole step, of which this rank fills its own */
  int64_t *text;       /* [batch.sequences]: tokens of each sequence without padding */
  ch_share_sink share; /* sink of finished shares, or NULL */
  void *share_context;
  /* number of this rank's passes in the current step or evaluation; number of finished passes */
  int64_t passes, passes_done;
  int64_t step;   /* finished steps */
  int64_t tokens; /* tokens (or images) trained on */
  double seconds;
  double *losses; /* [losses_capacity], of which the first `step` are set */
  int64_t losses_capacity;
  ch_validation_point *validation;
  int64_t validation_points, validation_capacity;
};

/* Plans both runners anew, with new weights, gradients and moments, all zero, because their storage can depend
   on the micro-batch. */
ch_status ch_trainer_plan_again(ch_trainer *trainer, ch_error *error);
/* Returns the bytes of the largest tensor. */
size_t ch_trainer_largest(const ch_trainer *trainer);
/* Reserves memory for `steps` losses and `points` validation points. */
ch_status ch_trainer_reserve(ch_trainer *trainer, int64_t steps, int64_t points, ch_error *error);
/* Returns the elements of an image; 0 if the model reads text. */
int64_t ch_trainer_image_elements(const ch_trainer *trainer);

/* Until ch_trainer_unwatch, the relay's `stop` can end a pass, and the sink receives the finished share of `passes`
 * passes. */
void ch_trainer_watch(ch_trainer *trainer, int64_t passes);
void ch_trainer_unwatch(ch_trainer *trainer);

/* Returns the number of micro-batches of a training step, over all ranks. */
int64_t ch_trainer_micro_batches(const ch_trainer *trainer);
/* Returns micro-batch `index` of trainer->batch, for a source to fill. */
ch_batch ch_trainer_part(const ch_trainer *trainer, int64_t index);

/* Runs a forward pass over this rank's micro-batch of trainer->batch, number `index` of an evaluation, and
 * adds to *sums. */
ch_status ch_trainer_forward(ch_trainer *trainer, int64_t index, ch_pass_sums *sums, ch_error *error);
/* Runs a forward and backward pass over micro-batch `index` of trainer->batch. The first micro-batch of a
 * step overwrites the gradients, later ones add to them. seed: gradient of each row's loss. */
ch_status ch_trainer_backward(ch_trainer *trainer, int64_t index, double seed, ch_pass_sums *sums,
                              ch_error *error);
/* Returns the number of tokens of a sequence without padding. Padding consists of end tokens after the last document.
   Each is a separate document and predicts nothing. document_start may be NULL. */
int64_t ch_count_text(const int32_t *targets, const int32_t *document_start, int64_t length);
/* Returns the number of targets that are not -1. */
int64_t ch_count_predicted(const int32_t *targets, int64_t count);

#endif
