/* Reads and writes the keys of Qwen3's mixtures of experts that its dense models do not have. */
#include "config_file/qwen3_moe.h"

#include "model/moe.h"

static const ch_moe_config no_experts = {.aux_coefficient = 0.01, .renormalise = true, .scale = 1};

const ch_moe_config ch_qwen3_moe_defaults = {
    .experts = 128, .active = 8, .expert_intermediate_size = 768, .aux_coefficient = 0.001, .scale = 1};

/* Reads decoder_sparse_step: all layers but every decoder_sparse_step-th become dense, besides those in
   mlp_only_layers. */
static ch_status read_layers(const json_t *root, const char *where, ch_config *config, ch_error *error) {
  const json_t *given = json_object_get(root, "decoder_sparse_step");
  int64_t step = 1;
  if (given && (!ch_json_whole(given, &step) || step < 1))
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"decoder_sparse_step\" must be a whole number from 1",
                   where);
  if (step == 1) return CH_OK;
  if (config->num_hidden_layers > CH_MAX_LISTED_LAYERS)
    return ch_fail(
        error, CH_ERROR_CONFIG,
        "%s: \"decoder_sparse_step\" is %lld with %lld layers; it must be 1 in models of more than %d", where,
        (long long)step, (long long)config->num_hidden_layers, CH_MAX_LISTED_LAYERS);
  for (int64_t layer = 0; layer < config->num_hidden_layers; layer++)
    if ((layer + 1) % step != 0) config->moe.dense_layers[layer] = true;
  return CH_OK;
}

ch_status ch_config_read_qwen3_moe(const json_t *root, const char *where, ch_config *config,
                                   ch_error *error) {
  ch_moe_config *m = &config->moe;
  *m = ch_qwen3_moe_defaults;
  CH_TRY(ch_config_read_group(root, "qwen3_moe", "", CH_KEY_HUGGING_FACE, false, where, config, error));
  CH_TRY(read_layers(root, where, config, error));
  if (m->aux_coefficient == 0) {
    m->balance = CH_BALANCE_NONE;
    m->aux_coefficient = no_experts.aux_coefficient;
  }
  if (ch_moe_layers_before(config, (int)config->num_hidden_layers) == 0) {
    *m = no_experts;
    return CH_OK;
  }
  if (m->active == 1 && m->renormalise)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"norm_topk_prob\" is true with one expert per token, so its weight would always be "
                   "1; set it to false",
                   where);
  return CH_OK;
}

const char *ch_config_check_qwen3_moe(const ch_config *config) {
  const ch_moe_config *m = &config->moe;
  if (!m->experts) return NULL;
  if (m->shared) return "moe.shared";
  if (m->balance == CH_BALANCE_LOSS_FREE) return "moe.balance";
  if (m->scoring != CH_SCORING_SOFTMAX) return "moe.scoring";
  /* with one active expert, renormalising has no effect in Crosshead, but makes the weight 1 in transformers */
  if (m->active == 1 && m->renormalise) return "moe.renormalise";
  if (m->scale != 1) return "moe.scale";
  if (m->groups) return "moe.groups";
  return m->first_dense_layers > CH_MAX_LISTED_LAYERS ? "moe.first_dense_layers" : NULL;
}

void ch_config_put_qwen3_moe(const ch_config *config, ch_text *json) {
  ch_config written = *config;
  ch_moe_config *m = &written.moe;
  if (!m->experts) {
    ch_text_puts(json, ",\n  \"num_experts\": 0");
    return;
  }
  for (int layer = 0; layer < m->first_dense_layers; layer++) m->dense_layers[layer] = true;
  if (m->balance == CH_BALANCE_NONE) m->aux_coefficient = 0;
  ch_text_puts(json, ",");
  ch_config_put_group("qwen3_moe", 2, CH_KEY_HUGGING_FACE, &written, json);
}
