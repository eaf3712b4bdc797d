/* A model's configuration, from config.json, ours or Hugging Face's. config_file/config_json.h reads and
   checks it. */
#ifndef CH_CONFIG_CONFIG_H
#define CH_CONFIG_CONFIG_H

#include <crosshead/common.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

enum {
  CH_NAME_SIZE = 32,
  CH_MAX_LISTED_LAYERS = 512 /* entries of a list with one number per layer */
};

typedef enum ch_position {
  CH_POSITION_ROPE,
  CH_POSITION_ALIBI,
  CH_POSITION_NONE,
  CH_POSITION_LEARNED /* a vector of each place is added to the embedding */
} ch_position;
typedef enum ch_norm_placement {
  CH_NORM_PRE,    /* x + f(norm(x)), and a last norm before the head */
  CH_NORM_POST,   /* norm(x + f(x)): every block ends in a norm, so there is none before the head */
  CH_NORM_BRANCH, /* x + norm(f(x)), and a last norm before the head (OLMo 2) */
  CH_NORM_BOTH    /* x + norm(f(norm(x))), and a last norm before the head (Gemma 2) */
} ch_norm_placement;
typedef enum ch_rope_type {
  CH_ROPE_DEFAULT,
  CH_ROPE_LINEAR,
  CH_ROPE_LLAMA3,
  CH_ROPE_YARN,
  CH_ROPE_LONGROPE
} ch_rope_type;

/* A factor for each pair of dims that turns. */
enum { CH_MAX_PAIR_FACTORS = 256 };
typedef struct ch_pair_factors {
  double factor[CH_MAX_PAIR_FACTORS];
  int64_t count; /* 0: there are none */
} ch_pair_factors;

typedef struct ch_rope_scaling {
  ch_rope_type type;
  double factor;
  /* llama3 only */
  double low_freq_factor, high_freq_factor;
  int64_t original_max_position_embeddings; /* yarn and longrope too */
  /* yarn only; 0: not given */
  double beta_fast, beta_slow, mscale, mscale_all_dim, attention_factor; /* the last longrope's too */
  bool truncate; /* yarn: the ends of its ramp are whole pairs */
  /* longrope only: what wavelengths are stretched by in texts up to original_max_position_embeddings, and in
     longer ones */
  ch_pair_factors short_factor, long_factor;
} ch_rope_scaling;

/* The extent of one QK norm: each head, or all heads of a token. */
typedef enum ch_qk_norm_over { CH_QK_NORM_HEAD, CH_QK_NORM_ALL } ch_qk_norm_over;
typedef enum ch_gate_op { CH_GATE_MULTIPLY, CH_GATE_ADD } ch_gate_op;
/* The tensors that layers of a group of mla share: all that make keys and values, or the latent's alone. */
typedef enum ch_group_shares { CH_GROUP_SHARES_ALL, CH_GROUP_SHARES_LATENT } ch_group_shares;
/* The source of TPA's factors over heads: each token, or parameters. */
typedef enum ch_a_factors { CH_FACTORS_CONTEXTUAL, CH_FACTORS_FIXED } ch_a_factors;
typedef enum ch_diff_lambda { CH_DIFF_REPARAMETERIZED, CH_DIFF_PER_PAIR } ch_diff_lambda;
/* The step that MFA-KR uses to compute values from keys: the mechanism, and the steps on the way to it (MFA,
   Table 5). */
typedef enum ch_value_reuse {
  CH_REUSE_GATED,      /* k + alpha * N k */
  CH_REUSE_RESIDUAL,   /* k + N k */
  CH_REUSE_PROJECTION, /* N k */
  CH_REUSE_KEY         /* k */
} ch_value_reuse;
typedef enum ch_knocking_type {
  CH_KNOCKING_NONE,
  CH_KNOCKING_LINEAR,
  CH_KNOCKING_MLP,
  CH_KNOCKING_GATE
} ch_knocking_type;

/* The start of the knocking maps. "diagonal" is the paper's word for the identity. */
typedef enum ch_knocking_init {
  CH_KNOCKING_DIAGONAL,
  CH_KNOCKING_IDENTITY,
  CH_KNOCKING_RANDOM
} ch_knocking_init;

/* The tokens that a layer's queries see: all before them, those inside the sliding window, or a state of a
   fixed size that all of them left ("linear_attention"). */
typedef enum ch_layer_type { CH_LAYER_FULL, CH_LAYER_SLIDING, CH_LAYER_LINEAR, CH_LAYER_TYPES } ch_layer_type;

/* The types of the layers, one by one. */
typedef struct ch_layer_list {
  uint8_t type[CH_MAX_LISTED_LAYERS]; /* ch_layer_type */
  int64_t count;                      /* 0: no list; all layers slide if there is a window */
} ch_layer_list;

/* The states that a module changes: queries, keys, values. */
enum { CH_ON_Q = 1, CH_ON_K = 2, CH_ON_V = 4 };

/* Knocking heads (KHA eqs. 5-9): a map shared by all heads of a layer, or one for each. */
typedef struct ch_knocking {
  ch_knocking_type type;
  unsigned on;            /* CH_ON_ bits */
  bool decay_to_identity; /* weight decay pulls towards the identity, not towards zero */
  ch_knocking_init init;
  bool per_head; /* every head has its own map: the parameters without the sharing */
} ch_knocking;

/* Head mixing (MEA eqs. 10-12): key-value heads as combinations of h' component heads. What a layer mixes is
   ch_mixed_components. */
typedef struct ch_head_mix {
  unsigned on;                           /* CH_ON_K, CH_ON_V */
  int64_t component_heads;               /* h' of every layer; 0: no mixing, or `listed` says */
  uint16_t listed[CH_MAX_LISTED_LAYERS]; /* h' layer by layer; ch_unmixed_entry: not mixed */
  int64_t listed_layers;                 /* entries of `listed`; 0: no list */
  int64_t first_layer, last_layer;       /* inclusive; last_layer -1: to the last one */
} ch_head_mix;

/* The `attention` object. Keys that other mechanisms add join this struct, with a row in config_table.c. */
typedef struct ch_attention_config {
  char type[CH_NAME_SIZE]; /* a name of attention/registry.c */
  bool qk_norm, head_norm;
  ch_qk_norm_over qk_norm_over;
  bool sink_logits; /* every head's softmax has one more term, e^z of a learned z */
  /* layers that read the keys and values of the first of them; mla: layer_group_size */
  int64_t kv_layer_group;
  int64_t num_key_heads, num_value_heads; /* 0: num_key_value_heads; what they are is ch_heads_of */
  int64_t q_lora_rank;                    /* mla: 0 = dense query; mfa: 0 = head_dim */
  bool q_a_norm;
  int64_t kv_lora_rank;             /* 0: keys and values have separate latents, */
  int64_t k_lora_rank, v_lora_rank; /* or one of them none: 0 */
  int64_t qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
  double latent_norm_eps;     /* of q_a_layernorm and kv_a_layernorm; 0: rms_norm_eps */
  int64_t gate_embedding_dim; /* 0: no embedding gate */
  double gate_embedding_std;  /* spread of its initial lookup tables; -1: not given */
  ch_gate_op gate_op;
  bool gate_norm;
  int64_t layer_group_size;
  ch_group_shares layer_group_shares;
  ch_value_reuse value_reuse;
  ch_diff_lambda diff_lambda;
  bool mix_logits, mix_weights;
  bool exclusive; /* contexts without their part along the token's own value */
  /* gla, mlra: latents of a token; mlra: softmaxes of a head, 0: one per latent */
  int64_t latent_heads, branches;
  bool latent_scale, branch_scale;
  int64_t q_rank, k_rank, v_rank; /* tpa; q_rank 0: dense query */
  ch_a_factors a_factors;
  int64_t shared_qk_dim; /* collaborative: width of the one query and the one key */
  bool content_bias;
  int64_t shared_heads, active_heads; /* moh: heads that every token has, and how many of the others */
  double balance_coefficient;
  ch_knocking knocking;
  ch_head_mix head_mix;
} ch_attention_config;

/* The kinds of layers with a state of a fixed size. */
typedef enum ch_linear_type { CH_LINEAR_NONE, CH_LINEAR_GDN } ch_linear_type;

/* The `linear_attention` object. */
typedef struct ch_linear_attention {
  ch_linear_type type;              /* NONE: no layer is linear */
  int64_t heads, value_heads;       /* of queries and keys; of values: a multiple of them */
  int64_t head_dim, value_head_dim; /* d_k, d_v */
  int64_t conv;                     /* taps of the short convolutions; 0: there are none */
  bool gate;                        /* SiLU(W_g x) multiplies the normed output */
  bool negative_eigenvalues;        /* steps are between 0 and 2, not 1 */
} ch_linear_attention;

/* The source of the matrices of projections (attention/weight_source.h); NONE: every layer has its own. */
typedef enum ch_sharing_type {
  CH_SHARING_NONE,
  CH_SHARING_MASA,
  CH_SHARING_SEQUENTIAL,
  CH_SHARING_REPEAT,
  CH_SHARING_LOW_RANK
} ch_sharing_type;
typedef enum ch_coefficients { CH_COEFFICIENTS_DIRECT, CH_COEFFICIENTS_MLP } ch_coefficients;

enum { CH_MAX_SHARED_PROJECTIONS = 16, CH_PROJECTION_NAME_SIZE = 32, CH_MAX_GROUPS = CH_MAX_LISTED_LAYERS };

/* The `sharing` object (MASA eq. 2 and what it is compared with). */
typedef struct ch_sharing {
  ch_sharing_type type;
  char projections[CH_MAX_SHARED_PROJECTIONS][CH_PROJECTION_NAME_SIZE]; /* full names: "q_proj" */
  int projection_count;
  /* S; masa, sequential, repeat; at most the layers of a group, or with a common dictionary the matrices of
     all projections and layers. 0, where there are groups: each dictionary's own, as its tensors say */
  int64_t atoms;
  int64_t rank;                 /* rho; low_rank; 0: each matrix's own, as its tensors say */
  ch_coefficients coefficients; /* masa */
  bool common_dictionary;       /* masa: one dictionary for all projections of one shape */
  /* [first, last] layer of each. masa: each has its own dictionary; low_rank: its layers share a first
     factor */
  uint16_t groups[CH_MAX_GROUPS][2];
  int group_count; /* 0: all layers are one group, and no tensor is named after it */
} ch_sharing;

/* The way in which training balances the loads of experts. */
typedef enum ch_balance { CH_BALANCE_AUX, CH_BALANCE_LOSS_FREE, CH_BALANCE_NONE } ch_balance;

/* The distance by which a step moves the bias of loss-free balancing: equal for all, or in proportion to the
   imbalance. */
typedef enum ch_balance_update { CH_BALANCE_SIGN, CH_BALANCE_RMS } ch_balance_update;

/* The function of a router's logits that gives the weights and decides the choice. */
typedef enum ch_scoring { CH_SCORING_SOFTMAX, CH_SCORING_SIGMOID } ch_scoring;

/* The `moe` object: mixture of experts in the layers from first_dense_layers on, but for dense_layers. */
typedef struct ch_moe_config {
  int64_t experts; /* of a layer; 0: there are none */
  int64_t active;  /* that a token is sent to */
  int64_t shared;  /* that every token goes through, as one FFN of shared * expert_intermediate_size */
  int64_t expert_intermediate_size, first_dense_layers;
  /* further layers with the ordinary network, after the first ones */
  bool dense_layers[CH_MAX_LISTED_LAYERS];
  ch_balance balance;
  ch_balance_update balance_update; /* loss-free */
  double aux_coefficient;
  ch_scoring scoring;
  bool router_bias; /* the router's logits have a bias, which counts in the weights too */
  bool renormalise; /* the weights of the chosen sum to `scale`, if there are several */
  double scale;
  int64_t groups, active_groups; /* experts are chosen from the best groups; 0: from all */
} ch_moe_config;

typedef struct ch_config {
  char model_type[CH_NAME_SIZE]; /* "crosshead", "crosshead_vit", or a Hugging Face family of text */
  int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
  int64_t num_attention_heads, num_key_value_heads, head_dim;
  int64_t max_position_embeddings;
  double rms_norm_eps;
  /* crosshead_vit, but for the eps */
  int64_t image_size, patch_size, num_channels, num_classes; /* square images of square patches */
  double layer_norm_eps;                                     /* of LayerNorms outside attention */
  bool tie_word_embeddings, attention_bias;                  /* attention_bias: q/k/v biases */
  bool attention_output_bias;                                /* o_proj has one */
  bool mlp_bias;                                             /* the projections of the FFN have biases */
  char hidden_act[CH_NAME_SIZE];                             /* kind of the FFN: a name of model/network.h */
  double swiglu_alpha, swiglu_limit;                         /* of hidden_act "clamped_swiglu" */
  char norm[CH_NAME_SIZE]; /* kind of the norms outside attention: a name of model/norm.h */
  ch_norm_placement norm_placement;
  bool parallel_residual; /* attention and FFN read the same normed x, and both are added to x */
  /* factors of the embedding and of what a half of a block adds */
  double embedding_multiplier, residual_multiplier;
  double attention_multiplier; /* of scores; 0: 1 / sqrt(head_dim) */
  double logits_scaling;       /* logits are divided by it */
  /* soft caps c tanh(s / c) of scores and logits; 0: none */
  double attn_logit_softcapping, final_logit_softcapping;
  bool causal; /* a token sees only the tokens before it; otherwise all tokens of its sequence */
  ch_position position;
  double rope_theta;
  bool rope_interleaved;
  double partial_rotary_factor;           /* the share of a head's dims that turn: the first ones */
  bool nope_layers[CH_MAX_LISTED_LAYERS]; /* layers that turn none */
  double local_rope_theta; /* of local_rope_layers, which have no rope_scaling; 0: there are none */
  bool local_rope_layers[CH_MAX_LISTED_LAYERS];
  ch_rope_scaling rope_scaling;
  ch_attention_config attention;
  ch_sharing sharing;
  ch_moe_config moe;
  ch_init init;
  ch_parametrization parametrization;
  /* W: in layers that slide a query sees itself and the W - 1 tokens before it; 0: none does */
  int64_t sliding_window;
  ch_layer_list layer_types;
  ch_linear_attention linear_attention;
  int64_t attention_sinks;            /* the first tokens of a text; layers that slide always see them */
  int64_t bos_token_id, eos_token_id; /* -1 when the config has none */
  /* The family whose names and shapes the tensors in the model's files have; "": ours. It has no key, because
     written files have ours. */
  char layout[CH_NAME_SIZE];
} ch_config;

/* Returns true if the model reads images (a Vision Transformer), not text. */
bool ch_config_is_vision(const ch_config *config);
/* Fails for such a model: "NAME is for models of text, ...". */
ch_status ch_config_needs_text(const ch_config *config, const char *name, ch_error *error);
/* Returns the dims of a head that RoPE rotates: head_dim, or its share partial_rotary_factor. */
int64_t ch_rotary_dims(const ch_config *config);
/* Returns the factor of scores: attention_multiplier, or 1 / sqrt(head_dim). */
double ch_score_scale(const ch_config *config);
/* Returns true for a linear layer, which has a state of a fixed size instead of keys and values. */
bool ch_layer_is_linear(const ch_config *config, int layer);
int64_t ch_linear_layers(const ch_config *config);
/* Returns true if the layer has the sliding window. ch_any_layer_slides returns true if any layer has it. */
bool ch_layer_slides(const ch_config *config, int layer);
bool ch_any_layer_slides(const ch_config *config);
/* Returns the number of tokens that such a layer stores: the window and the sinks. */
int64_t ch_window_and_sinks(const ch_config *config);
/* Returns the layer whose keys and values `layer` reads: the first of its "kv_layer_group". A linear layer
   has its own state. */
int ch_writing_layer(const ch_config *config, int layer);
/* ch_config_patches returns the number of patches of an image, ch_config_image_tokens that of its tokens: the
   patches and the class token. */
int64_t ch_config_patches(const ch_config *config);
int64_t ch_config_image_tokens(const ch_config *config);
/* Returns true if "sharing.projections" names the projection `name` ("q_proj"). */
bool ch_is_shared(const ch_config *config, const char *name);
/* Returns the number of the group of layers that share `layer`'s dictionary, or -1 without groups. *layers:
   the number of layers in it. */
int ch_group_of_layer(const ch_config *config, int layer, int64_t *layers);
/* ch_heads_of returns the number of heads G_k of keys or G_v of values (CH_ON_K, CH_ON_V). ch_heads_differ
   returns true if the two differ. */
int64_t ch_heads_of(const ch_config *config, unsigned state);
bool ch_heads_differ(const ch_config *config);
/* Returns the entry of a list of component heads for a layer without mixing: G, or the larger of two. */
int64_t ch_unmixed_entry(const ch_config *config);
/* Returns the number h' of component heads that `layer` mixes into its G heads of CH_ON_K or CH_ON_V, or 0 if
   it does not mix them. */
int64_t ch_mixed_components(const ch_config *config, int layer, unsigned state);

#endif
