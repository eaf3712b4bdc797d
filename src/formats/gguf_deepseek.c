/* Reads architecture deepseek2: latent attention and experts. The scoring of experts decides between DeepSeek-V2 and
   V3. */
#include <stdio.h>

#include "attention/mechanism.h"
#include "attention/registry.h"
#include "formats/gguf_metadata.h"

enum { SOFTMAX = 1, SIGMOID = 2 };

static ch_status read_attention(ch_metadata *m, ch_config *c) {
  ch_attention_config *a = &c->attention;
  int64_t key = 0, value = 0;
  ch_config_set_mechanism(c, "mla");
  CH_TRY(ch_metadata_whole(m, "attention.q_lora_rank", false, &a->q_lora_rank));
  CH_TRY(ch_metadata_whole(m, "attention.kv_lora_rank", true, &a->kv_lora_rank));
  CH_TRY(ch_metadata_whole(m, "rope.dimension_count", true, &a->qk_rope_head_dim));
  CH_TRY(ch_metadata_whole(m, "attention.key_length", true, &key));
  CH_TRY(ch_metadata_whole(m, "attention.value_length", true, &value));
  /* newer files give the head's sizes without absorption under these keys */
  CH_TRY(ch_metadata_whole(m, "attention.key_length_mla", false, &key));
  CH_TRY(ch_metadata_whole(m, "attention.value_length_mla", false, &value));
  a->qk_nope_head_dim = key - a->qk_rope_head_dim;
  a->v_head_dim = value;
  a->latent_norm_eps = 1e-6;
  c->head_dim = a->qk_rope_head_dim;
  c->num_key_value_heads = c->num_attention_heads; /* newer files say 1 */
  c->rope_interleaved = true;
  return CH_OK;
}

static ch_status read_experts(ch_metadata *m, ch_config *c) {
  ch_moe_config *moe = &c->moe;
  int64_t gating = SOFTMAX;
  CH_TRY(ch_metadata_whole(m, "expert_used_count", true, &moe->active));
  CH_TRY(ch_metadata_whole(m, "expert_feed_forward_length", true, &moe->expert_intermediate_size));
  CH_TRY(ch_metadata_whole(m, "expert_shared_count", false, &moe->shared));
  CH_TRY(ch_metadata_whole(m, "leading_dense_block_count", false, &moe->first_dense_layers));
  CH_TRY(ch_metadata_whole(m, "expert_group_count", false, &moe->groups));
  CH_TRY(ch_metadata_whole(m, "expert_group_used_count", false, &moe->active_groups));
  CH_TRY(ch_metadata_whole(m, "expert_gating_func", false, &gating));
  CH_TRY(ch_metadata_number(m, "expert_weights_scale", false, &moe->scale));
  if (moe->scale == 0) moe->scale = 1; /* not given */
  moe->renormalise = false;
  CH_TRY(ch_gguf_bool(m->file, ch_metadata_key(m, "expert_weights_norm"), &moe->renormalise, m->error));
  if (moe->groups < 2) moe->groups = moe->active_groups = 0;
  if (gating != SOFTMAX && gating != SIGMOID)
    return ch_fail(m->error, CH_ERROR_CONFIG, "%s: \"%s.expert_gating_func\" is %lld; 1 and 2 are supported",
                   m->file->where, m->architecture, (long long)gating);
  moe->scoring = gating == SIGMOID ? CH_SCORING_SIGMOID : CH_SCORING_SOFTMAX;
  moe->balance = gating == SIGMOID ? CH_BALANCE_LOSS_FREE : CH_BALANCE_AUX;
  if (gating == SOFTMAX && moe->renormalise) moe->scale = 1;
  snprintf(c->model_type, sizeof c->model_type, "deepseek_v%d", gating == SIGMOID ? 3 : 2);
  return CH_OK;
}

ch_status ch_gguf_read_deepseek(ch_metadata *m, ch_config *config) {
  ch_moe_config *moe = &config->moe;
  CH_TRY(read_attention(m, config));
  CH_TRY(ch_metadata_whole(m, "expert_count", false, &moe->experts));
  if (moe->experts == 0) return CH_OK;
  CH_TRY(read_experts(m, config));
  if (moe->first_dense_layers >= config->num_hidden_layers)
    *moe = (ch_moe_config){.aux_coefficient = 0.01, .renormalise = true, .scale = 1};
  return CH_OK;
}
