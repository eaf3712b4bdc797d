/* Loss-free balancing (Wang et al. 2024, and Su 2025's update) and the counts behind it. */
#include "train/balance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/moe.h"

static const double bias_step = 1e-3;

ch_status ch_expert_balance_create(const ch_config *config, const ch_params *params,
                                   ch_expert_balance *balance, ch_error *error) {
  *balance = (ch_expert_balance){.of_heads = config->attention.active_heads > 0};
  /* Tokens may choose experts and heads in one layer. */
  balance->routing.terms = calloc((size_t)(2 * config->num_hidden_layers), sizeof(double));
  if (!balance->routing.terms) return ch_no_memory(error);
  if (config->moe.experts == 0) return CH_OK;
  balance->experts = config->moe.experts;
  balance->update = config->moe.balance_update;
  balance->layers = ch_moe_layers_before(config, (int)config->num_hidden_layers);
  balance->load = calloc((size_t)(balance->layers * balance->experts), sizeof *balance->load);
  balance->bias = calloc((size_t)balance->layers, sizeof *balance->bias);
  if (!balance->load || !balance->bias) {
    ch_expert_balance_free(balance);
    return ch_no_memory(error);
  }
  balance->routing.load = balance->load;
  for (int layer = 0, l = 0; layer < config->num_hidden_layers; layer++) {
    char name[96];
    if (!ch_moe_in_layer(config, layer)) continue;
    snprintf(name, sizeof name, "model.layers.%d.mlp.gate.e_score_correction_bias", layer);
    balance->bias[l++] = ch_params_find(params, name);
  }
  return CH_OK;
}

void ch_expert_balance_free(ch_expert_balance *balance) {
  free(balance->routing.terms);
  free(balance->load);
  free(balance->bias);
  *balance = (ch_expert_balance){0};
}

void ch_expert_balance_begin(ch_expert_balance *balance, int64_t sequences) {
  if (balance->layers > 0)
    memset(balance->load, 0, (size_t)(balance->layers * balance->experts) * sizeof *balance->load);
  balance->routing.balance_seed = 1 / (double)sequences;
  balance->routing.balance_loss = 0;
}

ch_routing *ch_expert_balance_routing(ch_expert_balance *balance) {
  return balance->layers > 0 || balance->of_heads ? &balance->routing : NULL;
}

static int64_t sum_of(const int64_t *load, int64_t experts) {
  int64_t sum = 0;
  for (int64_t e = 0; e < experts; e++) sum += load[e];
  return sum;
}

/* Adds `moved` to bias [experts], on the host, and copies it back. */
static void move_bias(const ch_value_memory *memory, const ch_tensor *bias, const double *moved) {
  double wide[CH_MAX_EXPERTS];
  float narrow[CH_MAX_EXPERTS];
  const bool is_wide = bias->dtype == CH_F64;
  memory->read(is_wide ? (void *)wide : narrow, bias->data, ch_tensor_bytes(bias));
  for (int64_t e = 0; e < bias->shape[0]; e++)
    if (is_wide)
      wide[e] += moved[e];
    else
      narrow[e] += (float)moved[e];
  memory->write(bias->data, is_wide ? (void *)wide : narrow, ch_tensor_bytes(bias));
}

/* Computes the moves of a layer's biases towards even loads: bias_step each, or moves whose root mean square is
 * bias_step. */
static void moves_of(const ch_expert_balance *balance, const int64_t *load, double *moved) {
  int64_t experts = balance->experts, all = sum_of(load, experts);
  double squares = 0;
  for (int64_t e = 0; e < experts; e++) {
    double lack = (double)(all - load[e] * experts);
    squares += lack * lack;
    moved[e] = balance->update == CH_BALANCE_RMS ? lack : (lack > 0) - (lack < 0);
  }
  double size = balance->update == CH_BALANCE_RMS && squares > 0 ? sqrt(squares / (double)experts) : 1;
  for (int64_t e = 0; e < experts; e++) moved[e] *= bias_step / size;
}

void ch_expert_balance_end(const ch_expert_balance *balance, const ch_value_memory *memory,
                           const ch_tensor *weights) {
  for (int64_t l = 0; l < balance->layers; l++) {
    if (balance->bias[l] < 0) continue;
    double moved[CH_MAX_EXPERTS];
    moves_of(balance, balance->load + l * balance->experts, moved);
    move_bias(memory, &weights[balance->bias[l]], moved);
  }
}

void ch_expert_balance_shares(const ch_expert_balance *balance, double *least, double *most) {
  *least = 1;
  *most = 0;
  for (int64_t l = 0; l < balance->layers; l++) {
    const int64_t *load = balance->load + l * balance->experts, all = sum_of(load, balance->experts);
    for (int64_t e = 0; e < balance->experts && all > 0; e++) {
      double share = (double)load[e] / (double)all;
      if (share < *least) *least = share;
      if (share > *most) *most = share;
    }
  }
}
