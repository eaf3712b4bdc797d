/* A mechanism defines what a token writes and what a query reads.
 *
 *   write(x) -> state      from a token's hidden state, the vectors that later tokens read
 *   read(x, states) -> y   what the query at x reads from the states of all tokens it may see
 *
 * In training and prefill both run over whole sequences; in decoding a token is written and the cache is
 * read. The KV cache is the concatenation of the states, nothing else: its size is the width that `state`
 * declares. A mechanism is one file with one ch_mechanism and one line in registry.c. */
#ifndef CH_ATTENTION_MECHANISM_H
#define CH_ATTENTION_MECHANISM_H

#include "graph/ops.h"
#include "attention/preset.h"
#include "config/config.h"
#include "config/params.h"

enum { CH_MAX_PROJECTIONS = 16 };

/* A projection and the layers that have it, without its tensors. */
typedef struct ch_projection_shape {
  const char *name;
  int64_t out, in;
  int64_t other_out, other_in; /* its shape in a layer where it is not [out, in]; 0: no such layer */
  int64_t layers;              /* how many layers have it: a group of layers has some projections once */
} ch_projection_shape;

typedef struct ch_projection_shapes {
  ch_projection_shape rows[CH_MAX_PROJECTIONS];
  int count;
} ch_projection_shapes;

/* Declaring the tensors, layer by layer. */
typedef struct ch_declaration {
  const ch_config *config;
  ch_params *params;
  int layer;
  ch_projection_shapes *shapes; /* if not NULL, projections are noted here instead of declared */
} ch_declaration;

/* RoPE of `rotary` dims: the table of this run's positions, that table times YaRN's factor for queries, and
   levels for cached positions. Each is created when it is first needed. */
typedef struct ch_angles {
  int64_t rotary;
  bool local; /* of "local_rope_layers" */
  const double *frequencies;
  ch_node *table, *query_table;
  const void *levels;
  struct ch_angles *next;
} ch_angles;

/* Building the graph of one model; `layer` is the layer being built. */
typedef struct ch_builder {
  ch_graph *graph;
  const ch_config *config;
  const ch_params *params;
  ch_node **leaves; /* [params->count] parameter leaves created so far */
  bool trainable;
  bool causal; /* a token sees only the tokens before it; otherwise all of its sequence (an encoder) */
  /* tokens of a sequence for which layers that slide have a ring; 0: they store all tokens */
  int64_t capacity;
  int64_t context;      /* tokens that the text may have which this run is a part of, longrope's choice */
  bool cached;          /* states go through the cache: decoding and cached prefill */
  ch_cache_types cache; /* what that cache stores */
  bool gates_known;     /* the cache holds the gates of all ids already */
  bool expand_gates; /* expand gated latents token by token, even where tokens of one id could be grouped */
  int table_shares;  /* more than 1: this many processes share the columns of each gate's lookup table */
  ch_node *document_start; /* NULL: attention crosses document boundaries */
  int layer;
  /* The parts that the last writing layer wrote: in the form that is read, and in the form before the
     cache. */
  ch_node *states[CH_MAX_STATE_PARTS], *written[CH_MAX_STATE_PARTS];
  struct ch_angles **angles; /* created so far, for all copies of this builder */
} ch_builder;

/* The modules that a mechanism can be combined with; any other module in its config is an error. */
enum {
  CH_MODULE_QK_NORM = 1,
  CH_MODULE_HEAD_NORM = 2,
  CH_MODULE_KNOCK_LINEAR = 4,
  CH_MODULE_KNOCK_OTHER = 8, /* mlp and gate */
  CH_MODULE_HEAD_MIX = 16,
  CH_MODULE_BIAS = 32,         /* attention_bias: q, k and v projections have biases */
  CH_MODULE_SINK_LOGITS = 512, /* softmax with a learned sink, by ch_attend_states */
  CH_MODULE_KV_GROUP = 1024,   /* later layers can read the keys and values of an earlier one */
  CH_MODULE_OWN_SIZES =
      64, /* the mechanism has other keys for head sizes: head_dim and num_key_value_heads do not apply */
  CH_MODULE_BY_HEAD =
      128, /* whole heads are rotated and multiplied as in keys_values.c: nope_layers, partial_rotary_factor,
              attention_multiplier and qk_norm_over apply */
  CH_MODULE_OUTPUT_BIAS = 256, /* attention_output_bias: o_proj has a bias */
  CH_MODULE_MIXES_SCORES =
      2048 /* scores of several heads become one: attn_logit_softcapping does not apply */
};

/* The rows of a projection that make a query, key or value state: of every `stride` rows, `size` from
   `offset` on. */
typedef struct ch_state_rows {
  const char *name; /* "k_proj" */
  unsigned on;      /* CH_ON_Q, CH_ON_K or CH_ON_V */
  int64_t stride, offset, size;
} ch_state_rows;

enum { CH_MAX_STATE_ROWS = 3 };

typedef struct ch_mechanism {
  const char *name; /* attention.type */
  unsigned modules; /* CH_MODULE_ bits */
  unsigned knocks;  /* CH_ON_ bits that knocking may name */
  unsigned mixes;   /* CH_ON_ bits that head mixing may name */
  /* The keys of the `attention` object that are not for all mechanisms, NULL-terminated, or NULL: rows of
     config_table.c. With a mechanism that does not name such a key it must hold its default. */
  const char *const *keys;
  /* Sets the defaults of this type that differ from the table's; or NULL. Runs before the other keys are
     read. */
  void (*defaults)(ch_config *config);
  /* Checks what this mechanism needs of the config beyond the general rules; or NULL. */
  ch_status (*check)(const ch_config *config, const char *where, ch_error *error);
  void (*declare)(ch_declaration *declaration);
  /* Fills the parts of a token's state in `layer` and returns how many there are. A layer without parts reads
     the states that the layer before it reads; of a part of width 0 it reads that layer's. */
  int (*state)(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]);
  /* Makes the parts that have a width. Those that other layers wrote for these tokens are builder->written.
     NULL: all parts are of a fixed size (CH_PART_FIXED), and the operations that `read` makes keep them. */
  void (*write)(ch_builder *builder, ch_node *x, ch_node *state[]);
  ch_node *(*read)(ch_builder *builder, ch_node *x, ch_node *const state[]);
  /* Fills the rows of projections that linear modules follow directly, so that the modules can be folded into
     the weights; returns how many. NULL: nothing can be folded. */
  int (*rows)(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]);
  /* The number of tokens that a pass over a long prompt should have, for mechanisms with work over the whole
     cache in every pass; or NULL. */
  int64_t (*long_pass)(const ch_config *config);
  /* Per layer: heads x rank of a head's query-key map, and the width of the latent space that heads share. */
  int64_t (*total_effective_rank)(const ch_config *config);
  int64_t (*shared_latent_dim)(const ch_config *config);
  const ch_preset *presets; /* its names in `compare`; the last row has no name */
} ch_mechanism;

/* --- declaring tensors of the layer: "model.layers.{i}.self_attn.{name}", or "linear_attn" in its place - */

/* Returns "self_attn", or "linear_attn" for layers of that type. */
const char *ch_attention_module(const ch_config *config, int layer);

/* Declares "{name}.weight" [out, in], or the tensors that replace it in the config. Output projections start
   divided by sqrt(2 (layer + 1)). */
void ch_declare_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in);
void ch_declare_output_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in);
/* Declares a projection of the rows of an embedding gate's table. Its products multiply hidden states, so
   they have variance 1 whatever "init" says. */
void ch_declare_gate_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in);
/* Declares that two projections are multiplied without a norm between them. */
void ch_declare_product(ch_declaration *declaration, const char *first, const char *second);
/* Sets the initial spread of a projection's separate matrix, unless "init" sets one. */
void ch_start_with(ch_declaration *declaration, const char *name, double std);
/* Declares that the input of a projection is `scale` times as large as a normed vector. */
void ch_declare_scaled_input(ch_declaration *declaration, const char *name, double scale);
/* Marks a projection that also multiplies cached states, or single heads: it is never block-quantised. */
void ch_keep_plain(ch_declaration *declaration, const char *name);
/* Returns the projection among those that were noted, or NULL. */
ch_projection_shape *ch_noted_projection(ch_projection_shapes *shapes, const char *name);
/* Declares "{name}.weight" [n], which starts at one, and "{name}.bias" [n], which starts at zero. */
void ch_declare_norm(ch_declaration *declaration, const char *name, int64_t n);
void ch_declare_bias(ch_declaration *declaration, const char *name, int64_t n);
/* Declares `name` [n], which starts at `start` plus a normal of `std`. */
void ch_declare_vector(ch_declaration *declaration, const char *name, int64_t n, double start, double std);
/* Declares `name` [rows, columns], a small matrix over heads or their dims. It is read as F32 (or F64)
   whatever the file holds. The caller may change the row further. Returns NULL if out of memory. */
ch_param *ch_declare_head_matrix(ch_declaration *declaration, const char *name, int64_t rows, int64_t columns,
                                 ch_param_init init, double std);

/* Declares `name` [n] with each element drawn as `init` says. */
void ch_declare_drawn_vector(ch_declaration *declaration, const char *name, int64_t n, ch_param_init init);
/* Declares "{name}.weight" [channels, 1, taps] of a convolution by channel. It is read as F32 (or F64)
   whatever the file holds. */
void ch_declare_conv(ch_declaration *declaration, const char *name, int64_t channels, int64_t taps);

/* Declares `name` [out, in], a matrix that multiplies x. It is not a projection, so layers cannot share
   it. */
void ch_declare_matrix(ch_declaration *declaration, const char *name, int64_t out, int64_t in);

/* Returns true if a tensor ("k_proj", "k_norm.weight") makes what a token writes. Of a "kv_layer_group" only
   the first layer has such tensors: the functions above declare none for the others, and those below find the
   first layer's. */
bool ch_is_of_writer(const char *name);

/* --- building --- */

/* Returns the leaf of a parameter by its full name, or NULL and a graph error if it was not declared. */
ch_node *ch_builder_param(ch_builder *builder, const char *name);
/* Returns the leaf of "model.layers.{i}.self_attn.{name}" (or linear_attn), or NULL and a graph error if it
   was not declared. */
ch_node *ch_attention_param(ch_builder *builder, const char *name);
/* Returns the matrix of the projection `name` of the layer being built. */
ch_node *ch_projection_weight(ch_builder *builder, const char *name);
/* Multiplies x by the projection `name` of the layer being built, and adds its bias if it has one. */
ch_node *ch_project(ch_builder *builder, ch_node *x, const char *name);
/* RMSNorm with "{name}.weight", of whole rows or of every head, by the weight's length. */
ch_node *ch_norm(ch_builder *builder, ch_node *x, const char *name);
/* Like ch_norm, for a latent, with "attention.latent_norm_eps". */
ch_node *ch_latent_norm(ch_builder *builder, ch_node *latent, const char *name);
/* Rotates the last `rotary` dims of heads of head_dim by the positions of the tokens: those of this run, or
   of the cache if x is a streamed value. Returns x itself if the model has no RoPE. */
ch_node *ch_apply_rope(ch_builder *builder, ch_node *x, int64_t head_dim, int64_t rotary);
/* Computes RoPE's inverse frequencies [rotary / 2] with the config's scaling applied. */
void ch_rope_frequencies(const ch_config *config, int64_t rotary, int64_t tokens, double *frequencies);
/* Like ch_apply_rope, for queries: also multiplies them by YaRN's factor for the scores of rotated dims. */
ch_node *ch_rotate_queries(ch_builder *builder, ch_node *q, int64_t head_dim, int64_t rotary);
/* Returns YaRN's or LongRoPE's factor for the scores of rotated dims (in DeepSeek's MLA for whole scores),
   else 1. */
double ch_rope_score_scale(const ch_config *config);
double ch_latent_score_scale(const ch_config *config);
/* Returns ALiBi's slopes of `count` query heads: first, first + step, ... of all heads. NULL without
   ALiBi. */
const double *ch_alibi_slopes(ch_builder *builder, int64_t first, int64_t step, int64_t count);
/* softmax(...) as ch_op_attend: causal if the model is, within documents. If spec.slopes is NULL and the
   model has ALiBi, the slopes are those of heads 0, 1, 2 ... */
ch_node *ch_attend_states(ch_builder *builder, ch_node *q, ch_node *keys, ch_node *values,
                          ch_attend_spec spec);

/* --- modules: stages that return their input unchanged if the config does not ask for them; `on` is CH_ON_Q,
   CH_ON_K or CH_ON_V and names the tensors: "q_...", "k_...", "v_..." --- */

/* qk_norm.c: RMSNorm of every query or key head, or of all heads as one, before RoPE; `on` may name both when
   declaring. */
void ch_qk_norm_declare(ch_declaration *declaration, unsigned on, int64_t head_dim);
ch_node *ch_qk_norm(ch_builder *builder, unsigned on, ch_node *heads);
/* head_norm.c: RMSNorm of every head's context vector, before the output projection. */
void ch_head_norm_declare(ch_declaration *declaration, int64_t value_dim);
ch_node *ch_head_norm(ch_builder *builder, ch_node *context);
/* mix_heads.c: MEA's linear combinations of component heads. */
void ch_head_mix_declare(ch_declaration *declaration, unsigned on);
ch_node *ch_mix_heads(ch_builder *builder, unsigned on, ch_node *components);
/* Returns the number of heads that a key or value projection of the layer computes: components, or G_k,
   G_v. */
int64_t ch_projected_heads(const ch_config *config, int layer, unsigned on);
/* Returns the number of those heads that the cache holds: at most G_k, G_v. */
int64_t ch_cached_heads(const ch_config *config, int layer, unsigned on);
/* Returns true if the cache holds components, which are mixed as they are read. */
bool ch_mixed_on_read(const ch_config *config, int layer, unsigned on);
/* knocking.c: one map for all heads of the layer. */
void ch_knocking_declare(ch_declaration *declaration, unsigned on, int64_t head_dim);
ch_node *ch_knock(ch_builder *builder, unsigned on, ch_node *heads);
bool ch_is_knocked(const ch_config *config, unsigned on);
/* Maps queries with heads of `dim` for keys that are read before their linear knocking: q . (K k) = (K^T q) .
   k. */
ch_node *ch_knock_query_for_keys(ch_builder *builder, ch_node *q, int64_t dim);

/* --- keys_values.c: queries, keys and values by head as most mechanisms have them, with all their stages  */

/* Declare the tensors of k_proj and v_proj with heads of head_dim and of the modules on keys and values, and
   the modules on queries. */
void ch_keys_values_declare(ch_declaration *declaration);
void ch_query_modules_declare(ch_declaration *declaration);
/* Lists the cache's parts for keys and values, in this order. */
int ch_keys_values_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]);
/* Computes the states that x writes. ch_read_keys and ch_read_values return what a query reads from them. */
void ch_write_keys_values(ch_builder *builder, ch_node *x, ch_node *state[]);
ch_node *ch_read_keys(ch_builder *builder, ch_node *state);
ch_node *ch_read_values(ch_builder *builder, ch_node *state);
/* softmax(scale q k^T) v of these states by head. Components are mixed as they are read. For few queries over
   cached components of both, the mix is folded into queries and contexts instead, as latents are absorbed, so
   that nothing is mixed per token. */
ch_node *ch_attend_keys_values(ch_builder *builder, ch_node *q, ch_node *const state[], double scale);
/* Computes the contexts [N, H d] of projected queries with heads of head_dim: exclusive if the config says
   so, before any head norm. */
ch_node *ch_attend_by_head(ch_builder *builder, ch_node *q, ch_node *const state[]);
/* Applies the query modules and RoPE on the last `rotary` dims to projected queries. */
ch_node *ch_finish_queries(ch_builder *builder, ch_node *q, int64_t rotary);
/* Values of components: mixed and knocked. */
ch_node *ch_finish_values(ch_builder *builder, ch_node *components);

/* ch_rank_of_heads returns the rank of mechanisms with separate heads, H d. ch_width_of_shared_heads returns
   their latent width: the lesser of G_k d and G_v d, or the least h' d of any layer that mixes. */
int64_t ch_rank_of_heads(const ch_config *config);
int64_t ch_width_of_shared_heads(const ch_config *config);

/* ch_mechanism.rows of mechanisms with q_proj, k_proj and v_proj by heads of head_dim. */
int ch_rows_by_head(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]);

/* Declares the tensors of a layer's attention and the parts of its state; it has none if it reads an earlier
   layer's. */
void ch_attention_declare(ch_declaration *declaration);
int ch_layer_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]);
/* The limits of what a query of the layer being built sees, besides document starts. ch_attend_states
   passes them to attention. */
typedef struct ch_visibility {
  int64_t window, sinks; /* ch_attend_spec's */
  ch_node *logits;       /* of sinks [H], or NULL */
} ch_visibility;
ch_visibility ch_visibility_of(ch_builder *builder);
/* --- the whole attention of a layer: write, append to the cache if there is one, read --- */
ch_node *ch_attention(ch_builder *builder, ch_node *x);

#endif
