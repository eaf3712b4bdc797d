/* Talking-heads attention (Shazeer et al.; eqs. 7-9 of the MEA paper): heads mixed before and after the softmax.
 *
 *   write:  as gqa with a key and a value head for every query head
 *   read:   S_h = q_h k_h^T / sqrt(d)            with ALiBi's bias, which is part of a head's score
 *           P_g = softmax(sum_h logit_mix[g, h] S_h)       the mask after the mix
 *           y   = W_o headnorm([sum_g weight_mix[o, g] P_g] v_o)
 *
 * Either mix may be off. They start as the original code has them: normal with variance 1 / H.
 */
#include <math.h>

#include "attention/mechanism.h"

extern const ch_mechanism ch_mechanism_gqa;

static ch_status check(const ch_config *config, const char *where, ch_error *error) {
  if (config->num_key_value_heads == config->num_attention_heads) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG,
                 "%s: \"attention.type\" \"talking\" needs a key-value head for every query head, but "
                 "\"num_key_value_heads\" is %lld and \"num_attention_heads\" %lld; make them equal",
                 where, (long long)config->num_key_value_heads, (long long)config->num_attention_heads);
}

static void declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t heads = c->num_attention_heads;
  double std = 1 / sqrt((double)heads);
  ch_mechanism_gqa.declare(declaration);
  if (c->attention.mix_logits) ch_declare_head_matrix(declaration, "logit_mix", heads, heads, std);
  if (c->attention.mix_weights) ch_declare_head_matrix(declaration, "weight_mix", heads, heads, std);
}

static int state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  return ch_mechanism_gqa.state(config, layer, parts);
}

static void write(ch_builder *builder, ch_node *x, ch_node *out[]) {
  ch_mechanism_gqa.write(builder, x, out);
}

static ch_node *read(ch_builder *builder, ch_node *x, ch_node *const states[]) {
  const ch_config *c = builder->config;
  ch_node *q = ch_qk_norm(builder, "q", ch_project(builder, x, "q_proj"));
  q = ch_apply_rope(builder, q, c->head_dim);
  ch_node *logit_mix = c->attention.mix_logits ? ch_attention_param(builder, "logit_mix.weight") : NULL;
  ch_node *weight_mix = c->attention.mix_weights ? ch_attention_param(builder, "weight_mix.weight") : NULL;
  ch_attend_spec spec = {.heads = c->num_attention_heads,
                         .kv_heads = c->num_key_value_heads,
                         .key_dim = c->head_dim,
                         .value_dim = c->head_dim,
                         .scale = 1 / sqrt((double)c->head_dim)};
  if (!ch_complete_attend(builder, &spec)) return NULL;
  ch_node *context = ch_op_talking_attend(builder->graph, q, states[0], states[1], logit_mix, weight_mix,
                                          builder->document_start, &spec);
  return ch_project(builder, ch_head_norm(builder, context), "o_proj");
}

static int64_t width_of_heads(const ch_config *config) {
  return config->num_attention_heads * config->head_dim;
}

const ch_mechanism ch_mechanism_talking = {.name = "talking",
                                           .modules = CH_MODULE_QK_NORM | CH_MODULE_HEAD_NORM |
                                                      CH_MODULE_KNOCK_LINEAR | CH_MODULE_KNOCK_OTHER |
                                                      CH_MODULE_BIAS,
                                           .knocks = CH_ON_Q | CH_ON_K | CH_ON_V,
                                           .check = check,
                                           .declare = declare,
                                           .state = state,
                                           .write = write,
                                           .read = read,
                                           .total_effective_rank = width_of_heads,
                                           .shared_latent_dim = width_of_heads};
