/* Tests the kernels for heads, gates and states of every table against their equations. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

/* No vector length divides these sizes. */
enum { ROWS = 37, IN = 3, OUT = 5, DIM = 19, LATENT = 21, NOPE = 7, ROPE = 6, VALUE = 11 };

static ch_random randomness;

/* Returns allowed errors: `eps` times 1 + |value|. */
static double *near_to(const double *expected, int64_t n, double eps) {
  double *bound = zeros(n);
  for (int64_t i = 0; i < n; i++) bound[i] = eps * (1 + fabs(expected[i]));
  return bound;
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

/* --- gates -------------------------------------------------------------------------------------------------- */

static void call_gates(const ch_kernels *k, void *const *in, void **out, void *scratch, const void *data) {
  (void)data;
  k->mul(all_threads(), ROWS, DIM, in[0], in[1], false, out[0], false);
  k->mul(all_threads(), ROWS, DIM, in[0], in[2], true, out[1], true);
  k->dot_rows(all_threads(), ROWS, DIM, in[0], in[1], out[2], true, scratch);
  k->sigmoid_gate_forward(all_threads(), ROWS * DIM, 2, in[0], in[1], out[3]);
  k->sigmoid_gate_backward(all_threads(), ROWS * DIM, 2, in[0], in[1], in[3], out[4], false, out[5], true);
  k->scale(all_threads(), ROWS * DIM, -0.3, in[0], out[6], true);
}

static void products_and_gates_follow_their_equations(void **state) {
  (void)state;
  enum { N = ROWS * DIM };
  double *a = random_values(&randomness, N, 1), *b = random_values(&randomness, N, 1),
         *v = random_values(&randomness, DIM, 1), *d = random_values(&randomness, N, 1),
         *old = random_values(&randomness, N, 1);
  double *e[7];
  for (int i = 0; i < 7; i++) e[i] = zeros(N);
  for (int64_t j = 0; j < DIM; j++) e[2][j] = old[j];
  for (int64_t i = 0; i < N; i++) {
    double s = sigmoid(b[i]);
    e[0][i] = a[i] * b[i];
    e[1][i] = old[i] + a[i] * v[i % DIM];
    e[2][i % DIM] += a[i] * b[i];
    e[3][i] = 2 * a[i] * s;
    e[4][i] = 2 * d[i] * s;
    e[5][i] = old[i] + 2 * d[i] * a[i] * s * (1 - s);
    e[6][i] = old[i] - 0.3 * a[i];
  }
  kernel_check check = {.what = "gates",
                        .call = call_gates,
                        .inputs = 4,
                        .in_size = {N, N, DIM, N},
                        .in = {a, b, v, d},
                        .outputs = 7,
                        .out_size = {N, N, DIM, N, N, N, N},
                        .initial = {NULL, old, old, NULL, NULL, old, old},
                        .scratch_size = MOST_THREADS * DIM};
  for (int i = 0; i < 7; i++) {
    check.expected[i] = e[i];
    check.bound[i] = near_to(e[i], check.out_size[i], 40);
  }
  run_check(&check);
  for (int i = 0; i < 7; i++) {
    free((double *)check.bound[i]);
    free(e[i]);
  }
  free(a), free(b), free(v), free(d), free(old);
}

static void call_difference(const ch_kernels *k, void *const *in, void **out, void *scratch,
                            const void *data) {
  bool single = *(const bool *)data;
  k->subtract_scaled_forward(all_threads(), ROWS, IN, DIM, in[0], in[1], in[2], single, out[0]);
  k->subtract_scaled_backward(all_threads(), ROWS, IN, DIM, in[1], in[2], single, in[0], out[1], true, out[2],
                              true, scratch);
}

static void differences_with_a_learned_scale_follow_their_equations(void **state) {
  (void)state;
  enum { N = ROWS * IN * DIM };
  for (int single = 0; single < 2; single++) {
    bool one = single;
    int64_t lambdas = one ? 1 : IN;
    double *a = random_values(&randomness, N, 1), *b = random_values(&randomness, N, 1),
           *l = random_values(&randomness, IN, 1), *old = random_values(&randomness, N, 1);
    double *y = zeros(N), *db = zeros(N), *dl = zeros(IN);
    for (int64_t p = 0; p < IN; p++) dl[p] = old[p];
    for (int64_t i = 0; i < N; i++) {
      int64_t p = one ? 0 : i / DIM % IN;
      y[i] = a[i] - l[p] * b[i];
      db[i] = old[i] - l[p] * a[i];
      dl[p] -= a[i] * b[i];
    }
    double *by = near_to(y, N, 8), *bd = near_to(db, N, 8), *bl = near_to(dl, IN, 4000);
    run_check(&(kernel_check){.what = "differences",
                              .call = call_difference,
                              .data = &one,
                              .inputs = 3,
                              .in_size = {N, N, IN},
                              .in = {a, b, l},
                              .outputs = 3,
                              .out_size = {N, N, lambdas},
                              .initial = {NULL, old, old},
                              .expected = {y, db, dl},
                              .bound = {by, bd, bl},
                              .scratch_size = MOST_THREADS * IN});
    free(a), free(b), free(l), free(old), free(y), free(db), free(dl), free(by), free(bd), free(bl);
  }
}

/* --- heads -------------------------------------------------------------------------------------------------- */

static void call_mix(const ch_kernels *k, void *const *in, void **out, void *scratch, const void *data) {
  (void)data;
  k->head_mix(all_threads(), ROWS, IN, OUT, DIM, in[1], IN, 1, in[0], out[0], false);
  k->head_mix(all_threads(), ROWS, OUT, IN, DIM, in[1], 1, IN, in[2], out[1], true);
  k->head_mix_gradient(all_threads(), ROWS, IN, OUT, DIM, in[0], in[2], out[2], true, scratch);
}

static void heads_are_mixed_and_their_gradients_are_the_transpose(void **state) {
  (void)state;
  enum { NX = ROWS * IN * DIM, NY = ROWS * OUT * DIM, NM = IN * OUT };
  double *x = random_values(&randomness, NX, 1), *m = random_values(&randomness, NM, 1),
         *d = random_values(&randomness, NY, 1), *old = random_values(&randomness, NX, 1);
  double *y = zeros(NY), *dx = zeros(NX), *dm = zeros(NM);
  memcpy(dx, old, NX * sizeof *dx);
  memcpy(dm, old, NM * sizeof *dm);
  for (int64_t r = 0; r < ROWS; r++)
    for (int64_t g = 0; g < OUT; g++)
      for (int64_t j = 0; j < IN; j++)
        for (int64_t i = 0; i < DIM; i++) {
          int64_t at = (r * OUT + g) * DIM + i, from = (r * IN + j) * DIM + i;
          y[at] += m[g * IN + j] * x[from];
          dx[from] += m[g * IN + j] * d[at];
          dm[g * IN + j] += d[at] * x[from];
        }
  double *by = near_to(y, NY, 20), *bx = near_to(dx, NX, 30), *bm = near_to(dm, NM, 2000);
  run_check(&(kernel_check){.what = "head mix",
                            .call = call_mix,
                            .inputs = 3,
                            .in_size = {NX, NM, NY},
                            .in = {x, m, d},
                            .outputs = 3,
                            .out_size = {NY, NX, NM},
                            .initial = {NULL, old, old},
                            .expected = {y, dx, dm},
                            .bound = {by, bx, bm},
                            .scratch_size = MOST_THREADS * NM});
  free(x), free(m), free(d), free(old), free(y), free(dx), free(dm), free(by), free(bx), free(bm);
}

/* Adds columns 2 … DIM-1 of IN heads to heads with a stride of DIM + 3. Also sums these columns over the heads. */
static void call_slices(const ch_kernels *k, void *const *in, void **out, void *scratch, const void *data) {
  (void)scratch, (void)data;
  size_t element = ch_dtype_size(k->dtype);
  ch_head_slices from = {(const char *)in[0] + 2 * element, IN * DIM, DIM},
                 to = {out[0], IN * (DIM + 3), DIM + 3};
  k->copy_heads(all_threads(), ROWS, IN, DIM - 2, &from, k->dtype, &to, true);
  ch_head_slices sums = {out[1], DIM - 2, 0};
  k->sum_heads(all_threads(), ROWS, IN, DIM - 2, &from, &sums, false);
}

static void slices_of_heads_move_and_add_up(void **state) {
  (void)state;
  enum { NX = ROWS * IN * DIM, NY = ROWS * IN * (DIM + 3), NS = ROWS * (DIM - 2) };
  double *x = random_values(&randomness, NX, 1), *old = random_values(&randomness, NY, 1);
  double *y = zeros(NY), *s = zeros(NS);
  memcpy(y, old, NY * sizeof *y);
  for (int64_t r = 0; r < ROWS; r++)
    for (int64_t h = 0; h < IN; h++)
      for (int64_t i = 0; i < DIM - 2; i++) {
        double value = x[(r * IN + h) * DIM + 2 + i];
        y[(r * IN + h) * (DIM + 3) + i] += value;
        s[r * (DIM - 2) + i] += value;
      }
  double *by = near_to(y, NY, 4), *bs = near_to(s, NS, 10);
  run_check(&(kernel_check){.what = "slices",
                            .call = call_slices,
                            .inputs = 1,
                            .in_size = {NX},
                            .in = {x},
                            .outputs = 2,
                            .out_size = {NY, NS},
                            .initial = {old, NULL},
                            .expected = {y, s},
                            .bound = {by, bs}});
  free(x), free(old), free(y), free(s), free(by), free(bs);
}

/* Multiplies every head by rows 1 … OUT-1 of its OUT rows of a matrix [IN * OUT, DIM], and by their transpose. */
static void call_head_product(const ch_kernels *k, void *const *in, void **out, void *scratch,
                              const void *data) {
  (void)scratch, (void)data;
  const char *first = (const char *)in[0] + DIM * ch_dtype_size(k->dtype);
  k->head_product(all_threads(), 2, IN, OUT - 1, DIM, in[1], first, k->dtype, OUT * DIM, false, out[0]);
  k->head_product(all_threads(), 2, IN, OUT - 1, DIM, in[2], first, k->dtype, OUT * DIM, true, out[1]);
}

static void heads_have_rows_of_a_matrix_of_their_own(void **state) {
  (void)state;
  enum { NW = IN * OUT * DIM, NX = 2 * IN * DIM, NU = 2 * IN * (OUT - 1) };
  double *w = random_values(&randomness, NW, 1), *x = random_values(&randomness, NX, 1),
         *u = random_values(&randomness, NU, 1);
  double *y = zeros(NU), *z = zeros(NX);
  for (int64_t r = 0; r < 2 * IN; r++)
    for (int64_t o = 0; o < OUT - 1; o++)
      for (int64_t i = 0; i < DIM; i++) {
        double weight = w[(r % IN * OUT + 1 + o) * DIM + i];
        y[r * (OUT - 1) + o] += weight * x[r * DIM + i];
        z[r * DIM + i] += weight * u[r * (OUT - 1) + o];
      }
  double *by = near_to(y, NU, 60), *bz = near_to(z, NX, 30);
  run_check(&(kernel_check){.what = "head product",
                            .call = call_head_product,
                            .inputs = 3,
                            .in_size = {NW, NX, NU},
                            .in = {w, x, u},
                            .outputs = 2,
                            .out_size = {NU, NX},
                            .expected = {y, z},
                            .bound = {by, bz}});
  free(w), free(x), free(u), free(y), free(z), free(by), free(bz);
}

/* --- states ------------------------------------------------------------------------------------------------- */

static const double frequencies[] = {0.01, 0.0037, 0.00011};

typedef struct turning {
  int64_t first;
  bool interleaved, leading;
} turning;

static void call_turning(const ch_kernels *k, void *const *in, void **out, void *scratch, const void *data) {
  const turning *t = data;
  char *levels = scratch;
  k->rope_levels(ROPE, frequencies, levels);
  ch_rope_states states = {.heads = IN,
                           .head_dim = DIM,
                           .rotary = ROPE,
                           .interleaved = t->interleaved,
                           .leading = t->leading,
                           .levels = levels,
                           .x = in[0],
                           .x_dtype = k->dtype,
                           .x_stride = IN * DIM};
  k->rope_states(&states, t->first, ROWS, out[0],
                 levels + (size_t)(CH_ROPE_LEVELS * CH_ROPE_LEVEL * ROPE) * ch_dtype_size(k->dtype));
}

static void states_turn_by_their_places(void **state) {
  (void)state;
  enum { N = ROWS * IN * DIM };
  static const turning turnings[] = {{0, false, false},    {50, true, false},     {63, false, true},
                                     {4090, false, false}, {300000, true, false}, {70, true, true}};
  for (size_t c = 0; c < sizeof turnings / sizeof *turnings; c++) {
    const turning *t = &turnings[c];
    double *x = random_values(&randomness, N, 1), *y = zeros(N);
    memcpy(y, x, N * sizeof *y);
    for (int64_t r = 0; r < ROWS; r++)
      for (int64_t h = 0; h < IN; h++)
        for (int64_t i = 0; i < ROPE / 2; i++) {
          int64_t head = (r * IN + h) * DIM + (t->leading ? 0 : DIM - ROPE);
          int64_t a = head + (t->interleaved ? 2 * i : i), b = t->interleaved ? a + 1 : a + ROPE / 2;
          double angle = (double)(t->first + r) * frequencies[i];
          y[a] = x[a] * cos(angle) - x[b] * sin(angle);
          y[b] = x[b] * cos(angle) + x[a] * sin(angle);
        }
    double *bound = near_to(y, N, 20);
    /* the rounding of angles */
    for (int64_t i = 0; i < N; i++) bound[i] += (double)(t->first + ROWS) * frequencies[0];
    run_check(&(kernel_check){.what = "turning states",
                              .call = call_turning,
                              .data = t,
                              .inputs = 1,
                              .in_size = {N},
                              .in = {x},
                              .outputs = 1,
                              .out_size = {N},
                              .expected = {y},
                              .bound = {bound},
                              .scratch_size = (CH_ROPE_LEVELS * CH_ROPE_LEVEL + 2) * ROPE});
    free(x), free(y), free(bound);
  }
}

static void call_moments(const ch_kernels *k, void *const *in, void **out, void *scratch, const void *data) {
  (void)data;
  k->row_moments(ROWS, DIM, in[0], 1e-5, out[0]);
  k->normalise(ROWS, DIM, in[0], out[0], in[1], in[2], out[1]);
  k->layernorm_forward(all_threads(), ROWS, DIM, in[0], in[1], in[2], 1e-5, out[2], scratch);
}

static void a_norm_in_two_halves_is_the_norm(void **state) {
  (void)state;
  enum { N = ROWS * DIM };
  double *x = random_values(&randomness, N, 1), *w = random_values(&randomness, DIM, 1),
         *b = random_values(&randomness, DIM, 1);
  double *moments = zeros(2 * ROWS), *y = zeros(N);
  for (int64_t r = 0; r < ROWS; r++) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < DIM; i++) mean += x[r * DIM + i] / DIM;
    for (int64_t i = 0; i < DIM; i++) square += pow(x[r * DIM + i] - mean, 2) / DIM;
    moments[2 * r] = mean;
    moments[2 * r + 1] = 1 / sqrt(square + 1e-5);
    for (int64_t i = 0; i < DIM; i++)
      y[r * DIM + i] = (x[r * DIM + i] - mean) * moments[2 * r + 1] * w[i] + b[i];
  }
  double *bm = near_to(moments, 2 * ROWS, 20), *by = near_to(y, N, 40);
  run_check(&(kernel_check){.what = "moments",
                            .call = call_moments,
                            .inputs = 3,
                            .in_size = {N, DIM, DIM},
                            .in = {x, w, b},
                            .outputs = 3,
                            .out_size = {2 * ROWS, N, N},
                            .expected = {moments, y, y},
                            .bound = {bm, by, by},
                            .scratch_size = 2 * ROWS});
  free(x), free(w), free(b), free(moments), free(y), free(bm), free(by);
}

/* --- gated latents by id ------------------------------------------------------------------------------------ */

enum { HEADS = 3, TOKENS = 300, IDS = 41, GATED = HEADS * (NOPE + VALUE), STATE = LATENT + ROPE };

typedef struct gated_case {
  ch_gated_form form;
  ch_id_groups groups;
  bool norm;
  const double *slopes;
} gated_case;

static void call_gated(const ch_kernels *k, void *const *in, void **out, void *scratch, const void *data) {
  const gated_case *c = data;
  const ch_id_groups *groups = &c->groups;
  ch_gated_attend args = {.team = all_threads(),
                          .form = c->form,
                          .sequences = 1,
                          .heads = HEADS,
                          .latent = LATENT,
                          .rope = ROPE,
                          .nope = NOPE,
                          .value = VALUE,
                          .q = in[0],
                          .out = out[0],
                          .scale = 0.3,
                          .slopes = c->slopes,
                          .kv_b = in[1],
                          .kv_b_dtype = k->dtype,
                          .gamma = c->norm ? in[2] : NULL,
                          .beta = c->norm ? in[3] : NULL,
                          .latents = {in[4], k->dtype, STATE, 0, 0},
                          .gates = {in[5], k->dtype, GATED, 0, 0},
                          .moments = {in[6], k->dtype, 2, 0, 0},
                          .groups = groups,
                          .scratch = scratch};
  if (k->gated_attend_scratch(&args) > (size_t)1 << 22) fail_msg("more scratch than the test has");
  k->gated_attend(&args);
}

/* Computes attention by its definition: expands, gates and norms every token. */
static void expand_and_attend(const gated_case *c, const int32_t *id, double *const in[7], double *out) {
  for (int64_t h = 0; h < HEADS; h++) {
    double weight[TOKENS], sum = 0, *y = out + h * VALUE;
    static double kv[TOKENS][NOPE + VALUE];
    for (int64_t t = 0; t < TOKENS; t++) {
      const double *state = in[4] + t * STATE, *q = in[0] + h * (NOPE + ROPE);
      double score = 0;
      for (int64_t i = 0; i < NOPE + VALUE; i++) {
        int64_t row = h * (NOPE + VALUE) + i;
        double x = 0;
        for (int64_t l = 0; l < LATENT; l++) x += in[1][row * LATENT + l] * state[l];
        x *= in[5][id[t] * GATED + row];
        kv[t][i] = c->norm ? (x - in[6][2 * t]) * in[6][2 * t + 1] * in[2][row] + in[3][row] : x;
        if (i < NOPE) score += q[i] * kv[t][i];
      }
      for (int64_t i = 0; i < ROPE; i++) score += q[NOPE + i] * state[LATENT + i];
      weight[t] = exp(0.3 * score - (c->slopes ? c->slopes[h] * (double)(TOKENS - 1 - t) : 0));
      sum += weight[t];
    }
    for (int64_t i = 0; i < VALUE; i++) y[i] = 0;
    for (int64_t t = 0; t < TOKENS; t++)
      for (int64_t i = 0; i < VALUE; i++) y[i] += weight[t] / sum * kv[t][NOPE + i];
  }
}

/* Kinds of token ids. MIXED_IDS: half of the tokens have one id, more than are processed at once, and other ids occur
   once or a few times. DIFFERENT_IDS: every token has its own id. ONE_ID: all tokens have one id. */
enum { MIXED_IDS, DIFFERENT_IDS, ONE_ID };

static int32_t made_up_id(int kind, int t) {
  if (kind != MIXED_IDS) return kind == ONE_ID ? 0 : (int32_t)(t * 7 % TOKENS);
  if (t % 2) return 0;
  return t % 4 ? (int32_t)ch_random_below(&randomness, IDS) : IDS + t / 4;
}

static ch_id_groups group_by_id(const int32_t *id, int32_t *ids, int32_t *first, int32_t *token) {
  ch_id_groups groups = {.id = ids, .first = first, .token = token};
  int32_t n = 0;
  for (int32_t g = 0; g < TOKENS; g++) {
    first[groups.count] = n;
    for (int32_t t = 0; t < TOKENS; t++)
      if (id[t] == g) token[n++] = t;
    if (n > first[groups.count]) ids[groups.count++] = g;
  }
  first[groups.count] = n;
  return groups;
}

static void compare_gated(gated_case c, const int32_t *id) {
  const int64_t sizes[7] = {HEADS * (NOPE + ROPE), GATED * LATENT, GATED,     GATED,
                            TOKENS * STATE,        TOKENS * GATED, TOKENS * 2};
  double *in[7], *out = zeros(HEADS * VALUE);
  for (int i = 0; i < 7; i++) in[i] = random_values(&randomness, sizes[i], 0.5);
  expand_and_attend(&c, id, in, out);
  double *bound = near_to(out, HEADS * VALUE, 400);
  kernel_check check = {.what = "gated latents",
                        .call = call_gated,
                        .data = &c,
                        .inputs = 7,
                        .outputs = 1,
                        .out_size = {HEADS * VALUE},
                        .expected = {out},
                        .bound = {bound},
                        .scratch_size = (1 << 22) / 4};
  for (int i = 0; i < 7; i++) {
    check.in[i] = in[i];
    check.in_size[i] = sizes[i];
  }
  run_check(&check);
  for (int i = 0; i < 7; i++) free(in[i]);
  free(out), free(bound);
}

static void every_form_of_gated_attention_gives_what_its_equation_gives(void **state) {
  (void)state;
  static const double slopes[HEADS] = {0.02, 0.005, 0.1};
  static const ch_gated_form forms[] = {CH_GATED_CHOSEN, CH_GATED_FOLDED, CH_GATED_EXPANDED};
  for (int kind = MIXED_IDS; kind <= ONE_ID; kind++) {
    int32_t id[TOKENS], ids[TOKENS], first[TOKENS + 1], token[TOKENS];
    for (int t = 0; t < TOKENS; t++) id[t] = made_up_id(kind, t);
    ch_id_groups groups = group_by_id(id, ids, first, token);
    for (int form = 0; form < 3; form++)
      for (int n = 0; n < 4; n++)
        compare_gated((gated_case){forms[form], groups, n & 1, n & 2 ? slopes : NULL}, id);
  }
}

int main(void) {
  ch_random_seed(&randomness, 5, 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_and_gates_follow_their_equations),
      cmocka_unit_test(differences_with_a_learned_scale_follow_their_equations),
      cmocka_unit_test(heads_are_mixed_and_their_gradients_are_the_transpose),
      cmocka_unit_test(slices_of_heads_move_and_add_up),
      cmocka_unit_test(heads_have_rows_of_a_matrix_of_their_own),
      cmocka_unit_test(states_turn_by_their_places),
      cmocka_unit_test(a_norm_in_two_halves_is_the_norm),
      cmocka_unit_test(every_form_of_gated_attention_gives_what_its_equation_gives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
