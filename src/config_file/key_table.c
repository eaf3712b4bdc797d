/* The configuration keys, one row each. New keys are added here. A mechanism lists its own keys in
 * ch_mechanism.keys. */
#include "attention/registry.h"
#include "model/network.h"
#include "model/norm.h"
#include "config_file/keys.h"
#include "tensor/kernels.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define MEMBER(member) .offset = offsetof(ch_config, member)
#define NO_MEMBER .offset = CH_KEY_NO_MEMBER
#define RANGE(least, most) .min = least, .max = most
#define IN(member, least, most) MEMBER(member), RANGE(least, most)
#define REQUIRED .required = true
#define OPTIONAL .nullable = true
#define OURS .files = CH_KEY_OURS
#define HUGGING_FACE .files = CH_KEY_HUGGING_FACE
#define EVERYWHERE .files = CH_KEY_EVERYWHERE
#define OF_MECHANISMS .of_mechanisms = true
#define TEXT .models = CH_KEY_TEXT_MODELS
#define IMAGES .models = CH_KEY_IMAGE_MODELS
/* A key of which only the default is supported. Its row makes the error for other values clear. */
#define DEFAULT_ONLY .unsupported = true, NO_MEMBER
#define CHOICES(...)                                                                                         \
  .choices = (const char *const[]) {                                                                         \
    __VA_ARGS__, NULL                                                                                        \
  }

/* Upper limits keep every product of sizes (a tensor's elements, a model's parameters) far from overflow. */
#define MOST_INT32 2147483647.0
#define MOST_WIDTH 16777216.0
#define MOST_HIDDEN 1048576.0
#define MOST_EXPERT_WIDTH 1048576.0
#define MOST_HEADS 65536.0
#define MOST_LAYERS 10000.0
#define MOST_RANK 1048576.0
#define MOST_COMPONENTS 65535.0
#define MOST_STD 1000.0
#define MOST_IMAGE 4096.0
#define MOST_CHANNELS 1024.0
#define MOST_CLASSES 1048576.0

static const char *const *families(void) {
  static const char *const names[] = {"crosshead", "crosshead_vit", "llama",       "qwen2",       "qwen3",
                                      "qwen3_moe", "mistral",       "deepseek_v2", "deepseek_v3", "vit",
                                      "olmo2",     "phi3",          "gpt2",        "granite",     "smollm3",
                                      "seed_oss",  "stablelm",      "starcoder2",  "glm4",        "mixtral",
                                      "gemma2",    "gemma3_text",   "olmo3",       "gpt_oss",     NULL};
  return names;
}

/* The activations of Hugging Face's text families. ffn_of_vit returns those of its Vision Transformer, which have no
   gate. */
static const char *const *ffn_of_families(void) {
  static const char *const names[] = {"silu", NULL};
  return names;
}

static const char *const *ffn_of_vit(void) {
  static const char *const names[] = {"gelu", "relu", "relu2", NULL};
  return names;
}

const ch_config_key ch_config_keys[] = {
    {"", "model_type", CH_KEY_NAME, EVERYWHERE, REQUIRED, .names = families, MEMBER(model_type)},
    {"", "vocab_size", CH_KEY_WHOLE, EVERYWHERE, TEXT, REQUIRED, IN(vocab_size, 1, MOST_INT32)},
    {"", "hidden_size", CH_KEY_WHOLE, EVERYWHERE, REQUIRED, IN(hidden_size, 1, MOST_HIDDEN)},
    {"", "intermediate_size", CH_KEY_WHOLE, EVERYWHERE, REQUIRED, IN(intermediate_size, 1, MOST_WIDTH)},
    {"", "num_hidden_layers", CH_KEY_WHOLE, EVERYWHERE, REQUIRED, IN(num_hidden_layers, 1, MOST_LAYERS)},
    {"", "num_attention_heads", CH_KEY_WHOLE, EVERYWHERE, REQUIRED, IN(num_attention_heads, 1, MOST_HEADS)},
    {"", "num_key_value_heads", CH_KEY_WHOLE, EVERYWHERE, OPTIONAL, IN(num_key_value_heads, 1, MOST_HEADS)},
    {"", "head_dim", CH_KEY_WHOLE, EVERYWHERE, OPTIONAL, IN(head_dim, 1, MOST_HEADS)},
    {"", "max_position_embeddings", CH_KEY_WHOLE, EVERYWHERE, TEXT,
     IN(max_position_embeddings, 1, MOST_INT32), .otherwise = 2048},
    {"", "rms_norm_eps", CH_KEY_NUMBER, EVERYWHERE, IN(rms_norm_eps, 0, 1), .otherwise = 1e-5},
    {"", "tie_word_embeddings", CH_KEY_BOOL, EVERYWHERE, TEXT, MEMBER(tie_word_embeddings)},
    {"", "hidden_act", CH_KEY_NAME, OURS, TEXT, .names = ch_ffn_names, MEMBER(hidden_act)},
    {"", "hidden_act", CH_KEY_NAME, HUGGING_FACE, TEXT, .names = ffn_of_families, MEMBER(hidden_act)},
    {"", "position", CH_KEY_CHOICE, OURS, TEXT, MEMBER(position),
     CHOICES("rope", "alibi", "none", "learned")},
    {"", "rope_theta", CH_KEY_NUMBER, EVERYWHERE, TEXT, IN(rope_theta, 1, 1e15), .otherwise = 10000},
    {"", "rope_interleaved", CH_KEY_BOOL, OURS, TEXT, MEMBER(rope_interleaved)},
    {"", "local_rope_theta", CH_KEY_NUMBER, OURS, TEXT, OPTIONAL, IN(local_rope_theta, 1, 1e15)},
    {"", "local_rope_layers", CH_KEY_LAYERS, OURS, TEXT, OPTIONAL, MEMBER(local_rope_layers)},
    {"", "nope_layers", CH_KEY_LAYERS, OURS, TEXT, OPTIONAL, MEMBER(nope_layers)},
    {"", "rope_scaling", CH_KEY_OBJECT, EVERYWHERE, TEXT, OPTIONAL, NO_MEMBER, .members = "rope"},
    {"", "rope_parameters", CH_KEY_OBJECT, HUGGING_FACE, TEXT, OPTIONAL, .alias = true, NO_MEMBER,
     .members = "rope"},
    {"", "partial_rotary_factor", CH_KEY_NUMBER, OURS, TEXT, OPTIONAL, IN(partial_rotary_factor, 0, 1),
     .otherwise = 1},
    {"", "partial_rotary_factor", CH_KEY_NUMBER, HUGGING_FACE, TEXT, OPTIONAL, RANGE(0, 1), .otherwise = 1,
     DEFAULT_ONLY},
    {"", "attention_bias", CH_KEY_BOOL, EVERYWHERE, MEMBER(attention_bias)},
    {"", "attention_output_bias", CH_KEY_BOOL, OURS, TEXT, OPTIONAL, MEMBER(attention_output_bias)},
    {"", "mlp_bias", CH_KEY_BOOL, EVERYWHERE, TEXT, OPTIONAL, MEMBER(mlp_bias)},
    {"", "swiglu_alpha", CH_KEY_NUMBER, OURS, TEXT, OPTIONAL, IN(swiglu_alpha, 0, 1e6), .otherwise = 1.702},
    {"", "swiglu_limit", CH_KEY_NUMBER, OURS, TEXT, OPTIONAL, IN(swiglu_limit, 0, 1e6), .otherwise = 7},
    {"", "norm", CH_KEY_NAME, OURS, TEXT, OPTIONAL, .names = ch_norm_names, MEMBER(norm)},
    {"", "norm_placement", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(norm_placement),
     CHOICES("pre", "post", "branch", "both")},
    {"", "parallel_residual", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(parallel_residual)},
    {"", "embedding_multiplier", CH_KEY_NUMBER, OURS, TEXT, OPTIONAL, IN(embedding_multiplier, 0, 1e6),
     .otherwise = 1},
    {"", "residual_multiplier", CH_KEY_NUMBER, OURS, OPTIONAL, IN(residual_multiplier, 0, 1e6),
     .otherwise = 1},
    {"", "attention_multiplier", CH_KEY_NUMBER, OURS, OPTIONAL, IN(attention_multiplier, 0, 1e6)},
    {"", "logits_scaling", CH_KEY_NUMBER, OURS, TEXT, OPTIONAL, IN(logits_scaling, 0, 1e6), .otherwise = 1},
    {"", "attn_logit_softcapping", CH_KEY_NUMBER, OURS, TEXT, OPTIONAL, IN(attn_logit_softcapping, 0, 1e6)},
    {"", "final_logit_softcapping", CH_KEY_NUMBER, OURS, TEXT, OPTIONAL, IN(final_logit_softcapping, 0, 1e6)},
    {"", "layer_norm_eps", CH_KEY_NUMBER, OURS, TEXT, OPTIONAL, IN(layer_norm_eps, 0, 1), .otherwise = 1e-5},
    {"", "sliding_window", CH_KEY_WHOLE, EVERYWHERE, TEXT, OPTIONAL, IN(sliding_window, 1, MOST_INT32)},
    {"", "layer_types", CH_KEY_LAYER_TYPES, OURS, TEXT, OPTIONAL, MEMBER(layer_types),
     CHOICES("full_attention", "sliding_attention", "linear_attention")},
    {"", "linear_attention", CH_KEY_OBJECT, OURS, TEXT, OPTIONAL, NO_MEMBER, .members = "linear"},
    {"", "attention_sinks", CH_KEY_WHOLE, OURS, TEXT, OPTIONAL, IN(attention_sinks, 0, MOST_INT32)},
    {"", "attention", CH_KEY_OBJECT, OURS, NO_MEMBER, .members = "attention"},
    {"", "sharing", CH_KEY_OBJECT, OURS, OPTIONAL, NO_MEMBER, .members = "sharing"},
    {"", "moe", CH_KEY_OBJECT, OURS, TEXT, OPTIONAL, NO_MEMBER, .members = "moe"},
    {"", "init", CH_KEY_CHOICE, OURS, MEMBER(init), CHOICES("default", "deepseek", "fan_in")},
    {"", "parametrization", CH_KEY_CHOICE, OURS, MEMBER(parametrization), CHOICES("standard", "spectral")},
    {"", "bos_token_id", CH_KEY_ID, EVERYWHERE, TEXT, OPTIONAL, IN(bos_token_id, 0, MOST_INT32),
     .otherwise = -1},
    {"", "eos_token_id", CH_KEY_ID, EVERYWHERE, TEXT, OPTIONAL, IN(eos_token_id, 0, MOST_INT32),
     .otherwise = -1},

    {"", "image_size", CH_KEY_WHOLE, EVERYWHERE, IMAGES, REQUIRED, IN(image_size, 1, MOST_IMAGE)},
    {"", "patch_size", CH_KEY_WHOLE, EVERYWHERE, IMAGES, REQUIRED, IN(patch_size, 1, MOST_IMAGE)},
    {"", "num_channels", CH_KEY_WHOLE, EVERYWHERE, IMAGES, IN(num_channels, 1, MOST_CHANNELS),
     .otherwise = 3},
    {"", "num_labels", CH_KEY_WHOLE, EVERYWHERE, IMAGES, .alias = true, IN(num_classes, 1, MOST_CLASSES)},
    {"", "num_classes", CH_KEY_WHOLE, OURS, IMAGES, IN(num_classes, 1, MOST_CLASSES)},
    {"", "layer_norm_eps", CH_KEY_NUMBER, EVERYWHERE, IMAGES, IN(layer_norm_eps, 0, 1), .otherwise = 1e-6},
    {"", "hidden_act", CH_KEY_NAME, OURS, IMAGES, .names = ch_ffn_names, MEMBER(hidden_act), .otherwise = 1},
    {"", "hidden_act", CH_KEY_NAME, HUGGING_FACE, IMAGES, .names = ffn_of_vit, MEMBER(hidden_act)},
    {"", "mlp_bias", CH_KEY_BOOL, OURS, IMAGES, OPTIONAL, MEMBER(mlp_bias), .otherwise = 1},
    {"", "norm", CH_KEY_NAME, OURS, IMAGES, OPTIONAL, .names = ch_norm_names, MEMBER(norm), .otherwise = 1},
    {"", "position", CH_KEY_CHOICE, OURS, IMAGES, MEMBER(position), CHOICES("none"),
     .first = CH_POSITION_NONE, .otherwise = CH_POSITION_NONE},

    /* rope_scaling; in newer Hugging Face files rope_parameters. If "type" and "rope_type" exist, rope_type wins. */
    {"rope", "type", CH_KEY_CHOICE, EVERYWHERE, OPTIONAL, .alias = true, MEMBER(rope_scaling.type),
     CHOICES("default", "linear", "llama3", "yarn", "longrope")},
    {"rope", "rope_type", CH_KEY_CHOICE, EVERYWHERE, OPTIONAL, MEMBER(rope_scaling.type),
     CHOICES("default", "linear", "llama3", "yarn", "longrope")},
    {"rope", "rope_theta", CH_KEY_NUMBER, HUGGING_FACE, OPTIONAL, .alias = true, IN(rope_theta, 1, 1e15),
     .otherwise = 10000},
    {"rope", "partial_rotary_factor", CH_KEY_NUMBER, HUGGING_FACE, OPTIONAL, RANGE(0, 1), .otherwise = 1,
     DEFAULT_ONLY},
    {"rope", "factor", CH_KEY_NUMBER, EVERYWHERE, OPTIONAL, IN(rope_scaling.factor, 0, 1e9)},
    {"rope", "low_freq_factor", CH_KEY_NUMBER, EVERYWHERE, OPTIONAL,
     IN(rope_scaling.low_freq_factor, 0, 1e9)},
    {"rope", "high_freq_factor", CH_KEY_NUMBER, EVERYWHERE, OPTIONAL,
     IN(rope_scaling.high_freq_factor, 0, 1e9)},
    {"rope", "original_max_position_embeddings", CH_KEY_WHOLE, EVERYWHERE, OPTIONAL,
     IN(rope_scaling.original_max_position_embeddings, 1, MOST_INT32)},
    {"rope", "beta_fast", CH_KEY_NUMBER, EVERYWHERE, OPTIONAL, IN(rope_scaling.beta_fast, 0, 1e9)},
    {"rope", "beta_slow", CH_KEY_NUMBER, EVERYWHERE, OPTIONAL, IN(rope_scaling.beta_slow, 0, 1e9)},
    {"rope", "mscale", CH_KEY_NUMBER, EVERYWHERE, OPTIONAL, IN(rope_scaling.mscale, 0, 1000)},
    {"rope", "mscale_all_dim", CH_KEY_NUMBER, EVERYWHERE, OPTIONAL, IN(rope_scaling.mscale_all_dim, 0, 1000)},
    {"rope", "attention_factor", CH_KEY_NUMBER, EVERYWHERE, OPTIONAL,
     IN(rope_scaling.attention_factor, 0, 1000)},
    {"rope", "short_factor", CH_KEY_FACTORS, EVERYWHERE, OPTIONAL, IN(rope_scaling.short_factor, 0, 1e9)},
    {"rope", "long_factor", CH_KEY_FACTORS, EVERYWHERE, OPTIONAL, IN(rope_scaling.long_factor, 0, 1e9)},
    {"rope", "truncate", CH_KEY_BOOL, EVERYWHERE, OPTIONAL, MEMBER(rope_scaling.truncate), .otherwise = 1},

    /* All rows of "moe" are nullable, so the object is written only if a row is not at its default. */
    {"moe", "experts", CH_KEY_WHOLE, OURS, REQUIRED, OPTIONAL, IN(moe.experts, 1, CH_MAX_EXPERTS)},
    {"moe", "active", CH_KEY_WHOLE, OURS, REQUIRED, OPTIONAL, IN(moe.active, 1, CH_MAX_EXPERTS)},
    {"moe", "shared", CH_KEY_WHOLE, OURS, OPTIONAL, IN(moe.shared, 0, CH_MAX_EXPERTS)},
    {"moe", "expert_intermediate_size", CH_KEY_WHOLE, OURS, REQUIRED, OPTIONAL,
     IN(moe.expert_intermediate_size, 1, MOST_EXPERT_WIDTH)},
    {"moe", "first_dense_layers", CH_KEY_WHOLE, OURS, OPTIONAL, IN(moe.first_dense_layers, 0, MOST_LAYERS)},
    {"moe", "dense_layers", CH_KEY_LAYERS, OURS, OPTIONAL, MEMBER(moe.dense_layers)},
    {"moe", "balance", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(moe.balance),
     CHOICES("aux", "loss_free", "none")},
    {"moe", "balance_update", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(moe.balance_update),
     CHOICES("sign", "rms")},
    {"moe", "aux_coefficient", CH_KEY_NUMBER, OURS, OPTIONAL, IN(moe.aux_coefficient, 0, 1000),
     .otherwise = 0.01},
    {"moe", "scoring", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(moe.scoring), CHOICES("softmax", "sigmoid")},
    {"moe", "router_bias", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(moe.router_bias)},
    {"moe", "renormalise", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(moe.renormalise), .otherwise = 1},
    {"moe", "scale", CH_KEY_NUMBER, OURS, OPTIONAL, IN(moe.scale, 0, 1e6), .otherwise = 1},
    {"moe", "groups", CH_KEY_WHOLE, OURS, OPTIONAL, IN(moe.groups, 2, CH_MAX_EXPERTS)},
    {"moe", "active_groups", CH_KEY_WHOLE, OURS, OPTIONAL, IN(moe.active_groups, 1, CH_MAX_EXPERTS)},

    /* DeepSeek's keys, at the top level of its configs. config_file/deepseek.c completes them. */
    {"deepseek", "q_lora_rank", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(attention.q_lora_rank, 0, MOST_RANK)},
    {"deepseek", "kv_lora_rank", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(attention.kv_lora_rank, 1, MOST_RANK)},
    {"deepseek", "qk_nope_head_dim", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(attention.qk_nope_head_dim, 1, MOST_HEADS)},
    {"deepseek", "qk_rope_head_dim", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(attention.qk_rope_head_dim, 1, MOST_HEADS)},
    {"deepseek", "v_head_dim", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL, IN(attention.v_head_dim, 1, MOST_HEADS)},
    {"deepseek", "n_routed_experts", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(moe.experts, 0, CH_MAX_EXPERTS)},
    {"deepseek", "num_experts_per_tok", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(moe.active, 0, CH_MAX_EXPERTS)},
    {"deepseek", "n_shared_experts", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL, IN(moe.shared, 0, CH_MAX_EXPERTS)},
    {"deepseek", "moe_intermediate_size", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(moe.expert_intermediate_size, 1, MOST_EXPERT_WIDTH)},
    {"deepseek", "first_k_dense_replace", CH_KEY_WHOLE, HUGGING_FACE,
     IN(moe.first_dense_layers, 0, MOST_LAYERS)},
    {"deepseek", "moe_layer_freq", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL, RANGE(1, MOST_LAYERS),
     .otherwise = 1, DEFAULT_ONLY},
    {"deepseek", "norm_topk_prob", CH_KEY_BOOL, HUGGING_FACE, MEMBER(moe.renormalise), .otherwise = 1},
    {"deepseek", "routed_scaling_factor", CH_KEY_NUMBER, HUGGING_FACE, IN(moe.scale, 0, 1e6), .otherwise = 1},
    {"deepseek", "n_group", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL, IN(moe.groups, 0, CH_MAX_EXPERTS)},
    {"deepseek", "topk_group", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(moe.active_groups, 0, CH_MAX_EXPERTS)},
    {"deepseek", "scoring_func", CH_KEY_CHOICE, HUGGING_FACE, OPTIONAL, MEMBER(moe.scoring),
     CHOICES("softmax", "sigmoid")},
    {"deepseek", "rope_interleave", CH_KEY_BOOL, HUGGING_FACE, OPTIONAL, MEMBER(rope_interleaved)},

    /* Keys of Qwen3's mixtures. config_file/qwen3_moe.c completes them. */
    {"qwen3_moe", "num_local_experts", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL, .alias = true,
     IN(moe.experts, 0, CH_MAX_EXPERTS)},
    {"qwen3_moe", "num_experts", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL, IN(moe.experts, 0, CH_MAX_EXPERTS)},
    {"qwen3_moe", "num_experts_per_tok", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(moe.active, 0, CH_MAX_EXPERTS)},
    {"qwen3_moe", "moe_intermediate_size", CH_KEY_WHOLE, HUGGING_FACE, OPTIONAL,
     IN(moe.expert_intermediate_size, 1, MOST_EXPERT_WIDTH)},
    {"qwen3_moe", "mlp_only_layers", CH_KEY_LAYERS, HUGGING_FACE, OPTIONAL, MEMBER(moe.dense_layers)},
    {"qwen3_moe", "norm_topk_prob", CH_KEY_BOOL, HUGGING_FACE, MEMBER(moe.renormalise), .otherwise = 1},
    {"qwen3_moe", "router_aux_loss_coef", CH_KEY_NUMBER, HUGGING_FACE, IN(moe.aux_coefficient, 0, 1000),
     .zero = true, .otherwise = 0.01},

    {"linear", "type", CH_KEY_CHOICE, OURS, REQUIRED, MEMBER(linear_attention.type), CHOICES("gdn"),
     .first = CH_LINEAR_GDN},
    {"linear", "heads", CH_KEY_WHOLE, OURS, REQUIRED, IN(linear_attention.heads, 1, MOST_HEADS)},
    {"linear", "value_heads", CH_KEY_WHOLE, OURS, OPTIONAL, IN(linear_attention.value_heads, 1, MOST_HEADS)},
    {"linear", "head_dim", CH_KEY_WHOLE, OURS, REQUIRED, IN(linear_attention.head_dim, 1, MOST_HEADS)},
    {"linear", "value_head_dim", CH_KEY_WHOLE, OURS, OPTIONAL,
     IN(linear_attention.value_head_dim, 1, 2 * MOST_HEADS)},
    {"linear", "conv", CH_KEY_WHOLE, OURS, OPTIONAL, IN(linear_attention.conv, 0, CH_MAX_CONV_TAPS),
     .otherwise = 4},
    {"linear", "gate", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(linear_attention.gate), .otherwise = 1},
    {"linear", "negative_eigenvalues", CH_KEY_BOOL, OURS, OPTIONAL,
     MEMBER(linear_attention.negative_eigenvalues)},

    {"sharing", "type", CH_KEY_CHOICE, OURS, REQUIRED, MEMBER(sharing.type),
     CHOICES("masa", "sequential", "repeat", "low_rank"), .first = CH_SHARING_MASA},
    {"sharing", "projections", CH_KEY_PROJECTIONS, OURS, REQUIRED, MEMBER(sharing)},
    {"sharing", "atoms", CH_KEY_WHOLE, OURS, OPTIONAL, IN(sharing.atoms, 1, MOST_LAYERS)},
    {"sharing", "groups", CH_KEY_GROUPS, OURS, OPTIONAL, IN(sharing, 0, MOST_LAYERS)},
    {"sharing", "rank", CH_KEY_WHOLE, OURS, OPTIONAL, IN(sharing.rank, 1, MOST_RANK)},
    {"sharing", "coefficients", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(sharing.coefficients),
     CHOICES("direct", "mlp")},
    {"sharing", "common_dictionary", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(sharing.common_dictionary)},

    /* `type` comes first: the rows after it are checked against it. */
    {"attention", "type", CH_KEY_NAME, OURS, .names = ch_mechanism_names, MEMBER(attention.type)},
    {"attention", "qk_norm", CH_KEY_BOOL, OURS, MEMBER(attention.qk_norm)},
    {"attention", "qk_norm_over", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(attention.qk_norm_over),
     CHOICES("head", "all")},
    {"attention", "head_norm", CH_KEY_BOOL, OURS, MEMBER(attention.head_norm)},
    {"attention", "sink_logits", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(attention.sink_logits)},
    {"attention", "kv_layer_group", CH_KEY_WHOLE, OURS, OPTIONAL,
     IN(attention.kv_layer_group, 1, MOST_LAYERS), .otherwise = 1},
    {"attention", "knocking", CH_KEY_OBJECT, OURS, OPTIONAL, NO_MEMBER, .members = "knocking"},
    {"attention", "head_mix", CH_KEY_OBJECT, OURS, OPTIONAL, NO_MEMBER, .members = "head_mix"},
    {"attention", "num_key_heads", CH_KEY_WHOLE, OURS, OPTIONAL, IN(attention.num_key_heads, 1, MOST_HEADS),
     OF_MECHANISMS},
    {"attention", "num_value_heads", CH_KEY_WHOLE, OURS, OPTIONAL,
     IN(attention.num_value_heads, 1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "q_lora_rank", CH_KEY_WHOLE, OURS, OPTIONAL, IN(attention.q_lora_rank, 0, MOST_RANK),
     OF_MECHANISMS},
    {"attention", "q_a_norm", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(attention.q_a_norm), OF_MECHANISMS},
    {"attention", "kv_lora_rank", CH_KEY_WHOLE, OURS, OPTIONAL, IN(attention.kv_lora_rank, 1, MOST_RANK),
     OF_MECHANISMS},
    {"attention", "k_lora_rank", CH_KEY_WHOLE, OURS, OPTIONAL, IN(attention.k_lora_rank, 0, MOST_RANK),
     OF_MECHANISMS},
    {"attention", "v_lora_rank", CH_KEY_WHOLE, OURS, OPTIONAL, IN(attention.v_lora_rank, 0, MOST_RANK),
     OF_MECHANISMS},
    {"attention", "qk_nope_head_dim", CH_KEY_WHOLE, OURS, REQUIRED,
     IN(attention.qk_nope_head_dim, 1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "qk_rope_head_dim", CH_KEY_WHOLE, OURS, REQUIRED,
     IN(attention.qk_rope_head_dim, 1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "v_head_dim", CH_KEY_WHOLE, OURS, REQUIRED, IN(attention.v_head_dim, 1, MOST_HEADS),
     OF_MECHANISMS},
    {"attention", "latent_norm_eps", CH_KEY_NUMBER, OURS, OPTIONAL, IN(attention.latent_norm_eps, 0, 1),
     OF_MECHANISMS},
    {"attention", "gate_embedding_dim", CH_KEY_WHOLE, OURS, OPTIONAL,
     IN(attention.gate_embedding_dim, 0, MOST_HEADS), OF_MECHANISMS},
    {"attention", "gate_embedding_std", CH_KEY_NUMBER, OURS, OPTIONAL,
     IN(attention.gate_embedding_std, 0, MOST_STD), .zero = true, .otherwise = -1, OF_MECHANISMS},
    {"attention", "gate_op", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(attention.gate_op),
     CHOICES("multiply", "add"), OF_MECHANISMS},
    {"attention", "gate_norm", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(attention.gate_norm), .otherwise = 1,
     OF_MECHANISMS},
    {"attention", "layer_group_size", CH_KEY_WHOLE, OURS, OPTIONAL,
     IN(attention.layer_group_size, 1, MOST_LAYERS), .otherwise = 1, OF_MECHANISMS},
    {"attention", "layer_group_shares", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(attention.layer_group_shares),
     CHOICES("all", "latent"), OF_MECHANISMS},
    {"attention", "value_reuse", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(attention.value_reuse),
     CHOICES("gated", "residual", "projection", "key"), OF_MECHANISMS},
    {"attention", "diff_lambda", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(attention.diff_lambda),
     CHOICES("reparameterized", "per_pair"), OF_MECHANISMS},
    {"attention", "mix_logits", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(attention.mix_logits), .otherwise = 1,
     OF_MECHANISMS},
    {"attention", "mix_weights", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(attention.mix_weights), .otherwise = 1,
     OF_MECHANISMS},
    {"attention", "exclusive", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(attention.exclusive), OF_MECHANISMS},
    {"attention", "latent_heads", CH_KEY_WHOLE, OURS, OPTIONAL, IN(attention.latent_heads, 1, MOST_HEADS),
     OF_MECHANISMS},
    {"attention", "latent_scale", CH_KEY_BOOL, OURS, MEMBER(attention.latent_scale), OF_MECHANISMS},
    {"attention", "branches", CH_KEY_WHOLE, OURS, OPTIONAL, IN(attention.branches, 1, MOST_HEADS),
     OF_MECHANISMS},
    {"attention", "branch_scale", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(attention.branch_scale), .otherwise = 1,
     OF_MECHANISMS},
    {"attention", "q_rank", CH_KEY_WHOLE, OURS, OPTIONAL, IN(attention.q_rank, 0, MOST_HEADS), OF_MECHANISMS},
    {"attention", "k_rank", CH_KEY_WHOLE, OURS, REQUIRED, IN(attention.k_rank, 1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "v_rank", CH_KEY_WHOLE, OURS, REQUIRED, IN(attention.v_rank, 1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "a_factors", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(attention.a_factors),
     CHOICES("contextual", "fixed"), OF_MECHANISMS},
    {"attention", "shared_qk_dim", CH_KEY_WHOLE, OURS, REQUIRED, IN(attention.shared_qk_dim, 1, MOST_WIDTH),
     OF_MECHANISMS},
    {"attention", "content_bias", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(attention.content_bias), OF_MECHANISMS},
    {"attention", "shared_heads", CH_KEY_WHOLE, OURS, OPTIONAL, IN(attention.shared_heads, 0, MOST_HEADS),
     OF_MECHANISMS},
    {"attention", "active_heads", CH_KEY_WHOLE, OURS, REQUIRED, IN(attention.active_heads, 1, CH_MAX_EXPERTS),
     OF_MECHANISMS},
    {"attention", "balance_coefficient", CH_KEY_NUMBER, OURS, OPTIONAL,
     IN(attention.balance_coefficient, 0, 1000), .zero = true, .otherwise = 0.01, OF_MECHANISMS},

    {"knocking", "type", CH_KEY_CHOICE, OURS, REQUIRED, MEMBER(attention.knocking.type),
     CHOICES("linear", "mlp", "gate"), .first = CH_KNOCKING_LINEAR},
    {"knocking", "on", CH_KEY_SET, OURS, REQUIRED, MEMBER(attention.knocking.on), CHOICES("q", "k", "v")},
    {"knocking", "decay_to_identity", CH_KEY_BOOL, OURS, OPTIONAL,
     MEMBER(attention.knocking.decay_to_identity)},
    {"knocking", "init", CH_KEY_CHOICE, OURS, OPTIONAL, MEMBER(attention.knocking.init),
     CHOICES("diagonal", "identity", "random")},
    {"knocking", "per_head", CH_KEY_BOOL, OURS, OPTIONAL, MEMBER(attention.knocking.per_head)},

    {"head_mix", "on", CH_KEY_SET, OURS, REQUIRED, MEMBER(attention.head_mix.on), CHOICES("k", "v"),
     .first = 1},
    {"head_mix", "component_heads", CH_KEY_COMPONENTS, OURS, REQUIRED,
     IN(attention.head_mix, 1, MOST_COMPONENTS)},
    {"head_mix", "layers", CH_KEY_SPAN, OURS, OPTIONAL, IN(attention.head_mix.first_layer, 0, MOST_LAYERS),
     .otherwise = -1},
};

const int ch_config_key_count = COUNT(ch_config_keys);
