/* Talking-heads attention (Shazeer et al.; MEA eqs. 7-9): heads are mixed before and after the softmax.
 *
 *   write:  as gqa with a key and a value head for every query head
 *   read:   S_h = q_h k_h^T / sqrt(d)            with ALiBi's bias, which is part of a head's score
 *           P_g = softmax(sum_h logit_mix[g, h] S_h)       the mask is applied after the mix
 *           y   = W_o headnorm([sum_g weight_mix[o, g] P_g] v_o)
 *
 * Either mix may be off. They start as in the original code: normal with variance 1 / H. */
#include <math.h>

#include "attention/mechanism.h"

extern const ch_mechanism ch_mechanism_gqa;

static ch_status talking_check(const ch_config *config, const char *where, ch_error *error) {
  if (config->num_key_value_heads == config->num_attention_heads) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"attention.type\" \"talking\" needs a key-value head for every query head, but "
                 "\"num_key_value_heads\" is %lld and \"num_attention_heads\" %lld; make them equal",
                 where, (long long)config->num_key_value_heads, (long long)config->num_attention_heads);
}

static void talking_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t heads = c->num_attention_heads;
  double std = 1 / sqrt((double)heads);
  ch_mechanism_gqa.declare(declaration);
  if (c->attention.mix_logits)
    ch_declare_head_matrix(declaration, "logit_mix.weight", heads, heads, CH_PARAM_INIT_NORMAL, std);
  if (c->attention.mix_weights)
    ch_declare_head_matrix(declaration, "weight_mix.weight", heads, heads, CH_PARAM_INIT_NORMAL, std);
}

static ch_node *talking_read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  ch_node *q = ch_finish_queries(builder, ch_project(builder, x, "q_proj"), c->head_dim);
  ch_node *logit_mix = c->attention.mix_logits ? ch_attention_param(builder, "logit_mix.weight") : NULL;
  ch_node *weight_mix = c->attention.mix_weights ? ch_attention_param(builder, "weight_mix.weight") : NULL;
  ch_attend_spec spec = {.heads = c->num_attention_heads,
                         .kv_heads = c->num_key_value_heads,
                         .key_dim = c->head_dim,
                         .value_dim = c->head_dim,
                         .scale = 1 / sqrt((double)c->head_dim),
                         .slopes = ch_alibi_slopes(builder, 0, 1, c->num_attention_heads),
                         .causal = builder->causal};
  const ch_visibility seen = ch_visibility_of(builder);
  spec.window = seen.window;
  spec.sinks = seen.sinks;
  ch_node *context = ch_op_talking_attend(builder->graph, q, states[0], states[1], logit_mix, weight_mix,
                                          builder->document_start, &spec);
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

static const char *const keys[] = {"mix_logits", "mix_weights", NULL};

static const ch_preset presets[] = {
    {"talking", NULL, "talking heads: scores and weights mixed across heads", NULL},
    {0},
};

const ch_mechanism ch_mechanism_talking = {.name = "talking",
                                           .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM |
                                                      CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
                                                      CH_MODULE_BIAS | CH_MODULE_MIXES_SCORES,
                                           .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
                                           .keys = keys,
                                           .check = talking_check,
                                           .declare = talking_declare,
                                           .state = ch_keys_values_state,
                                           .write = ch_write_keys_values,
                                           .read = talking_read,
                                           .rows = ch_rows_by_head,
                                           .total_effective_rank = ch_rank_of_heads,
                                           .shared_latent_dim = ch_width_of_shared_heads,
                                           .presets = presets};
