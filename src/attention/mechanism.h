/* The interface of attention mechanisms. A mechanism defines the state that a token writes, and how a query reads
 * states.
 *
 *   write(x) -> state      the vectors that later tokens read, from a token's hidden state x
 *   read(x, states) -> y   the attention output of the query at x over the states of all tokens that it sees
 * In training and prefill both functions run over whole sequences. In decoding, a token's state is written and the
 * cache is read. The KV cache is the concatenation of the states and nothing else: its size is the width that `state`
 * declares. A mechanism is one file with one ch_mechanism, and one line in registry.c. */
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
  /* shape in layers where the projection is not [out, in]; 0: there is no such layer */
  int64_t other_out, other_in;
  /* number of layers that have the projection; a group of layers has some projections only once */
  int64_t layers;
} ch_projection_shape;

typedef struct ch_projection_shapes {
  ch_projection_shape rows[CH_MAX_PROJECTIONS];
  int count;
} ch_projection_shapes;

/* The declaration of a model's tensors, layer by layer. */
typedef struct ch_declaration {
  const ch_config *config;
  ch_params *params;
  int layer;
  /* list of projections; if not NULL, projections are added to it instead of being declared */
  ch_projection_shapes *shapes;
} ch_declaration;

/* RoPE of `rotary` dims. The table and the levels are created when they are first needed. */
typedef struct ch_angles {
  int64_t rotary;
  bool local; /* true for the RoPE of "local_rope_layers" */
  const double *frequencies;
  /* table: cosines and sines of this run's positions; query_table: `table` times YaRN's or LongRoPE's factor */
  ch_node *table, *query_table;
  const void *levels; /* levels for cached positions (ch_rope_levels_for) */
  struct ch_angles *next;
} ch_angles;

/* The state of building a model's graph; `layer` is the layer being built. */
typedef struct ch_builder {
  ch_graph *graph;
  const ch_config *config;
  const ch_params *params;
  ch_node **leaves; /* [params->count] parameter leaves created so far */
  bool trainable;
  bool causal; /* true if a token sees only itself and earlier tokens; else its whole sequence (an encoder) */
  /* maximum tokens of a sequence in the cache, whose layers with a sliding window then have rings; 0: all layers store
     all tokens */
  int64_t capacity;
  int64_t context;      /* maximum number of tokens of the text that this run is a part of, for LongRoPE */
  bool cached;          /* true if states go through the cache: decoding and cached prefill */
  ch_cache_types cache; /* element types of the cache */
  bool gates_known;     /* true if the cache already holds the gates of all ids */
  /* true: gated latents are expanded token by token, even if tokens could be grouped by id */
  bool expand_gates;
  /* number of processes that share the columns of each gate's lookup table, if more than 1 */
  int table_shares;
  ch_node *document_start; /* first token that each token sees; NULL: attention crosses document boundaries */
  int layer;
  /* states: parts of the state of the last layer that wrote, as queries read them; written: the same parts before they
     are appended to the cache */
  ch_node *states[CH_MAX_STATE_PARTS], *written[CH_MAX_STATE_PARTS];
  struct ch_angles **angles; /* list of angles created so far, for all copies of this builder */
} ch_builder;

/* The modules that a mechanism can be combined with. Any other module in its config is an error. */
enum {
  CH_MODULE_QK_NORM = 1,
  CH_MODULE_HEAD_NORM = 2,
  CH_MODULE_KNOCK_LINEAR = 4,
  CH_MODULE_KNOCK_OTHER = 8, /* knocking of type mlp or gate */
  CH_MODULE_HEAD_MIX = 16,
  CH_MODULE_BIAS = 32,         /* attention_bias: q, k and v projections have biases */
  CH_MODULE_SINK_LOGITS = 512, /* softmax with a learned sink, by ch_attend_states */
  CH_MODULE_KV_GROUP = 1024,   /* later layers can read the keys and values of an earlier one */
  /* Head sizes have other keys: head_dim and num_key_value_heads do not apply. */
  CH_MODULE_OWN_SIZES = 64,
  /* Whole heads are rotated and multiplied as in keys_values.c: nope_layers, local_rope_layers,
     partial_rotary_factor, attention_multiplier and qk_norm_over apply. */
  CH_MODULE_BY_HEAD = 128,
  CH_MODULE_OUTPUT_BIAS = 256, /* attention_output_bias: o_proj has a bias */
  /* Scores of several heads become one: attn_logit_softcapping does not apply. */
  CH_MODULE_MIXES_SCORES = 2048
};

/* The rows of a projection that compute a query, key or value state: of every `stride` rows, `size` from
   `offset` on. */
typedef struct ch_state_rows {
  const char *name; /* projection: "k_proj" */
  unsigned on;      /* CH_ON_Q, CH_ON_K or CH_ON_V */
  int64_t stride, offset, size;
} ch_state_rows;

enum { CH_MAX_STATE_ROWS = 3 };

typedef struct ch_mechanism {
  const char *name; /* attention.type */
  unsigned modules; /* CH_MODULE_ bits */
  unsigned knocks;  /* CH_ON_ bits that knocking may name */
  unsigned mixes;   /* CH_ON_ bits that head mixing may name */
  /* The mechanism's own keys of the `attention` object, NULL-terminated, or NULL: rows of
     config_file/key_table.c. Under other mechanisms, these keys must have their defaults. */
  const char *const *keys;
  /* Sets the defaults of this type that differ from the table's; or NULL. Called before the other keys are
     read. */
  void (*defaults)(ch_config *config);
  /* Checks the mechanism's own requirements, beyond the general rules; or NULL. */
  ch_status (*check)(const ch_config *config, const char *where, ch_error *error);
  void (*declare)(ch_declaration *declaration);
  /* Lists the parts of a token's state in `layer` and returns their number. A layer without parts reads the states
     that the layer before it reads. In place of a part of width 0, it reads that layer's part. */
  int (*state)(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]);
  /* Computes the parts that have a width. builder->written has the parts that other layers wrote for these
     tokens. NULL: all parts have a fixed size (CH_PART_FIXED), and the operations of `read` update them. */
  void (*write)(ch_builder *builder, ch_node *x, ch_node *state[]);
  ch_node *(*read)(ch_builder *builder, ch_node *x, ch_node *const state[]);
  /* Lists the rows of projections that linear modules follow directly, so that the modules can be folded into the
     weights. Returns their number. NULL: nothing can be folded. */
  int (*rows)(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]);
  /* Returns the number of tokens that a pass over a long prompt should have, for mechanisms with work over the
     whole cache in every pass; or NULL. */
  int64_t (*long_pass)(const ch_config *config);
  /* Returns the number of heads times the rank of a head's query-key map, for a layer. */
  int64_t (*total_effective_rank)(const ch_config *config);
  /* Returns the width of the latent space that heads share in a layer. */
  int64_t (*shared_latent_dim)(const ch_config *config);
  const ch_preset *presets; /* names of the mechanism in `compare`; the last row has no name */
} ch_mechanism;

/* --- declaring tensors of the layer: "model.layers.{i}.self_attn.{name}", or ".linear_attn." ------------- */

/* Returns "self_attn", or "linear_attn" for layers of that type. */
const char *ch_attention_module(const ch_config *config, int layer);

/* Declares "{name}.weight" [out, in], or the tensors that the config puts in its place. The initial values of output
   projections are divided by sqrt(2 (layer + 1)), except with "init": "deepseek". */
void ch_declare_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in);
void ch_declare_output_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in);
/* Declares a projection of the rows of an embedding gate's table. Its products multiply hidden states, so the
   products' initial variance is 1 under any "init". */
void ch_declare_gate_projection(ch_declaration *declaration, const char *name, int64_t out, int64_t in);
/* Declares that two projections are multiplied without a norm between them. */
void ch_declare_product(ch_declaration *declaration, const char *first, const char *second);
/* Sets the initial standard deviation of a projection's separate matrix, unless "init" sets one. */
void ch_start_with(ch_declaration *declaration, const char *name, double std);
/* Declares that the input of a projection is `scale` times as large as a normed vector. */
void ch_declare_scaled_input(ch_declaration *declaration, const char *name, double scale);
/* Marks a projection that also multiplies cached states, or single heads, so that it is never block-quantised. */
void ch_keep_plain(ch_declaration *declaration, const char *name);
/* Returns the projection with this name in the list, or NULL. */
ch_projection_shape *ch_noted_projection(ch_projection_shapes *shapes, const char *name);
/* Declares "{name}.weight" [n], which starts at one. ch_declare_bias declares "{name}.bias" [n], which starts at
   zero. */
void ch_declare_norm(ch_declaration *declaration, const char *name, int64_t n);
void ch_declare_bias(ch_declaration *declaration, const char *name, int64_t n);
/* Declares `name` [n], which starts at `start` plus a normal of standard deviation `std`. */
void ch_declare_vector(ch_declaration *declaration, const char *name, int64_t n, double start, double std);
/* Declares `name` [rows, columns], a small matrix over heads or their dims. It is read as F32 (or F64) from any
   type in the file. The caller may change the row further. Returns NULL if out of memory, or if an earlier layer
   has the tensor (ch_is_of_writer). */
ch_param *ch_declare_head_matrix(ch_declaration *declaration, const char *name, int64_t rows, int64_t columns,
                                 ch_param_init init, double std);

/* Declares `name` [n]. `init` gives the distribution of each element. */
void ch_declare_drawn_vector(ch_declaration *declaration, const char *name, int64_t n, ch_param_init init);
/* Declares "{name}.weight" [channels, 1, taps] of a convolution by channel. It is read as F32 (or F64) from any
   type in the file. */
void ch_declare_conv(ch_declaration *declaration, const char *name, int64_t channels, int64_t taps);

/* Declares `name` [out, in], a matrix that multiplies x. It is not a projection, so layers cannot share
   it. */
void ch_declare_matrix(ch_declaration *declaration, const char *name, int64_t out, int64_t in);

/* Returns true if a tensor ("k_proj", "k_norm.weight") is used to compute what a token writes. Only the first layer
   of a "kv_layer_group" has such tensors: the functions above declare none for the others, and those below use the
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
/* Applies RMSNorm with "{name}.weight" to whole rows or to every head, by the weight's length. */
ch_node *ch_norm(ch_builder *builder, ch_node *x, const char *name);
/* Applies RMSNorm to a latent as ch_norm does, with "attention.latent_norm_eps". */
ch_node *ch_latent_norm(ch_builder *builder, ch_node *latent, const char *name);
/* Rotates the last `rotary` dims of heads of head_dim (the first ones if only part of head_dim is rotated) by the
   positions of the tokens: those of this run, or of the cache if x is a streamed value. Returns x unchanged if the
   layer has no RoPE. */
ch_node *ch_apply_rope(ch_builder *builder, ch_node *x, int64_t head_dim, int64_t rotary);
/* Computes RoPE's frequencies [rotary / 2], in radians per position, with the config's scaling, for a text of
   `tokens` tokens. */
void ch_rope_frequencies(const ch_config *config, int64_t rotary, int64_t tokens, double *frequencies);
/* Like ch_apply_rope, for queries: also multiplies them by YaRN's or LongRoPE's factor for the scores of rotated
   dims. */
ch_node *ch_rotate_queries(ch_builder *builder, ch_node *q, int64_t head_dim, int64_t rotary);
/* Returns YaRN's or LongRoPE's factor for the scores of rotated dims; 1 without them. */
double ch_rope_score_scale(const ch_config *config);
/* Returns YaRN's factor for whole scores, as in DeepSeek's MLA; 1 without it. */
double ch_latent_score_scale(const ch_config *config);
/* Returns ALiBi's slopes of `count` query heads, those with index first, first + step, ... Returns NULL without
   ALiBi. */
const double *ch_alibi_slopes(ch_builder *builder, int64_t first, int64_t step, int64_t count);
/* Attends like ch_op_attend: causal if the model is, within documents. If spec.slopes is NULL and the model has
   ALiBi, the slopes are those of heads 0, 1, 2 ... */
ch_node *ch_attend_states(ch_builder *builder, ch_node *q, ch_node *keys, ch_node *values,
                          ch_attend_spec spec);

/* --- modules: stages that return their input unchanged if the config does not have them; `on` is CH_ON_Q, CH_ON_K
   or CH_ON_V, and its letter begins the tensors' names: "q_...", "k_...", "v_..." --- */

/* qk_norm.c: RMSNorm of every query or key head, or of all heads as one, before RoPE. ch_qk_norm_declare also takes
   CH_ON_Q | CH_ON_K. */
void ch_qk_norm_declare(ch_declaration *declaration, unsigned on, int64_t head_dim);
ch_node *ch_qk_norm(ch_builder *builder, unsigned on, ch_node *heads);
/* head_norm.c: RMSNorm of every head's context vector, before the output projection. */
void ch_head_norm_declare(ch_declaration *declaration, int64_t value_dim);
ch_node *ch_head_norm(ch_builder *builder, ch_node *context);
/* mix_heads.c: MEA's linear combinations of component heads. */
void ch_head_mix_declare(ch_declaration *declaration, unsigned on);
ch_node *ch_mix_heads(ch_builder *builder, unsigned on, ch_node *components);
/* Returns the number of heads that the key or value projection of a layer computes: its components, or G_k or
   G_v. */
int64_t ch_projected_heads(const ch_config *config, int layer, unsigned on);
/* Returns the number of heads of keys or values in the cache: components if they are fewer, else G_k or G_v. */
int64_t ch_cached_heads(const ch_config *config, int layer, unsigned on);
/* Returns true if the cache holds components, which are mixed as they are read. */
bool ch_mixed_on_read(const ch_config *config, int layer, unsigned on);
/* knocking.c: one map for all heads of the layer, or with "per_head" one for each. */
void ch_knocking_declare(ch_declaration *declaration, unsigned on, int64_t head_dim);
ch_node *ch_knock(ch_builder *builder, unsigned on, ch_node *heads);
bool ch_is_knocked(const ch_config *config, unsigned on);
/* Maps queries with heads of `dim` for keys that are read before their linear knocking: q . (K k) = (K^T q) .
   k. */
ch_node *ch_knock_query_for_keys(ch_builder *builder, ch_node *q, int64_t dim);

/* --- keys_values.c: queries, keys and values by head, as in most mechanisms, with all their stages ------- */

/* Declares the tensors of k_proj and v_proj with heads of head_dim, and of the modules on keys and values. */
void ch_keys_values_declare(ch_declaration *declaration);
/* Declares the tensors of the modules on queries. */
void ch_query_modules_declare(ch_declaration *declaration);
/* Lists the cache's parts for keys and values, in this order. */
int ch_keys_values_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]);
/* Computes the states that x writes. ch_read_keys and ch_read_values compute keys and values from them. */
void ch_write_keys_values(ch_builder *builder, ch_node *x, ch_node *state[]);
ch_node *ch_read_keys(ch_builder *builder, ch_node *state);
ch_node *ch_read_values(ch_builder *builder, ch_node *state);
/* Computes softmax(scale q k^T) v by head from states of keys and values. Components are mixed as they are read.
   For few queries over cached components of both, the mix is folded into queries and contexts instead, so that
   nothing is mixed per token. */
ch_node *ch_attend_keys_values(ch_builder *builder, ch_node *q, ch_node *const state[], double scale);
/* Computes the contexts [N, H d] of projected queries with heads of head_dim, before any head norm. They are
   exclusive if the config has "exclusive". */
ch_node *ch_attend_by_head(ch_builder *builder, ch_node *q, ch_node *const state[]);
/* Applies the query modules and RoPE on the last `rotary` dims to projected queries. */
ch_node *ch_finish_queries(ch_builder *builder, ch_node *q, int64_t rotary);
/* Returns values from components: mixed and knocked. */
ch_node *ch_finish_values(ch_builder *builder, ch_node *components);

/* Returns the rank of mechanisms with separate heads, H d. */
int64_t ch_rank_of_heads(const ch_config *config);
/* Returns the latent width of mechanisms with separate heads: the lesser of G_k d and G_v d, or the least h' d of
   any layer that mixes. */
int64_t ch_width_of_shared_heads(const ch_config *config);

/* The ch_mechanism.rows of mechanisms with q_proj, k_proj and v_proj by heads of head_dim. */
int ch_rows_by_head(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]);

/* Declares the tensors of a layer's attention. */
void ch_attention_declare(ch_declaration *declaration);
/* Lists the parts of a layer's state and returns their number: 0 if the layer reads an earlier layer's state. */
int ch_layer_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]);
/* The limits of what a query of the layer being built sees, besides document starts. ch_attend_states passes them
   to attention. */
typedef struct ch_visibility {
  /* window: number of tokens in the sliding window, 0: no window; sinks: number of first tokens that stay visible */
  int64_t window, sinks;
  ch_node *logits; /* [H] sink logits, or NULL */
} ch_visibility;
ch_visibility ch_visibility_of(ch_builder *builder);
/* --- the whole attention of a layer: write, append to the cache if there is one, read --- */
ch_node *ch_attention(ch_builder *builder, ch_node *x);

#endif
