/* Several latents of a token, each read by a group of heads, in one or several branches. Each branch has its own
 * softmax:
 *
 *   write:  l_j = s norm_j((W_a x)_j)  [w = c / m, m of them],   r = RoPE(W_r x)  [r, one for all heads]
 *   read:   branch b's head h: (k, v) = B_(b,h) l_j,  j = floor((b H + h) m / (branches H))
 *           o_h = s_o sum over b of softmax(q_h (k, r)^T / sqrt(n + r)) v;   y = W_o headnorm(o)
 *
 * The branches * H heads of all branches are numbered through, and each latent serves an equal number of them. One
 * branch is grouped latent attention (gla.c); one branch with one latent is MLA.
 *
 * As in MLA, decoding never expands the cache: each head's W_UK is multiplied into its query, and W_UV into its sum
 * of latents. A pass of many queries expands the cache instead, a few hundred tokens at a time, if that needs fewer
 * products. */
#include "attention/grouped_latents.h"

#include <math.h>
#include <string.h>

#include "attention/latent_query.h"
#include "attention/registry.h"

/* The sizes of a layer. heads: heads of all branches; own: heads of one branch, H; latents: number of latents, m;
   width: elements of a latent; all: elements of all latents; nope, rope: unrotated and rotated dims of a key; value:
   dims of a value. */
typedef struct sizes {
  int64_t heads, own, branches, latents, width, all, nope, rope, value;
} sizes;

/* Returns the number of branches: 1 except in MLRA, which has one for every latent by default. */
static int64_t branches_of(const ch_config *config) {
  if (strcmp(config->attention.type, "mlra") != 0) return 1;
  return config->attention.branches ? config->attention.branches : config->attention.latent_heads;
}

static sizes grouped_latents_sizes_of(const ch_config *config) {
  const ch_attention_config *a = &config->attention;
  int64_t branches = branches_of(config);
  return (sizes){.heads = branches * config->num_attention_heads,
                 .own = config->num_attention_heads,
                 .branches = branches,
                 .latents = a->latent_heads,
                 .width = a->kv_lora_rank / a->latent_heads,
                 .all = a->kv_lora_rank,
                 .nope = a->qk_nope_head_dim,
                 .rope = a->qk_rope_head_dim,
                 .value = a->v_head_dim};
}

/* Returns the factor of normed latents with "latent_scale". */
static double latent_scale(const ch_config *config) {
  return sqrt((double)config->hidden_size / (double)grouped_latents_sizes_of(config).width);
}

/* --- sizes ---------------------------------------------------------------------------------------------- */

static ch_status must_divide(const char *key, int64_t number, const char *of, int64_t all, const char *where,
                             ch_error *error) {
  if (all % number == 0) return CH_OK;
  return ch_fail(error, CH_ERROR_CONFIG, "%s: \"attention.%s\" is %lld; it must divide \"%s\", %lld", where,
                 key, (long long)number, of, (long long)all);
}

/* Checks the branches, and limits the width of the heads of all branches together so that no size overflows. */
static ch_status check_branches(const ch_config *config, const char *where, ch_error *error) {
  enum { MOST_WIDTH = 1 << 24 };
  int64_t branches = branches_of(config), heads = config->num_attention_heads,
          latents = config->attention.latent_heads,
          widest = config->attention.qk_nope_head_dim + config->attention.v_head_dim;
  CH_TRY(must_divide("branches", branches, "attention.latent_heads", latents, where, error));
  if (heads % (latents / branches) != 0)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.latent_heads\" is %lld, which makes %lld per branch; that must divide "
                   "\"num_attention_heads\", %lld",
                   where, (long long)latents, (long long)(latents / branches), (long long)heads);
  if (branches > 1 && branches > MOST_WIDTH / (heads * widest))
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.branches\" is %lld, which makes %lld heads of %lld rows; at most %d rows "
                   "are supported",
                   where, (long long)branches, (long long)(branches * heads), (long long)widest, MOST_WIDTH);
  if (branches > 1 && config->attention.knocking.per_head)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.knocking.per_head\" is true, which cannot be combined with "
                   "\"attention.branches\" %lld of \"attention.type\" \"%s\"; leave it out",
                   where, (long long)branches, config->attention.type);
  return CH_OK;
}

ch_status ch_grouped_latents_check(const ch_config *config, const char *where, ch_error *error) {
  const ch_attention_config *a = &config->attention;
  if (!a->kv_lora_rank)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.kv_lora_rank\" is missing; \"attention.type\" \"%s\" needs it", where,
                   a->type);
  CH_TRY(ch_latent_check_sizes(config, where, error));
  if (a->latent_heads < 1)
    return ch_fail(error, CH_ERROR_CONFIG,
                   "%s: \"attention.latent_heads\" is %lld; it must be a whole number from 1", where,
                   (long long)a->latent_heads);
  CH_TRY(
      must_divide("latent_heads", a->latent_heads, "attention.kv_lora_rank", a->kv_lora_rank, where, error));
  return check_branches(config, where, error);
}

/* --- tensors and state ---------------------------------------------------------------------------------- */

void ch_grouped_latents_declare(ch_declaration *declaration) {
  const ch_config *c = declaration->config;
  sizes s = grouped_latents_sizes_of(c);
  ch_latent_query_declare(declaration);
  ch_declare_projection(declaration, "kv_a_proj_with_mqa", s.all + s.rope, c->hidden_size);
  ch_declare_norm(declaration, "kv_a_layernorm", s.all);
  ch_declare_projection(declaration, "kv_b_proj", s.heads * (s.nope + s.value), s.width);
  ch_keep_plain(declaration, "kv_b_proj");
  if (c->attention.latent_scale) ch_declare_scaled_input(declaration, "kv_b_proj", latent_scale(c));
  ch_knocking_declare(declaration, CH_ON_K, s.nope);
  ch_knocking_declare(declaration, CH_ON_V, s.value);
  ch_declare_output_projection(declaration, "o_proj", c->hidden_size, s.own * s.value);
  ch_head_norm_declare(declaration, s.value);
}

int ch_grouped_latents_state(const ch_config *config, int layer, ch_state_part parts[CH_MAX_STATE_PARTS]) {
  (void)layer;
  sizes s = grouped_latents_sizes_of(config);
  parts[0] = (ch_state_part){.name = "latent", .width = s.all + s.rope, .role = CH_ROLE_LATENT};
  return 1;
}

/* Writes the latents, each with its own norm, then the rotated key. */
void ch_grouped_latents_write(ch_builder *builder, ch_node *x, ch_node *state[]) {
  const ch_config *c = builder->config;
  ch_graph *graph = builder->graph;
  sizes s = grouped_latents_sizes_of(c);
  double eps = c->attention.latent_norm_eps ? c->attention.latent_norm_eps : c->rms_norm_eps;
  ch_node *both = ch_project(builder, x, "kv_a_proj_with_mqa");
  ch_node *latents = ch_op_slice_heads(graph, both, 1, (ch_head_slice){0, 0, s.all});
  latents = ch_op_rmsnorm_sliced(graph, latents, ch_attention_param(builder, "kv_a_layernorm.weight"),
                                 s.latents, eps);
  if (c->attention.latent_scale) latents = ch_op_scale(graph, latents, latent_scale(c));
  ch_node *rope = ch_op_slice_heads(graph, both, 1, (ch_head_slice){0, s.all, s.rope});
  rope = ch_apply_rope(builder, rope, s.rope, s.rope);
  state[0] = ch_op_join_heads(graph, 1, 2, (ch_node *[]){latents, rope},
                              (ch_head_slice[]){{0, 0, s.all}, {0, 0, s.rope}});
}

/* --- reading -------------------------------------------------------------------------------------------- */

static double score_scale(const ch_builder *builder) {
  sizes s = grouped_latents_sizes_of(builder->config);
  return ch_latent_score_scale(builder->config) / sqrt((double)(s.nope + s.rope));
}

/* Returns ALiBi's slopes for the heads of all branches. */
static const double *slopes_of(ch_builder *builder) {
  sizes s = grouped_latents_sizes_of(builder->config);
  const double *own = ch_alibi_slopes(builder, 0, 1, s.own);
  if (!own || s.branches == 1) return own;
  double *slopes = ch_arena_alloc(&builder->graph->arena, (size_t)s.heads * sizeof *slopes);
  if (!slopes) {
    ch_graph_no_memory(builder->graph);
    return own;
  }
  for (int64_t h = 0; h < s.heads; h++) slopes[h] = own[h % s.own];
  return slopes;
}

/* Repeats x, with `width` elements per head, for the heads of all branches. */
static ch_node *for_branches(ch_builder *builder, ch_node *x, int64_t width) {
  sizes s = grouped_latents_sizes_of(builder->config);
  return ch_op_repeat_heads(builder->graph, x, s.own * width, s.branches);
}

/* Returns `width` columns from `offset` on of every head of `stride` columns. */
static ch_node *part(ch_builder *builder, ch_node *x, int64_t stride, int64_t offset, int64_t width) {
  sizes s = grouped_latents_sizes_of(builder->config);
  return ch_op_slice_heads(builder->graph, x, s.heads, (ch_head_slice){stride, offset, width});
}

/* Expands the latents [N, m w] to (k, v) of the heads of all branches. */
static ch_node *expanded(ch_builder *builder, ch_node *latents) {
  sizes s = grouped_latents_sizes_of(builder->config);
  int64_t both = s.nope + s.value, rows = s.heads / s.latents * both;
  ch_node *kv = ch_op_head_product(builder->graph, latents, ch_projection_weight(builder, "kv_b_proj"),
                                   (ch_head_rows){s.latents, rows, 0, rows, false});
  if (!ch_is_knocked(builder->config, CH_ON_K) && !ch_is_knocked(builder->config, CH_ON_V)) return kv;
  ch_node *keys = ch_knock(builder, CH_ON_K, part(builder, kv, both, 0, s.nope));
  ch_node *values = ch_knock(builder, CH_ON_V, part(builder, kv, both, s.nope, s.value));
  return ch_op_join_heads(builder->graph, s.heads, 2, (ch_node *[]){keys, values},
                          (ch_head_slice[]){{s.nope, 0, s.nope}, {s.value, 0, s.value}});
}

/* Returns the latents without the rotated key after them. In the cache each latent is a separate slice, so that only
   the needed ones are read. */
static ch_node *latents_of(ch_builder *builder, ch_node *state) {
  sizes s = grouped_latents_sizes_of(builder->config);
  if (builder->cached)
    return ch_op_slice_heads(builder->graph, state, s.latents, (ch_head_slice){s.width, 0, s.width});
  return ch_op_slice_heads(builder->graph, state, 1, (ch_head_slice){0, 0, s.all});
}

/* Computes the attention of one branch from its heads' columns of kv. */
static ch_node *attend_branch(ch_builder *builder, ch_node *q, ch_node *kv, ch_node *rope, int64_t branch) {
  sizes s = grouped_latents_sizes_of(builder->config);
  int64_t both = s.nope + s.value, first = branch * s.own * both;
  ch_node *keys = ch_op_join_heads(builder->graph, s.own, 2, (ch_node *[]){kv, rope},
                                   (ch_head_slice[]){{both, first, s.nope}, {0, 0, s.rope}});
  return ch_attend_states(builder, q, keys, kv,
                          (ch_attend_spec){.heads = s.own,
                                           .kv_heads = s.own,
                                           .key_dim = s.nope + s.rope,
                                           .value_dim = s.value,
                                           .value_columns = {first + s.nope, both},
                                           .scale = score_scale(builder)});
}

/* Returns the sum of the branches' contexts, computed from expanded keys and values. */
static ch_node *attend_expanded(ch_builder *builder, ch_node *q, ch_node *state) {
  sizes s = grouped_latents_sizes_of(builder->config);
  ch_node *kv = expanded(builder, latents_of(builder, state)), *sum = NULL;
  ch_node *rope = ch_op_slice_heads(builder->graph, state, 1, (ch_head_slice){0, s.all, s.rope});
  for (int64_t b = 0; b < s.branches; b++) {
    ch_node *own = attend_branch(builder, q, kv, rope, b);
    sum = sum ? ch_op_add(builder->graph, sum, own) : own;
  }
  return sum;
}

/* Multiplies every head's query by W_UK^T, or its sum of latents by W_UV. */
static ch_node *through_kv_b(ch_builder *builder, ch_node *x, int64_t first, int64_t rows, bool transposed) {
  sizes s = grouped_latents_sizes_of(builder->config);
  return ch_op_head_product(builder->graph, x, ch_projection_weight(builder, "kv_b_proj"),
                            (ch_head_rows){s.heads, s.nope + s.value, first, rows, transposed});
}

/* Returns the keys (l_j, r). A single latent and the rotated key after it already form one key in memory. */
static ch_node *latent_keys(ch_builder *builder, ch_node *state) {
  sizes s = grouped_latents_sizes_of(builder->config);
  if (s.latents == 1) return state;
  return ch_op_join_heads(builder->graph, s.latents, 2, (ch_node *[]){state, state},
                          (ch_head_slice[]){{s.width, 0, s.width}, {0, s.all, s.rope}});
}

/* Returns the sum of the branches' contexts, which are columns of `contexts`. */
static ch_node *summed(ch_builder *builder, ch_node *contexts) {
  sizes s = grouped_latents_sizes_of(builder->config);
  int64_t width = s.own * s.value;
  ch_node *sum = NULL;
  if (s.branches == 1) return contexts;
  for (int64_t b = 0; b < s.branches; b++) {
    ch_node *own = ch_op_slice_heads(builder->graph, contexts, 1, (ch_head_slice){0, b * width, width});
    sum = sum ? ch_op_add(builder->graph, sum, own) : own;
  }
  return sum;
}

static ch_node *attend_absorbed(ch_builder *builder, ch_node *q, ch_node *state) {
  sizes s = grouped_latents_sizes_of(builder->config);
  int64_t width = s.nope + s.rope;
  ch_node *nope = ch_op_slice_heads(builder->graph, q, s.own, (ch_head_slice){width, 0, s.nope});
  nope = for_branches(builder, ch_knock_query_for_keys(builder, nope, s.nope), s.nope);
  ch_node *folded = through_kv_b(builder, nope, 0, s.nope, true);
  q = ch_op_join_heads(builder->graph, s.heads, 2, (ch_node *[]){folded, for_branches(builder, q, width)},
                       (ch_head_slice[]){{s.width, 0, s.width}, {width, s.nope, s.rope}});
  ch_node *sums =
      ch_attend_states(builder, q, latent_keys(builder, state), state,
                       (ch_attend_spec){.heads = s.heads,
                                        .kv_heads = s.latents,
                                        .key_dim = s.width + s.rope,
                                        .value_dim = s.width,
                                        .value_columns = {0, s.latents == 1 ? s.width + s.rope : s.width},
                                        .scale = score_scale(builder),
                                        .slopes = slopes_of(builder)});
  return ch_knock(builder, CH_ON_V, summed(builder, through_kv_b(builder, sums, s.nope, s.value, false)));
}

/* Returns the multiply-adds that expand one head's key and value of one token. */
static int64_t expanding(const ch_config *config) {
  sizes s = grouped_latents_sizes_of(config);
  return s.width * (s.nope + s.value) + (ch_is_knocked(config, CH_ON_K) ? s.nope * s.nope : 0) +
         (ch_is_knocked(config, CH_ON_V) ? s.value * s.value : 0);
}

/* Returns true if states are cached and absorbing needs no more multiply-adds than expanding keys and values once for
   all queries of the pass. */
static bool is_absorbed(const ch_builder *builder) {
  sizes s = grouped_latents_sizes_of(builder->config);
  return builder->cached &&
         builder->graph->length * (2 * s.width - s.nope - s.value) <= expanding(builder->config);
}

ch_node *ch_grouped_latents_read(ch_builder *builder, ch_node *x, ch_node *const state[]) {
  ch_node *q = ch_latent_queries(builder, x);
  ch_node *contexts =
      is_absorbed(builder) ? attend_absorbed(builder, q, state[0]) : attend_expanded(builder, q, state[0]);
  sizes s = grouped_latents_sizes_of(builder->config);
  if (s.branches > 1 && builder->config->attention.branch_scale)
    contexts = ch_op_scale(builder->graph, contexts, 1 / sqrt((double)s.branches));
  return ch_project(builder, ch_head_norm(builder, contexts), "o_proj");
}

/* --- rows, passes and ranks ----------------------------------------------------------------------------- */

int ch_grouped_latents_rows(const ch_config *config, ch_state_rows made[CH_MAX_STATE_ROWS]) {
  sizes s = grouped_latents_sizes_of(config);
  made[0] = (ch_state_rows){config->attention.q_lora_rank ? "q_b_proj" : "q_proj", CH_ON_Q, s.nope + s.rope,
                            0, s.nope};
  made[1] = (ch_state_rows){"kv_b_proj", CH_ON_K, s.nope + s.value, 0, s.nope};
  made[2] = (ch_state_rows){"kv_b_proj", CH_ON_V, s.nope + s.value, s.nope, s.value};
  return 3;
}

/* Returns the number of queries at which expanding keys and values costs a quarter of the multiply-adds of
   attention. */
int64_t ch_grouped_latents_long_pass(const ch_config *config) {
  sizes s = grouped_latents_sizes_of(config);
  return 4 * expanding(config) / (s.nope + s.rope + s.value);
}

int64_t ch_grouped_latents_rank(const ch_config *config) {
  sizes s = grouped_latents_sizes_of(config);
  return s.heads * s.nope;
}

int64_t ch_grouped_latents_dim(const ch_config *config) {
  return config->attention.kv_lora_rank;
}

ch_status ch_preset_grouped_latents(ch_config *config, int64_t number, const char *where, ch_error *error) {
  int64_t latents = config->attention.latent_heads, usual = ch_usual_latent(config);
  return ch_preset_latent(config, number ? number : (usual + latents - 1) / latents * latents, where, error);
}
