/* The configuration keys, one row each: the one place to add a key. Which mechanisms those of single mechanisms belong
 * to stands with the mechanisms: ch_mechanism.keys. */
#include "attention/registry.h"
#include "model/network.h"
#include "model/norm.h"
#include "config_file/keys.h"
#include "tensor/kernels.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
#define MEMBER(member) .offset = offsetof(ch_config, member)
#define NO_MEMBER .offset = CH_KEY_NO_MEMBER
#define RANGE(least, most) .min = least, .max = most
#define OURS .files = CH_KEY_OURS
#define HUGGING_FACE .files = CH_KEY_HUGGING_FACE
#define EVERYWHERE .files = CH_KEY_EVERYWHERE
#define OF_MECHANISMS .of_mechanisms = true
#define TEXT .models = CH_KEY_TEXT_MODELS
#define IMAGES .models = CH_KEY_IMAGE_MODELS
/* Known, so that it gets a clear message, but nothing implements it yet. */
#define NOT_YET .unsupported = true, NO_MEMBER
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
  static const char *const names[] = {
      "crosshead",   "crosshead_vit", "llama", "qwen2",   "qwen3",  "qwen3_moe",   "mistral", "deepseek_v2",
      "deepseek_v3", "vit",           "olmo2", "phi3",    "gpt2",   "granite",     "smollm3", "seed_oss",
      "stablelm",    "starcoder2",    "glm4",  "mixtral", "gemma2", "gemma3_text", "olmo3",   NULL};
  return names;
}

/* Feed-forward networks of Hugging Face's families of text, and of its vit: an activation alone has no gate there. */
static const char *const *ffn_of_families(void) {
  static const char *const names[] = {"silu", NULL};
  return names;
}

static const char *const *ffn_of_vit(void) {
  static const char *const names[] = {"gelu", "relu", "relu2", NULL};
  return names;
}

const ch_config_key ch_config_keys[] = {
    {"", "model_type", CH_KEY_NAME, EVERYWHERE, .required = true, .names = families, MEMBER(model_type)},
    {"", "vocab_size", CH_KEY_WHOLE, EVERYWHERE, TEXT, .required = true, MEMBER(vocab_size),
     RANGE(1, MOST_INT32)},
    {"", "hidden_size", CH_KEY_WHOLE, EVERYWHERE, .required = true, MEMBER(hidden_size),
     RANGE(1, MOST_HIDDEN)},
    {"", "intermediate_size", CH_KEY_WHOLE, EVERYWHERE, .required = true, MEMBER(intermediate_size),
     RANGE(1, MOST_WIDTH)},
    {"", "num_hidden_layers", CH_KEY_WHOLE, EVERYWHERE, .required = true, MEMBER(num_hidden_layers),
     RANGE(1, MOST_LAYERS)},
    {"", "num_attention_heads", CH_KEY_WHOLE, EVERYWHERE, .required = true, MEMBER(num_attention_heads),
     RANGE(1, MOST_HEADS)},
    {"", "num_key_value_heads", CH_KEY_WHOLE, EVERYWHERE, .nullable = true, MEMBER(num_key_value_heads),
     RANGE(1, MOST_HEADS)},
    {"", "head_dim", CH_KEY_WHOLE, EVERYWHERE, .nullable = true, MEMBER(head_dim), RANGE(1, MOST_HEADS)},
    {"", "max_position_embeddings", CH_KEY_WHOLE, EVERYWHERE, TEXT, MEMBER(max_position_embeddings),
     RANGE(1, MOST_INT32), .otherwise = 2048},
    {"", "rms_norm_eps", CH_KEY_NUMBER, EVERYWHERE, MEMBER(rms_norm_eps), RANGE(0, 1), .otherwise = 1e-5},
    {"", "tie_word_embeddings", CH_KEY_BOOL, EVERYWHERE, TEXT, MEMBER(tie_word_embeddings)},
    {"", "hidden_act", CH_KEY_NAME, OURS, TEXT, .names = ch_ffn_names, MEMBER(hidden_act)},
    {"", "hidden_act", CH_KEY_NAME, HUGGING_FACE, TEXT, .names = ffn_of_families, MEMBER(hidden_act)},
    {"", "position", CH_KEY_CHOICE, OURS, TEXT, MEMBER(position),
     CHOICES("rope", "alibi", "none", "learned")},
    {"", "rope_theta", CH_KEY_NUMBER, EVERYWHERE, TEXT, MEMBER(rope_theta), RANGE(1, 1e15),
     .otherwise = 10000},
    {"", "rope_interleaved", CH_KEY_BOOL, OURS, TEXT, MEMBER(rope_interleaved)},
    {"", "local_rope_theta", CH_KEY_NUMBER, OURS, TEXT, .nullable = true, MEMBER(local_rope_theta),
     RANGE(1, 1e15)},
    {"", "local_rope_layers", CH_KEY_LAYERS, OURS, TEXT, .nullable = true, MEMBER(local_rope_layers)},
    {"", "nope_layers", CH_KEY_LAYERS, OURS, TEXT, .nullable = true, MEMBER(nope_layers)},
    {"", "rope_scaling", CH_KEY_OBJECT, EVERYWHERE, TEXT, .nullable = true, NO_MEMBER, .members = "rope"},
    {"", "rope_parameters", CH_KEY_OBJECT, HUGGING_FACE, TEXT, .nullable = true, .alias = true, NO_MEMBER,
     .members = "rope"},
    {"", "partial_rotary_factor", CH_KEY_NUMBER, OURS, TEXT, .nullable = true, MEMBER(partial_rotary_factor),
     RANGE(0, 1), .otherwise = 1},
    {"", "partial_rotary_factor", CH_KEY_NUMBER, HUGGING_FACE, TEXT, .nullable = true, RANGE(0, 1),
     .otherwise = 1, NOT_YET},
    {"", "attention_bias", CH_KEY_BOOL, EVERYWHERE, MEMBER(attention_bias)},
    {"", "attention_output_bias", CH_KEY_BOOL, OURS, TEXT, .nullable = true, MEMBER(attention_output_bias)},
    {"", "mlp_bias", CH_KEY_BOOL, EVERYWHERE, TEXT, .nullable = true, MEMBER(mlp_bias)},
    {"", "norm", CH_KEY_NAME, OURS, TEXT, .nullable = true, .names = ch_norm_names, MEMBER(norm)},
    {"", "norm_placement", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(norm_placement),
     CHOICES("pre", "post", "branch", "both")},
    {"", "parallel_residual", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(parallel_residual)},
    {"", "embedding_multiplier", CH_KEY_NUMBER, OURS, TEXT, .nullable = true, MEMBER(embedding_multiplier),
     RANGE(0, 1e6), .otherwise = 1},
    {"", "residual_multiplier", CH_KEY_NUMBER, OURS, .nullable = true, MEMBER(residual_multiplier),
     RANGE(0, 1e6), .otherwise = 1},
    {"", "attention_multiplier", CH_KEY_NUMBER, OURS, .nullable = true, MEMBER(attention_multiplier),
     RANGE(0, 1e6)},
    {"", "logits_scaling", CH_KEY_NUMBER, OURS, TEXT, .nullable = true, MEMBER(logits_scaling), RANGE(0, 1e6),
     .otherwise = 1},
    {"", "layer_norm_eps", CH_KEY_NUMBER, OURS, TEXT, .nullable = true, MEMBER(layer_norm_eps), RANGE(0, 1),
     .otherwise = 1e-5},
    {"", "sliding_window", CH_KEY_WHOLE, EVERYWHERE, TEXT, .nullable = true, MEMBER(sliding_window),
     RANGE(1, MOST_INT32)},
    {"", "layer_types", CH_KEY_LAYER_TYPES, OURS, TEXT, .nullable = true, MEMBER(layer_types),
     CHOICES("full_attention", "sliding_attention", "linear_attention")},
    {"", "linear_attention", CH_KEY_OBJECT, OURS, TEXT, .nullable = true, NO_MEMBER, .members = "linear"},
    {"", "attention_sinks", CH_KEY_WHOLE, OURS, TEXT, .nullable = true, MEMBER(attention_sinks),
     RANGE(0, MOST_INT32)},
    {"", "quantization_config", CH_KEY_OBJECT, HUGGING_FACE, .nullable = true, NOT_YET},
    {"", "attention", CH_KEY_OBJECT, OURS, NO_MEMBER, .members = "attention"},
    {"", "sharing", CH_KEY_OBJECT, OURS, .nullable = true, NO_MEMBER, .members = "sharing"},
    {"", "moe", CH_KEY_OBJECT, OURS, TEXT, .nullable = true, NO_MEMBER, .members = "moe"},
    {"", "init", CH_KEY_CHOICE, OURS, MEMBER(init), CHOICES("default", "deepseek", "fan_in")},
    {"", "parametrization", CH_KEY_CHOICE, OURS, MEMBER(parametrization), CHOICES("standard", "spectral")},
    {"", "bos_token_id", CH_KEY_ID, EVERYWHERE, TEXT, .nullable = true, MEMBER(bos_token_id),
     RANGE(0, MOST_INT32), .otherwise = -1},
    {"", "eos_token_id", CH_KEY_ID, EVERYWHERE, TEXT, .nullable = true, MEMBER(eos_token_id),
     RANGE(0, MOST_INT32), .otherwise = -1},

    {"", "image_size", CH_KEY_WHOLE, EVERYWHERE, IMAGES, .required = true, MEMBER(image_size),
     RANGE(1, MOST_IMAGE)},
    {"", "patch_size", CH_KEY_WHOLE, EVERYWHERE, IMAGES, .required = true, MEMBER(patch_size),
     RANGE(1, MOST_IMAGE)},
    {"", "num_channels", CH_KEY_WHOLE, EVERYWHERE, IMAGES, MEMBER(num_channels), RANGE(1, MOST_CHANNELS),
     .otherwise = 3},
    {"", "num_labels", CH_KEY_WHOLE, EVERYWHERE, IMAGES, .alias = true, MEMBER(num_classes),
     RANGE(1, MOST_CLASSES)},
    {"", "num_classes", CH_KEY_WHOLE, OURS, IMAGES, MEMBER(num_classes), RANGE(1, MOST_CLASSES)},
    {"", "layer_norm_eps", CH_KEY_NUMBER, EVERYWHERE, IMAGES, MEMBER(layer_norm_eps), RANGE(0, 1),
     .otherwise = 1e-6},
    {"", "hidden_act", CH_KEY_NAME, OURS, IMAGES, .names = ch_ffn_names, MEMBER(hidden_act), .otherwise = 1},
    {"", "hidden_act", CH_KEY_NAME, HUGGING_FACE, IMAGES, .names = ffn_of_vit, MEMBER(hidden_act)},
    {"", "mlp_bias", CH_KEY_BOOL, OURS, IMAGES, .nullable = true, MEMBER(mlp_bias), .otherwise = 1},
    {"", "norm", CH_KEY_NAME, OURS, IMAGES, .nullable = true, .names = ch_norm_names, MEMBER(norm),
     .otherwise = 1},
    {"", "position", CH_KEY_CHOICE, OURS, IMAGES, MEMBER(position), CHOICES("none"),
     .first = CH_POSITION_NONE, .otherwise = CH_POSITION_NONE},

    /* rope_scaling, or Hugging Face's newer rope_parameters; of the two names of the type the later row wins.
     */
    {"rope", "type", CH_KEY_CHOICE, EVERYWHERE, .nullable = true, .alias = true, MEMBER(rope_scaling.type),
     CHOICES("default", "linear", "llama3", "yarn")},
    {"rope", "rope_type", CH_KEY_CHOICE, EVERYWHERE, .nullable = true, MEMBER(rope_scaling.type),
     CHOICES("default", "linear", "llama3", "yarn")},
    {"rope", "rope_theta", CH_KEY_NUMBER, HUGGING_FACE, .nullable = true, .alias = true, MEMBER(rope_theta),
     RANGE(1, 1e15), .otherwise = 10000},
    {"rope", "partial_rotary_factor", CH_KEY_NUMBER, HUGGING_FACE, .nullable = true, RANGE(0, 1),
     .otherwise = 1, NOT_YET},
    {"rope", "factor", CH_KEY_NUMBER, EVERYWHERE, .nullable = true, MEMBER(rope_scaling.factor),
     RANGE(0, 1e9)},
    {"rope", "low_freq_factor", CH_KEY_NUMBER, EVERYWHERE, .nullable = true,
     MEMBER(rope_scaling.low_freq_factor), RANGE(0, 1e9)},
    {"rope", "high_freq_factor", CH_KEY_NUMBER, EVERYWHERE, .nullable = true,
     MEMBER(rope_scaling.high_freq_factor), RANGE(0, 1e9)},
    {"rope", "original_max_position_embeddings", CH_KEY_WHOLE, EVERYWHERE, .nullable = true,
     MEMBER(rope_scaling.original_max_position_embeddings), RANGE(1, MOST_INT32)},
    {"rope", "beta_fast", CH_KEY_NUMBER, EVERYWHERE, .nullable = true, MEMBER(rope_scaling.beta_fast),
     RANGE(0, 1e9)},
    {"rope", "beta_slow", CH_KEY_NUMBER, EVERYWHERE, .nullable = true, MEMBER(rope_scaling.beta_slow),
     RANGE(0, 1e9)},
    {"rope", "mscale", CH_KEY_NUMBER, EVERYWHERE, .nullable = true, MEMBER(rope_scaling.mscale),
     RANGE(0, 1000)},
    {"rope", "mscale_all_dim", CH_KEY_NUMBER, EVERYWHERE, .nullable = true,
     MEMBER(rope_scaling.mscale_all_dim), RANGE(0, 1000)},
    {"rope", "attention_factor", CH_KEY_NUMBER, EVERYWHERE, .nullable = true,
     MEMBER(rope_scaling.attention_factor), RANGE(0, 1000)},
    {"rope", "truncate", CH_KEY_BOOL, HUGGING_FACE, .nullable = true, .otherwise = 1, NOT_YET},

    /* All nullable: the object is written when one of them is not at its default. */
    {"moe", "experts", CH_KEY_WHOLE, OURS, .required = true, .nullable = true, MEMBER(moe.experts),
     RANGE(1, CH_MAX_EXPERTS)},
    {"moe", "active", CH_KEY_WHOLE, OURS, .required = true, .nullable = true, MEMBER(moe.active),
     RANGE(1, CH_MAX_EXPERTS)},
    {"moe", "shared", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(moe.shared), RANGE(0, CH_MAX_EXPERTS)},
    {"moe", "expert_intermediate_size", CH_KEY_WHOLE, OURS, .required = true, .nullable = true,
     MEMBER(moe.expert_intermediate_size), RANGE(1, MOST_EXPERT_WIDTH)},
    {"moe", "first_dense_layers", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(moe.first_dense_layers),
     RANGE(0, MOST_LAYERS)},
    {"moe", "dense_layers", CH_KEY_LAYERS, OURS, .nullable = true, MEMBER(moe.dense_layers)},
    {"moe", "balance", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(moe.balance),
     CHOICES("aux", "loss_free", "none")},
    {"moe", "balance_update", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(moe.balance_update),
     CHOICES("sign", "rms")},
    {"moe", "aux_coefficient", CH_KEY_NUMBER, OURS, .nullable = true, MEMBER(moe.aux_coefficient),
     RANGE(0, 1000), .otherwise = 0.01},
    {"moe", "scoring", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(moe.scoring),
     CHOICES("softmax", "sigmoid")},
    {"moe", "renormalise", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(moe.renormalise), .otherwise = 1},
    {"moe", "scale", CH_KEY_NUMBER, OURS, .nullable = true, MEMBER(moe.scale), RANGE(0, 1e6), .otherwise = 1},
    {"moe", "groups", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(moe.groups), RANGE(2, CH_MAX_EXPERTS)},
    {"moe", "active_groups", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(moe.active_groups),
     RANGE(1, CH_MAX_EXPERTS)},

    /* DeepSeek's, which stand at the top level of its configs; config_deepseek.c completes them. */
    {"deepseek", "q_lora_rank", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(attention.q_lora_rank),
     RANGE(0, MOST_RANK)},
    {"deepseek", "kv_lora_rank", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(attention.kv_lora_rank),
     RANGE(1, MOST_RANK)},
    {"deepseek", "qk_nope_head_dim", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true,
     MEMBER(attention.qk_nope_head_dim), RANGE(1, MOST_HEADS)},
    {"deepseek", "qk_rope_head_dim", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true,
     MEMBER(attention.qk_rope_head_dim), RANGE(1, MOST_HEADS)},
    {"deepseek", "v_head_dim", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(attention.v_head_dim),
     RANGE(1, MOST_HEADS)},
    {"deepseek", "n_routed_experts", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(moe.experts),
     RANGE(0, CH_MAX_EXPERTS)},
    {"deepseek", "num_experts_per_tok", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(moe.active),
     RANGE(0, CH_MAX_EXPERTS)},
    {"deepseek", "n_shared_experts", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(moe.shared),
     RANGE(0, CH_MAX_EXPERTS)},
    {"deepseek", "moe_intermediate_size", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true,
     MEMBER(moe.expert_intermediate_size), RANGE(1, MOST_EXPERT_WIDTH)},
    {"deepseek", "first_k_dense_replace", CH_KEY_WHOLE, HUGGING_FACE, MEMBER(moe.first_dense_layers),
     RANGE(0, MOST_LAYERS)},
    {"deepseek", "moe_layer_freq", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, RANGE(1, MOST_LAYERS),
     .otherwise = 1, NOT_YET},
    {"deepseek", "norm_topk_prob", CH_KEY_BOOL, HUGGING_FACE, MEMBER(moe.renormalise), .otherwise = 1},
    {"deepseek", "routed_scaling_factor", CH_KEY_NUMBER, HUGGING_FACE, MEMBER(moe.scale), RANGE(0, 1e6),
     .otherwise = 1},
    {"deepseek", "n_group", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(moe.groups),
     RANGE(0, CH_MAX_EXPERTS)},
    {"deepseek", "topk_group", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(moe.active_groups),
     RANGE(0, CH_MAX_EXPERTS)},
    {"deepseek", "scoring_func", CH_KEY_CHOICE, HUGGING_FACE, .nullable = true, MEMBER(moe.scoring),
     CHOICES("softmax", "sigmoid")},
    {"deepseek", "rope_interleave", CH_KEY_BOOL, HUGGING_FACE, .nullable = true, MEMBER(rope_interleaved)},

    /* Qwen3's mixtures; config_file/qwen3_moe.c completes them. */
    {"qwen3_moe", "num_local_experts", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, .alias = true,
     MEMBER(moe.experts), RANGE(0, CH_MAX_EXPERTS)},
    {"qwen3_moe", "num_experts", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(moe.experts),
     RANGE(0, CH_MAX_EXPERTS)},
    {"qwen3_moe", "num_experts_per_tok", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true, MEMBER(moe.active),
     RANGE(0, CH_MAX_EXPERTS)},
    {"qwen3_moe", "moe_intermediate_size", CH_KEY_WHOLE, HUGGING_FACE, .nullable = true,
     MEMBER(moe.expert_intermediate_size), RANGE(1, MOST_EXPERT_WIDTH)},
    {"qwen3_moe", "mlp_only_layers", CH_KEY_LAYERS, HUGGING_FACE, .nullable = true, MEMBER(moe.dense_layers)},
    {"qwen3_moe", "norm_topk_prob", CH_KEY_BOOL, HUGGING_FACE, MEMBER(moe.renormalise), .otherwise = 1},
    {"qwen3_moe", "router_aux_loss_coef", CH_KEY_NUMBER, HUGGING_FACE, MEMBER(moe.aux_coefficient),
     RANGE(0, 1000), .zero = true, .otherwise = 0.01},

    {"linear", "type", CH_KEY_CHOICE, OURS, .required = true, MEMBER(linear_attention.type), CHOICES("gdn"),
     .first = CH_LINEAR_GDN},
    {"linear", "heads", CH_KEY_WHOLE, OURS, .required = true, MEMBER(linear_attention.heads),
     RANGE(1, MOST_HEADS)},
    {"linear", "value_heads", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(linear_attention.value_heads),
     RANGE(1, MOST_HEADS)},
    {"linear", "head_dim", CH_KEY_WHOLE, OURS, .required = true, MEMBER(linear_attention.head_dim),
     RANGE(1, MOST_HEADS)},
    {"linear", "value_head_dim", CH_KEY_WHOLE, OURS, .nullable = true,
     MEMBER(linear_attention.value_head_dim), RANGE(1, 2 * MOST_HEADS)},
    {"linear", "conv", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(linear_attention.conv),
     RANGE(0, CH_MAX_CONV_TAPS), .otherwise = 4},
    {"linear", "gate", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(linear_attention.gate), .otherwise = 1},
    {"linear", "negative_eigenvalues", CH_KEY_BOOL, OURS, .nullable = true,
     MEMBER(linear_attention.negative_eigenvalues)},

    {"sharing", "type", CH_KEY_CHOICE, OURS, .required = true, MEMBER(sharing.type),
     CHOICES("masa", "sequential", "repeat", "low_rank"), .first = CH_SHARING_MASA},
    {"sharing", "projections", CH_KEY_PROJECTIONS, OURS, .required = true, MEMBER(sharing)},
    {"sharing", "atoms", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(sharing.atoms), RANGE(1, MOST_LAYERS)},
    {"sharing", "groups", CH_KEY_GROUPS, OURS, .nullable = true, MEMBER(sharing), RANGE(0, MOST_LAYERS)},
    {"sharing", "rank", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(sharing.rank), RANGE(1, MOST_RANK)},
    {"sharing", "coefficients", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(sharing.coefficients),
     CHOICES("direct", "mlp")},
    {"sharing", "common_dictionary", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(sharing.common_dictionary)},

    /* `type` stands first: the rows after it are checked against it. */
    {"attention", "type", CH_KEY_NAME, OURS, .names = ch_mechanism_names, MEMBER(attention.type)},
    {"attention", "qk_norm", CH_KEY_BOOL, OURS, MEMBER(attention.qk_norm)},
    {"attention", "qk_norm_over", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(attention.qk_norm_over),
     CHOICES("head", "all")},
    {"attention", "head_norm", CH_KEY_BOOL, OURS, MEMBER(attention.head_norm)},
    {"attention", "sink_logits", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(attention.sink_logits)},
    {"attention", "kv_layer_group", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.kv_layer_group),
     RANGE(1, MOST_LAYERS), .otherwise = 1},
    {"attention", "knocking", CH_KEY_OBJECT, OURS, .nullable = true, NO_MEMBER, .members = "knocking"},
    {"attention", "head_mix", CH_KEY_OBJECT, OURS, .nullable = true, NO_MEMBER, .members = "head_mix"},
    {"attention", "num_key_heads", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.num_key_heads),
     RANGE(1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "num_value_heads", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.num_value_heads),
     RANGE(1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "q_lora_rank", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.q_lora_rank),
     RANGE(0, MOST_RANK), OF_MECHANISMS},
    {"attention", "q_a_norm", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(attention.q_a_norm), OF_MECHANISMS},
    {"attention", "kv_lora_rank", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.kv_lora_rank),
     RANGE(1, MOST_RANK), OF_MECHANISMS},
    {"attention", "k_lora_rank", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.k_lora_rank),
     RANGE(0, MOST_RANK), OF_MECHANISMS},
    {"attention", "v_lora_rank", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.v_lora_rank),
     RANGE(0, MOST_RANK), OF_MECHANISMS},
    {"attention", "qk_nope_head_dim", CH_KEY_WHOLE, OURS, .required = true,
     MEMBER(attention.qk_nope_head_dim), RANGE(1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "qk_rope_head_dim", CH_KEY_WHOLE, OURS, .required = true,
     MEMBER(attention.qk_rope_head_dim), RANGE(1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "v_head_dim", CH_KEY_WHOLE, OURS, .required = true, MEMBER(attention.v_head_dim),
     RANGE(1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "latent_norm_eps", CH_KEY_NUMBER, OURS, .nullable = true, MEMBER(attention.latent_norm_eps),
     RANGE(0, 1), OF_MECHANISMS},
    {"attention", "gate_embedding_dim", CH_KEY_WHOLE, OURS, .nullable = true,
     MEMBER(attention.gate_embedding_dim), RANGE(0, MOST_HEADS), OF_MECHANISMS},
    {"attention", "gate_embedding_std", CH_KEY_NUMBER, OURS, .nullable = true,
     MEMBER(attention.gate_embedding_std), RANGE(0, MOST_STD), .zero = true, .otherwise = -1, OF_MECHANISMS},
    {"attention", "gate_op", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(attention.gate_op),
     CHOICES("multiply", "add"), OF_MECHANISMS},
    {"attention", "gate_norm", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(attention.gate_norm),
     .otherwise = 1, OF_MECHANISMS},
    {"attention", "layer_group_size", CH_KEY_WHOLE, OURS, .nullable = true,
     MEMBER(attention.layer_group_size), RANGE(1, MOST_LAYERS), .otherwise = 1, OF_MECHANISMS},
    {"attention", "layer_group_shares", CH_KEY_CHOICE, OURS, .nullable = true,
     MEMBER(attention.layer_group_shares), CHOICES("all", "latent"), OF_MECHANISMS},
    {"attention", "value_reuse", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(attention.value_reuse),
     CHOICES("gated", "residual", "projection", "key"), OF_MECHANISMS},
    {"attention", "diff_lambda", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(attention.diff_lambda),
     CHOICES("reparameterized", "per_pair"), OF_MECHANISMS},
    {"attention", "mix_logits", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(attention.mix_logits),
     .otherwise = 1, OF_MECHANISMS},
    {"attention", "mix_weights", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(attention.mix_weights),
     .otherwise = 1, OF_MECHANISMS},
    {"attention", "exclusive", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(attention.exclusive),
     OF_MECHANISMS},
    {"attention", "latent_heads", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.latent_heads),
     RANGE(1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "latent_scale", CH_KEY_BOOL, OURS, MEMBER(attention.latent_scale), OF_MECHANISMS},
    {"attention", "branches", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.branches),
     RANGE(1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "branch_scale", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(attention.branch_scale),
     .otherwise = 1, OF_MECHANISMS},
    {"attention", "q_rank", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.q_rank),
     RANGE(0, MOST_HEADS), OF_MECHANISMS},
    {"attention", "k_rank", CH_KEY_WHOLE, OURS, .required = true, MEMBER(attention.k_rank),
     RANGE(1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "v_rank", CH_KEY_WHOLE, OURS, .required = true, MEMBER(attention.v_rank),
     RANGE(1, MOST_HEADS), OF_MECHANISMS},
    {"attention", "a_factors", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(attention.a_factors),
     CHOICES("contextual", "fixed"), OF_MECHANISMS},
    {"attention", "shared_qk_dim", CH_KEY_WHOLE, OURS, .required = true, MEMBER(attention.shared_qk_dim),
     RANGE(1, MOST_WIDTH), OF_MECHANISMS},
    {"attention", "content_bias", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(attention.content_bias),
     OF_MECHANISMS},
    {"attention", "shared_heads", CH_KEY_WHOLE, OURS, .nullable = true, MEMBER(attention.shared_heads),
     RANGE(0, MOST_HEADS), OF_MECHANISMS},
    {"attention", "active_heads", CH_KEY_WHOLE, OURS, .required = true, MEMBER(attention.active_heads),
     RANGE(1, CH_MAX_EXPERTS), OF_MECHANISMS},
    {"attention", "balance_coefficient", CH_KEY_NUMBER, OURS, .nullable = true,
     MEMBER(attention.balance_coefficient), RANGE(0, 1000), .zero = true, .otherwise = 0.01, OF_MECHANISMS},

    {"knocking", "type", CH_KEY_CHOICE, OURS, .required = true, MEMBER(attention.knocking.type),
     CHOICES("linear", "mlp", "gate"), .first = CH_KNOCKING_LINEAR},
    {"knocking", "on", CH_KEY_SET, OURS, .required = true, MEMBER(attention.knocking.on),
     CHOICES("q", "k", "v")},
    {"knocking", "decay_to_identity", CH_KEY_BOOL, OURS, .nullable = true,
     MEMBER(attention.knocking.decay_to_identity)},
    {"knocking", "init", CH_KEY_CHOICE, OURS, .nullable = true, MEMBER(attention.knocking.init),
     CHOICES("diagonal", "identity", "random")},
    {"knocking", "per_head", CH_KEY_BOOL, OURS, .nullable = true, MEMBER(attention.knocking.per_head)},

    {"head_mix", "on", CH_KEY_SET, OURS, .required = true, MEMBER(attention.head_mix.on), CHOICES("k", "v"),
     .first = 1},
    {"head_mix", "component_heads", CH_KEY_COMPONENTS, OURS, .required = true, MEMBER(attention.head_mix),
     RANGE(1, MOST_COMPONENTS)},
    {"head_mix", "layers", CH_KEY_SPAN, OURS, .nullable = true, MEMBER(attention.head_mix.first_layer),
     RANGE(0, MOST_LAYERS), .otherwise = -1},
};

const int ch_config_key_count = COUNT(ch_config_keys);
