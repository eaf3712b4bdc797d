/* Tests rotary positions and embedding rows of every table against their equations. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

/* --- rope ----------------------------------------------------------------------------------------------- */

typedef struct rope_case {
  int64_t rows, heads, head_dim, rotary;
  bool leading, interleaved, inverse, accumulate;
  const int32_t *positions;
  const double *frequencies;
} rope_case;

static void call_rope(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                      const void *data) {
  (void)scratch;
  const rope_case *c = data;
  kernels->rope_table(all_threads(), c->rows, c->rotary, c->positions, c->frequencies, out[1]);
  kernels->rope(all_threads(), c->rows, c->heads, c->head_dim, c->rotary, c->leading, c->interleaved,
                c->inverse, out[1], in[0], out[0], c->accumulate);
  if (c->accumulate) return;
  /* In place, the bits are the same. */
  size_t bytes = (size_t)(c->rows * c->heads * c->head_dim) * ch_dtype_size(kernels->dtype);
  void *copy = malloc(bytes);
  assert_non_null(copy);
  memcpy(copy, in[0], bytes);
  kernels->rope(all_threads(), c->rows, c->heads, c->head_dim, c->rotary, c->leading, c->interleaved,
                c->inverse, out[1], copy, copy, false);
  assert_memory_equal(copy, out[0], bytes);
  free(copy);
}

static void check_rope(ch_random *random, rope_case c) {
  int64_t size = c.rows * c.heads * c.head_dim, half = c.rotary / 2, kept = c.head_dim - c.rotary,
          turned = c.leading ? 0 : kept, copied = c.leading ? c.rotary : 0;
  double *x = random_values(random, size, 1), *y0 = random_values(random, size, 1), *y = zeros(size);
  double *table = zeros(c.rows * c.rotary + 1), *table_bound = zeros(c.rows * c.rotary + 1),
         *bound = zeros(size);
  int32_t *positions = malloc((size_t)c.rows * sizeof *positions);
  double *frequencies = zeros(half);
  assert_non_null(positions);
  for (int64_t r = 0; r < c.rows; r++) positions[r] = (int32_t)ch_random_below(random, 100000);
  for (int64_t i = 0; i < half; i++) frequencies[i] = pow(10000, -2.0 * (double)i / (double)c.rotary);
  c.positions = positions, c.frequencies = frequencies;
  for (int64_t r = 0; r < c.rows; r++) {
    for (int64_t i = 0; i < half; i++) {
      table[r * c.rotary + i] = cos(positions[r] * frequencies[i]);
      table[r * c.rotary + half + i] = sin(positions[r] * frequencies[i]);
      table_bound[r * c.rotary + i] = table_bound[r * c.rotary + half + i] = 2;
    }
    for (int64_t h = 0; h < c.heads; h++) {
      int64_t head = (r * c.heads + h) * c.head_dim;
      for (int64_t i = 0; i < kept; i++) y[head + copied + i] = x[head + copied + i];
      for (int64_t i = 0; i < half; i++) {
        int64_t first = head + turned + (c.interleaved ? 2 * i : i),
                second = first + (c.interleaved ? 1 : half);
        double cosine = table[r * c.rotary + i], sine = table[r * c.rotary + half + i] * (c.inverse ? -1 : 1);
        y[first] = x[first] * cosine - x[second] * sine;
        y[second] = x[second] * cosine + x[first] * sine;
        bound[first] = bound[second] = 4 * (fabs(x[first]) + fabs(x[second]));
      }
    }
  }
  for (int64_t i = 0; i < size; i++) {
    bound[i] += fabs(y0[i]) + fabs(x[i]);
    if (c.accumulate) y[i] += y0[i];
  }
  kernel_check check = {.what = c.interleaved ? "rope, interleaved" : "rope, halves",
                        .call = call_rope,
                        .data = &c,
                        .inputs = 1,
                        .outputs = 2,
                        .in_size = {size},
                        .in = {x},
                        .out_size = {size, c.rows * c.rotary},
                        .initial = {c.accumulate ? y0 : NULL},
                        .expected = {y, table},
                        .bound = {bound, table_bound}};
  run_check(&check);
  free(x), free(y0), free(y), free(table), free(table_bound), free(bound), free(positions), free(frequencies);
}

static void rotary_positions_turn_pairs_by_their_angles(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 51, 0);
  static const int64_t dims[][2] = {{2, 2},   {6, 4},   {7, 6},   {8, 8},    {16, 0},
                                    {33, 14}, {64, 64}, {80, 32}, {130, 126}};
  for (int d = 0; d < 9; d++)
    for (int flags = 0; flags < 16; flags++)
      check_rope(&random, (rope_case){.rows = 1 + (int64_t)ch_random_below(&random, 6),
                                      .heads = 1 + (int64_t)ch_random_below(&random, 3),
                                      .head_dim = dims[d][0],
                                      .rotary = dims[d][1],
                                      .interleaved = flags & 1,
                                      .inverse = flags & 2,
                                      .accumulate = flags & 4,
                                      .leading = flags & 8});
  for (int flags = 0; flags < 16; flags++)
    check_rope(&random, (rope_case){.rows = 70,
                                    .heads = 5,
                                    .head_dim = 66,
                                    .rotary = 62,
                                    .interleaved = flags & 1,
                                    .inverse = flags & 2,
                                    .accumulate = flags & 4,
                                    .leading = flags & 8});
}

static void turning_back_restores_the_vector(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 52, 0);
  const ch_kernels *kernels = ch_kernels_for(CH_F64, CH_ISA_PLAIN);
  enum { N = 34 };
  double *x = random_values(&random, N, 1), y[N], table[N];
  const int32_t position = 12345;
  double frequencies[N / 2];
  for (int i = 0; i < N / 2; i++) frequencies[i] = pow(500000, -2.0 * i / N);
  kernels->rope_table(all_threads(), 1, N, &position, frequencies, table);
  for (int interleaved = 0; interleaved < 2; interleaved++) {
    kernels->rope(all_threads(), 1, 1, N, N, false, interleaved, false, table, x, y, false);
    kernels->rope(all_threads(), 1, 1, N, N, false, interleaved, true, table, y, y, false);
    for (int i = 0; i < N; i++) assert_true(fabs(x[i] - y[i]) < 1e-14);
  }
  free(x);
}

/* --- embedding ------------------------------------------------------------------------------------------ */

typedef struct embedding_case {
  int64_t rows, n, vocabulary;
  bool accumulate;
  const int32_t *ids;
} embedding_case;

static void call_embedding(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                           const void *data) {
  const embedding_case *c = data;
  kernels->embedding_forward(all_threads(), c->rows, c->n, c->ids, in[0], kernels->dtype, out[0]);
  kernels->embedding_backward(all_threads(), c->rows, c->n, c->vocabulary, c->ids, in[1], out[1],
                              c->accumulate);
  kernels->convert_to(all_threads(), c->vocabulary * c->n, in[0], CH_BF16, scratch);
  kernels->embedding_forward(all_threads(), c->rows, c->n, c->ids, scratch, CH_BF16, out[2]);
  kernels->convert_to(all_threads(), c->vocabulary * c->n, in[0], CH_F16, scratch);
  kernels->embedding_forward(all_threads(), c->rows, c->n, c->ids, scratch, CH_F16, out[3]);
}

static void embedding_rows_are_copied_and_their_gradients_added_up(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 53, 0);
  static const int64_t shapes[][3] = {{1, 1, 1}, {5, 3, 2}, {17, 65, 9}, {300, 67, 40}, {64, 384, 100}};
  for (int s = 0; s < 10; s++) {
    embedding_case c = {shapes[s / 2][0], shapes[s / 2][1], shapes[s / 2][2], s & 1, NULL};
    int32_t *ids = malloc((size_t)c.rows * sizeof *ids);
    assert_non_null(ids);
    for (int64_t r = 0; r < c.rows; r++) ids[r] = (int32_t)ch_random_below(&random, (uint64_t)c.vocabulary);
    c.ids = ids;
    int64_t size = c.rows * c.n, weights = c.vocabulary * c.n;
    double *w = random_values(&random, weights, 1), *dy = random_values(&random, size, 1);
    double *dw0 = random_values(&random, weights, 1), *dw = zeros(weights), *bound = zeros(weights);
    double *y = zeros(size), *exact = zeros(size);
    for (int64_t i = 0; i < weights; i++) w[i] = round(w[i] * 16) / 16;
    for (int64_t i = 0; i < weights; i++) {
      dw[i] = c.accumulate ? dw0[i] : 0;
      bound[i] = fabs(dw[i]);
    }
    for (int64_t r = 0; r < c.rows; r++)
      for (int64_t i = 0; i < c.n; i++) {
        y[r * c.n + i] = w[ids[r] * c.n + i];
        dw[ids[r] * c.n + i] += dy[r * c.n + i];
        bound[ids[r] * c.n + i] += (double)c.rows * fabs(dy[r * c.n + i]);
      }
    kernel_check check = {.what = "embedding",
                          .call = call_embedding,
                          .data = &c,
                          .inputs = 2,
                          .outputs = 4,
                          .in_size = {weights, size},
                          .in = {w, dy},
                          .out_size = {size, weights, size, size},
                          .initial = {NULL, c.accumulate ? dw0 : NULL},
                          .expected = {y, dw, y, y},
                          .bound = {exact, bound, exact, exact},
                          .scratch_size = weights};
    run_check(&check);
    free(ids), free(w), free(dy), free(dw0), free(dw), free(bound), free(y), free(exact);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rotary_positions_turn_pairs_by_their_angles),
      cmocka_unit_test(turning_back_restores_the_vector),
      cmocka_unit_test(embedding_rows_are_copied_and_their_gradients_added_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
