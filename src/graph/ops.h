/* The builders of operations. Shapes are in brackets, and the result's follows "->". N is sequences * length, the
 * number of rows. Every builder returns NULL after a failure (see graph.h). Forward, backward, shape rule and cost of
 * each operation are in graph/ops/NAME.c. */
#ifndef CH_GRAPH_OPS_H
#define CH_GRAPH_OPS_H

#include "graph/cache.h"
#include "graph/graph.h"

/* Looks up rows of a table: ids [N], weight [V, D] -> [N, D]. */
ch_node *ch_op_embedding(ch_graph *graph, ch_node *ids, ch_node *weight);
/* Like ch_op_embedding, for a table whose columns are divided among `shares` processes. `weight` has the rows
   of this run's tokens, share after share: each process looked up its own columns (graph/ops/joined_rows.c). */
ch_node *ch_op_joined_rows(ch_graph *graph, ch_node *ids, ch_node *weight, int shares);

/* Computes y = x W^T (+ bias): x [N, in], weight [out, in], bias [out] or NULL -> [N, out]. If a row of x is n times
   as long, it holds n heads, and the same W multiplies each -> [N, n * out]. */
ch_node *ch_op_linear(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *bias);

/* Computes x / sqrt(mean(x^2) + eps) * weight over groups of weight's length: a norm of the whole row if weight is
   [columns], of each head if it is [head_dim]. */
ch_node *ch_op_rmsnorm(ch_graph *graph, ch_node *x, ch_node *weight, double eps);

/* Like ch_op_rmsnorm, over `heads` groups of every row, each with its own slice of weight [columns]. */
ch_node *ch_op_rmsnorm_sliced(ch_graph *graph, ch_node *x, ch_node *weight, int64_t heads, double eps);

/* Computes (x - mean) / sqrt(var + eps) * weight + bias over whole rows. */
ch_node *ch_op_layernorm(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *bias, double eps);

/* Computes a + b; both have the same shape. */
ch_node *ch_op_add(ch_graph *graph, ch_node *a, ch_node *b);

/* Computes a * b, element by element. b has a's shape, or it is a vector, or a parameter of any shape, that repeats
   along the rows. */
ch_node *ch_op_mul(ch_graph *graph, ch_node *a, ch_node *b);

/* Computes factor * x. */
ch_node *ch_op_scale(ch_graph *graph, ch_node *x, double factor);

/* Computes scale * x * sigmoid(gate); x and gate have the same shape. */
ch_node *ch_op_sigmoid_gate(ch_graph *graph, ch_node *x, ch_node *gate, double scale);

/* Computes a - lambda * b for `groups` groups of every row. lambda is [groups], or [1] for all groups. */
ch_node *ch_op_subtract_scaled(ch_graph *graph, ch_node *a, ch_node *b, ch_node *lambda, int64_t groups);

/* Computes exp(q1 . k1) - exp(q2 . k2) + start from vectors [d] -> [1]. */
ch_node *ch_op_diff_lambda(ch_graph *graph, ch_node *q1, ch_node *k1, ch_node *q2, ch_node *k2, double start);

/* Mixes the heads of every row. Output head g is the sum over j of mix[g, j] times input head j: x [N, h * d], mix
   [G, h] -> [N, G * d]. */
ch_node *ch_op_head_mix(ch_graph *graph, ch_node *x, ch_node *mix);

/* Mix the heads of queries instead of keys, and of contexts instead of values. Head h uses row g = floor(h G / heads)
   of mix [G, h']. ch_op_spread_heads, [N, heads * d] -> [N, heads * h' d]: part j of head h is mix[g, j] times head h
   of x. Then q . K_mixed = spread(q) . K_components. ch_op_collapse_heads, [N, heads * h' d] -> [N, heads * d]: head h
   is the sum over j of mix[g, j] times part j of head h of x. Neither operation has a gradient. */
ch_node *ch_op_spread_heads(ch_graph *graph, ch_node *x, ch_node *mix, int64_t heads);
ch_node *ch_op_collapse_heads(ch_graph *graph, ch_node *x, ch_node *mix, int64_t heads);

enum { CH_MAX_JOINED = 4 };

/* Joins one slice of each input, head by head -> [N, heads * (sum of widths)]; at most CH_MAX_JOINED
   parts. */
ch_node *ch_op_join_heads(ch_graph *graph, int64_t heads, int parts, ch_node *const *in,
                          const ch_head_slice *slices);
/* Cuts heads out of x -> [N, heads * slice.width]. */
ch_node *ch_op_slice_heads(ch_graph *graph, ch_node *x, int64_t heads, ch_head_slice slice);
/* Repeats every head of `dim` columns `times` times: [N, heads * dim] -> [N, heads * times * dim]. */
ch_node *ch_op_repeat_heads(ch_graph *graph, ch_node *x, int64_t dim, int64_t times);

/* Computes exclusive attention: z_h = y_h - (y_h . u) u with u = v / max(|v|, 1e-12), where v is the value that head h
   reads. Contexts y are [N, heads * d] and values of the same tokens [N, G * d] -> [N, heads * d]. */
ch_node *ch_op_exclude(ch_graph *graph, ch_node *contexts, ch_node *values, int64_t heads);

/* Multiplies factors for every token: head h = scale * sum over k of a[h, k] b[k], with a [N, heads * rank]
   and b [N, rank * d] -> [N, heads * d]. */
ch_node *ch_op_factor_product(ch_graph *graph, ch_node *a, ch_node *b, int64_t heads, double scale);

/* Appends `heads` columns to every head of x [N, heads * d]: 1 in column h of head h, 0 in the others -> [N,
   heads * (d + heads)]. */
ch_node *ch_op_tag_heads(ch_graph *graph, ch_node *x, int64_t heads);

/* The rows of a matrix that belong to each head: `rows` rows from head * stride + first on. */
typedef struct ch_head_rows {
  int64_t heads, stride, first, rows;
  bool transposed; /* true for products with the transposed rows */
} ch_head_rows;

/* Multiplies head h of x by its rows of W [.., columns]: W_h x, [N, heads * columns] -> [N, heads * rows]. If
   transposed: W_h^T x, [N, heads * rows] -> [N, heads * columns]. W may also be [heads, rows, columns]. W has
   a gradient only if the rows of the heads are adjacent and cover it. */
ch_node *ch_op_head_product(ch_graph *graph, ch_node *x, ch_node *weight, ch_head_rows heads);

/* Combines atoms [S, out, in] to a matrix [out, in]: the sum over s of c[s] times atom s, where c is row
   `row` of coefficients [L, S] (or [S], row 0). If coefficients is NULL, it is atom `row` itself. */
ch_node *ch_op_combine_atoms(ch_graph *graph, ch_node *atoms, ch_node *coefficients, int64_t row);

/* Multiplies two weights B [out, rank] and A [rank, in] -> B A [out, in]. */
ch_node *ch_op_matrix_product(ch_graph *graph, ch_node *b, ch_node *a);

/* Computes silu(gate) * up; both have the same shape. */
ch_node *ch_op_swiglu(ch_graph *graph, ch_node *gate, ch_node *up);

/* SwiGLU with clamps: g s(alpha g) (u + 1), where g = min(gate, limit), u = up clamped to -limit … limit, s the
   sigmoid. */
typedef struct ch_swiglu_clamps {
  double alpha, limit;
} ch_swiglu_clamps;
ch_node *ch_op_clamped_swiglu(ch_graph *graph, ch_node *gate, ch_node *up, const ch_swiglu_clamps *clamps);
/* Computes GELU, x * Phi(x). ch_op_gelu_tanh computes its approximation with a tanh. */
ch_node *ch_op_gelu(ch_graph *graph, ch_node *x);
ch_node *ch_op_gelu_tanh(ch_graph *graph, ch_node *x);
/* Computes a soft cap, cap * tanh(x / cap). */
ch_node *ch_op_soft_cap(ch_graph *graph, ch_node *x, double cap);

/* Computes max(x, 0). ch_op_relu_squared computes its square. */
ch_node *ch_op_relu(ch_graph *graph, ch_node *x);
ch_node *ch_op_relu_squared(ch_graph *graph, ch_node *x);

/* Computes cosines and sines of position * frequency: positions [N], frequencies [rotary / 2] (copied) -> [N,
   rotary]. */
ch_node *ch_op_rope_table(ch_graph *graph, ch_node *positions, int64_t rotary, const double *frequencies);

/* Rotates the last dims of every head of x [N, heads * head_dim], or with `leading` the first dims; their number
   is the table's number of columns. */
ch_node *ch_op_rope(ch_graph *graph, ch_node *x, ch_node *table, int64_t head_dim, bool leading,
                    bool interleaved);

/* Returns rotary levels from ch_kernels.rope_levels in the graph's arena, for ch_op_rope_states; one set
   serves all layers. Returns NULL, with a graph error, if out of memory. */
const void *ch_rope_levels_for(ch_graph *graph, int64_t rotary, const double *frequencies);
/* Like ch_op_rope, for states in the cache: each token is rotated by its position in the text. */
ch_node *ch_op_rope_states(ch_graph *graph, ch_node *x, const void *levels, int64_t rotary, int64_t head_dim,
                           bool leading, bool interleaved);

/* The tokens that a query of a layer sees, and that the cache stores of the layer. */
typedef struct ch_ring {
  int64_t window, sinks; /* numbers of last and of first tokens that a query sees */
  int64_t capacity; /* maximum tokens of a sequence; above window + sinks, the layer has a ring; 0: no ring */
} ch_ring;
/* Writes x [N, width] into the cache, which stores it as `dtype`, as part `part` of the states of `layer`, after
   the tokens already there. The node's value is then the states of all tokens. Decoding only. A part by id is
   written to the rows of the tokens' ids, and the node's value is the rows of all tokens' ids. ring NULL: a
   query sees all tokens, and the cache stores all. */
ch_node *ch_op_append(ch_graph *graph, ch_node *x, int layer, int part, ch_part_kind kind, ch_dtype dtype,
                      const ch_ring *ring);

/* Gathers rows [N, width] of a part by ids [N], for parts whose rows exist before the first token. */
ch_node *ch_op_rows_by_id(ch_graph *graph, ch_node *ids, int layer, int part, int64_t width);

/* ch_op_moments computes the mean and 1/sqrt(variance + eps) of every row -> [N, 2]. ch_op_normalise_states
   computes (x - mean) / std * weight + bias with these moments, on states. Together, the two operations are a
   layernorm whose columns can be computed separately. Inference only. */
ch_node *ch_op_moments(ch_graph *graph, ch_node *x, double eps);
ch_node *ch_op_normalise_states(ch_graph *graph, ch_node *x, ch_node *moments, ch_node *weight,
                                ch_node *bias);

/* Returns the states of this run's own tokens in the form in which the cache stores them [N, width]. Returns
   values that are not in a cache unchanged. */
ch_node *ch_op_own_states(ch_graph *graph, ch_node *states);

/* The columns of a node that are an operand's heads: head h begins at offset + h * stride. Zeros: the heads are
   adjacent and are all of the node's columns. */
typedef struct ch_head_columns {
  int64_t offset, stride;
} ch_head_columns;

typedef struct ch_attend_spec {
  int64_t heads, kv_heads, key_dim, value_dim;
  ch_head_columns q_columns, key_columns, value_columns;
  /* true if all kv_heads have the same key, or the same value; for states in a cache */
  bool one_key, one_value;
  double scale;
  double soft_cap;      /* c: scores are c tanh(scale q k / c), before their bias; 0: no cap */
  const double *slopes; /* ALiBi slopes [heads], copied; or NULL */
  bool causal;
  int64_t window, sinks; /* tokens of the window, 0: no window; first tokens that stay visible */
} ch_attend_spec;

/* Computes softmax(scale q k^T + bias) v for every head: q [N, heads * key_dim], keys [N, kv_heads * key_dim] and
   values [N, kv_heads * value_dim], of this run or from the cache, document_start [N] or NULL -> [N, heads *
   value_dim]. With sinks [n], n a divisor of the heads, the softmax of head h has one more term, e^sink[h mod
   n], whose value is zero. Operands may be columns of wider nodes, and of one node. A value head may be the
   beginning of its key head; no other columns may be shared. The gradient of a wider node is zero in its other
   columns. With one_key, keys are [N, key_dim]; with one_value, values are [N, value_dim]. */
ch_node *ch_op_attend(ch_graph *graph, ch_node *q, ch_node *keys, ch_node *values, ch_node *document_start,
                      ch_node *sinks, const ch_attend_spec *spec);

/* Like ch_op_attend, with talking heads; kv_heads = heads. logit_mix [heads, heads] mixes the scores (with their
   bias, before the mask) over heads, weight_mix [heads, heads] the weights; row g gives mixed head g. Either may
   be NULL. */
ch_node *ch_op_talking_attend(ch_graph *graph, ch_node *q, ch_node *keys, ch_node *values, ch_node *logit_mix,
                              ch_node *weight_mix, ch_node *document_start, const ch_attend_spec *spec);

/* Returns the spec of a node of ch_op_attend or ch_op_talking_attend, or NULL for other nodes. The first
   inputs of these nodes are queries and keys. */
const ch_attend_spec *ch_attend_spec_of(const ch_node *node);

/* Sizes of gated latent attention. EG-MLA calls latent c, rope r, nope n and value v. */
typedef struct ch_gated_spec {
  int64_t heads, latent, rope, nope, value;
  int64_t ids; /* the vocabulary size */
  double scale;
  const double *slopes; /* ALiBi slopes [heads] in the graph's arena, or NULL */
} ch_gated_spec;

/* Attends with one query per sequence, q [N, heads * (n + r)], to cached latents [c + r]. kv_b [heads * (n +
   v), c] expands them; the expansion is multiplied by gates (cached by id) and normed, if moments, weight and
   bias are not NULL. Tokens of one id are computed together (tensor/gated_attend.h) -> [N, heads * v]. Has no
   gradient. */
ch_node *ch_op_gated_attend(ch_graph *graph, ch_node *q, ch_node *latents, ch_node *gates, ch_node *kv_b,
                            ch_node *moments, ch_node *weight, ch_node *bias, const ch_gated_spec *spec);

/* Sizes of attention over factors (tensor/factor_attend.h). */
typedef struct ch_factor_spec {
  int64_t heads, k_rank, v_rank;
  double scale;          /* factor of scores, without 1 / k_rank */
  double soft_cap;       /* c: scores are c tanh(score / c), before their bias; 0: no cap */
  const double *slopes;  /* ALiBi slopes [heads] in the graph's arena, or NULL */
  int64_t window, sinks; /* tokens of the window, 0: no window; first tokens that stay visible */
} ch_factor_spec;

/* Attends with queries [N, heads * d] to the cached factors of keys and values, a_k [heads * k_rank], b_k
   [k_rank * d], a_v [heads * v_rank], b_v [v_rank * d]; document_start [N] or NULL, sinks [heads] or NULL as
   in ch_op_attend -> [N, heads * d]. Causal. Has no gradient. */
ch_node *ch_op_factor_attend(ch_graph *graph, ch_node *q, ch_node *a_k, ch_node *b_k, ch_node *a_v,
                             ch_node *b_v, ch_node *document_start, ch_node *sinks,
                             const ch_factor_spec *spec);

/* --- states of constant size: a pass begins with the states in the cache and stores its last states there --- */

/* The state in the cache that an operation updates, a part of kind CH_PART_FIXED. */
typedef struct ch_kept_state {
  bool is_kept;    /* true if the cache has such a state */
  int layer, part; /* index of the layer, and of the part in it */
} ch_kept_state;

/* Computes silu(sum over j of w_j x_{t-j}), channel by channel: x [N, C], weight [C, 1, taps] whose last tap multiplies
   the token itself, document_start [N] or NULL -> [N, C]. If weight is NULL, computes silu(x). `kept` names the stored
   taps - 1 rows of x before the pass; NULL: the pass begins a text. */
ch_node *ch_op_short_conv(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *document_start,
                          const ch_kept_state *kept);

/* Computes scale * x / sqrt(sum(x^2) + eps) over every head of `dim` columns. */
ch_node *ch_op_l2norm(ch_graph *graph, ch_node *x, int64_t dim, double eps, double scale);

/* Computes the logarithms of decays, -e^rate softplus(x + bias): x [N, n], rate and bias [n] -> [N, n]. */
ch_node *ch_op_decay(ch_graph *graph, ch_node *x, ch_node *rate, ch_node *bias);

/* Computes scale * sigmoid(x). */
ch_node *ch_op_sigmoid(ch_graph *graph, ch_node *x, double scale);

/* Operands of the gated delta rule: q and k [N, heads * d_k], v [N, H_v * d_v], decay (log a) and beta [N, H_v]. */
typedef struct ch_delta_operands {
  ch_node *q, *k, *v, *decay, *beta;
} ch_delta_operands;
/* Computes the gated delta rule (tensor/delta_rule.h): operands, document_start [N] or NULL -> [N, H_v * d_v]. `kept`
   names the stored states [H_v, d_k, d_v]; NULL: states begin at zero. */
ch_node *ch_op_delta_rule(ch_graph *graph, const ch_delta_operands *operands, ch_node *document_start,
                          int64_t heads, const ch_kept_state *kept);

/* Computes the cross entropy of x W^T against targets, with a soft cap if cap is above 0. It never stores N x
   V logits: x [N, D], weight [V, D], targets [N] (-1: no loss) -> [N, 1]. */
ch_node *ch_op_lm_loss(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *targets, double cap);
/* Like ch_op_lm_loss, with a second column: the number of logits that come before the target's -> [N, 2]. Has
   no gradient. */
ch_node *ch_op_lm_loss_and_rank(ch_graph *graph, ch_node *x, ch_node *weight, ch_node *targets, double cap);

/* --- images: a sequence is an image, its rows are the class token and the patches --- */

/* Cuts pixels [sequences, C, S, S] into patches [sequences * (S / patch)^2, C * patch^2]. A row is a patch
   [C, patch, patch]. */
ch_node *ch_op_patches(ch_graph *graph, ch_node *pixels, int64_t patch);
/* Puts the class token before the patches of each sequence and adds positions: patches [sequences * (length -
   1), D], token [D], positions [length, D] -> [N, D]. */
ch_node *ch_op_image_tokens(ch_graph *graph, ch_node *patches, ch_node *token, ch_node *positions);
/* Computes the cross entropy of logits [rows, K] against targets [rows] (-1: no loss). `smoothing` of each
   target is spread over all classes -> [rows, 1]. */
ch_node *ch_op_cross_entropy(ch_graph *graph, ch_node *logits, ch_node *targets, double smoothing);
/* Counts the logits that come before the target's -> [rows, 1]; 0: the target is the first choice. Has no
   gradient. */
ch_node *ch_op_target_rank(ch_graph *graph, ch_node *logits, ch_node *targets);

/* --- mixture of experts --- */

typedef struct ch_choice_spec {
  int64_t active;                /* experts per token */
  bool sigmoid;                  /* true if the sigmoid of each logit replaces the softmax */
  int64_t groups, active_groups; /* groups > 1: only the best groups are chosen from (ch_routing_rule) */
} ch_choice_spec;
/* Chooses the `active` experts with the largest logits [N, E], or with bias [E] those with the largest softmax +
   bias -> integers [N, active]. `layer` is the index among the layers with experts, a row of ch_routing.load;
   below 0: loads are not counted. */
ch_node *ch_op_choose_experts(ch_graph *graph, ch_node *logits, ch_node *bias, const ch_choice_spec *spec,
                              int layer);

typedef struct ch_route_spec {
  bool renormalise;           /* true if the weights of the chosen experts sum to `scale` */
  double scale;               /* factor of the weights */
  double balance_coefficient; /* coefficient of the balance loss; 0: no such loss */
  bool sigmoid;               /* true if the sigmoid of each logit replaces the softmax */
} ch_route_spec;

/* Returns the weights of the chosen experts: logits [N, E], chosen [N, active] -> [N, active]. */
ch_node *ch_op_route(ch_graph *graph, ch_node *logits, ch_node *chosen, const ch_route_spec *spec);

/* Computes the weights of `shared` + `routed` heads (tensor/head_weights.h): from the weights and numbers of
   the chosen routed heads [N, active], stage logits [N, 2] if there are shared heads, and logits of the
   shared heads [N, shared] if there are two or more -> [N, shared + routed]. */
ch_node *ch_op_head_weights(ch_graph *graph, ch_node *weights, ch_node *chosen, ch_node *stage,
                            ch_node *shared, int64_t routed, int64_t shared_heads);

/* The weights of SwiGLU experts. */
typedef struct ch_expert_weights {
  int64_t experts;
  ch_node *const *gate, *const *up, *const *down;                /* [experts] [F, D], [F, D], [D, F] */
  ch_node *const *gate_bias, *const *up_bias, *const *down_bias; /* [experts] vectors; or all NULL */
  const ch_swiglu_clamps *clamps;                                /* NULL: SwiGLU without clamps */
} ch_expert_weights;

/* Sums share * down_e (silu(gate_e x) * up_e x) over a token's chosen experts e, optionally with biases and
   clamps. Each expert computes only the tokens that chose it: x [N, D], shares (the weights) and chosen [N,
   active] -> [N, D]. */
ch_node *ch_op_experts(ch_graph *graph, ch_node *x, ch_node *shares, ch_node *chosen,
                       const ch_expert_weights *weights);

/* Returns row `row` of every sequence: [N, columns] -> [sequences, columns]. */
ch_node *ch_op_sequence_row(ch_graph *graph, ch_node *x, int64_t row);

#endif
