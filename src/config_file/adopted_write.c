/* Writes the keys of single adopted families that their table does not list. */
#include <math.h>
#include <string.h>

#include "config_file/adopted_family.h"

void ch_adopted_write_phi3(const json_t *ours, json_t *theirs) {
  json_t *context =
      json_object_get(json_object_get(ours, "rope_scaling"), "original_max_position_embeddings");
  if (!context) context = json_object_get(ours, "max_position_embeddings");
  json_object_set(theirs, "original_max_position_embeddings", context);
}

void ch_adopted_write_smollm3(const json_t *ours, json_t *theirs) {
  const json_t *nope = json_object_get(ours, "nope_layers");
  json_t *list = json_array();
  int64_t layers = json_integer_value(json_object_get(ours, "num_hidden_layers"));
  for (int64_t layer = 0; layer < layers; layer++) {
    bool turns = true;
    for (size_t i = 0; i < json_array_size(nope); i++)
      if (json_integer_value(json_array_get(nope, i)) == layer) turns = false;
    json_array_append_new(list, json_integer(turns));
  }
  json_object_set_new(theirs, "no_rope_layers", list);
}

void ch_adopted_write_experts(const json_t *ours, json_t *theirs) {
  const json_t *moe = json_object_get(ours, "moe"), *balance = json_object_get(moe, "balance");
  bool none = json_is_string(balance) && strcmp(json_string_value(balance), "none") == 0;
  json_t *coefficient = json_object_get(moe, "aux_coefficient");
  json_object_set(theirs, "num_local_experts", json_object_get(moe, "experts"));
  json_object_set(theirs, "num_experts_per_tok", json_object_get(moe, "active"));
  json_object_set(theirs, "intermediate_size", json_object_get(moe, "expert_intermediate_size"));
  json_object_set_new(theirs, "router_aux_loss_coef",
                      none || !coefficient ? json_real(0) : json_deep_copy(coefficient));
}

/* Writes the scale 1 / sqrt(n) as n, an integer if it is whole. */
void ch_adopted_write_gemma(const json_t *ours, json_t *theirs) {
  double scale = json_number_value(json_object_get(ours, "attention_multiplier"));
  if (!(scale > 0)) scale = 1 / sqrt(json_number_value(json_object_get(ours, "head_dim")));
  double scalar = 1 / (scale * scale), whole = nearbyint(scalar);
  bool is_whole = fabs(scalar - whole) < 1e-9 * scalar && whole > 0 && whole < 1e9;
  json_object_set_new(theirs, "query_pre_attn_scalar",
                      is_whole ? json_integer((json_int_t)whole) : json_real(scalar));
}

void ch_adopted_write_gpt2(const json_t *ours, json_t *theirs) {
  bool unscaled = json_number_value(json_object_get(ours, "attention_multiplier")) == 1;
  json_object_set_new(theirs, "scale_attn_weights", json_boolean(!unscaled));
  json_object_del(theirs, "num_key_value_heads");
}
