/* A second, independent implementation of every model, which tests compare with the library.
 *
 * It has plain loops in double over [T][heads][dim] arrays, one sequence at a time, written only from the definitions
 * of the mechanisms. It does not use the graph, the kernels or the configuration parser of src/. It is slow. Any error
 * fails the running test at once (fail_msg). */
#ifndef TESTS_ATTENTION_REFERENCE_H
#define TESTS_ATTENTION_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { REFERENCE_MAX_LAYERS = 8, REFERENCE_MAX_SHARED = 12, REFERENCE_MAX_GROUPS = 4 };

struct tested_mechanism; /* attention/mechanisms/mechanism.h */

typedef enum reference_position {
  REFERENCE_ROPE,
  REFERENCE_ALIBI,
  REFERENCE_NO_POSITION,
  REFERENCE_LEARNED
} reference_position;
typedef enum reference_knock {
  REFERENCE_NO_KNOCK,
  REFERENCE_KNOCK_LINEAR,
  REFERENCE_KNOCK_MLP,
  REFERENCE_KNOCK_GATE
} reference_knock;

typedef enum reference_sharing {
  REFERENCE_NO_SHARING,
  REFERENCE_MASA,
  REFERENCE_SEQUENTIAL,
  REFERENCE_REPEAT,
  REFERENCE_LOW_RANK
} reference_sharing;

/* A size that is in the tensors of a checkpoint, but not in its configuration. */
typedef struct reference_stored {
  enum { REFERENCE_RESIDUAL, REFERENCE_FACTORS, REFERENCE_ATOMS, REFERENCE_BASIS } what;
  int at;           /* layer; for atoms and bases, the group of layers */
  const char *name; /* projection */
  int64_t size;     /* rank, or number of atoms */
} reference_stored;

/* A simulated cache. `keep` receives part `part` of a layer's states of all tokens of a sequence, x [length][width],
   and replaces them by the values that the cache returns. */
typedef struct reference_memory {
  void (*keep)(void *context, int64_t sequence, int layer, const char *part, double *x, int64_t length,
               int64_t width);
  void *context;
} reference_memory;

/* A configuration with all defaults. */
typedef struct reference_config {
  int64_t vocab, hidden, intermediate, layers, heads, groups, head_dim;
  int64_t key_groups, value_groups; /* numbers of key heads and of value heads; default: `groups` */
  double eps, theta;
  bool tied, interleaved, biases; /* biases: true if q_proj, k_proj and v_proj have biases */
  double (*activation)(double x); /* activation of the feed-forward network */
  bool gated, mlp_bias;           /* true if the feed-forward network has a gate; true if it has biases */
  /* true if norms outside attention are LayerNorm; true if they follow each half's sum */
  bool layernorm, post;
  double norm_eps; /* eps of the norms outside attention */
  /* true for norms of each half's output instead of its input; true for norms of each half's input and output; true if
     both halves read one normed input */
  bool branch, both, parallel;
  double embedding_factor, residual_factor, score_scale, logits_divisor;
  double score_cap, logits_cap; /* soft caps; 0: none */
  bool clamped, router_bias;    /* true for clamped SwiGLU; true if the router has a bias */
  double swiglu_alpha, swiglu_limit;
  double rotary_share; /* rotated share of a head's dims, from the first */
  /* true for layers without RoPE; true for layers with local_theta */
  bool unturned[REFERENCE_MAX_LAYERS], local[REFERENCE_MAX_LAYERS];
  double local_theta;
  int64_t places;        /* number of learned positions */
  int64_t window, sinks; /* numbers of tokens in a window, and of sinks, in layers with a window */
  bool slides[REFERENCE_MAX_LAYERS];    /* true for layers with a window */
  bool is_linear[REFERENCE_MAX_LAYERS]; /* true for layers with a state of constant size */
  struct {                              /* sizes of layers with a state of constant size */
    int64_t heads, value_heads, head_dim, value_head_dim, conv;
    bool gate, negative;
  } linear;
  bool sink_logits;
  int64_t kv_group; /* layers per group; all read the keys and values of the first */
  reference_position position;
  struct {         /* scaling of rotary frequencies */
    double factor; /* divisor; 1: no scaling */
    bool llama3;
    double low, high, context;
  } scaling;
  const struct tested_mechanism *type;
  bool output_bias;
  bool qk_norm, qk_norm_all, head_norm;
  int64_t key_dim, value_dim, context_dim; /* a head's dims in knocking (keys, values) and in the head norm */
  int64_t qk_norm_dim;                     /* a head's dims in the QK norm */
  struct {
    reference_knock type;
    bool q, k, v;
    bool per_head; /* true if each head has its own map */
  } knock;
  int64_t components[REFERENCE_MAX_LAYERS]; /* component heads of layers whose heads are mixed, else 0 */
  bool mix_k, mix_v;
  int64_t q_rank; /* mla, gla, mlra: width of the query's latent or 0; mfa: width of S_q */
  int64_t latent, nope, rotary, values; /* mla, gla, mlra: dims of the latent, and n, r, v */
  int64_t key_latent, value_latent;     /* mla: dims c_k and c_v of separate latents */
  int64_t gate_dim, group_size;         /* mla: dims of the gate's embedding, layers per group */
  bool group_expands;                   /* mla: true if every layer of a group has its own kv_b_proj */
  bool gate_adds, gate_norm;
  bool q_a_norm;                                /* mfa: true if the query's latent is normed */
  bool reuse_projects, reuse_adds, reuse_gates; /* mfa_kr: true for N, k, alpha in v = k + alpha (N k) */
  bool lambda_a_pair; /* diff: true for a lambda per pair, false for the reparameterised one per layer */
  bool mix_logits, mix_weights;
  bool exclusive;
  int64_t latent_heads, branches; /* gla, mlra: numbers of latents and of branches */
  bool latent_scale, branch_scale;
  struct { /* tpa: ranks of factors; q = 0: a dense query */
    int64_t q, k, v;
    bool fixed;
  } ranks;
  int64_t shared_qk; /* collaborative: dims D~ of the shared query and key */
  bool content_bias;
  int64_t shared_heads, active_heads; /* moh: numbers of always active and of chosen heads */
  int64_t experts, active, shared_experts, expert_width, dense_layers; /* experts = 0: no mixtures */
  bool dense[64]; /* true for further layers without experts, after the first dense_layers */
  bool loss_free;
  struct {
    reference_sharing type;
    char names[REFERENCE_MAX_SHARED][32]; /* full names of the projections: "q_proj" */
    int count;
    int64_t atoms;
    int64_t rank; /* low_rank: rank of all matrices; 0: each matrix has its own */
    bool mlp;     /* masa: true if an MLP computes the coefficients from embeddings of layers */
    bool common;  /* masa: true if all projections of one shape have one dictionary */
    /* number of groups of layers; layer after each group */
    int group_count, group_ends[REFERENCE_MAX_GROUPS];
  } sharing;
  const reference_stored *stored; /* sizes from the checkpoint */
  int stored_count;
  const reference_memory *memory; /* simulated cache; NULL: states are stored unchanged */
  struct {
    int64_t size, patch, channels, classes;
  } image; /* images; size = 0: a model of text */
} reference_config;

/* Reads the JSON text of a configuration in Crosshead's layout or in Llama's. */
void reference_config_parse(const char *json, reference_config *config);

typedef struct reference_tensor {
  const char *name;
  int rank;
  int64_t shape[4];
  const double *data;
  bool used; /* true if reference_forward or reference_see has read the tensor */
} reference_tensor;

typedef struct reference_weights {
  reference_tensor *tensors;
  int count;
} reference_weights;

/* Computes logits [sequences, length, vocab] and returns the mean next-token cross entropy (0 if length is 1).
   document_start [sequences, length] is the first position that each token sees, or NULL. Fails the test if a tensor
   of the definition is missing or has another shape, or if a tensor has no definition. */
double reference_forward(const reference_config *config, reference_weights *weights, const int32_t *tokens,
                         int64_t sequences, int64_t length, const int32_t *document_start, double *logits);

/* Computes logits [images, classes] of pixels [images][channels][size][size], and returns the mean cross entropy with
   the labels. */
double reference_see(const reference_config *config, reference_weights *weights, const double *pixels,
                     const int32_t *labels, int64_t images, double *logits);

/* The costs of a model, by the formulas of the definitions. */
typedef struct reference_figures {
  int64_t parameters_total, parameters_attention, parameters_embedding, parameters_gate_embedding,
      parameters_active;
  /* elements of all tensors of a checkpoint in training, including the MLPs that compute coefficients */
  int64_t parameters_stored;
  int64_t cache_elements; /* elements per token, in all layers */
  int64_t state_elements; /* elements per sequence, in all layers */
  int64_t total_effective_rank, shared_latent_dim;
} reference_figures;

void reference_count(const reference_config *config, reference_figures *figures);
/* Returns the scalars per token that do not count as elements: mean and 1/std for the gate of every layer, or group
   of layers. */
int64_t reference_uncounted_scalars(const reference_config *config);

#endif
