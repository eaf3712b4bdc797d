/* Declarations for the files of the reference: the sequence in progress, its weights, and small linear algebra. */
#ifndef TESTS_ATTENTION_REFERENCE_PRIVATE_H
#define TESTS_ATTENTION_REFERENCE_PRIVATE_H

#include "base/arena.h"

#include "reference.h"

/* The state of the pass over one sequence. */
typedef struct reference_run {
  const reference_config *config;
  reference_weights *weights;
  ch_arena *arena; /* memory of the pass */
  int64_t sequence, length;
  const int32_t *tokens; /* [length] */
  const int32_t *start;  /* [length] first position seen, or NULL */
  int layer;
  double *kept_keys, *kept_values; /* [length][groups][d] of the first layer of a kv_layer_group */
  /* mla: a group's latents [length][c] from the cache; the latents before the cache rounds them; the rotary key
     [length][r]; keys [length][heads][n + r]; values [length][heads][v] */
  double *group_latent, *group_exact, *group_rotary, *group_keys, *group_values;
} reference_run;

double *reference_zeros(reference_run *run, int64_t count);

/* Return the weights of "model.layers.{i}.{name}": [rows, columns], [count, rows, columns], or [n].
   reference_has returns true if they exist. */
const double *reference_matrix(reference_run *run, const char *name, int64_t rows, int64_t columns);
const double *reference_matrices(reference_run *run, const char *name, int64_t count, int64_t rows,
                                 int64_t columns);
const double *reference_vector(reference_run *run, const char *name, int64_t n);
bool reference_has(reference_run *run, const char *name);
/* Return weights by their full name. reference_atoms returns [rows, columns, depth]. reference_model_tensor returns
   [rows, columns] if `rank` is 2, or [rows] if it is 1. */
const double *reference_atoms(reference_run *run, const char *name, int64_t rows, int64_t columns,
                              int64_t depth);
const double *reference_model_tensor(reference_run *run, const char *name, int rank, int64_t rows,
                                     int64_t columns);

/* --- linear.c --- */

/* Computes y[t] = W x[t]: x [length][in], W [out, in]. */
double *reference_apply(reference_run *run, const double *x, int64_t in, const double *weight, int64_t out);
/* Applies "self_attn.{name}.weight" and, if there is one, its bias. */
double *reference_project(reference_run *run, const char *name, const double *x, int64_t in, int64_t out);
/* Normalises each of `count` vectors of n numbers, in place. */
void reference_rmsnorm(double *x, int64_t count, int64_t n, const double *weight, double eps);
void reference_layernorm(double *x, int64_t count, int64_t n, const double *weight, const double *bias,
                         double eps);
/* Applies LayerNorm to x with the mean and variance of the vectors `of`. */
void reference_layernorm_of(const double *of, double *x, int64_t count, int64_t n, const double *weight,
                            const double *bias, double eps);
/* Rotates the last `rotary` of every head's `dim` numbers, or the first ones if rotary_share is below 1, by the token's
   position, in place. x is [length][heads][dim]. Does nothing in layers without RoPE. */
void reference_rope(reference_run *run, double *x, int64_t heads, int64_t dim, int64_t rotary);
double reference_sigmoid(double x);

/* --- sharing.c --- */

/* Returns the matrix [out, in] of the projection "self_attn.{name}", which may be composed from shared parts. */
const double *reference_projection(reference_run *run, const char *name, int64_t out, int64_t in);
/* reference_shared_parameters returns the number of parameters that sharing adds to attention (negative: saves).
   reference_uncounted_parameters returns by how much the stored elements outnumber the parameters. */
int64_t reference_shared_parameters(const reference_config *config);
int64_t reference_uncounted_parameters(const reference_config *config);

/* --- heads.c: the simulated cache --- */

/* Appends part `part` of the states, x [length][width], to the simulated cache, and replaces x by the stored
   values. */
void reference_append(reference_run *run, const char *part, double *x, int64_t width);

/* --- modules.c --- */

/* Passes x [length][heads][dim] through "self_attn.{which}_knock" if the config has knocking on `which`: 'q', 'k' or
   'v'. */
double *reference_knocked(reference_run *run, char which, double *x, int64_t heads, int64_t dim);
/* Returns the number of component heads from which the layer mixes its keys ('k') or values ('v'), or 0 if it does not
   mix. */
int64_t reference_components(const reference_run *run, char which);
/* Mixes components into heads [length][groups][head_dim]. */
double *reference_mixed(reference_run *run, char which, const double *component);
/* Applies the optional QK norm to queries ('q') or keys ('k'), in place. */
void reference_qk_norm(reference_run *run, char which, double *x, int64_t heads, int64_t dim);
/* Applies exclusive attention if the config has it: removes from the contexts [length][heads][dim] their part along the
   values [length][value groups][dim] of their own tokens, in place. */
void reference_exclude(reference_run *run, double *context, const double *values, int64_t dim);
/* Applies the optional norm to every head's context, in place. */
void reference_head_norm(reference_run *run, double *context, int64_t heads, int64_t dim);

/* --- softmax.c --- */

/* Returns the last key that query t sees: key t, or in images the last key. */
int64_t reference_last(const reference_run *run, int64_t t);
/* Computes the scores of query t of `head` with its keys, positions included. q is [dim]; key j starts at
   keys + j * stride. */
void reference_scores(reference_run *run, int64_t head, int64_t t, const double *q, const double *keys,
                      int64_t stride, int64_t dim, double scale, double *scores);
/* Returns cap tanh(x / cap), or x without a cap. */
double reference_capped(double x, double cap);
/* Replaces the scores of query t by weights. Keys before the document have weight zero, and in layers with a window, so
   have keys before the window except sinks. Returns ln of the sum of the exponentials. */
double reference_softmax(reference_run *run, int64_t t, double *scores);
/* Returns the factor of a head's context that comes from its learned sink logit, or 1 without sink logits. */
double reference_sink_factor(reference_run *run, int64_t head, double log_sum);
/* Adds to `sum` factor * the weighted values that query t sees. Value j starts at values + j * stride. */
void reference_gather(reference_run *run, int64_t t, const double *weights, double factor,
                      const double *values, int64_t stride, int64_t dim, double *sum);
/* Returns softmax(scale q k) v of all heads: q [length][heads][key_dim], keys [length][groups][key_dim] and
   values [length][groups][value_dim] give [length][heads][value_dim]. */
double *reference_attend(reference_run *run, int64_t groups, const double *q, const double *keys,
                         int64_t key_dim, const double *values, int64_t value_dim, double scale);
/* Like reference_attend, with different numbers of heads for keys and values. */
double *reference_attend_apart(reference_run *run, int64_t key_groups, const double *q, const double *keys,
                               int64_t key_dim, int64_t value_groups, const double *values, int64_t value_dim,
                               double scale);

/* --- heads.c: functions for mechanisms with keys and values by head --- */

struct projection_shape;
/* Returns the queries [length][heads][d] after the QK norm, not yet rotated. */
double *reference_queries(reference_run *run, const double *x);
/* Returns the finished values of "self_attn.{name}" and appends them to the cache as `part`: as components if there are
   fewer components than heads, or else as whole heads. */
double *reference_values(reference_run *run, const char *name, const char *part, const double *x);
/* Computes rotated queries, rotated keys and values of gqa and similar mechanisms. */
void reference_queries_keys_values(reference_run *run, const double *x, double **q, double **k, double **v);
/* Return a number of heads of keys ('k') or values ('v'). reference_groups counts the heads that attention reads,
   reference_component_heads those that a layer's projection computes, and reference_cached_heads those in a layer's
   cache. */
int64_t reference_groups(const reference_config *config, char which);
int64_t reference_component_heads(const reference_config *config, char which, int layer);
int64_t reference_cached_heads(const reference_config *config, char which, int layer);
/* reference_projections_by_head lists q_proj, k_proj, v_proj and o_proj, and returns their number.
   reference_cache_by_head returns the elements per token in a layer's cache. */
int reference_projections_by_head(const reference_config *config, int layer, struct projection_shape *shapes);
int64_t reference_cache_by_head(const reference_config *config, int layer);

/* --- linear_layers.c --- */

/* Layers with a state of constant size. reference_linear_attention returns the output [length][hidden] for x
   [length][hidden]. reference_linear_parameters returns the number of a layer's parameters, and reference_linear_state
   the number of elements in a sequence's state. */
double *reference_linear_attention(reference_run *run, const double *x);
int64_t reference_linear_parameters(const reference_config *config);
int64_t reference_linear_state(const reference_config *config);

/* --- images.c --- */

/* Returns the tokens [length][hidden] of an image [channels][size][size]. */
double *reference_image_tokens(reference_run *run, const double *pixels);

/* --- feed_forward.c --- */

double *reference_feed_forward(reference_run *run, const double *x);

#endif
