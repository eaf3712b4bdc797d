/* Balancing the loads of experts, and of heads that tokens choose: counting the tokens of each, the balance
   loss, and moving the bias of the choice. */
#ifndef CH_TRAIN_BALANCE_H
#define CH_TRAIN_BALANCE_H

#include "config/params.h"
#include "graph/plan.h"

typedef struct ch_expert_balance {
  int64_t layers, experts; /* layers with experts; 0 where the model has none */
  int64_t *load;           /* [layers, experts] tokens of the last step that went to each expert */
  int *bias;               /* [layers] the parameter with the layer's bias, or -1 */
  ch_balance_update update;
  bool of_heads; /* tokens choose heads, whose balance loss is taken along: nothing counts their loads */
  ch_routing routing;
} ch_expert_balance;

ch_status ch_expert_balance_create(const ch_config *config, const ch_params *params,
                                   ch_expert_balance *balance, ch_error *error);
void ch_expert_balance_free(ch_expert_balance *balance);

/* Sets the counts to 0 for a new step. The balance loss is a mean over `sequences`. */
void ch_expert_balance_begin(ch_expert_balance *balance, int64_t sequences);
/* Returns the routing for ch_runner_call in every micro-batch of the step; NULL if tokens choose nothing. */
ch_routing *ch_expert_balance_routing(ch_expert_balance *balance);
/* Moves every bias by 1e-3 sign(mean load - load), or 1e-3 (mean load - load) over the root of its mean
   square, where the model has biases. The weights are in `memory`. */
void ch_expert_balance_end(const ch_expert_balance *balance, const ch_value_memory *memory,
                           const ch_tensor *weights);
/* Returns the smallest and largest share of a layer's choices that an expert had in the last step. */
void ch_expert_balance_shares(const ch_expert_balance *balance, double *least, double *most);

#endif
