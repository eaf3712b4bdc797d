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
  ch_train_options options; /* micro_batch and warmup resolved */
  bool chosen_micro_batch; /* chosen by the trainer, not by the caller: a checkpoint's value may replace it */
  bool chosen_warmup;      /* the caller left the warm-up to be chosen */
  ch_batch_source source;
  ch_rank_group *ranks; /* that train one model together; NULL: this process alone */
  int rank_count;       /* of them */
  ch_engine engine;
  ch_parameter_set set;
  ch_expert_balance balance;
  ch_runner *trainable, *forward;       /* both of micro_batch sequences */
  ch_relay relay;                       /* of a step's micro-batches over the ranks */
  const ch_gradient_listener *listener; /* of steps; the relay's, or NULL */
  ch_batch batch;      /* a whole step: batch * accumulate sequences, of which this rank fills its own */
  int64_t *text;       /* [batch.sequences] tokens of each sequence that are text; the others fill it up */
  ch_share_sink share; /* where its share goes, or NULL */
  void *share_context;
  int64_t passes, passes_done; /* of it */
  int64_t step;
  int64_t tokens; /* (or images) trained on */
  double seconds;
  double *losses; /* [options.steps], the first `step` are set */
  int64_t losses_capacity;
  ch_validation_point *validation;
  int64_t validation_points, validation_capacity;
};

/* Plans both runners anew, with new weights, gradients and moments, all zero. How they are stored can depend
   on the micro-batch. */
ch_status ch_trainer_plan_again(ch_trainer *trainer, ch_error *error);
/* Bytes of the largest tensor. */
size_t ch_trainer_largest(const ch_trainer *trainer);
/* Makes room for `steps` losses, or `points` validation points. */
ch_status ch_trainer_reserve(ch_trainer *trainer, int64_t steps, int64_t points, ch_error *error);
/* Elements of an image; 0 if the model reads text. */
int64_t ch_trainer_image_elements(const ch_trainer *trainer);

/* Lets the relay's `stop` end a pass until ch_trainer_unwatch, and reports how much of `passes` passes is
 * done to the sink. */
void ch_trainer_watch(ch_trainer *trainer, int64_t passes);
void ch_trainer_unwatch(ch_trainer *trainer);

/* Returns the micro-batches of a training step, over all ranks. */
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
/* Tokens of a sequence that are text: all but the end tokens that fill it up after its last document, each of
   which is a document of its own and predicts nothing. document_start may be NULL. */
int64_t ch_count_text(const int32_t *targets, const int32_t *document_start, int64_t length);
/* Targets that are not -1. */
int64_t ch_count_predicted(const int32_t *targets, int64_t count);

#endif
