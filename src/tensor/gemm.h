/* Matrix products: large ones through the GEMM library (oneDNN), those of few rows by the matrix-vector kernel.
 * docs/gemm.md has the measurements. */
#ifndef CH_TENSOR_GEMM_H
#define CH_TENSOR_GEMM_H

#include "base/error.h"
#include "tensor/kernels.h"

/* Prepared products and their work memory, one per plan or session (not shared between threads that run at
   once). Steps after the first with the same shapes allocate nothing. */
typedef struct ch_gemm ch_gemm;

/* The workers of `team` compute the products. `team` must outlive *gemm. */
ch_status ch_gemm_create(const ch_kernels *kernels, const ch_team *team, ch_gemm **gemm, ch_error *error);
void ch_gemm_free(ch_gemm *gemm);

/* C [m, n] = op(A) op(B) (+ C when accumulate), op by the transpose flags: A is [m, k], or [k, m] when
   transpose_a; B is [k, n], or [n, k] when transpose_b. lda, ldb, ldc are row strides in elements. Elements
   of the table's type; F32 goes to the library, F64 to plain C. */
ch_status ch_gemm_run(ch_gemm *gemm, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                      const void *a, int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc,
                      bool accumulate, ch_error *error);

/* Packs a second factor B [k, n] that many products read. It has ch_gemm_packed_count elements of BF16, at a
   multiple of 64 bytes. ch_gemm_pack reads W [rows, columns] in the table's type or BF16 once and packs W
   itself into `factor` and its transpose into `transposed`; either may be NULL. ch_gemm_run_packed computes C
   [m, n] = A packed (+ C), with A [m, k] (or [k, m], transposed) in BF16. */
int64_t ch_gemm_packed_count(int64_t k, int64_t n);
ch_status ch_gemm_pack(ch_gemm *gemm, int64_t rows, int64_t columns, const void *w, ch_dtype dtype,
                       int64_t ld, void *factor, void *transposed, ch_error *error);
ch_status ch_gemm_run_packed(ch_gemm *gemm, bool transpose_a, int64_t m, int64_t n, int64_t k, const void *a,
                             int64_t lda, const void *packed, void *c, int64_t ldc, bool accumulate,
                             ch_error *error);

/* The largest number of rows for which the matrix-vector kernel is faster than the library (docs/gemm.md). */
enum { CH_SKINNY_ROWS = 32 };
/* Returns true if the library computes a product of `rows` rows. The matrix-vector kernel computes smaller products:
   it reads weights in their own type, and a row's result does not depend on the other rows. */
bool ch_gemm_is_large(int64_t rows);

/* y [rows, out] = x [rows, in] W^T (+ bias) (+ y when accumulate). Few rows use the matrix-vector kernel, many use
   the library. Block-quantised weights use the kernel for any number of rows if it multiplies bytes
   (ch_kernels.multiplies_bytes). If x has the table's type, a W of another type is widened panel by panel for the
   library. If x is BF16, W is rounded to BF16 panel by panel unless it is BF16 already. */
ch_status ch_gemm_linear(ch_gemm *gemm, int64_t rows, int64_t in, int64_t out, const void *x,
                         ch_dtype x_dtype, const void *weight, ch_dtype weight_dtype, const void *bias,
                         void *y, bool accumulate, ch_error *error);

/* Makes all later calls multiply a W of BF16 in the panels in which a W of the table's type is rounded. A W that was
   rounded before thus gives the same bits as one that is rounded in the call. */
void ch_gemm_by_panels(ch_gemm *gemm);

/* Like ch_gemm_linear, for `count` products of one x with weights of one type. If x has few rows, one call
   computes all products. */
ch_status ch_gemm_linears(ch_gemm *gemm, int64_t rows, int64_t in, const void *x, ch_dtype x_dtype,
                          ch_dtype weight_dtype, int count, const ch_product *products, bool accumulate,
                          ch_error *error);

/* Compute y = x W^T, and the gradient dW [out, in] (+)= dy^T x, for a number of rows that changes from call to
   call, like the tokens of an expert. The rows are divided into pieces of a few sizes, so that the library
   does not prepare a new product for every call. */
ch_status ch_gemm_linear_some(ch_gemm *gemm, int64_t rows, int64_t in, int64_t out, const void *x,
                              ch_dtype x_dtype, const void *weight, ch_dtype weight_dtype, void *y,
                              ch_error *error);
ch_status ch_gemm_gradient_some(ch_gemm *gemm, int64_t rows, int64_t in, int64_t out, const void *dy,
                                const void *x, void *dw, bool accumulate, ch_error *error);

#endif
