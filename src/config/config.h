/* A model's configuration. config_file/config_json.h reads it from a config.json, Crosshead's or Hugging Face's,
   and checks it. */
#ifndef CH_CONFIG_CONFIG_H
#define CH_CONFIG_CONFIG_H

#include <crosshead/common.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

enum {
  CH_NAME_SIZE = 32,
  CH_MAX_LISTED_LAYERS = 512 /* maximum length of a list with one entry per layer */
};

typedef enum ch_position {
  CH_POSITION_ROPE,
  CH_POSITION_ALIBI,
  CH_POSITION_NONE,
  CH_POSITION_LEARNED /* a learned vector per position is added to the embedding */
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

/* A factor for each rotated pair of dims. */
enum { CH_MAX_PAIR_FACTORS = 256 };
typedef struct ch_pair_factors {
  double factor[CH_MAX_PAIR_FACTORS];
  int64_t count; /* number of factors; 0: none */
} ch_pair_factors;

typedef struct ch_rope_scaling {
  ch_rope_type type;
  double factor;
  double low_freq_factor, high_freq_factor; /* llama3 */
  /* context before scaling, in tokens, of llama3, yarn and longrope */
  int64_t original_max_position_embeddings;
  /* settings of yarn; longrope has attention_factor too; 0: not given */
  double beta_fast, beta_slow, mscale, mscale_all_dim, attention_factor;
  bool truncate; /* yarn: true if its ramp begins and ends at whole pairs */
  /* longrope: factors of wavelengths, for texts up to original_max_position_embeddings and for longer texts */
  ch_pair_factors short_factor, long_factor;
} ch_rope_scaling;

/* The extent of one QK norm: each head, or all heads of a token. */
typedef enum ch_qk_norm_over { CH_QK_NORM_HEAD, CH_QK_NORM_ALL } ch_qk_norm_over;
typedef enum ch_gate_op { CH_GATE_MULTIPLY, CH_GATE_ADD } ch_gate_op;
/* The tensors that the layers of a group share (mla): all that compute keys and values, or only the latent's. */
typedef enum ch_group_shares { CH_GROUP_SHARES_ALL, CH_GROUP_SHARES_LATENT } ch_group_shares;
/* The source of TPA's factors over heads: each token, or parameters. */
typedef enum ch_a_factors { CH_FACTORS_CONTEXTUAL, CH_FACTORS_FIXED } ch_a_factors;
typedef enum ch_diff_lambda { CH_DIFF_REPARAMETERIZED, CH_DIFF_PER_PAIR } ch_diff_lambda;
/* The values of MFA-KR, computed from its keys: the mechanism itself and its ablations (MFA, Table 5). */
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

/* The initial knocking maps. "diagonal" is the paper's word for the identity. */
typedef enum ch_knocking_init {
  CH_KNOCKING_DIAGONAL,
  CH_KNOCKING_IDENTITY,
  CH_KNOCKING_RANDOM
} ch_knocking_init;

/* The tokens that a layer's queries attend to: all previous tokens, those inside the sliding window, or none but a
   state of a fixed size that all previous tokens updated ("linear_attention"). */
typedef enum ch_layer_type { CH_LAYER_FULL, CH_LAYER_SLIDING, CH_LAYER_LINEAR, CH_LAYER_TYPES } ch_layer_type;

typedef struct ch_layer_list {
  uint8_t type[CH_MAX_LISTED_LAYERS]; /* [count], each a ch_layer_type */
  int64_t count; /* number of layers; 0: no list, and all layers have the window if any */
} ch_layer_list;

/* The states that a module changes: queries, keys, values. */
enum { CH_ON_Q = 1, CH_ON_K = 2, CH_ON_V = 4 };

/* Knocking heads (KHA eqs. 5-9): a map shared by all heads of a layer, or one map per head. */
typedef struct ch_knocking {
  ch_knocking_type type;
  unsigned on;            /* states that are mapped: CH_ON_ bits */
  bool decay_to_identity; /* true if weight decay pulls towards the identity instead of zero */
  ch_knocking_init init;
  bool per_head; /* true if every head has its own map */
} ch_knocking;

/* Head mixing (MEA eqs. 10-12): key-value heads as combinations of h' component heads. ch_mixed_components returns
   h' of a layer. */
typedef struct ch_head_mix {
  unsigned on;                           /* states that are mixed: CH_ON_K, CH_ON_V */
  int64_t component_heads;               /* h' of every mixed layer; 0: no mixing, or `listed` has h' */
  uint16_t listed[CH_MAX_LISTED_LAYERS]; /* h' of each layer; ch_unmixed_entry: not mixed */
  int64_t listed_layers;                 /* entries of `listed`; 0: no list */
  int64_t first_layer, last_layer;       /* mixed layers, both inclusive; last_layer -1: the model's last */
} ch_head_mix;

/* The `attention` object. A mechanism's new key is a member here and a row in config_file/key_table.c. */
typedef struct ch_attention_config {
  char type[CH_NAME_SIZE]; /* name of a mechanism in attention/registry.c */
  bool qk_norm, head_norm;
  ch_qk_norm_over qk_norm_over;
  bool sink_logits; /* true if every head's softmax has one more term, e^z with a learned z */
  /* number of successive layers that read the keys and values of the first of them; mla has layer_group_size instead */
  int64_t kv_layer_group;
  /* numbers of key heads and value heads; 0: num_key_value_heads (see ch_heads_of) */
  int64_t num_key_heads, num_value_heads;
  int64_t q_lora_rank; /* mla: 0 = dense query; mfa: 0 = head_dim */
  bool q_a_norm;
  int64_t kv_lora_rank;             /* width of the joint latent; 0: keys and values have separate latents */
  int64_t k_lora_rank, v_lora_rank; /* widths of separate latents; 0: no latent */
  int64_t qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
  double latent_norm_eps;     /* eps of q_a_layernorm and kv_a_layernorm; 0: rms_norm_eps */
  int64_t gate_embedding_dim; /* columns of the embedding gate's tables; 0: no gate */
  double gate_embedding_std;  /* initial standard deviation of the gate's lookup tables; -1: not given */
  ch_gate_op gate_op;
  bool gate_norm;
  int64_t layer_group_size;
  ch_group_shares layer_group_shares;
  ch_value_reuse value_reuse;
  ch_diff_lambda diff_lambda;
  bool mix_logits, mix_weights;
  bool exclusive; /* true if contexts lose their component along the token's own value */
  /* latent_heads (gla, mlra): latents per token; branches (mlra): softmaxes per head, 0: one per latent */
  int64_t latent_heads, branches;
  bool latent_scale, branch_scale;
  int64_t q_rank, k_rank, v_rank; /* tpa: ranks of the factors; q_rank 0: dense query */
  ch_a_factors a_factors;
  int64_t shared_qk_dim; /* collaborative: width of the query and key that all heads share */
  bool content_bias;
  /* moh: number of heads that every token uses, number of routed heads per token */
  int64_t shared_heads, active_heads;
  double balance_coefficient;
  ch_knocking knocking;
  ch_head_mix head_mix;
} ch_attention_config;

/* The kinds of layers with a state of a fixed size. */
typedef enum ch_linear_type { CH_LINEAR_NONE, CH_LINEAR_GDN } ch_linear_type;

/* The `linear_attention` object. */
typedef struct ch_linear_attention {
  ch_linear_type type; /* kind of linear layer; NONE: no layer is linear */
  /* number of query and key heads; number of value heads, a multiple of `heads` */
  int64_t heads, value_heads;
  int64_t head_dim, value_head_dim; /* dims of a query or key head, d_k; dims of a value head, d_v */
  int64_t conv;                     /* taps of the short convolutions; 0: no convolutions */
  bool gate;                        /* true if SiLU(W_g x) multiplies the normed output */
  bool negative_eigenvalues;        /* true if steps are between 0 and 2 instead of 0 and 1 */
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

/* The `sharing` object: MASA (eq. 2) and its baselines. */
typedef struct ch_sharing {
  ch_sharing_type type;
  char projections[CH_MAX_SHARED_PROJECTIONS][CH_PROJECTION_NAME_SIZE]; /* full names: "q_proj" */
  int projection_count;
  /* masa, sequential, repeat: S, the atoms of a dictionary. At most the layers of a group or, with a common
     dictionary, the matrices of all projections and layers. 0 with groups: each dictionary has the size of its
     tensors */
  int64_t atoms;
  int64_t rank;                 /* low_rank: rho; 0: each matrix has the rank of its tensors */
  ch_coefficients coefficients; /* masa: parameters or the output of a network */
  bool common_dictionary;       /* masa: true if all projections of one shape have one dictionary */
  /* [group_count] first and last layer of each group. masa: each group has its own dictionary. low_rank: the layers
     of a group share the first factor */
  uint16_t groups[CH_MAX_GROUPS][2];
  int group_count; /* 0: all layers are one group, and no tensor's name has a group */
} ch_sharing;

/* The way in which training balances the loads of experts. */
typedef enum ch_balance { CH_BALANCE_AUX, CH_BALANCE_LOSS_FREE, CH_BALANCE_NONE } ch_balance;

/* The amount by which a step moves the biases of loss-free balancing: equal for all experts, or in proportion to
   their imbalance. */
typedef enum ch_balance_update { CH_BALANCE_SIGN, CH_BALANCE_RMS } ch_balance_update;

/* The function of a router's logits that gives the weights and decides the choice. */
typedef enum ch_scoring { CH_SCORING_SOFTMAX, CH_SCORING_SIGMOID } ch_scoring;

/* The `moe` object: mixture of experts in the layers from first_dense_layers on, except dense_layers. */
typedef struct ch_moe_config {
  int64_t experts; /* routed experts per layer; 0: no experts */
  int64_t active;  /* routed experts per token */
  int64_t shared;  /* experts that all tokens use: one FFN of width shared * expert_intermediate_size */
  int64_t expert_intermediate_size, first_dense_layers;
  /* true for layers after the first dense ones that have an ordinary FFN */
  bool dense_layers[CH_MAX_LISTED_LAYERS];
  ch_balance balance;
  ch_balance_update balance_update; /* used by loss-free balancing */
  double aux_coefficient;
  ch_scoring scoring;
  bool router_bias; /* true if the router's logits have a bias, which also changes the weights */
  bool renormalise; /* true if the weights of the chosen experts sum to `scale`, if there are several */
  double scale;
  /* number of groups of experts, number of groups to choose experts from; 0: no groups */
  int64_t groups, active_groups;
} ch_moe_config;

typedef struct ch_config {
  char model_type[CH_NAME_SIZE]; /* "crosshead", "crosshead_vit", or a Hugging Face family of text models */
  int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
  int64_t num_attention_heads, num_key_value_heads, head_dim;
  int64_t max_position_embeddings;
  double rms_norm_eps;
  /* crosshead_vit: sides of the square images and patches in pixels, and numbers of channels and classes */
  int64_t image_size, patch_size, num_channels, num_classes;
  double layer_norm_eps;                    /* eps of LayerNorms outside attention */
  bool tie_word_embeddings, attention_bias; /* attention_bias: true if q, k and v have biases */
  bool attention_output_bias;               /* true if o_proj has a bias */
  bool mlp_bias;                            /* true if the FFN's projections have biases */
  char hidden_act[CH_NAME_SIZE];            /* kind of FFN: a name of model/network.h */
  double swiglu_alpha, swiglu_limit;        /* settings of hidden_act "clamped_swiglu" */
  char norm[CH_NAME_SIZE];                  /* kind of the norms outside attention: a name of model/norm.h */
  ch_norm_placement norm_placement;
  bool parallel_residual; /* true if attention and FFN read the same normed x and both are added to x */
  /* factors of the embedding, and of the outputs of attention and FFN before they are added */
  double embedding_multiplier, residual_multiplier;
  double attention_multiplier; /* factor of scores; 0: 1 / sqrt(head_dim) */
  double logits_scaling;       /* divisor of logits */
  /* soft caps c tanh(s / c) of scores and logits; 0: no cap */
  double attn_logit_softcapping, final_logit_softcapping;
  bool causal; /* true if a token attends to itself and previous tokens only; false: to its whole sequence */
  ch_position position;
  double rope_theta;
  bool rope_interleaved;
  double partial_rotary_factor;           /* share of a head's dims that are rotated: the first ones */
  bool nope_layers[CH_MAX_LISTED_LAYERS]; /* true for layers without rotation */
  double local_rope_theta;                /* RoPE base of local_rope_layers; 0: no such layers */
  /* true for layers with local_rope_theta and no rope_scaling */
  bool local_rope_layers[CH_MAX_LISTED_LAYERS];
  ch_rope_scaling rope_scaling;
  ch_attention_config attention;
  ch_sharing sharing;
  ch_moe_config moe;
  ch_init init;
  ch_parametrization parametrization;
  /* W: in layers with a sliding window a query attends to itself and the W - 1 tokens before it. 0: no window */
  int64_t sliding_window;
  ch_layer_list layer_types;
  ch_linear_attention linear_attention;
  int64_t attention_sinks; /* number of first tokens that layers with a sliding window always attend to */
  int64_t bos_token_id, eos_token_id; /* ids of the tokens that begin and end a text; -1: not given */
  /* Family whose names and shapes the tensors in the model's files have; "": Crosshead's. It has no key, because
     written files have Crosshead's names. */
  char layout[CH_NAME_SIZE];
} ch_config;

/* Returns true if the model reads images (a Vision Transformer), not text. */
bool ch_config_is_vision(const ch_config *config);
/* Fails for a model of images: "NAME is for models of text, ...". */
ch_status ch_config_needs_text(const ch_config *config, const char *name, ch_error *error);
/* Returns the number of a head's dims that RoPE rotates: head_dim, or its share partial_rotary_factor. */
int64_t ch_rotary_dims(const ch_config *config);
/* Returns the factor of scores: attention_multiplier, or 1 / sqrt(head_dim). */
double ch_score_scale(const ch_config *config);
/* Returns true for a linear layer, which has a state of a fixed size instead of keys and values. */
bool ch_layer_is_linear(const ch_config *config, int layer);
/* Returns true if a list of layers (nope_layers, local_rope_layers) names the layer. */
bool ch_layer_is_listed(const bool layers[CH_MAX_LISTED_LAYERS], int64_t layer);
int64_t ch_linear_layers(const ch_config *config);
/* Returns true if the layer has the sliding window. */
bool ch_layer_slides(const ch_config *config, int layer);
/* Returns true if any layer has the sliding window. */
bool ch_any_layer_slides(const ch_config *config);
/* Returns the number of tokens that a layer with a sliding window stores: the window and the sinks. */
int64_t ch_window_and_sinks(const ch_config *config);
/* Returns the layer whose keys and values `layer` reads: the first of its "kv_layer_group", or itself for a linear
   layer. */
int ch_writing_layer(const ch_config *config, int layer);
/* Returns the number of patches of an image. */
int64_t ch_config_patches(const ch_config *config);
/* Returns the number of tokens of an image: its patches and the class token. */
int64_t ch_config_image_tokens(const ch_config *config);
/* Returns true if "sharing.projections" names the projection `name` ("q_proj"). */
bool ch_is_shared(const ch_config *config, const char *name);
/* Returns the index in sharing.groups of the group that has `layer`, or -1 if there is none. *layers receives the
   number of layers in the group, or in the model if there is none. */
int ch_group_of_layer(const ch_config *config, int layer, int64_t *layers);
/* Returns the number of key heads G_k (CH_ON_K) or value heads G_v (CH_ON_V). */
int64_t ch_heads_of(const ch_config *config, unsigned state);
/* Returns true if G_k and G_v differ. */
bool ch_heads_differ(const ch_config *config);
/* Returns the entry for a layer without mixing in a list of component heads: the larger of G_k and G_v. */
int64_t ch_unmixed_entry(const ch_config *config);
/* Returns the number h' of component heads that `layer` mixes into its G heads of CH_ON_K or CH_ON_V, or 0 if
   it does not mix them. */
int64_t ch_mixed_components(const ch_config *config, int layer, unsigned state);

#endif
