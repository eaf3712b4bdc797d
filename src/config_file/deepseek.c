/* Reads and writes the keys that only DeepSeek's configs have. */
#include "config_file/deepseek.h"

#include <string.h>

#include "attention/registry.h"

const ch_deepseek_family ch_deepseek_v2 = {
    .expert_intermediate_size = 1407, .shared = 2, .experts = 64, .scale = 1};
const ch_deepseek_family ch_deepseek_v3 = {.expert_intermediate_size = 2048,
                                           .shared = 1,
                                           .experts = 256,
                                           .active = 8,
                                           .groups = 8,
                                           .active_groups = 4,
                                           .first_dense_layers = 3,
                                           .scale = 2.5,
                                           .renormalise = true,
                                           .sigmoid = true};

static void assume(const ch_deepseek_family *of, ch_config *config) {
  ch_attention_config *a = &config->attention;
  a->q_lora_rank = 1536;
  a->kv_lora_rank = 512;
  a->qk_nope_head_dim = a->v_head_dim = 128;
  a->qk_rope_head_dim = 64;
  a->latent_norm_eps = 1e-6; /* fixed; rms_norm_eps does not change it */
  config->rope_interleaved = true;
  config->moe = (ch_moe_config){.experts = of->experts,
                                .active = of->active,
                                .shared = of->shared,
                                .expert_intermediate_size = of->expert_intermediate_size,
                                .first_dense_layers = of->first_dense_layers,
                                .balance = of->sigmoid ? CH_BALANCE_LOSS_FREE : CH_BALANCE_AUX,
                                .aux_coefficient = 0.01,
                                .scoring = of->sigmoid ? CH_SCORING_SIGMOID : CH_SCORING_SOFTMAX,
                                .renormalise = of->renormalise,
                                .scale = of->scale,
                                .groups = of->groups,
                                .active_groups = of->active_groups};
}

/* Applies topk_method. "greedy" has no groups, whatever n_group is. */
static ch_status settle_groups(const ch_deepseek_family *of, const json_t *root, const char *where,
                               ch_moe_config *m, ch_error *error) {
  const json_t *given = json_object_get(root, "topk_method");
  const char *method = json_string_value(given);
  bool greedy = method ? strcmp(method, "greedy") == 0 : !of->sigmoid;
  bool known = greedy || !method || strcmp(method, of->sigmoid ? "noaux_tc" : "group_limited_greedy") == 0;
  if ((given && !method && !json_is_null(given)) || !known || (greedy && of->sigmoid)) {
    char shown[80];
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"topk_method\" is %s; it must be %s", where,
                   ch_json_show(given, shown, sizeof shown),
                   of->sigmoid ? "\"noaux_tc\"" : "\"greedy\" or \"group_limited_greedy\"");
  }
  if (greedy || m->groups < 2) m->groups = m->active_groups = 0;
  return CH_OK;
}

ch_status ch_config_read_deepseek(const ch_deepseek_family *of, const json_t *root, const char *where,
                                  ch_config *config, ch_error *error) {
  ch_config_set_mechanism(config, "mla");
  assume(of, config);
  CH_TRY(ch_config_read_group(root, "deepseek", "", CH_KEY_HUGGING_FACE, false, where, config, error));
  if (!of->sigmoid) config->rope_interleaved = true;     /* V2 supports only interleaved pairs */
  config->head_dim = config->attention.qk_rope_head_dim; /* as in Hugging Face's class */
  ch_moe_config *m = &config->moe;
  if ((m->scoring == CH_SCORING_SIGMOID) != of->sigmoid)
    return ch_fail(error, CH_ERROR_CONFIG, "%s: \"scoring_func\" must be \"%s\" with \"model_type\" \"%s\"",
                   where, of->sigmoid ? "sigmoid" : "softmax", config->model_type);
  if (m->experts == 0 || m->first_dense_layers >= config->num_hidden_layers) {
    *m = (ch_moe_config){.aux_coefficient = 0.01, .renormalise = true, .scale = 1};
    return CH_OK;
  }
  if (!of->sigmoid && m->renormalise) m->scale = 1; /* V2 does not scale renormalised weights */
  return settle_groups(of, root, where, m, error);
}

const char *ch_config_check_deepseek(const ch_deepseek_family *of, const ch_config *config) {
  const ch_attention_config *a = &config->attention;
  const ch_moe_config *m = &config->moe;
  if (a->gate_embedding_dim) return "attention.gate_embedding_dim";
  if (a->layer_group_size != 1) return "attention.layer_group_size";
  if (a->latent_norm_eps != 1e-6) return "attention.latent_norm_eps";
  if (!config->rope_interleaved && !of->sigmoid) return "rope_interleaved";
  if (config->head_dim != a->qk_rope_head_dim) return "head_dim";
  if (!m->experts) return NULL;
  if ((m->scoring == CH_SCORING_SIGMOID) != of->sigmoid) return "moe.scoring";
  if (m->balance != (of->sigmoid ? CH_BALANCE_LOSS_FREE : CH_BALANCE_AUX)) return "moe.balance";
  if (!of->sigmoid && m->renormalise && m->scale != 1) return "moe.scale";
  if (m->aux_coefficient != 0.01) return "moe.aux_coefficient";
  if (memchr(m->dense_layers, true, sizeof m->dense_layers)) return "moe.dense_layers";
  return NULL;
}

void ch_config_spell_deepseek(const ch_deepseek_family *of, ch_config *config) {
  ch_attention_config *a = &config->attention;
  ch_moe_config *m = &config->moe;
  if (!a->latent_norm_eps && config->rms_norm_eps == 1e-6) a->latent_norm_eps = 1e-6;
  config->head_dim = a->qk_rope_head_dim; /* latent attention does not read head_dim */
  if (!m->experts) return;
  m->aux_coefficient = 0.01;
  m->balance_update = CH_BALANCE_SIGN;
  if (!of->sigmoid && m->balance == CH_BALANCE_NONE) m->balance = CH_BALANCE_AUX;
}

void ch_config_put_deepseek(const ch_deepseek_family *of, const ch_config *config, ch_text *json) {
  ch_config written = *config;
  if (!config->moe.experts) written.moe.first_dense_layers = config->num_hidden_layers;
  ch_text_puts(json, ",");
  ch_config_put_group("deepseek", 2, CH_KEY_HUGGING_FACE, &written, json);
  /* These values are written out, because transformers' defaults differ. "first_k_dense_replace" marks a model
     without experts, because transformers does not accept null for their number. */
  const ch_moe_config *m = &config->moe;
  if (!config->attention.q_lora_rank) ch_text_puts(json, ",\n  \"q_lora_rank\": null");
  if (m->experts && !m->shared) ch_text_puts(json, ",\n  \"n_shared_experts\": null");
  if (!m->groups) ch_text_puts(json, ",\n  \"n_group\": 1,\n  \"topk_group\": 1");
  if (!config->rope_interleaved) ch_text_puts(json, ",\n  \"rope_interleave\": false");
  ch_text_printf(json, ",\n  \"topk_method\": \"%s\"",
                 of->sigmoid          ? "noaux_tc"
                 : config->moe.groups ? "group_limited_greedy"
                                      : "greedy");
}
