/* What the machines that train one model together must agree on in every optimizer step. */
#ifndef CH_TRAIN_AGREEMENT_H
#define CH_TRAIN_AGREEMENT_H

#include "base/error.h"
#include "train/optimizer.h"

/* What the loss and the gradient of a step are means over. The counts are known before anything is computed. */
typedef struct ch_step_counts {
  int64_t sequences;
  int64_t predicted; /* tokens, or images, with a target */
} ch_step_counts;

/* What the micro-batches of a step add up to, besides the gradients. */
typedef struct ch_step_sums {
  double loss;          /* over all predicted tokens */
  double balance_loss;  /* of mixtures of experts, as in ch_step_report */
  int64_t *expert_load; /* [expert_loads], likewise; NULL without experts */
  int64_t expert_loads;
} ch_step_sums;

/* How the machines agree. Each machine differentiates its own sequences. After agreeing, all have the same counts,
   sums and gradients, and so they make the same update. Every machine calls `counts` and `sums` once in every step,
   even after a failure of its own, so that no other machine waits for it. `status` is the machine's own result so
   far; where it is not CH_OK, `error` is filled in. Both functions return the status of the step on all machines:
   CH_OK only if it is CH_OK everywhere. A machine that did not fail itself gets an error that names the one that
   did. */
typedef struct ch_agreement {
  void *context;
  /* Before differentiating: replaces one machine's counts by the sums over all. */
  ch_status (*counts)(void *context, ch_status status, ch_step_counts *counts, ch_error *error);
  /* Called while differentiating (ch_gradient_listener): set->gradients[parameter] is final on this machine and can
     be sent. NULL: the agreement does not need to know. */
  void (*gradient_final)(void *context, const ch_parameter_set *set, int parameter);
  /* After differentiating: replaces one machine's sums and gradients by the sums over all. */
  ch_status (*sums)(void *context, ch_status status, ch_step_sums *sums, const ch_parameter_set *set,
                    ch_error *error);
} ch_agreement;

/* For one machine: counts, sums and gradients stay as they are. */
ch_agreement ch_agreement_alone(void);

#endif
