/* What the trainer's files share. */
#ifndef CH_TRAIN_TRAINER_PRIVATE_H
#define CH_TRAIN_TRAINER_PRIVATE_H

#include "train/balance.h"
#include "train/optimizer.h"
#include "train/trainer.h"

struct ch_trainer {
  ch_config config;
  ch_params params;
  ch_train_options options; /* micro_batch and warmup resolved */
  bool chosen_micro_batch;  /* the caller left it to us: a checkpoint's may take its place */
  bool chosen_warmup;       /* so with the warm-up */
  ch_source source;
  ch_engine engine;
  ch_parameter_set set;
  ch_expert_balance balance;
  ch_runner *trainable, *forward; /* both of micro_batch sequences */
  ch_batch batch;                 /* a whole step: batch * accumulate sequences */
  int64_t step;
  double seconds;
  double *losses; /* [options.steps], the first `step` are set */
  int64_t losses_capacity;
  ch_validation_point *validation;
  int64_t validation_points, validation_capacity;
};

/* Plans both runners for options.micro_batch; used again when a checkpoint brings another one. */
ch_status ch_trainer_plan(ch_trainer *trainer, ch_error *error);
/* Makes room for `steps` losses, or `points` validation points. */
ch_status ch_trainer_reserve(ch_trainer *trainer, int64_t steps, int64_t points, ch_error *error);

#endif
