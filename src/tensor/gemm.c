/* Multiplies matrices. Chooses for every shape between oneDNN and Crosshead's own kernels, by rules from measurements
 * (docs/gemm.md), and packs weights as BF16 for calls that reuse them. */
#include "tensor/gemm.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/gemm_library.h"
#include "tensor/gemm_trials.h"
#include "tensor/quantised.h"

/* Up to this many rows of x, a matmul primitive computes y = x W^T faster than sgemm. */
enum { MATMUL_ROWS = 512 };
/* A result of more than LARGE_RESULT elements (4 MiB) is in no cache when a step adds to it. sgemm passes over
   it less often than a matmul primitive. If rows are shorter than LONG_ROW, sgemm pays only above
   LARGE_NARROW_RESULT elements (32 MiB). */
enum { LARGE_RESULT = 1 << 20, LONG_ROW = 512, LARGE_NARROW_RESULT = 1 << 23 };
/* Weights of another type are converted this many elements at a time: a panel that stays in the last-level
   cache. */
enum { PANEL_ELEMENTS = 1 << 20 };
/* Products with a changing number of rows are divided into pieces of MOST_PIECE, its half ... down to LEAST_PIECE,
   and a remainder. */
enum { MOST_PIECE = 512, LEAST_PIECE = 64 };
/* The multiply-adds between two checks for a stop: at most a second or two on slow processors. Larger products
   are divided into pieces whose rows are a multiple of PIECE_ROWS. */
enum { PIECE_ROWS = 64 };
static const double MOST_MULTIPLY_ADDS = 1e11, MOST_MULTIPLY_ADDS_F64 = 1e9;
/* A trial of fewer threads compares at least this many results. Products whose matrices exceed
   MOST_TRIED_BYTES are not tried and use all threads. */
enum { ENOUGH_RESULTS = 1 << 12 };
static const size_t MOST_TRIED_BYTES = (size_t)1 << 28;
/* The plain product packs blocks of B of this many rows and columns. */
enum { BLOCK_K = 256, BLOCK_N = 64 };

/* Work memory: packed blocks, packed rows of x and rows of small integers (PACKED), a panel of weights, the
   panel before rounding, widened factors, and columns without gaps. */
enum { PACKED, PANEL, WIDE_PANEL, WIDE_A, WIDE_B, CLOSE_A, CLOSE_B, COLUMN, SPACES };

typedef struct work_space {
  void *data;
  size_t bytes;
} work_space;

struct ch_gemm {
  const ch_kernels *kernels;
  const ch_team *team;
  ch_gemm_library *library; /* NULL for F64 */
  bool by_panels;           /* true if ch_gemm_by_panels was called */
  bool rounds;              /* true if the library multiplies BF16 faster than F32 */
  work_space spaces[SPACES];
  ch_gemm_trials trials;
};

ch_status ch_gemm_create(const ch_kernels *kernels, const ch_team *team, ch_gemm **gemm, ch_error *error) {
  *gemm = calloc(1, sizeof **gemm);
  if (!*gemm) return ch_no_memory(error);
  (*gemm)->kernels = kernels;
  (*gemm)->team = team;
  if (kernels->dtype != CH_F32) return CH_OK;
  (*gemm)->rounds = ch_gemm_library_rounds(kernels->gemv_bf16 != NULL);
  ch_status status = ch_gemm_library_create(&(*gemm)->library, error);
  if (status == CH_OK) return CH_OK;
  ch_gemm_free(*gemm);
  *gemm = NULL;
  return status;
}

void ch_gemm_free(ch_gemm *gemm) {
  if (!gemm) return;
  ch_gemm_library_free(gemm->library);
  for (int i = 0; i < SPACES; i++) ch_pages_free(gemm->spaces[i].data, gemm->spaces[i].bytes);
  free(gemm);
}

static ch_status reserve(ch_gemm *gemm, int space, size_t bytes, void **data, ch_error *error) {
  work_space *s = &gemm->spaces[space];
  if (bytes > s->bytes) {
    ch_pages_free(s->data, s->bytes);
    s->data = ch_pages_alloc(bytes);
    s->bytes = s->data ? bytes : 0;
  }
  *data = s->data;
  return s->data || !bytes ? CH_OK
                           : ch_fail(error, CH_ERROR_MEMORY,
                                     "no memory for %zu bytes of a matrix product's scratch", bytes);
}

/* --- doubles: plain C ----------------------------------------------------------------------------------- */

/* Copies rows [k0, k0 + rows) of columns [j0, j0 + columns) of op(B) to `block`, row-major. */
static void pack_block(const ch_gemm_shape *s, const double *b, int64_t k0, int64_t rows, int64_t j0,
                       int64_t columns, double *block) {
  for (int64_t p = 0; p < rows; p++)
    for (int64_t j = 0; j < columns; j++)
      block[p * columns + j] = s->transpose_b ? b[(j0 + j) * s->ldb + k0 + p] : b[(k0 + p) * s->ldb + j0 + j];
}

/* Multiplies with the tile kernel. Each thread computes whole columns of C, so the order of sums does not
   depend on the number of threads. */
static ch_status run_plain(ch_gemm *gemm, const ch_gemm_shape *s, const double *a, const double *b, double *c,
                           ch_error *error) {
  size_t block_bytes = BLOCK_K * BLOCK_N * sizeof(double);
  void *packed;
  CH_TRY(reserve(gemm, PACKED, (size_t)gemm->team->threads * block_bytes, &packed, error));
  int64_t blocks = (s->n + BLOCK_N - 1) / BLOCK_N;
#pragma omp parallel for schedule(static) num_threads(gemm->team->workers) if (s->m * s->n * s->k > 1 << 15)
  for (int64_t j = 0; j < blocks; j++) {
    double *block = (double *)packed + (size_t)omp_get_thread_num() * BLOCK_K * BLOCK_N;
    int64_t columns = s->n - j * BLOCK_N < BLOCK_N ? s->n - j * BLOCK_N : BLOCK_N;
    for (int64_t k0 = 0; k0 == 0 || k0 < s->k; k0 += BLOCK_K) {
      int64_t rows = s->k - k0 < BLOCK_K ? s->k - k0 : BLOCK_K;
      pack_block(s, b, k0, rows, j * BLOCK_N, columns, block);
      gemm->kernels->tile_product(s->m, columns, rows, s->transpose_a ? a + k0 * s->lda : a + k0,
                                  s->transpose_a ? 1 : s->lda, s->transpose_a ? s->lda : 1, block, columns,
                                  c + j * BLOCK_N, s->ldc, s->accumulate || k0 > 0);
    }
  }
  return CH_OK;
}

/* --- choosing ------------------------------------------------------------------------------------------- */

/* Returns true if a matmul primitive is faster than sgemm for this product (docs/gemm.md). In y = x W^T,
   sgemm is slow for few rows and for sums that are longer than the result is wide. In dW = dy^T x, it is slow
   for results with more rows than columns that are not very large. dx = dy W always uses sgemm. */
static bool matmul_is_faster(const ch_gemm_shape *s) {
  if (s->is_rare) return false;
  bool large = s->accumulate && s->m * s->n > (s->n < LONG_ROW ? LARGE_NARROW_RESULT : LARGE_RESULT);
  if (s->transpose_a) return !s->transpose_b && s->m > s->n && !large;
  return s->transpose_b && (s->m <= MATMUL_ROWS || s->n < s->k);
}

static ch_status run_widened(ch_gemm *gemm, const ch_gemm_shape *s, const void *a, const void *b, void *c,
                             ch_error *error);

/* Returns the number of elements from a matrix's first to its last. */
static int64_t span(int64_t rows, int64_t columns, int64_t stride) {
  return rows > 0 && columns > 0 ? (rows - 1) * stride + columns : 0;
}

/* --- the library's threads ------------------------------------------------------------------------------ */

static ch_status run_with(ch_gemm *gemm, int threads, const ch_gemm_shape *s, const void *a, const void *b,
                          float *c, ch_error *error) {
  ch_team_before before = ch_team_enter(&(ch_team){.threads = threads, .workers = threads});
  ch_status status = s->rounded || matmul_is_faster(s)
                         ? ch_gemm_library_matmul(gemm->library, s, a, b, c, error)
                         : ch_gemm_library_sgemm(gemm->library, s, a, b, c, error);
  ch_team_leave(before);
  return status;
}

/* A trial's matrices: the factors, and the results with all threads and with fewer. */
enum { FACTOR_A, FACTOR_B, RESULT, OTHER, TRIED };

static void count_tried(const ch_gemm_shape *s, size_t bytes[TRIED]) {
  const size_t factor = ch_dtype_size(s->rounded ? CH_BF16 : CH_F32);
  const int64_t a = s->transpose_a ? span(s->k, s->m, s->lda) : span(s->m, s->k, s->lda),
                b = s->packed        ? ch_gemm_packed_count(s->k, s->n)
                    : s->transpose_b ? span(s->n, s->k, s->ldb)
                                     : span(s->k, s->n, s->ldb);
  bytes[FACTOR_A] = (size_t)a * factor;
  bytes[FACTOR_B] = (size_t)b * factor;
  bytes[RESULT] = bytes[OTHER] = (size_t)span(s->m, s->n, s->ldc) * sizeof(float);
}

/* Computes products of the shape with all threads and with the workers, and saves the verdict. Factors are
   arbitrary: a run's own factors may be mostly zeros, whose sums are equal in any order. */
static ch_status try_workers(ch_gemm *gemm, const ch_gemm_shape *s, ch_gemm_verdict *verdict,
                             ch_error *error) {
  const ch_team *team = gemm->team;
  size_t bytes[TRIED], all = 0;
  char *room[TRIED] = {0};
  ch_status status = CH_OK;
  bool same = true;
  count_tried(s, bytes);
  for (int i = 0; i < TRIED; i++) all += bytes[i];
  for (int i = 0; i < TRIED && all <= MOST_TRIED_BYTES; i++)
    same = (room[i] = ch_pages_alloc(bytes[i])) && same;
  same = same && all <= MOST_TRIED_BYTES;
  for (int64_t seen = 0; status == CH_OK && same && seen < ENOUGH_RESULTS; seen += s->m * s->n) {
    const uint32_t seed = (uint32_t)seen;
    ch_gemm_trials_fill(s->rounded, bytes[FACTOR_A], seed, room[FACTOR_A]);
    ch_gemm_trials_fill(s->rounded, bytes[FACTOR_B], seed + 1, room[FACTOR_B]);
    for (int i = RESULT; i < TRIED; i++) ch_gemm_trials_fill(false, bytes[i], seed + 2, room[i]);
    for (int i = RESULT; status == CH_OK && i < TRIED; i++)
      status = run_with(gemm, i == RESULT ? team->threads : team->workers, s, room[FACTOR_A], room[FACTOR_B],
                        (float *)(void *)room[i], error);
    same = status == CH_OK && memcmp(room[RESULT], room[OTHER], bytes[RESULT]) == 0;
  }
  for (int i = 0; i < TRIED; i++) ch_pages_free(room[i], bytes[i]);
  *verdict = same ? CH_GEMM_SAME : CH_GEMM_DIFFERS;
  if (status == CH_OK) ch_gemm_trials_keep(&gemm->trials, s, team->workers, *verdict);
  return status;
}

static ch_status run_library(ch_gemm *gemm, const ch_gemm_shape *s, const void *a, const void *b, float *c,
                             ch_error *error) {
  const ch_team *team = gemm->team;
  if (team->workers == team->threads) return run_with(gemm, team->threads, s, a, b, c, error);
  ch_gemm_verdict verdict = ch_gemm_trials_find(&gemm->trials, s, team->workers);
  if (verdict == CH_GEMM_UNTRIED) CH_TRY(try_workers(gemm, s, &verdict, error));
  return run_with(gemm, verdict == CH_GEMM_SAME ? team->workers : team->threads, s, a, b, c, error);
}

/* Multiplies a piece of rows at a time, so that a run can be stopped between two pieces. The pieces depend on
   the shape alone, so results do not depend on the threads. */
static ch_status run_pieces(ch_gemm *gemm, const ch_gemm_shape *s, const void *a, const void *b, void *c,
                            ch_error *error) {
  const bool wide = gemm->kernels->dtype == CH_F64;
  const double most = wide ? MOST_MULTIPLY_ADDS_F64 : MOST_MULTIPLY_ADDS;
  const int64_t pieces = 1 + (int64_t)((double)s->m * (double)s->n * (double)s->k / most);
  const int64_t rows = ((s->m + pieces - 1) / pieces + PIECE_ROWS - 1) / PIECE_ROWS * PIECE_ROWS;
  const size_t element = ch_dtype_size(gemm->kernels->dtype),
               factor = s->rounded ? ch_dtype_size(CH_BF16) : element;
  for (int64_t first = 0; first < s->m; first += rows) {
    if (first > 0 && ch_team_stops(gemm->team)) return CH_OK; /* the run ends with an error */
    const char *part = (const char *)a + (size_t)(s->transpose_a ? first : first * s->lda) * factor;
    char *result = (char *)c + (size_t)(first * s->ldc) * element;
    ch_gemm_shape piece = *s;
    piece.m = s->m - first < rows ? s->m - first : rows;
    CH_TRY(
        wide ? run_plain(gemm, &piece, (const double *)(const void *)part, b, (double *)(void *)result, error)
             : run_library(gemm, &piece, part, b, (float *)(void *)result, error));
  }
  return CH_OK;
}

/* Copies a column of a factor without the gaps between its rows. */
static ch_status close_factor(ch_gemm *gemm, int space, int64_t rows, size_t element, const void **factor,
                              int64_t *ld, ch_error *error) {
  void *room;
  CH_TRY(reserve(gemm, space, (size_t)rows * element, &room, error));
  for (int64_t i = 0; i < rows; i++)
    memcpy((char *)room + (size_t)i * element, (const char *)*factor + (size_t)(i * *ld) * element, element);
  *factor = room;
  *ld = 1;
  return CH_OK;
}

/* Returns true for a matrix with one column and gaps between its rows. oneDNN 3.7's matmul ignores such gaps, so the
   matrix is copied. */
static bool has_gaps(int64_t columns, int64_t ld) {
  return columns == 1 && ld > 1;
}

static ch_status run_close(ch_gemm *gemm, const ch_gemm_shape *s, const void *a, const void *b, float *c,
                           ch_error *error) {
  const size_t element = ch_dtype_size(s->rounded ? CH_BF16 : CH_F32);
  const int64_t rows_a = s->transpose_a ? s->k : s->m, rows_b = s->transpose_b ? s->n : s->k;
  ch_gemm_shape close = *s;
  void *room = c;
  if (has_gaps(s->m + s->k - rows_a, s->lda))
    CH_TRY(close_factor(gemm, CLOSE_A, rows_a, element, &a, &close.lda, error));
  if (!s->packed && has_gaps(s->n + s->k - rows_b, s->ldb))
    CH_TRY(close_factor(gemm, CLOSE_B, rows_b, element, &b, &close.ldb, error));
  if (!has_gaps(s->n, s->ldc)) return run_pieces(gemm, &close, a, b, c, error);
  close.ldc = 1;
  CH_TRY(reserve(gemm, COLUMN, (size_t)s->m * sizeof(float), &room, error));
  float *column = room;
  for (int64_t i = 0; i < s->m && s->accumulate; i++) column[i] = c[i * s->ldc];
  CH_TRY(run_pieces(gemm, &close, a, b, column, error));
  for (int64_t i = 0; i < s->m; i++) c[i * s->ldc] = column[i];
  return CH_OK;
}

static ch_status run_product(ch_gemm *gemm, const ch_gemm_shape *s, const void *a, const void *b, void *c,
                             ch_error *error) {
  if (s->m <= 0 || s->n <= 0) return CH_OK;
  if (s->rounded && !gemm->rounds) return run_widened(gemm, s, a, b, c, error);
  if (gemm->kernels->dtype == CH_F64) return run_pieces(gemm, s, a, b, c, error);
  if (s->k <= 0) { /* an empty sum */
    for (int64_t i = 0; i < s->m && !s->accumulate; i++)
      gemm->kernels->fill(gemm->team, s->n, 0, (float *)c + i * s->ldc);
    return CH_OK;
  }
  return run_close(gemm, s, a, b, c, error);
}

/* Converts BF16 factors to F32 and multiplies those. The product of two BF16 numbers is exact in F32. */
static ch_status run_widened(ch_gemm *gemm, const ch_gemm_shape *s, const void *a, const void *b, void *c,
                             ch_error *error) {
  const ch_kernels *kernels = gemm->kernels;
  size_t element = ch_dtype_size(kernels->dtype);
  int64_t count_a = s->transpose_a ? span(s->k, s->m, s->lda) : span(s->m, s->k, s->lda);
  int64_t count_b = s->transpose_b ? span(s->n, s->k, s->ldb) : span(s->k, s->n, s->ldb);
  ch_gemm_shape wide = *s;
  void *wide_a, *wide_b;
  wide.rounded = false;
  CH_TRY(reserve(gemm, WIDE_A, (size_t)count_a * element, &wide_a, error));
  CH_TRY(reserve(gemm, WIDE_B, (size_t)count_b * element, &wide_b, error));
  kernels->convert_from(gemm->team, count_a, a, CH_BF16, wide_a);
  kernels->convert_from(gemm->team, count_b, b, CH_BF16, wide_b);
  return run_product(gemm, &wide, wide_a, wide_b, c, error);
}

ch_status ch_gemm_run(ch_gemm *gemm, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                      const void *a, int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc,
                      bool accumulate, ch_error *error) {
  const ch_gemm_shape shape = {m,           n,           k,          lda,   ldb,   ldc,
                               transpose_a, transpose_b, accumulate, false, false, false};
  return run_product(gemm, &shape, a, b, c, error);
}

int64_t ch_gemm_packed_count(int64_t k, int64_t n) {
  return ch_gemm_library_packed_count(k, n);
}

/* Packs without the library: row by row, in BF16. */
static ch_status pack_plain(ch_gemm *gemm, int64_t rows, int64_t columns, const void *w, ch_dtype dtype,
                            int64_t ld, uint16_t *factor, uint16_t *transposed, ch_error *error) {
  uint16_t *rounded = factor;
  if (!rounded) {
    void *room;
    CH_TRY(reserve(gemm, WIDE_PANEL, (size_t)(rows * columns) * sizeof *rounded, &room, error));
    rounded = room;
  }
  for (int64_t r = 0; r < rows; r++) {
    const char *from = (const char *)w + (size_t)(r * ld) * ch_dtype_size(dtype);
    if (dtype == CH_BF16)
      memcpy(rounded + r * columns, from, (size_t)columns * sizeof *rounded);
    else
      gemm->kernels->convert_to(gemm->team, columns, from, CH_BF16, rounded + r * columns);
  }
#pragma omp parallel for num_threads(gemm->team->workers) if (rows * columns > 1 << 15)
  for (int64_t i = 0; i < columns; i++)
    for (int64_t j = 0; transposed && j < rows; j++) transposed[i * rows + j] = rounded[j * columns + i];
  return CH_OK;
}

ch_status ch_gemm_pack(ch_gemm *gemm, int64_t rows, int64_t columns, const void *w, ch_dtype dtype,
                       int64_t ld, void *factor, void *transposed, ch_error *error) {
  if (rows <= 0 || columns <= 0) return CH_OK;
  if (!gemm->rounds) return pack_plain(gemm, rows, columns, w, dtype, ld, factor, transposed, error);
  gemm->kernels->pack_bf16(gemm->team, rows, columns, w, dtype, ld, factor, transposed);
  return CH_OK;
}

ch_status ch_gemm_run_packed(ch_gemm *gemm, bool transpose_a, int64_t m, int64_t n, int64_t k, const void *a,
                             int64_t lda, const void *packed, void *c, int64_t ldc, bool accumulate,
                             ch_error *error) {
  const ch_gemm_shape shape = {m,     n,          k,    lda,          n,    ldc, transpose_a,
                               false, accumulate, true, gemm->rounds, false};
  return run_product(gemm, &shape, a, packed, c, error);
}

bool ch_gemm_is_large(int64_t rows) {
  return rows > CH_SKINNY_ROWS;
}

void ch_gemm_by_panels(ch_gemm *gemm) {
  gemm->by_panels = true;
}

/* --- linear layers -------------------------------------------------------------------------------------- */

/* Converts a panel of weights of any type to the other factor's type. */
static ch_status convert_panel(ch_gemm *gemm, int64_t count, const void *weight, ch_dtype from, ch_dtype to,
                               void *panel, ch_error *error) {
  const ch_kernels *kernels = gemm->kernels;
  const void *wide = weight;
  if (to == kernels->dtype) {
    kernels->convert_from(gemm->team, count, weight, from, panel);
    return CH_OK;
  }
  if (from != kernels->dtype) {
    void *room;
    CH_TRY(reserve(gemm, WIDE_PANEL, (size_t)count * ch_dtype_size(kernels->dtype), &room, error));
    kernels->convert_from(gemm->team, count, weight, from, room);
    wide = room;
  }
  kernels->convert_to(gemm->team, count, wide, to, panel);
  return CH_OK;
}

/* Converts the weights to x's type one panel of rows at a time, and multiplies each panel while it is in
   cache. */
static ch_status run_panels(ch_gemm *gemm, int64_t rows, int64_t in, int64_t out, const void *x,
                            ch_dtype x_dtype, const void *weight, ch_dtype weight_dtype, void *y,
                            bool accumulate, ch_error *error) {
  size_t real_size = ch_dtype_size(gemm->kernels->dtype), row_bytes = ch_dtype_bytes(weight_dtype, in);
  int64_t panel = PANEL_ELEMENTS / (in > 0 ? in : 1) / BLOCK_N * BLOCK_N;
  if (panel < BLOCK_N) panel = BLOCK_N;
  if (panel > out) panel = out;
  void *converted;
  CH_TRY(reserve(gemm, PANEL, (size_t)(panel * in) * ch_dtype_size(x_dtype), &converted, error));
  for (int64_t first = 0; first < out; first += panel) {
    int64_t count = out - first < panel ? out - first : panel;
    CH_TRY(convert_panel(gemm, count * in, (const char *)weight + (size_t)first * row_bytes, weight_dtype,
                         x_dtype, converted, error));
    const ch_gemm_shape shape = {rows,  count, in, in, in, out, false, true, accumulate, x_dtype == CH_BF16,
                                 false, false};
    CH_TRY(run_product(gemm, &shape, x, converted, (char *)y + (size_t)first * real_size, error));
  }
  return CH_OK;
}

/* Multiplies few rows of x. With weights of BF16, it uses gemv_bf16 or gemv_split if the table has them.
   Otherwise x of BF16 is widened. For block-quantised weights, x becomes small integers. */
static ch_status run_skinny(ch_gemm *gemm, int64_t rows, int64_t in, const void *x, ch_dtype x_dtype,
                            ch_dtype weight_dtype, int count, const ch_product *products, bool accumulate,
                            ch_error *error) {
  const ch_kernels *kernels = gemm->kernels;
  const size_t threads = (size_t)gemm->team->threads;
  void *room;
  if (x_dtype == CH_BF16 && weight_dtype == CH_BF16 && kernels->gemv_bf16) {
    CH_TRY(reserve(gemm, PACKED, threads * ch_gemv_room(rows, in), &room, error));
    kernels->gemv_bf16(gemm->team, rows, in, x, room, count, products, accumulate);
    return CH_OK;
  }
  if (weight_dtype == CH_BF16 && kernels->gemv_split) {
    CH_TRY(reserve(gemm, PACKED, threads * ch_gemv_split_room(rows, in), &room, error));
    kernels->gemv_split(gemm->team, rows, in, x, x_dtype, room, count, products, accumulate);
    return CH_OK;
  }
  if (x_dtype != kernels->dtype) {
    void *wide;
    CH_TRY(reserve(gemm, WIDE_A, (size_t)(rows * in) * ch_dtype_size(kernels->dtype), &wide, error));
    kernels->convert_from(gemm->team, rows * in, x, x_dtype, wide);
    x = wide;
  }
  if (!ch_dtype_is_block_quantised(weight_dtype)) {
    kernels->gemv(gemm->team, rows, in, x, weight_dtype, count, products, accumulate);
    return CH_OK;
  }
  CH_TRY(reserve(gemm, PACKED, (size_t)rows * ch_quantised_bytes(in), &room, error));
  kernels->quantise_rows(gemm->team, rows, in, x, weight_dtype, room);
  kernels->gemv_blocks(gemm->team, rows, in, room, weight_dtype, count, products, accumulate);
  return CH_OK;
}

static ch_status run_many(ch_gemm *gemm, int64_t rows, int64_t in, const void *x, ch_dtype x_dtype,
                          ch_dtype weight_dtype, const ch_product *p, bool accumulate, ch_error *error) {
  if (weight_dtype == x_dtype && !(gemm->by_panels && weight_dtype == CH_BF16)) {
    const ch_gemm_shape shape = {
        rows, p->out, in, in, in, p->out, false, true, accumulate, x_dtype == CH_BF16, false, false};
    CH_TRY(run_product(gemm, &shape, x, p->weight, p->y, error));
  } else {
    CH_TRY(run_panels(gemm, rows, in, p->out, x, x_dtype, p->weight, weight_dtype, p->y, accumulate, error));
  }
  if (p->bias) gemm->kernels->add_bias(gemm->team, rows, p->out, p->bias, p->y);
  return CH_OK;
}

ch_status ch_gemm_linears(ch_gemm *gemm, int64_t rows, int64_t in, const void *x, ch_dtype x_dtype,
                          ch_dtype weight_dtype, int count, const ch_product *products, bool accumulate,
                          ch_error *error) {
  if (!ch_gemm_is_large(rows) ||
      (ch_dtype_is_block_quantised(weight_dtype) && gemm->kernels->multiplies_bytes))
    return run_skinny(gemm, rows, in, x, x_dtype, weight_dtype, count, products, accumulate, error);
  for (int p = 0; p < count; p++)
    CH_TRY(run_many(gemm, rows, in, x, x_dtype, weight_dtype, &products[p], accumulate, error));
  return CH_OK;
}

ch_status ch_gemm_linear(ch_gemm *gemm, int64_t rows, int64_t in, int64_t out, const void *x,
                         ch_dtype x_dtype, const void *weight, ch_dtype weight_dtype, const void *bias,
                         void *y, bool accumulate, ch_error *error) {
  const ch_product product = {out, weight, bias, y};
  return ch_gemm_linears(gemm, rows, in, x, x_dtype, weight_dtype, 1, &product, accumulate, error);
}

/* --- a number of rows that changes ---------------------------------------------------------------------- */

static int64_t next_piece(int64_t left) {
  int64_t piece = MOST_PIECE;
  while (piece > left) piece /= 2;
  return piece < LEAST_PIECE ? left : piece;
}

ch_status ch_gemm_linear_some(ch_gemm *gemm, int64_t rows, int64_t in, int64_t out, const void *x,
                              ch_dtype x_dtype, const void *weight, ch_dtype weight_dtype, void *y,
                              ch_error *error) {
  size_t real_size = ch_dtype_size(gemm->kernels->dtype);
  for (int64_t first = 0, count; first < rows; first += count) {
    const char *from = (const char *)x + (size_t)(first * in) * ch_dtype_size(x_dtype);
    char *to = (char *)y + (size_t)(first * out) * real_size;
    count = next_piece(rows - first);
    const ch_product product = {out, weight, NULL, to};
    if (count < LEAST_PIECE)
      CH_TRY(run_skinny(gemm, count, in, from, x_dtype, weight_dtype, 1, &product, false, error));
    else
      CH_TRY(
          ch_gemm_linear(gemm, count, in, out, from, x_dtype, weight, weight_dtype, NULL, to, false, error));
  }
  return CH_OK;
}

ch_status ch_gemm_gradient_some(ch_gemm *gemm, int64_t rows, int64_t in, int64_t out, const void *dy,
                                const void *x, void *dw, bool accumulate, ch_error *error) {
  ch_gemm_shape shape = {.m = out,
                         .n = in,
                         .k = rows,
                         .lda = out,
                         .ldb = in,
                         .ldc = in,
                         .transpose_a = true,
                         .accumulate = accumulate};
  if (rows <= 0 || gemm->kernels->dtype == CH_F64 || !matmul_is_faster(&shape))
    return run_product(gemm, &shape, dy, x, dw, error);
  for (int64_t first = 0; first < rows; first += shape.k) {
    shape.k = next_piece(rows - first);
    shape.is_rare = shape.k < LEAST_PIECE;
    shape.accumulate = accumulate || first > 0;
    CH_TRY(
        run_product(gemm, &shape, (const float *)dy + first * out, (const float *)x + first * in, dw, error));
  }
  return CH_OK;
}
