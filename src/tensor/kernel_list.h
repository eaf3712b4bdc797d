/* The list of all kernels.
 *
 * Other files define CH_KERNEL(origin, result, name, parameters) and include this one: kernels.h for the
 * members of the table, kernels/vector/variant.h for the prototypes, kernels/variant_table.c for the table of
 * a variant. A new kernel is a line here and a function KERNEL(name) in a file of a subfolder of kernels/.
 *
 * `origin` determines the variants with a separate function (kernels/variants.cmake lists the variants):
 *
 *   COMMON           f64, f32, f32_avx2 and f32_avx512 have one each;
 *                    f32_avx512_vnni and f32_avx512_bf16 inherit that of f32_avx512
 *   OWN_BYTE_DOT     as COMMON, but f32_avx512_vnni and f32_avx512_bf16 have their own,
 *                    with dot products of bytes
 *   OWN_BF16_DOT     as COMMON, but f32_avx512_bf16 has its own, with dot products of BF16
 *   ONLY_BF16_DOT    only f32_avx512_bf16 has one; NULL in the others
 *   ONLY_SPLIT_BF16  only f32_avx512_vnni has one, which splits BF16 weights into F32;
 *                    NULL in the others
 *
 * kernels.h describes what all functions have in common. */

/* --- norms ---------------------------------------------------------------------------------------------- */
/* y = x / sqrt(mean(x^2) + eps) * weight, row by row. weight [slices, n]: row r uses slice r % slices.
   rstd[rows] (or NULL) receives 1/sqrt(...). y may be x. */
CH_KERNEL(COMMON, void, rmsnorm_forward,
          (const ch_team *team, int64_t rows, int64_t n, int64_t slices, const void *x, const void *weight,
           double eps, void *y, void *rstd))
/* Returns the scratch bytes of a kernel in which several threads sum over rows; n is the number of sums.
   "scratch: sums of n" below is sum_scratch(team, n). */
CH_KERNEL(COMMON, size_t, sum_scratch, (const ch_team *team, int64_t n))
/* Computes dx [rows, n] (or NULL) and dweight [slices, n] (or NULL). scratch: sums of slices * n. */
CH_KERNEL(COMMON, void, rmsnorm_backward,
          (const ch_team *team, int64_t rows, int64_t n, int64_t slices, const void *x, const void *weight,
           const void *rstd, const void *dy, void *dx, bool accumulate, void *dweight, bool accumulate_weight,
           void *scratch))
/* y = (x - mean) / sqrt(var + eps) * weight + bias; moments [rows, 2] (or NULL) receives mean and 1/std. */
CH_KERNEL(COMMON, void, layernorm_forward,
          (const ch_team *team, int64_t rows, int64_t n, const void *x, const void *weight, const void *bias,
           double eps, void *y, void *moments))
/* Like rmsnorm_backward. dweight and dbias are accumulated or overwritten together. scratch: sums of 2n. */
CH_KERNEL(COMMON, void, layernorm_backward,
          (const ch_team *team, int64_t rows, int64_t n, const void *x, const void *weight,
           const void *moments, const void *dy, void *dx, bool accumulate, void *dweight, void *dbias,
           bool accumulate_weight, void *scratch))

/* Computes moments [rows, 2]: mean and 1/sqrt(variance + eps) of every row. */
CH_KERNEL(COMMON, void, row_moments, (int64_t rows, int64_t n, const void *x, double eps, void *moments))
/* y = (x - mean) / std * weight + bias with the moments of row_moments. x may have only some of the columns
   from which the moments were computed. */
CH_KERNEL(COMMON, void, normalise,
          (int64_t rows, int64_t n, const void *x, const void *moments, const void *weight, const void *bias,
           void *y))

/* --- elementwise ---------------------------------------------------------------------------------------- */
/* y = a + b; y may be a or b. */
CH_KERNEL(COMMON, void, add, (const ch_team *team, int64_t n, const void *a, const void *b, void *y))
/* y = x or y += x. */
CH_KERNEL(COMMON, void, copy_or_add,
          (const ch_team *team, int64_t n, const void *x, void *y, bool accumulate))
CH_KERNEL(COMMON, void, fill, (const ch_team *team, int64_t n, double value, void *y))
/* Repeats pattern [bytes] to fill y [total], in bytes; the last copy may be cut off. */
CH_KERNEL(COMMON, void, repeat_bytes,
          (const ch_team *team, int64_t bytes, const void *pattern, int64_t total, void *y))
/* y[r, :] += bias for every row. */
CH_KERNEL(COMMON, void, add_bias, (const ch_team *team, int64_t rows, int64_t n, const void *bias, void *y))
/* dbias[n] = (or +=) sum of dy over rows. scratch: sums of n. */
CH_KERNEL(COMMON, void, sum_rows,
          (const ch_team *team, int64_t rows, int64_t n, const void *dy, void *dbias, bool accumulate,
           void *scratch))
/* y = silu(gate) * up. */
CH_KERNEL(COMMON, void, swiglu_forward,
          (const ch_team *team, int64_t n, const void *gate, const void *up, void *y))
/* Overwrites or accumulates dgate and dup, each by its own flag; either may be NULL. */
CH_KERNEL(COMMON, void, swiglu_backward,
          (const ch_team *team, int64_t n, const void *gate, const void *up, const void *dy, void *dgate,
           bool accumulate_gate, void *dup, bool accumulate_up))
/* y = x * Phi(x), the exact (erf) GELU. */
CH_KERNEL(COMMON, void, gelu_forward, (const ch_team *team, int64_t n, const void *x, void *y))
CH_KERNEL(COMMON, void, gelu_backward,
          (const ch_team *team, int64_t n, const void *x, const void *dy, void *dx, bool accumulate))
/* The soft cap y = cap tanh(x / cap); y may be x. backward reads the y of forward. */
CH_KERNEL(COMMON, void, soft_cap_forward,
          (const ch_team *team, int64_t n, double cap, const void *x, void *y))
CH_KERNEL(COMMON, void, soft_cap_backward,
          (const ch_team *team, int64_t n, double cap, const void *y, const void *dy, void *dx,
           bool accumulate))
/* y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, the tanh approximation of GELU. */
CH_KERNEL(COMMON, void, gelu_tanh_forward, (const ch_team *team, int64_t n, const void *x, void *y))
CH_KERNEL(COMMON, void, gelu_tanh_backward,
          (const ch_team *team, int64_t n, const void *x, const void *dy, void *dx, bool accumulate))
/* y = max(x, 0), or its square if `squared`. */
CH_KERNEL(COMMON, void, relu_forward, (const ch_team *team, int64_t n, const void *x, bool squared, void *y))
CH_KERNEL(COMMON, void, relu_backward,
          (const ch_team *team, int64_t n, const void *x, bool squared, const void *dy, void *dx,
           bool accumulate))
/* y [rows, n] = (+=) a * b; if `repeated`, b is one row for all. */
CH_KERNEL(COMMON, void, mul,
          (const ch_team *team, int64_t rows, int64_t n, const void *a, const void *b, bool repeated, void *y,
           bool accumulate))
/* y [n] = (+=) sum over rows of a * b. scratch: sums of n. */
CH_KERNEL(COMMON, void, dot_rows,
          (const ch_team *team, int64_t rows, int64_t n, const void *a, const void *b, void *y,
           bool accumulate, void *scratch))
/* y = scale * x * sigmoid(gate). */
CH_KERNEL(COMMON, void, sigmoid_gate_forward,
          (const ch_team *team, int64_t n, double scale, const void *x, const void *gate, void *y))
/* Overwrites or accumulates dx and dgate, each by its own flag; either may be NULL. */
CH_KERNEL(COMMON, void, sigmoid_gate_backward,
          (const ch_team *team, int64_t n, double scale, const void *x, const void *gate, const void *dy,
           void *dx, bool accumulate_x, void *dgate, bool accumulate_gate))
/* y [rows, groups, width] = a - lambda[group] * b; if `single`, lambda[0] for all. */
CH_KERNEL(COMMON, void, subtract_scaled_forward,
          (const ch_team *team, int64_t rows, int64_t groups, int64_t width, const void *a, const void *b,
           const void *lambda, bool single, void *y))
/* Computes db (or NULL) and dlambda (or NULL); da is dy. scratch: sums of all lambdas. */
CH_KERNEL(COMMON, void, subtract_scaled_backward,
          (const ch_team *team, int64_t rows, int64_t groups, int64_t width, const void *b,
           const void *lambda, bool single, const void *dy, void *db, bool accumulate, void *dlambda,
           bool accumulate_lambda, void *scratch))

/* y = (+=) factor * x. */
CH_KERNEL(COMMON, void, scale,
          (const ch_team *team, int64_t n, double factor, const void *x, void *y, bool accumulate))
/* lambda = exp(v0 . v1) - exp(v2 . v3) + start; exponentials [2] (or NULL) receives the two exponentials for
   the backward pass. */
CH_KERNEL(COMMON, void, diff_lambda_forward,
          (int64_t n, const void *const vectors[4], double start, void *lambda, void *exponentials))
/* Computes the gradient of vector `which`; partner: the other vector of its pair. */
CH_KERNEL(COMMON, void, diff_lambda_backward,
          (int64_t n, int which, const void *partner, const void *exponentials, const void *dlambda,
           void *gradient, bool accumulate))

/* --- heads ---------------------------------------------------------------------------------------------- */
/* y[r, g, :] = (+=) sum over j of mix[g * mix_row + j * mix_column] x[r, j, :]; heads of `dim`. */
CH_KERNEL(COMMON, void, head_mix,
          (const ch_team *team, int64_t rows, int64_t in_heads, int64_t out_heads, int64_t dim,
           const void *mix, int64_t mix_row, int64_t mix_column, const void *x, void *y, bool accumulate))
/* dmix [out_heads, in_heads] = (+=) sum over rows of dy[r, g, :] . x[r, j, :]. scratch: sums of out * in. */
CH_KERNEL(COMMON, void, head_mix_gradient,
          (const ch_team *team, int64_t rows, int64_t in_heads, int64_t out_heads, int64_t dim, const void *x,
           const void *dy, void *dmix, bool accumulate, void *scratch))
/* Copies or adds `width` elements of every head of every row, of type `dtype` (the table's, F16 or BF16), to
   to->data. */
CH_KERNEL(COMMON, void, copy_heads,
          (const ch_team *team, int64_t rows, int64_t heads, int64_t width, const ch_head_slices *from,
           ch_dtype dtype, const ch_head_slices *to, bool accumulate))
/* Writes or adds the sum over heads of every row's slices to that row's slice of to->data. */
CH_KERNEL(COMMON, void, sum_heads,
          (const ch_team *team, int64_t rows, int64_t heads, int64_t width, const ch_head_slices *from,
           const ch_head_slices *to, bool accumulate))
/* Exclusive attention: z = y - (y . u) u for every head of `dim`, u = v / max(|v|, 1e-12) of its group, y
   [rows, heads, dim], v [rows, groups, dim]. */
CH_KERNEL(COMMON, void, exclude_forward,
          (const ch_team *team, int64_t rows, int64_t heads, int64_t groups, int64_t dim, const void *y,
           const void *v, void *z))
/* Computes dy and dv; either may be NULL. */
CH_KERNEL(COMMON, void, exclude_backward,
          (const ch_team *team, int64_t rows, int64_t heads, int64_t groups, int64_t dim, const void *y,
           const void *v, const void *dz, void *dy, bool accumulate_y, void *dv, bool accumulate_v))
/* Computes the weights of heads [rows, shared + routed] (tensor/head_weights.h). */
CH_KERNEL(COMMON, void, head_weights_forward, (const ch_head_weights *args, void *weights))
CH_KERNEL(COMMON, void, head_weights_backward,
          (const ch_head_weights *args, const void *dweights, const ch_head_weights_gradient *gradient))
/* y[r, h, :] = (+=) scale * sum over k of a[r, h, k] b[r, k, :]: a [rows, heads, rank], b [rows, rank,
   dim]. */
CH_KERNEL(COMMON, void, factor_product,
          (const ch_team *team, int64_t rows, int64_t heads, int64_t rank, int64_t dim, double scale,
           const void *a, const void *b, void *y, bool accumulate))
/* Computes da and db of factor_product from dy; either may be NULL. */
CH_KERNEL(COMMON, void, factor_product_backward,
          (const ch_team *team, int64_t rows, int64_t heads, int64_t rank, int64_t dim, double scale,
           const void *a, const void *b, const void *dy, void *da, bool accumulate_a, void *db,
           bool accumulate_b))

/* --- weights that layers share -------------------------------------------------------------------------- */
/* y [n] = sum over s of coefficients[s] x[s, :], x [atoms, n] of `dtype` (the table's type, F16 or BF16). */
CH_KERNEL(COMMON, void, combine_forward,
          (const ch_team *team, int64_t n, int64_t atoms, const void *coefficients, const void *x,
           ch_dtype dtype, void *y))
/* Computes dx [atoms, n] (or NULL) and dcoefficients [atoms] (or NULL) in one pass over dy [n]. scratch: sums
   of atoms. */
CH_KERNEL(COMMON, void, combine_backward,
          (const ch_team *team, int64_t n, int64_t atoms, const void *coefficients, const void *x,
           const void *dy, void *dx, bool accumulate, void *dcoefficients, bool accumulate_coefficients,
           void *scratch))

/* Returns the sum of x in double, from the first to the last. */
CH_KERNEL(COMMON, double, sum, (int64_t n, const void *x))
/* Returns the sum of squares in double. It is not finite if a value is not. */
CH_KERNEL(COMMON, double, sum_squares, (const ch_team *team, int64_t n, const void *x))
/* Writes the sum of squares of column c of x [rows, n] to sums[c] (host) in double, from the first row to the
   last. */
CH_KERNEL(COMMON, void, column_squares,
          (const ch_team *team, int64_t rows, int64_t n, const void *x, double *sums))

/* --- rotary positions ----------------------------------------------------------------------------------- */
/* Rotates x [rows, heads, head_dim] to y (may be x): the last `rotary` dims of each head, or with `leading`
   the first, by the row's angles. The others are copied. table [rows, rotary]: rotary/2 cosines, then
   rotary/2 sines. The half layout pairs (i, i + rotary/2), the interleaved one (2i, 2i+1). inverse rotates
   back (the backward pass). accumulate adds to y. */
CH_KERNEL(COMMON, void, rope,
          (const ch_team *team, int64_t rows, int64_t heads, int64_t head_dim, int64_t rotary, bool leading,
           bool interleaved, bool inverse, const void *table, const void *x, void *y, bool accumulate))
/* Computes the table [rows, rotary] of `rope` from positions [rows] and the angles per position [rotary/2]
   (double). */
CH_KERNEL(COMMON, void, rope_table,
          (const ch_team *team, int64_t rows, int64_t rotary, const int32_t *positions,
           const double *frequencies, void *table))

/* Computes levels [CH_ROPE_LEVELS, CH_ROPE_LEVEL, rotary], from which the angles of a position follow without a sine.
   A position is written in base CH_ROPE_LEVEL, and the levels have the angles of the 64 values of every digit.
   Positions must be below 2^24. */
CH_KERNEL(COMMON, void, rope_levels, (int64_t rotary, const double *frequencies, void *levels))
/* Rotates x to y [count, heads * head_dim] by the positions first … first+count-1. work: 2 * rotary reals. It runs in
   one thread. */
CH_KERNEL(COMMON, void, rope_states,
          (const ch_rope_states *call, int64_t first, int64_t count, void *y, void *work))

/* --- embedding ------------------------------------------------------------------------------------------ */
/* y[r, :] = weight[id[r], :]; weight has `weight_dtype` (this table's type, F16 or BF16). Does not check
   ids. */
CH_KERNEL(COMMON, void, embedding_forward,
          (const ch_team *team, int64_t rows, int64_t n, const int32_t *ids, const void *weight,
           ch_dtype weight_dtype, void *y))
/* dweight[id[r], :] += dy[r, :], in row order for every id (deterministic). dweight has `vocabulary` rows. */
CH_KERNEL(COMMON, void, embedding_backward,
          (const ch_team *team, int64_t rows, int64_t n, int64_t vocabulary, const int32_t *ids,
           const void *dy, void *dweight, bool accumulate))

/* --- images --------------------------------------------------------------------------------------------- */
/* Copies the patches of x [images, channels, size, size] to y [images * (size / patch)^2, channels *
   patch^2], image by image and line by line, each as [channels, patch, patch]. */
CH_KERNEL(COMMON, void, patches,
          (const ch_team *team, int64_t images, int64_t channels, int64_t size, int64_t patch, const float *x,
           void *y))

/* --- softmax cross entropy over a chunk of logits ------------------------------------------------------- */
/* loss[r] = logsumexp(logits[r]) - logits[r, target[r]] (0 if target < 0) of logits [rows, vocabulary]. With
   smoothing s the target is not one-hot: s / vocabulary everywhere and 1 - s more at target[r]. If dscale is
   not NULL, the kernel also overwrites logits by dscale[r] * (softmax - target) (0 if target < 0). If cap > 0, the
   logits have a soft cap, and the gradient is that of the values before it. */
CH_KERNEL(COMMON, void, cross_entropy,
          (const ch_team *team, int64_t rows, int64_t vocabulary, double smoothing, double cap, void *logits,
           const int32_t *targets, void *loss, const void *dscale))
/* ranks[r] = the number of logits that come before the target's: larger ones, and equal ones at smaller
   indices. 0: the target is the first choice. -1 if target < 0. */
CH_KERNEL(COMMON, void, target_ranks,
          (const ch_team *team, int64_t rows, int64_t vocabulary, const void *logits, const int32_t *targets,
           void *ranks))

/* --- products ------------------------------------------------------------------------------------------- */
/* Skinny GEMM: for each of `count` products, y[m, :] = x[m, :] . W^T (+ bias). Optimised for up to 32 rows;
   any number works. Reads W [out, in] of `weight_dtype` (this table's type, F16 or BF16) once, at memory
   speed. accumulate adds to y. Row m of y has the same bits whatever the other rows, the other products and
   the number of threads. */
CH_KERNEL(COMMON, void, gemv,
          (const ch_team *team, int64_t rows, int64_t in, const void *x, ch_dtype weight_dtype, int count,
           const ch_product *products, bool accumulate))
/* Like gemv, for x and W of BF16, with BF16 dot products. `room`: ch_gemv_room(rows, in) bytes per thread, at
   a multiple of 64; several rows of x are packed there. */
CH_KERNEL(ONLY_BF16_DOT, void, gemv_bf16,
          (const ch_team *team, int64_t rows, int64_t in, const uint16_t *x, void *room, int count,
           const ch_product *products, bool accumulate))
/* Like gemv, for W of BF16 and x of the table's type or BF16, on cores on which splitting BF16 weights into
   F32 is fastest (gemv_split.c). `room`: ch_gemv_split_room(rows, in) bytes per thread, at a multiple of
   64. */
CH_KERNEL(ONLY_SPLIT_BF16, void, gemv_split,
          (const ch_team *team, int64_t rows, int64_t in, const void *x, ch_dtype x_dtype, void *room,
           int count, const ch_product *products, bool accumulate))
/* Like gemv, for block-quantised weights (CH_Q8_0 … CH_Q6_K). Each row of x has ch_quantised_bytes(in) bytes
   (tensor/quantised.h). quantise_rows computes them from x [rows, n] for weights of that type, and rounds
   values of x to one part in 254 of the largest of their 32. */
CH_KERNEL(OWN_BYTE_DOT, void, gemv_blocks,
          (const ch_team *team, int64_t rows, int64_t in, const void *quantised, ch_dtype weight_dtype,
           int count, const ch_product *products, bool accumulate))
CH_KERNEL(OWN_BYTE_DOT, void, quantise_rows,
          (const ch_team *team, int64_t rows, int64_t n, const void *x, ch_dtype weight_dtype,
           void *quantised))
/* y[r, h, :] = W_h x[r, h, :] for n rows of x and every head. W_h [rows, columns] begins at element h *
   head_elements of `weight`; transposed: W_h^T x. For few rows of x, like gemv. */
CH_KERNEL(COMMON, void, head_product,
          (const ch_team *team, int64_t n, int64_t heads, int64_t rows, int64_t columns, const void *x,
           const void *weight, ch_dtype weight_dtype, int64_t head_elements, bool transposed, void *y))
/* C [m, n] (+)= A B with A(i, k) = a[i*a_row + k*a_column] and B(k, j) = b[k*ldb + j]. Attention uses this
   register-tiled product on tiles in cache. It runs in one thread. */
CH_KERNEL(COMMON, void, tile_product,
          (int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, int64_t a_column, const void *b,
           int64_t ldb, void *c, int64_t ldc, bool accumulate))

/* --- mixture of experts --------------------------------------------------------------------------------- */
/* Chooses experts [rows, active]: those with the largest logits [rows, experts], best first. Ties go to the first
   expert. With bias [experts] (or NULL), those with the largest score + bias; scores are the softmax or the sigmoid of
   the logits, by the rule. With groups, only experts of the best groups are chosen. */
CH_KERNEL(COMMON, void, choose_experts,
          (const ch_team *team, int64_t rows, const ch_routing_rule *rule, const void *logits,
           const void *bias, int32_t *chosen))
/* Adds to load[e] (host, [experts]) the number of times that expert e occurs in chosen [n]. */
CH_KERNEL(COMMON, void, count_choices, (int64_t n, const int32_t *chosen, int64_t *load))
/* Sorts the choices [n] by expert, and those of an expert by token; choice i is one of token i / active.
   first [experts + 1] (host) receives the place of each expert's first choice, and n. choice, token [n]
   receive the choice and the token at each place, place [n] the place of each choice. */
CH_KERNEL(COMMON, void, sort_choices,
          (int64_t n, int64_t active, int64_t experts, const int32_t *chosen, int64_t *first, int32_t *choice,
           int32_t *token, int32_t *place))
/* pull [sequences, experts] = unit times the number of times that a sequence chose an expert; chosen
   [sequences, n]. */
CH_KERNEL(COMMON, void, balance_pulls,
          (int64_t sequences, int64_t n, int64_t experts, double unit, const int32_t *chosen, void *pull))
/* Computes the weights [rows, active] of the chosen experts by the rule. */
CH_KERNEL(COMMON, void, route_forward,
          (const ch_team *team, int64_t rows, const ch_routing_rule *rule, const void *logits,
           const int32_t *chosen, void *weights))
/* Computes dlogits [rows, experts] from dweights. pull [ceil(rows / pull_rows), experts] (or NULL) is a
   further gradient, of the softmax over all experts, for each group of pull_rows rows. pulled [rows] is its
   product with the softmax. */
CH_KERNEL(COMMON, void, route_backward,
          (const ch_team *team, int64_t rows, const ch_routing_rule *rule, const void *logits,
           const int32_t *chosen, const void *dweights, const void *pull, int64_t pull_rows, void *pulled,
           void *dlogits, bool accumulate))
/* y[r, :] = scale[r] * silu(gate[r, :]) * up[r, :]. */
CH_KERNEL(COMMON, void, swiglu_rows_forward,
          (const ch_team *team, int64_t rows, int64_t n, const void *gate, const void *up, const void *scale,
           void *y))
/* Overwrites dgate, dup [rows, n] (may be gate and up themselves) and dscale [rows]. */
CH_KERNEL(COMMON, void, swiglu_rows_backward,
          (const ch_team *team, int64_t rows, int64_t n, const void *gate, const void *up, const void *scale,
           const void *dy, void *dgate, void *dup, void *dscale))
/* y[r, :] = scale[r] g s(alpha g) (u + 1), where g = min(gate, limit), u = up clamped to -limit … limit, s the
   sigmoid; scale NULL: 1. backward computes the gradients that are not NULL. dgate and dup [rows, n] may be
   gate and up themselves, and dscale [rows] is overwritten. */
CH_KERNEL(COMMON, void, clamped_swiglu_forward,
          (const ch_team *team, int64_t rows, int64_t n, double alpha, double limit, const void *gate,
           const void *up, const void *scale, void *y))
CH_KERNEL(COMMON, void, clamped_swiglu_backward,
          (const ch_team *team, int64_t rows, int64_t n, double alpha, double limit, const void *gate,
           const void *up, const void *scale, const void *dy, void *dgate, bool accumulate_gate, void *dup,
           bool accumulate_up, void *dscale))
/* y[r, :] (+)= the sum over j of x[places[r, j], :], in the order of j; places [rows, count]. */
CH_KERNEL(COMMON, void, sum_places,
          (const ch_team *team, int64_t rows, int64_t count, int64_t n, const int32_t *places, const void *x,
           void *y, bool accumulate))

/* --- attention (tensor/attend.h) ------------------------------------------------------------------------ */
CH_KERNEL(OWN_BF16_DOT, void, attend_forward, (const ch_attend *args))
CH_KERNEL(OWN_BF16_DOT, void, attend_backward, (const ch_attend *args, const ch_attend_gradient *gradient))
/* Returns the bytes at args->scratch, for all threads. They depend neither on what the pointers in args point
   to, nor on whether `past` and `document_start` are NULL. */
CH_KERNEL(OWN_BF16_DOT, size_t, attend_scratch, (const ch_attend *args, bool backward))
/* Adds sinks [count] to a softmax after attend_forward with args->lse; head h uses sink h mod count. out and
   lse become those of a softmax with one more term, e^sink, whose value is zero. attend_sinks_backward
   computes the gradient of the sinks from that out and lse; dout has the layout of args->out. */
CH_KERNEL(COMMON, void, attend_sinks, (const ch_attend *args, int64_t count, const void *sinks))
CH_KERNEL(COMMON, void, attend_sinks_backward,
          (const ch_attend *args, const void *dout, int64_t count, const void *sinks, void *dsinks,
           bool accumulate))
/* Talking heads; kv_heads = heads. All heads of a block of queries are computed together. */
CH_KERNEL(COMMON, void, talking_forward, (const ch_attend *args, const ch_head_mixes *mixes))
CH_KERNEL(COMMON, void, talking_backward,
          (const ch_attend *args, const ch_attend_gradient *gradient, const ch_head_mixes *mixes,
           const ch_head_mixes_gradient *mixes_gradient))
CH_KERNEL(COMMON, size_t, talking_scratch, (const ch_attend *args, bool backward))

/* Attention over gated latents (tensor/gated_attend.h). gated_attend_scratch returns the bytes at
   args->scratch. */
CH_KERNEL(COMMON, void, gated_attend, (const ch_gated_attend *args))
CH_KERNEL(COMMON, size_t, gated_attend_scratch, (const ch_gated_attend *args))

/* Attention over factors of keys and values (tensor/factor_attend.h). factor_attend_scratch returns the bytes
   at args->scratch. */
CH_KERNEL(COMMON, void, factor_attend, (const ch_factor_attend *args))
CH_KERNEL(COMMON, size_t, factor_attend_scratch, (const ch_factor_attend *args))

/* --- the gated delta rule (tensor/delta_rule.h) --------------------------------------------------------- */
CH_KERNEL(COMMON, void, delta_rule_forward, (const ch_delta_rule *args))
CH_KERNEL(COMMON, void, delta_rule_backward,
          (const ch_delta_rule *args, const ch_delta_rule_gradient *gradient))
/* Returns the bytes at args->scratch, for all threads. They do not depend on what the pointers in args point
   to. */
CH_KERNEL(COMMON, size_t, delta_rule_scratch, (const ch_delta_rule *args, bool backward))
/* Short convolutions (tensor/short_conv.h). short_conv_keep saves the last rows of x as states for the next
   pass. */
CH_KERNEL(COMMON, void, short_conv_forward, (const ch_short_conv *args))
CH_KERNEL(COMMON, void, short_conv_keep, (const ch_short_conv *args))
CH_KERNEL(COMMON, void, short_conv_backward,
          (const ch_short_conv *args, const ch_short_conv_gradient *gradient))
CH_KERNEL(COMMON, size_t, short_conv_scratch, (const ch_short_conv *args, bool backward))
/* y = scale * x / sqrt(sum(x^2) + eps), row by row. */
CH_KERNEL(COMMON, void, l2norm_forward,
          (const ch_team *team, int64_t rows, int64_t n, const void *x, double eps, double scale, void *y))
CH_KERNEL(COMMON, void, l2norm_backward,
          (const ch_team *team, int64_t rows, int64_t n, const void *x, double eps, double scale,
           const void *dy, void *dx, bool accumulate))
/* y [rows, n] = -e^rate softplus(x + bias), rate and bias [n]. */
CH_KERNEL(COMMON, void, decay_forward,
          (const ch_team *team, int64_t rows, int64_t n, const void *x, const void *rate, const void *bias,
           void *y))
/* Computes dx, drate and dbias, each overwritten, accumulated or NULL. scratch: sums of 2n. */
CH_KERNEL(COMMON, void, decay_backward,
          (const ch_team *team, int64_t rows, int64_t n, const void *x, const void *rate, const void *bias,
           const void *dy, void *dx, bool accumulate, void *drate, bool accumulate_rate, void *dbias,
           bool accumulate_bias, void *scratch))
/* y = scale * sigmoid(x). */
CH_KERNEL(COMMON, void, sigmoid_forward,
          (const ch_team *team, int64_t n, double scale, const void *x, void *y))
CH_KERNEL(COMMON, void, sigmoid_backward,
          (const ch_team *team, int64_t n, double scale, const void *x, const void *dy, void *dx,
           bool accumulate))

/* --- optimizer ------------------------------------------------------------------------------------------ */
/* One AdamW step on n values: g = grad * grad_scale; m, v updated; weight -= lr*(m^/(sqrt(v^)+eps) +
   decay*weight). The caller passes the bias corrections: correction1 is 1/(1-beta1^t), correction2 is
   1/(1-beta2^t). */
CH_KERNEL(COMMON, void, adamw,
          (const ch_team *team, int64_t n, void *weight, const void *grad, void *m, void *v,
           double grad_scale, double lr, double beta1, double beta2, double eps, double decay,
           double correction1, double correction2))

/* Adds `by` to the diagonal of matrix [rows, columns]; rows <= columns. */
CH_KERNEL(COMMON, void, add_to_diagonal, (int64_t rows, int64_t columns, double by, void *matrix))

/* --- conversion (tables of both types) ------------------------------------------------------------------ */
/* Convert F32, F64, F16 and BF16 to reals, and reals to these (round to nearest even). convert_from also
   reads block-quantised types; n is then a whole number of blocks. widen_blocks reads only
   block-quantised types. */
CH_KERNEL(COMMON, void, convert_from, (const ch_team *team, int64_t n, const void *x, ch_dtype from, void *y))
CH_KERNEL(COMMON, void, convert_to, (const ch_team *team, int64_t n, const void *x, ch_dtype to, void *y))
CH_KERNEL(COMMON, void, widen_blocks, (const ch_team *team, int64_t n, const void *x, ch_dtype from, void *y))

/* Rounds W [rows, columns], of the table's type or BF16, with rows `ld` elements apart, to BF16 in the layout
   of a product's second factor. `factor` is W [k = rows, n = columns], `transposed` is W^T [k = columns, n =
   rows]; either may be NULL. The layout is oneDNN's BA16a64b2a: blocks of 32 x 64 with zeros past the ends.
   Blocks of the same columns follow each other. In a block the elements of rows 2i and 2i + 1 are adjacent,
   column by column. The results are at multiples of 64 bytes. */
CH_KERNEL(OWN_BF16_DOT, void, pack_bf16,
          (const ch_team *team, int64_t rows, int64_t columns, const void *w, ch_dtype dtype, int64_t ld,
           void *factor, void *transposed))

/* Quantises states to CH_Q8_0 or CH_Q4_0, row by row of x [rows, n]. The last block of a row is filled up
   with zeros. A block has a scale and the nearest whole multiples of it. A block with a value that is not
   finite becomes NaN. */
CH_KERNEL(COMMON, void, pack_states,
          (const ch_team *team, int64_t rows, int64_t n, const void *x, ch_dtype to, void *blocks))
/* Widens quantised blocks to y [rows, n]. n is whole blocks, and rows are `stride` bytes apart. It runs in one
   thread. */
CH_KERNEL(COMMON, void, unpack_states,
          (int64_t rows, int64_t n, const void *blocks, int64_t stride, ch_dtype from, void *y))

/* --- limits, for bench/limits.h; one thread ------------------------------------------------------------- */
/* Does only multiply-adds in registers. *flops receives the number of operations, two per multiply-add. The
   result depends on all of them and on the seed. */
CH_KERNEL(COMMON, double, fma_loop, (int64_t rounds, double seed, double *flops))
/* Reads n reals; returns their sum. */
CH_KERNEL(COMMON, double, read_loop, (int64_t n, const void *x))

#undef CH_KERNEL
