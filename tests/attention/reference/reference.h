/* A second, independent implementation of every model, to check the first against.
 *
 * It has plain loops in double over [T][heads][dim] arrays, one sequence at a time, written from the
 * definitions of the mechanisms alone. It shares neither graph, kernels nor configuration parser with src/.
 * It is slow, and any error fails the running test at once (fail_msg). */
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

/* A size that only the checkpoint's tensors give, not the configuration. */
typedef struct reference_stored {
  enum { REFERENCE_RESIDUAL, REFERENCE_FACTORS, REFERENCE_ATOMS, REFERENCE_BASIS } what;
  int at; /* layer; of atoms and bases the group */
  const char *name;
  int64_t size; /* rank, or number of atoms */
} reference_stored;

/* A simulated cache. It receives part `part` of a layer's states of all tokens of a sequence, x
   [length][width], and replaces them by the values that would be read back. */
typedef struct reference_memory {
  void (*keep)(void *context, int64_t sequence, int layer, const char *part, double *x, int64_t length,
               int64_t width);
  void *context;
} reference_memory;

/* A configuration as the reference reads it, with every default filled in. */
typedef struct reference_config {
  int64_t vocab, hidden, intermediate, layers, heads, groups, head_dim;
  int64_t key_groups, value_groups; /* G_k and G_v; mostly both `groups` */
  double eps, theta;
  bool tied, interleaved, biases; /* biases: of the query, key and value projections */
  double (*activation)(double x); /* of the feed-forward network */
  bool gated, mlp_bias;           /* the feed-forward network has a gate, and biases */
  bool layernorm, post;           /* the norms outside attention: LayerNorm, behind each half of a layer */
  double norm_eps;                /* of these */
  bool branch, both,
      parallel; /* norms of the output of a half, alone or with those before it; parallel halves */
  double embedding_factor, residual_factor, score_scale, logits_divisor;
  double score_cap, logits_cap; /* 0: none */
  bool clamped, router_bias;
  double swiglu_alpha, swiglu_limit;
  double rotary_share; /* of a head's dims, the first ones */
  bool unturned[REFERENCE_MAX_LAYERS], local[REFERENCE_MAX_LAYERS];
  double local_theta;
  int64_t places;        /* learned */
  int64_t window, sinks; /* of layers that slide: W and n */
  bool slides[REFERENCE_MAX_LAYERS];
  bool is_linear[REFERENCE_MAX_LAYERS]; /* layers with a state of constant size; all alike: */
  struct {
    int64_t heads, value_heads, head_dim, value_head_dim, conv;
    bool gate, negative;
  } linear;
  bool sink_logits;
  int64_t kv_group; /* layers that read the states of the first of them */
  reference_position position;
  struct {         /* of rotary frequencies */
    double factor; /* 1: none */
    bool llama3;
    double low, high, context;
  } scaling;
  const struct tested_mechanism *type;
  bool output_bias;
  bool qk_norm, qk_norm_all, head_norm;
  int64_t key_dim, value_dim, context_dim; /* of a head, as knocking and the head norm see it */
  int64_t qk_norm_dim;                     /* and as the QK norm does */
  struct {
    reference_knock type;
    bool q, k, v;
    bool per_head; /* a map for each head */
  } knock;
  int64_t components[REFERENCE_MAX_LAYERS]; /* h' of a layer whose heads are mixed, else 0 */
  bool mix_k, mix_v;
  int64_t q_rank;                       /* mla: 0 = dense; mfa: width of S_q */
  int64_t latent, nope, rotary, values; /* mla: c, n, r, v */
  int64_t key_latent, value_latent;     /* mla: c_k, c_v of latents apart */
  int64_t gate_dim, group_size;         /* mla: E, z */
  bool group_expands; /* mla: every layer of a group has its own matrices behind the latent */
  bool gate_adds, gate_norm;
  bool q_a_norm;                                /* mfa */
  bool reuse_projects, reuse_adds, reuse_gates; /* mfa_kr: N, the residual k, alpha */
  bool lambda_a_pair; /* diff: one lambda per pair, not the reparameterised one per layer */
  bool mix_logits, mix_weights;
  bool exclusive;
  int64_t latent_heads, branches; /* gla, mlra: m, b */
  bool latent_scale, branch_scale;
  struct { /* tpa; q 0: a dense query */
    int64_t q, k, v;
    bool fixed;
  } ranks;
  int64_t shared_qk; /* collaborative: D~ */
  bool content_bias;
  int64_t shared_heads, active_heads;                                  /* moh: s, k */
  int64_t experts, active, shared_experts, expert_width, dense_layers; /* experts 0: none */
  bool dense[64];                                                      /* dense layers after the first ones */
  bool loss_free;
  struct {
    reference_sharing type;
    char names[REFERENCE_MAX_SHARED][32]; /* of the projections, in full: "q_proj" */
    int count;
    int64_t atoms;
    int64_t rank; /* low_rank; 0: each matrix's own */
    bool mlp;     /* masa: coefficients come of embeddings of the layers */
    bool common;  /* masa: one dictionary for all projections of one shape */
    int group_count, group_ends[REFERENCE_MAX_GROUPS]; /* groups of layers, by the layer behind each */
  } sharing;
  const reference_stored *stored; /* further sizes from the checkpoint */
  int stored_count;
  const reference_memory *memory; /* NULL: states are stored unchanged */
  struct {
    int64_t size, patch, channels, classes;
  } image; /* size 0: a model of text */
} reference_config;

/* Reads the JSON text of one of our own configs, or of a Llama-layout one. */
void reference_config_parse(const char *json, reference_config *config);

typedef struct reference_tensor {
  const char *name;
  int rank;
  int64_t shape[4];
  const double *data;
  bool used; /* by reference_forward */
} reference_tensor;

typedef struct reference_weights {
  reference_tensor *tensors;
  int count;
} reference_weights;

/* Computes logits [sequences, length, vocab] and returns the mean next-token cross entropy (0 when length is
   1). document_start [sequences, length] is the first position that each token sees, or NULL. Fails the test
   if a tensor of the definition is missing or has another shape, or if a tensor has no definition. */
double reference_forward(const reference_config *config, reference_weights *weights, const int32_t *tokens,
                         int64_t sequences, int64_t length, const int32_t *document_start, double *logits);

/* Computes logits [images, classes] of images [images][channels][size][size] and returns the loss with their
   labels. */
double reference_see(const reference_config *config, reference_weights *weights, const double *pixels,
                     const int32_t *labels, int64_t images, double *logits);

/* The cost of a model, by the formulas of the definitions. */
typedef struct reference_figures {
  int64_t parameters_total, parameters_attention, parameters_embedding, parameters_gate_embedding,
      parameters_active;
  /* in all tensors of a checkpoint in training: with the MLPs that give coefficients */
  int64_t parameters_stored;
  int64_t cache_elements; /* a token, all layers */
  int64_t state_elements; /* a sequence, all layers */
  int64_t total_effective_rank, shared_latent_dim;
} reference_figures;

void reference_count(const reference_config *config, reference_figures *figures);
/* Returns the scalars per token that do not count as elements: mean and 1/std for every layer's (or group's)
   gate. */
int64_t reference_uncounted_scalars(const reference_config *config);

#endif
