/* The table through which everything above src/tensor computes: one set of functions per element type and
 * instruction set, chosen at run time.
 *
 * `real` below is the table's element type: float in every F32 table, double in the F64 table (plain C, the
 * reference of the tests). All matrices are row-major. Every function is deterministic for a fixed number of
 * OpenMP threads, and threads by itself; none allocates. "rows" are tokens or (token, head) pairs. A pointer marked
 * [or NULL] may be NULL. `accumulate` false overwrites a gradient, true adds to it.
 */
#ifndef CH_TENSOR_KERNELS_H
#define CH_TENSOR_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/attend.h"
#include "tensor/gated_attend.h"
#include "tensor/tensor.h"

enum { CH_MAX_EXPERTS = 1024 };

/* One of the products of few rows of x [rows, in] with matrices: y [rows, out] = x W^T (+ bias), W [out, in]. */
typedef struct ch_product {
  int64_t out;
  const void *weight, *bias; /* bias [out] of the table's type [or NULL] */
  void *y;
} ch_product;

/* Bytes that gemv_bf16 lays `rows` rows of `in` elements out in, whole lines of 64. */
static inline size_t ch_gemv_room(int64_t rows, int64_t in) {
  return rows > 1 ? (size_t)rows * (((size_t)in * sizeof(uint16_t) + 63) / 64 * 64) : 0;
}

/* The same of gemv_split, which lays one row out too. */
static inline size_t ch_gemv_split_room(int64_t rows, int64_t in) {
  return (size_t)rows * (((size_t)in * sizeof(float) + 127) / 128 * 128);
}

/* How tokens weigh their experts: scale times the softmax over all experts at those chosen, made to sum to `scale`
   where renormalise says so. */
typedef struct ch_routing_rule {
  int64_t experts, active; /* 1 <= active <= experts <= CH_MAX_EXPERTS */
  bool renormalise;
  double scale;
  bool sigmoid; /* of every logit by itself, where the softmax is spoken of */
  int64_t groups,
      active_groups; /* groups > 1: only experts of the best groups are chosen from. A group is as good as its
                                    best expert, with sigmoid as the sum of its best two */
} ch_routing_rule;

/* A slice of every head of every row: row r's head h begins at element r * row + h * head of data (head 0: all heads
   are the same slice). */
typedef struct ch_head_slices {
  const void *data; /* written through where a function says so */
  int64_t row, head;
} ch_head_slices;

enum { CH_ROPE_LEVEL = 64, CH_ROPE_LEVELS = 4 };

/* States to be turned: row t at element t * x_stride, of x_dtype (the table's type, F16 or BF16). */
typedef struct ch_rope_states {
  int64_t heads, head_dim, rotary;
  bool interleaved;
  const void *levels, *x;
  ch_dtype x_dtype;
  int64_t x_stride;
} ch_rope_states;

typedef struct ch_kernels {
  const char *name; /* "f32 avx512" */
  ch_dtype dtype;   /* CH_F32 or CH_F64: what `real` is */
  /* Instructions for products of small integers, the fastest way for any number of rows with weights in blocks. */
  bool multiplies_bytes;

  /* --- norms ------------------------------------------------------------------------------------------------ */
  /* y = x / sqrt(mean(x^2) + eps) * weight, row by row; rstd[rows] (or NULL) keeps 1/sqrt(...). y may be x. */
  void (*rmsnorm_forward)(int64_t rows, int64_t n, const void *x, const void *weight, double eps, void *y,
                          void *rstd);
  /* dx [rows, n] (or NULL), dweight [n] (or NULL; accumulate_weight). scratch: threads * n reals. */
  void (*rmsnorm_backward)(int64_t rows, int64_t n, const void *x, const void *weight, const void *rstd,
                           const void *dy, void *dx, bool accumulate, void *dweight, bool accumulate_weight,
                           void *scratch);
  /* y = (x - mean) / sqrt(var + eps) * weight + bias; moments [rows, 2] (or NULL) keeps mean and 1/std. */
  void (*layernorm_forward)(int64_t rows, int64_t n, const void *x, const void *weight, const void *bias,
                            double eps, void *y, void *moments);
  /* As rmsnorm_backward; dweight and dbias are accumulated or overwritten together. scratch: threads * 2n reals. */
  void (*layernorm_backward)(int64_t rows, int64_t n, const void *x, const void *weight, const void *moments,
                             const void *dy, void *dx, bool accumulate, void *dweight, void *dbias,
                             bool accumulate_weight, void *scratch);

  /* moments [rows, 2]: mean and 1/sqrt(variance + eps) of every row. */
  void (*row_moments)(int64_t rows, int64_t n, const void *x, double eps, void *moments);
  /* y = (x - mean) / std * weight + bias with such moments; x may be some columns of the rows they are of. */
  void (*normalise)(int64_t rows, int64_t n, const void *x, const void *moments, const void *weight,
                    const void *bias, void *y);

  /* --- elementwise ------------------------------------------------------------------------------------------ */
  void (*add)(int64_t n, const void *a, const void *b, void *y);           /* y = a + b; y may be a or b */
  void (*copy_or_add)(int64_t n, const void *x, void *y, bool accumulate); /* y = x or y += x */
  void (*fill)(int64_t n, double value, void *y);
  /* y[r, :] += bias for each of rows. */
  void (*add_bias)(int64_t rows, int64_t n, const void *bias, void *y);
  /* dbias[n] = (or +=) sum of dy over rows. scratch: threads * n reals. */
  void (*sum_rows)(int64_t rows, int64_t n, const void *dy, void *dbias, bool accumulate, void *scratch);
  /* y = silu(gate) * up. */
  void (*swiglu_forward)(int64_t n, const void *gate, const void *up, void *y);
  /* dgate and dup overwritten or accumulated, each by its own flag; either may be NULL. */
  void (*swiglu_backward)(int64_t n, const void *gate, const void *up, const void *dy, void *dgate,
                          bool accumulate_gate, void *dup, bool accumulate_up);
  /* y = x * Phi(x), the exact (erf) GELU. */
  void (*gelu_forward)(int64_t n, const void *x, void *y);
  void (*gelu_backward)(int64_t n, const void *x, const void *dy, void *dx, bool accumulate);
  /* y [rows, n] = (+=) a * b; b is one row for all where `repeated`. */
  void (*mul)(int64_t rows, int64_t n, const void *a, const void *b, bool repeated, void *y, bool accumulate);
  /* y [n] = (+=) sum over rows of a * b. scratch: threads * n reals. */
  void (*dot_rows)(int64_t rows, int64_t n, const void *a, const void *b, void *y, bool accumulate,
                   void *scratch);
  /* y = scale * x * sigmoid(gate). */
  void (*sigmoid_gate_forward)(int64_t n, double scale, const void *x, const void *gate, void *y);
  /* dx and dgate overwritten or accumulated, each by its own flag; either may be NULL. */
  void (*sigmoid_gate_backward)(int64_t n, double scale, const void *x, const void *gate, const void *dy,
                                void *dx, bool accumulate_x, void *dgate, bool accumulate_gate);
  /* y [rows, groups, width] = a - lambda[group] * b, or lambda[0] for all where `single`. */
  void (*subtract_scaled_forward)(int64_t rows, int64_t groups, int64_t width, const void *a, const void *b,
                                  const void *lambda, bool single, void *y);
  /* db (or NULL) and dlambda (or NULL); da is dy. scratch: threads * lambdas reals. */
  void (*subtract_scaled_backward)(int64_t rows, int64_t groups, int64_t width, const void *b,
                                   const void *lambda, bool single, const void *dy, void *db, bool accumulate,
                                   void *dlambda, bool accumulate_lambda, void *scratch);

  /* y = (+=) factor * x. */
  void (*scale)(int64_t n, double factor, const void *x, void *y, bool accumulate);
  /* lambda = exp(v0 . v1) - exp(v2 . v3) + start; exponentials [2] (or NULL) are kept for the backward pass. */
  void (*diff_lambda_forward)(int64_t n, const void *const vectors[4], double start, void *lambda,
                              void *exponentials);
  /* The gradient of vector `which`; partner: the other one of its pair. */
  void (*diff_lambda_backward)(int64_t n, int which, const void *partner, const void *exponentials,
                               const void *dlambda, void *gradient, bool accumulate);

  /* --- heads ------------------------------------------------------------------------------------------------ */
  /* y[r, g, :] = (+=) sum over j of mix[g * mix_row + j * mix_column] x[r, j, :]; heads of `dim`. */
  void (*head_mix)(int64_t rows, int64_t in_heads, int64_t out_heads, int64_t dim, const void *mix,
                   int64_t mix_row, int64_t mix_column, const void *x, void *y, bool accumulate);
  /* dmix [out_heads, in_heads] = (+=) sum over rows of dy[r, g, :] . x[r, j, :]. scratch: threads * out * in reals. */
  void (*head_mix_gradient)(int64_t rows, int64_t in_heads, int64_t out_heads, int64_t dim, const void *x,
                            const void *dy, void *dmix, bool accumulate, void *scratch);
  /* `width` elements of every head of every row, of type `dtype` (the table's, F16 or BF16), written to (or added in)
     to->data. */
  void (*copy_heads)(int64_t rows, int64_t heads, int64_t width, const ch_head_slices *from, ch_dtype dtype,
                     const ch_head_slices *to, bool accumulate);
  /* The sum over heads of such slices, written to (or added in) row r's slice of to->data. */
  void (*sum_heads)(int64_t rows, int64_t heads, int64_t width, const ch_head_slices *from,
                    const ch_head_slices *to, bool accumulate);

  /* --- weights that layers share ---------------------------------------------------------------------------- */
  /* y [n] = sum over s of coefficients[s] x[s, :], x [atoms, n] of `dtype` (the table's type, F16 or BF16). */
  void (*combine_forward)(int64_t n, int64_t atoms, const void *coefficients, const void *x, ch_dtype dtype,
                          void *y);
  /* dx [atoms, n] (or NULL) and dcoefficients [atoms] (or NULL) in one pass over dy [n]. scratch: threads * atoms
     reals. */
  void (*combine_backward)(int64_t n, int64_t atoms, const void *coefficients, const void *x, const void *dy,
                           void *dx, bool accumulate, void *dcoefficients, bool accumulate_coefficients,
                           void *scratch);

  /* Sum of squares in double, and whether every value is finite. */
  double (*sum_squares)(int64_t n, const void *x);

  /* --- rotary positions ------------------------------------------------------------------------------------- */
  /* x [rows, heads, head_dim] -> y (may be x). The last `rotary` dims of each head turn by the row's angles, the
     others are copied. table [rows, rotary]: rotary/2 cosines, then rotary/2 sines. Half layout pairs (i, i +
     rotary/2); interleaved pairs (2i, 2i+1). inverse turns back (the backward pass). accumulate adds to y. */
  void (*rope)(int64_t rows, int64_t heads, int64_t head_dim, int64_t rotary, bool interleaved, bool inverse,
               const void *table, const void *x, void *y, bool accumulate);
  /* table [rows, rotary] as above from positions [rows] and inverse frequencies [rotary/2] (double). */
  void (*rope_table)(int64_t rows, int64_t rotary, const int32_t *positions, const double *frequencies,
                     void *table);

  /* The angles of positions without a sine: for every digit of a position to the base CH_ROPE_LEVEL those of its 64
     values, levels [CH_ROPE_LEVELS, CH_ROPE_LEVEL, rotary]. Good for positions below 2^24. */
  void (*rope_levels)(int64_t rotary, const double *frequencies, void *levels);
  /* y [count, heads * head_dim] = x turned by the positions first … first+count-1. work: 2 * rotary reals. One thread. */
  void (*rope_states)(const ch_rope_states *call, int64_t first, int64_t count, void *y, void *work);

  /* --- embedding -------------------------------------------------------------------------------------------- */
  /* y[r, :] = weight[id[r], :]; weight has `weight_dtype` (this table's type, F16 or BF16). Ids were checked. */
  void (*embedding_forward)(int64_t rows, int64_t n, const int32_t *ids, const void *weight,
                            ch_dtype weight_dtype, void *y);
  /* dweight[id[r], :] += dy[r, :], in row order for every id (deterministic); vocabulary rows in dweight. */
  void (*embedding_backward)(int64_t rows, int64_t n, int64_t vocabulary, const int32_t *ids, const void *dy,
                             void *dweight, bool accumulate);

  /* --- images ----------------------------------------------------------------------------------------------- */
  /* y [images * (size / patch)^2, channels * patch^2]: the patches of x [images, channels, size, size], image by image
     and line by line, each as [channels, patch, patch]. */
  void (*patches)(int64_t images, int64_t channels, int64_t size, int64_t patch, const float *x, void *y);

  /* --- softmax cross entropy over a chunk of logits ----------------------------------------------------------- */
  /* logits [rows, vocabulary] -> loss[r] = logsumexp(logits[r]) - logits[r, target[r]] (0 where target < 0). With
     smoothing s the target is not one-hot: s / vocabulary everywhere and 1 - s more at target[r].
     With dscale != NULL: also overwrites logits by dscale[r] * (softmax - target) (0 where target < 0). */
  void (*cross_entropy)(int64_t rows, int64_t vocabulary, double smoothing, void *logits,
                        const int32_t *targets, void *loss, const void *dscale);
  /* ranks[r]: how many logits come before the target's, larger ones and equal ones that stand earlier: 0 where the target
     is the first choice (and -1 where target < 0). */
  void (*target_ranks)(int64_t rows, int64_t vocabulary, const void *logits, const int32_t *targets,
                       void *ranks);

  /* --- products --------------------------------------------------------------------------------------------- */
  /* For each of `count` products, y[m, :] = x[m, :] . W^T (+ bias) for few rows (rows <= 32 is what it is for, any number works);
     W [out, in] of `weight_dtype` (this table's type, F16 or BF16), read once at memory speed. accumulate adds to y. Row m of
     y is the same, bit for bit, whatever the other rows, the other products and the number of threads. */
  void (*gemv)(int64_t rows, int64_t in, const void *x, ch_dtype weight_dtype, int count,
               const ch_product *products, bool accumulate);
  /* The same with x and W of BF16, twice the speed where arithmetic bounds; NULL where no instructions multiply pairs of it. `room`:
     ch_gemv_room(rows, in) bytes for each thread, at a multiple of 64, where several rows of x are laid out anew. */
  void (*gemv_bf16)(int64_t rows, int64_t in, const uint16_t *x, void *room, int count,
                    const ch_product *products, bool accumulate);
  /* The same with W of BF16 and x of the table's type or BF16, on processors that had better split vectors of weights than widen
     them (gemv_split.c); NULL elsewhere. `room`: ch_gemv_split_room(rows, in) bytes for each thread, as above. */
  void (*gemv_split)(int64_t rows, int64_t in, const void *x, ch_dtype x_dtype, void *room, int count,
                     const ch_product *products, bool accumulate);
  /* The same with Ws in blocks (CH_Q8_0 … CH_Q6_K) and x as ch_quantised_bytes(in) bytes a row (tensor/quantised.h),
     which quantise_rows makes of x [rows, n] for weights of that type. Values of x are rounded to one part in 254 of the
     largest of their 32. */
  void (*gemv_blocks)(int64_t rows, int64_t in, const void *quantised, ch_dtype weight_dtype, int count,
                      const ch_product *products, bool accumulate);
  void (*quantise_rows)(int64_t rows, int64_t n, const void *x, ch_dtype weight_dtype, void *quantised);
  /* For n rows of x and every head: y[r, h, :] = W_h x[r, h, :], W_h [rows, columns] beginning at element h *
     head_elements of `weight`; transposed: W_h^T x. For few rows, as gemv. */
  void (*head_product)(int64_t n, int64_t heads, int64_t rows, int64_t columns, const void *x,
                       const void *weight, ch_dtype weight_dtype, int64_t head_elements, bool transposed,
                       void *y);
  /* C [m, n] (+)= A B with element A(i, k) = a[i*a_row + k*a_column], B(k, j) = b[k*ldb + j]: the register-tiled
     product that attention uses on tiles in cache. One thread. */
  void (*tile_product)(int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, int64_t a_column,
                       const void *b, int64_t ldb, void *c, int64_t ldc, bool accumulate);

  /* --- mixture of experts ----------------------------------------------------------------------------------- */
  /* chosen [rows, active]: the experts with the largest logits [rows, experts], best first, the first of equals; with
     bias [experts] (or NULL) those with the largest softmax(logits) + bias. */
  void (*choose_experts)(int64_t rows, const ch_routing_rule *rule, const void *logits, const void *bias,
                         int32_t *chosen);
  /* weights [rows, active] of the chosen experts by the rule. */
  void (*route_forward)(int64_t rows, const ch_routing_rule *rule, const void *logits, const int32_t *chosen,
                        void *weights);
  /* dlogits [rows, experts] from dweights; pull [ceil(rows / pull_rows), experts] (or NULL) is a further gradient, of
     the softmax over all experts, for each group of pull_rows rows: pulled [rows] is its product with the softmax. */
  void (*route_backward)(int64_t rows, const ch_routing_rule *rule, const void *logits, const int32_t *chosen,
                         const void *dweights, const void *pull, int64_t pull_rows, void *pulled,
                         void *dlogits, bool accumulate);
  /* y[r, :] = scale[r] * silu(gate[r, :]) * up[r, :]. */
  void (*swiglu_rows_forward)(int64_t rows, int64_t n, const void *gate, const void *up, const void *scale,
                              void *y);
  /* dgate, dup [rows, n] (may be gate and up themselves) and dscale [rows], overwritten. */
  void (*swiglu_rows_backward)(int64_t rows, int64_t n, const void *gate, const void *up, const void *scale,
                               const void *dy, void *dgate, void *dup, void *dscale);
  /* y[r, :] (+)= the sum over j of x[places[r, j], :], in the order of j; places [rows, count]. */
  void (*sum_places)(int64_t rows, int64_t count, int64_t n, const int32_t *places, const void *x, void *y,
                     bool accumulate);

  /* --- attention (tensor/attend.h) -------------------------------------------------------------------------- */
  void (*attend_forward)(const ch_attend *args);
  void (*attend_backward)(const ch_attend *args, const ch_attend_gradient *gradient);
  /* Bytes at args->scratch, for all threads. They do not depend on what pointers in args point to, and of `past` and
     `document_start` not even on whether they are NULL. */
  size_t (*attend_scratch)(const ch_attend *args, bool backward);
  /* The same with heads that talk: kv_heads = heads, all heads of a block of queries at a time. */
  void (*talking_forward)(const ch_attend *args, const ch_head_mixes *mixes);
  void (*talking_backward)(const ch_attend *args, const ch_attend_gradient *gradient,
                           const ch_head_mixes *mixes, const ch_head_mixes_gradient *mixes_gradient);
  size_t (*talking_scratch)(const ch_attend *args, bool backward);

  /* Attention over gated latents (tensor/gated_attend.h), and the bytes it needs at args->scratch. */
  void (*gated_attend)(const ch_gated_attend *args);
  size_t (*gated_attend_scratch)(const ch_gated_attend *args);

  /* --- optimizer -------------------------------------------------------------------------------------------- */
  /* One AdamW step on n values: g = grad * grad_scale; m, v updated; weight -= lr*(m^/(sqrt(v^)+eps) + decay*weight)
     with bias corrections 1/(1-beta1^t), 1/(1-beta2^t) passed as correction1/2. */
  void (*adamw)(int64_t n, void *weight, const void *grad, void *m, void *v, double grad_scale, double lr,
                double beta1, double beta2, double eps, double decay, double correction1, double correction2);

  /* --- conversion (tables of both types) -------------------------------------------------------------------- */
  /* real <- F32, F64, F16, BF16 and real -> the same (round to nearest even). Types in blocks can be read too; n is then
     a whole number of blocks. widen_blocks: the same for them alone. */
  void (*convert_from)(int64_t n, const void *x, ch_dtype from, void *y);
  void (*convert_to)(int64_t n, const void *x, ch_dtype to, void *y);
  void (*widen_blocks)(int64_t n, const void *x, ch_dtype from, void *y);

  /* W [rows, columns], of the table's type or BF16, its rows `ld` elements apart, rounded to BF16 in the layout in which
     products read their second factor: `factor` is W [k = rows, n = columns], `transposed` is W^T [k = columns, n = rows];
     either may be NULL. Blocks of 32 x 64, zeros past the ends, those of the same columns one after the other; in a
     block the elements of rows 2i and 2i + 1 lie side by side, column by column (oneDNN's BA16a64b2a). At 64 bytes. */
  void (*pack_pairs)(int64_t rows, int64_t columns, const void *w, ch_dtype dtype, int64_t ld, void *factor,
                     void *transposed);

  /* States in CH_Q8_0 or CH_Q4_0, row by row of x [rows, n], the last block of a row filled up with zeros: a scale and
     the nearest whole multiples of it. A block with a value that is not finite becomes NaN. */
  void (*pack_states)(int64_t rows, int64_t n, const void *x, ch_dtype to, void *blocks);
  /* y [rows, n] of blocks, n whole blocks, rows `stride` bytes apart. One thread. */
  void (*unpack_states)(int64_t rows, int64_t n, const void *blocks, int64_t stride, ch_dtype from, void *y);

  /* --- limits, for tensor/limits.h; one thread ---------------------------------------------------------------- */
  /* Multiply-adds in registers and nothing else; *flops gets their number, two per multiply-add. The result depends
     on all of them and on the seed. */
  double (*fma_loop)(int64_t rounds, double seed, double *flops);
  /* Reads n reals; returns their sum. */
  double (*read_loop)(int64_t n, const void *x);
} ch_kernels;

typedef enum ch_isa {
  CH_ISA_PLAIN,
  CH_ISA_AVX2,
  CH_ISA_AVX512,
  CH_ISA_AVX512_VNNI,
  CH_ISA_AVX512_BF16,
  CH_ISA_COUNT
} ch_isa;

/* The table for an element type (CH_F32 or CH_F64) on an instruction set, or NULL when the build or this processor
   has none. */
const ch_kernels *ch_kernels_for(ch_dtype dtype, ch_isa isa);
/* The fastest table this processor runs. The environment variable CROSSHEAD_ISA (plain, avx2, avx512, avx512_vnni,
   avx512_bf16) names the highest wanted. Unasked, pairs of BF16 are not multiplied on Intel's processors: a core starts such an
   instruction every other cycle there and two multiply-adds of F32 in each, twice as many products. */
const ch_kernels *ch_kernels_best(ch_dtype dtype);
/* OpenMP threads a parallel region gets: what `scratch` sizes above multiply by. */
int ch_threads(void);

#endif
