/* Balances the loads of experts, and of heads that tokens choose: counts the tokens of each, computes the balance
   loss, and moves the bias of the choice. */
#ifndef CH_TRAIN_BALANCE_H
#define CH_TRAIN_BALANCE_H

#include "config/params.h"
#include "graph/plan.h"

typedef struct ch_expert_balance {
  int64_t layers, experts; /* layers with experts; experts per such layer; 0: the model has none */
  int64_t *load;           /* [layers, experts]: tokens of the last step that went to each expert */
  int *bias;               /* [layers]: index of the parameter with the layer's bias; -1: none */
  ch_balance_update update;
  bool of_heads; /* true if tokens choose heads, which have a balance loss and no counts of loads */
  ch_routing routing;
} ch_expert_balance;

ch_status ch_expert_balance_create(const ch_config *config, const ch_params *params,
                                   ch_expert_balance *balance, ch_error *error);
void ch_expert_balance_free(ch_expert_balance *balance);

/* Sets the counts to 0 for a new step. The balance loss is a mean over `sequences`. */
void ch_expert_balance_begin(ch_expert_balance *balance, int64_t sequences);
/* Returns the routing for ch_runner_call in every micro-batch of the step; NULL if tokens choose nothing. */
ch_routing *ch_expert_balance_routing(ch_expert_balance *balance);
/* Moves every bias, if the model has biases, by 1e-3 sign(mean load - load), or by 1e-3 (mean load - load) over the
   root of its mean square. The weights are in `memory`. */
void ch_expert_balance_end(const ch_expert_balance *balance, const ch_value_memory *memory,
                           const ch_tensor *weights);
/* Sets *least and *most to the smallest and largest share of a layer's choices that an expert had in the last step.
   Without experts or without a step, they are 1 and 0. */
void ch_expert_balance_shares(const ch_expert_balance *balance, double *least, double *most);

#endif
