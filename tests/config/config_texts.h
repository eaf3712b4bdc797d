/* Configurations that tests modify: one of ours, one of Llama, and those of DeepSeek. */
#ifndef CONFIG_TEXTS_H
#define CONFIG_TEXTS_H

#include "config/config_testing.h"

static const char ours[] =
    "{\"model_type\": \"crosshead\", \"vocab_size\": 73, \"hidden_size\": 48, \"intermediate_size\": 44,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 6, \"num_key_value_heads\": 2, \"head_dim\": 8,"
    " \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6, \"tie_word_embeddings\": true,"
    " \"hidden_act\": \"gelu\", \"position\": \"rope\", \"rope_theta\": 5000, \"rope_interleaved\": true,"
    " \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.5, \"low_freq_factor\": 1,"
    " \"high_freq_factor\": 4, \"original_max_position_embeddings\": 32}, \"attention_bias\": true,"
    " \"attention\": {\"type\": \"gqa\", \"qk_norm\": true, \"head_norm\": true, \"knocking\": null,"
    " \"head_mix\": null, \"q_lora_rank\": 0, \"gate_op\": \"multiply\", \"layer_group_size\": 1},"
    " \"sharing\": null, \"moe\": null, \"init\": \"deepseek\", \"bos_token_id\": 3, \"eos_token_id\": 4}";

static const char llama[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 97,"
    " \"hidden_size\": 96, \"intermediate_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 16,"
    " \"hidden_act\": \"silu\", \"transformers_version\": \"4.51.3\", \"a_future_key\": [1, {\"b\": null}]}";

/* Shortened configurations of DeepSeek-V2-Lite and V3. */
static const char deepseek_v2[] =
    "{\"model_type\": \"deepseek_v2\", \"vocab_size\": 97, \"hidden_size\": 96, \"intermediate_size\": 64, "
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"kv_lora_rank\": 20, "
    "\"q_lora_rank\": null, \"qk_nope_head_dim\": 12, \"qk_rope_head_dim\": 8, \"v_head_dim\": 16, "
    "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"n_shared_experts\": 2, "
    "\"moe_intermediate_size\": 24, "
    "\"first_k_dense_replace\": 1, \"moe_layer_freq\": 1, \"n_group\": 1, \"topk_group\": 1, \"ep_size\": 1, "
    "\"topk_method\": \"greedy\", \"scoring_func\": \"softmax\", \"norm_topk_prob\": false, "
    "\"routed_scaling_factor\": 1.0, \"rms_norm_eps\": 1e-5, \"torch_dtype\": \"bfloat16\", "
    "\"rope_scaling\": "
    "{\"type\": \"yarn\", \"factor\": 40, \"beta_fast\": 32, \"beta_slow\": 1, \"mscale\": 0.707, "
    "\"mscale_all_dim\": 0.707, \"original_max_position_embeddings\": 4096}}";
static const char deepseek_v3[] =
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 97, \"hidden_size\": 96, \"intermediate_size\": 64, "
    "\"num_hidden_layers\": 5, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"topk_method\": "
    "\"noaux_tc\", "
    "\"num_nextn_predict_layers\": 1, \"dtype\": \"bfloat16\", \"rope_parameters\": {\"rope_theta\": "
    "50000.0, "
    "\"rope_type\": \"default\"}}";

/* Returns the llama text with another family's model_type (malloc'd). */
static inline char *as_family(const char *name) {
  char value[32];
  snprintf(value, sizeof value, "\"%s\"", name);
  return changed(llama, "model_type", value);
}

#endif
