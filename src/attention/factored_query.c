/* MFA's queries: many large heads Q_h S_q x from two factors (MFA eq. 7). All heads share S_q. */
#include "attention/mechanism.h"

void ch_factored_query_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  int64_t rank = c->attention.q_lora_rank ? c->attention.q_lora_rank : c->head_dim;
  ch_declare_projection(declaration, "q_a_proj", rank, c->hidden_size);
  if (c->attention.q_a_norm) ch_declare_norm(declaration, "q_a_layernorm", rank);
  ch_declare_projection(declaration, "q_b_proj", c->num_attention_heads * c->head_dim, rank);
  if (!c->attention.q_a_norm) ch_declare_product(declaration, "q_a_proj", "q_b_proj");
  ch_query_modules_declare(declaration);
}

ch_node *ch_factored_query(ch_builder *builder, ch_node *x) {
  ch_node *shared = ch_project(builder, x, "q_a_proj");
  if (builder->config->attention.q_a_norm) shared = ch_norm(builder, shared, "q_a_layernorm");
  return ch_finish_queries(builder, ch_project(builder, shared, "q_b_proj"), builder->config->head_dim);
}

void ch_one_key_head(ch_config *config) {
  config->num_key_value_heads = 1;
}

ch_status ch_check_one_key_head(const ch_config *config, const char *where, ch_error *error) {
  if (config->num_key_value_heads == 1) return CH_OK;
  return ch_fail(
      error, CH_ERROR_CONFIG,
      "%s: \"num_key_value_heads\" is %lld, but \"attention.type\" \"%s\" has one key head; leave it "
      "out or set 1",
      where, (long long)config->num_key_value_heads, config->attention.type);
}

/* Presets 7/8 as many heads (rounded), of `number` dims each. For 0, heads have twice as many dims as before, and all
   heads together are wider than the model. */
ch_status ch_preset_factored(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  (void)error;
  config->num_attention_heads = (config->num_attention_heads * 7 + 4) / 8;
  config->num_key_value_heads = 1;
  config->head_dim = number ? number : 2 * config->head_dim;
  return CH_OK;
}
