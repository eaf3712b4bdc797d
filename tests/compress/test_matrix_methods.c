/* Tests matrix PCA with residuals, and low-rank factors by SVD: they are exact if nothing has to be dropped,
 * agree with an independent SVD, and never have more parameters than requested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compress_testing.h"

#include "compress/layer_groups.h"
#include "compress/linear_algebra.h"
#include "compress/matrix_ranks.h"
#include "compress/truncation.h"

#define GROUPED "'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 8"
#define GQA "'type': 'gqa', 'qk_norm': true"

/* --- linear algebra against plain loops --------------------------------------------------------------------- */

static double *random_matrix(int64_t rows, int64_t columns, uint64_t stream) {
  double *m = malloc((size_t)(rows * columns) * sizeof *m);
  ch_random random;
  ch_random_seed(&random, 31, stream);
  for (int64_t i = 0; i < rows * columns; i++) m[i] = ch_random_normal(&random);
  return m;
}

/* Computes the squared singular values of M [rows, columns], the largest first, by one-sided Jacobi rotations of its
   rows. Overwrites M. */
static void singular_squares(double *m, int64_t rows, int64_t columns, double *squares) {
  for (int sweep = 0; sweep < 60; sweep++)
    for (int64_t p = 0; p < rows; p++)
      for (int64_t q = p + 1; q < rows; q++) {
        double a = 0, b = 0, c = 0;
        for (int64_t i = 0; i < columns; i++) {
          a += m[p * columns + i] * m[p * columns + i];
          b += m[q * columns + i] * m[q * columns + i];
          c += m[p * columns + i] * m[q * columns + i];
        }
        if (fabs(c) < 1e-300) continue;
        double z = (b - a) / (2 * c), t = (z < 0 ? -1 : 1) / (fabs(z) + sqrt(1 + z * z));
        double cosine = 1 / sqrt(1 + t * t), sine = t * cosine;
        for (int64_t i = 0; i < columns; i++) {
          double x = m[p * columns + i], y = m[q * columns + i];
          m[p * columns + i] = cosine * x - sine * y;
          m[q * columns + i] = sine * x + cosine * y;
        }
      }
  for (int64_t p = 0; p < rows; p++) {
    squares[p] = 0;
    for (int64_t i = 0; i < columns; i++) squares[p] += m[p * columns + i] * m[p * columns + i];
  }
  for (int64_t p = 1; p < rows; p++)
    for (int64_t q = p; q > 0 && squares[q] > squares[q - 1]; q--) {
      double kept = squares[q];
      squares[q] = squares[q - 1];
      squares[q - 1] = kept;
    }
}

/* Returns E[x x^T] = R R^T for a random lower triangular R, which is stored in r. Only the first `rank` columns of R
   are not zero. */
static float *autocorrelation(int64_t n, int64_t rank, double *r) {
  float *c = malloc((size_t)(n * n) * sizeof *c);
  double *random = random_matrix(n, n, 77);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++)
      r[i * n + j] = j > i || j >= rank ? 0 : random[i * n + j] + (i == j ? 3 : 0);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t k = 0; k < n; k++) sum += r[i * n + k] * r[j * n + k];
      c[i * n + j] = (float)sum;
    }
  free(random);
  return c;
}

static void check_truncation(int64_t out, int64_t in, int64_t rank_of_inputs) {
  double *m = random_matrix(out, in, 5), *r = malloc((size_t)(in * in) * sizeof *r);
  float *c = autocorrelation(in, rank_of_inputs, r);
  const ch_autocorrelation inputs = {.n = in, .c = c};
  int64_t most = out < in ? out : in;
  /* Computes M R and its singular values by rotations. If the transpose has fewer rows, it is rotated instead. */
  double *mr = malloc((size_t)(out * in) * sizeof *mr),
         *squares = malloc((size_t)(out + in) * sizeof *squares);
  for (int64_t o = 0; o < out; o++)
    for (int64_t i = 0; i < in; i++) {
      double sum = 0;
      for (int64_t k = 0; k < in; k++) sum += m[o * in + k] * r[k * in + i];
      mr[out <= in ? o * in + i : i * out + o] = sum;
    }
  singular_squares(mr, most, out <= in ? in : out, squares);
  ch_truncation t;
  must(ch_truncation_find(out, in, m, &inputs, true, &t, &failure));
  for (int64_t i = 0; i < most; i++)
    if (fabs(t.values[i] - squares[i]) > 2e-5 * squares[0])
      fail_msg("value %d is %g and should be %g", (int)i, t.values[i], squares[i]);
  double *a = malloc((size_t)(most * in) * sizeof *a), *b = malloc((size_t)(out * most) * sizeof *b);
  for (int64_t rank = 1; rank <= most; rank++) {
    double *left = malloc((size_t)(out * in) * sizeof *left), expected = 0;
    ch_truncation_factors(&t, m, rank, a, b);
    memcpy(left, m, (size_t)(out * in) * sizeof *left);
    for (int64_t o = 0; o < out; o++)
      for (int64_t i = 0; i < in; i++)
        for (int64_t k = 0; k < rank; k++) left[o * in + i] -= b[o * rank + k] * a[k * in + i];
    for (int64_t i = rank; i < most; i++) expected += squares[i];
    double error = ch_whitened_square(out, in, left, &inputs);
    if (fabs(error - expected) > 3e-5 * squares[0])
      fail_msg("rank %d of [%d, %d] leaves %g and should leave %g", (int)rank, (int)out, (int)in, error,
               expected);
    if (rank == most)
      for (int64_t i = 0; i < out * in; i++)
        if (fabs(left[i]) > 1e-6) fail_msg("the full rank leaves %g", left[i]);
    free(left);
  }
  free(a), free(b), free(mr), free(squares), free(m), free(r), free(c);
  ch_truncation_free(&t);
}

static void truncation_is_the_best_in_output_error(void **state) {
  (void)state;
  check_truncation(6, 9, 9);
  check_truncation(9, 6, 6);
  check_truncation(7, 7, 7);
  check_truncation(6, 9, 4); /* singular inputs */
  check_truncation(9, 6, 4);
}

static void inputs_of_zeros_have_no_factor_and_say_so(void **state) {
  (void)state;
  const double zeros[4] = {0}, bad[4] = {NAN, 0, 0, 1};
  double r[4], ridge;
  ch_error error = {0};
  assert_int_equal(ch_cholesky(2, zeros, r, &ridge, &error), CH_ERROR_NUMERIC);
  assert_non_null(strstr(error.message, "calibration text"));
  assert_int_equal(ch_cholesky(2, bad, r, &ridge, &error), CH_ERROR_NUMERIC);
}

/* --- groups and ranks --------------------------------------------------------------------------------------- */

static void groups_are_cut_where_layers_drift(void **state) {
  (void)state;
  const double drift[] = {0.1, 5, 0.2, 0.1, 3, 0.1};
  uint16_t spans[7][2];
  must(ch_group_layers(drift, 7, 3, spans, &failure));
  static const uint16_t expected[3][2] = {{0, 1}, {2, 4}, {5, 6}};
  assert_memory_equal(spans, expected, sizeof expected);
  must(ch_group_layers(NULL, 7, 3, spans, &failure));
  static const uint16_t equal[3][2] = {{0, 2}, {3, 4}, {5, 6}};
  assert_memory_equal(spans, equal, sizeof equal);
  must(ch_group_layers(drift, 7, 1, spans, &failure));
  assert_true(spans[0][0] == 0 && spans[0][1] == 6);
  must(ch_group_layers(drift, 7, 7, spans, &failure));
  assert_true(spans[3][0] == 3 && spans[3][1] == 3);
  assert_int_equal(ch_group_layers(drift, 7, 8, spans, &failure), CH_ERROR_ARGUMENT);
}

static void ranks_go_where_a_parameter_helps_most(void **state) {
  (void)state;
  const double cheap[] = {6, 1, 0.5}, dear[] = {20, 14, 1};
  ch_ranked_matrix m[] = {{.cost = 2, .most = 3, .values = cheap, .weight = 1},
                          {.cost = 5, .most = 3, .values = dear, .weight = 1}};
  assert_int_equal(ch_allocate_ranks(m, 2, 13), 1); /* gains per parameter: 20/5, 6/2, 14/5 */
  assert_true(m[0].rank == 1 && m[1].rank == 2);
  assert_true(fabs(ch_error_left(m, 2) - 2.5) < 1e-12);
  assert_int_equal(ch_allocate_ranks(m, 2, 4), 0); /* 5 parameters do not fit, so 2 times 2 follow */
  assert_true(m[0].rank == 3 && m[1].rank == 2);
}

/* --- methods ------------------------------------------------------------------------------------------------ */

typedef struct method {
  const char *name;
  ch_compress_method *run;
} method;
static const method methods[] = {{"masa", ch_compress_masa},
                                 {"svd-llm", ch_compress_svd_llm},
                                 {"svd", ch_compress_svd},
                                 {"basis-sharing", ch_compress_basis_sharing}};
enum { METHODS = sizeof methods / sizeof *methods, BASIS = 3 };

static int64_t attention_parameters(const ch_params *params) {
  int64_t count = 0;
  for (int i = 0; i < params->count; i++)
    if (params->rows[i].kind == CH_PARAM_ATTENTION) count += ch_param_count(&params->rows[i]);
  return count;
}

static void with_no_limit_every_method_is_exact(void **state) {
  (void)state;
  static const char *const sizes[] = {GROUPED, GROUPED ", 'attention_bias': true",
                                      "'num_attention_heads': 2, 'num_key_value_heads': 1, 'head_dim': 4"};
  for (int s = 0; s < 3; s++) {
    ch_model *model = random_model(sizes[s], GQA);
    ch_calibration *calibration = calibrate(model);
    for (int i = 0; i < METHODS; i++)
      for (int unweighted = 0; unweighted < 2; unweighted++) {
        ch_compress_options options = {
            .ratio = 0, .dtype = CH_F32, .group_size = 2, .unweighted = unweighted};
        ch_compressed_model made;
        must(methods[i].run(model, calibration, &options, &made, &failure));
        ch_model view = as_model(&made);
        assert_same_logits(model, &view, 1e-5, methods[i].name);
        ch_compressed_free(&made);
      }
    ch_calibration_free(calibration);
    unload(model);
  }
}

static void never_more_than_asked_and_hardly_less(void **state) {
  (void)state;
  static const double ratios[] = {0.1, 0.2, 0.3, 0.5, 0.8};
  ch_model *model = random_model(GROUPED, GQA);
  ch_calibration *calibration = calibrate(model);
  static const char *const kept[] = {"o_proj"};
  for (int i = 0; i < METHODS; i++)
    for (int r = 0; r < 5; r++)
      for (int keep = 0; keep < 2; keep++) {
        ch_compress_options options = {
            .ratio = ratios[r], .dtype = CH_F32, .keep = kept, .keep_count = keep, .group_size = 2};
        ch_compressed_model made;
        /* At high ratios, one atom (a third of the three layers' matrices) or the kept matrices exceed the budget or
           leave too little of it. */
        if (ratios[r] > (i == 0 ? 0.3 : 0.5) && (keep || i == 0)) continue;
        must(methods[i].run(model, calibration, &options, &made, &failure));
        int64_t limit = (int64_t)((1 - ratios[r]) * (double)made.before + 1e-6);
        assert_int_equal(made.before, attention_parameters(&model->params));
        assert_int_equal(made.after, attention_parameters(&made.model.params));
        if (made.after > limit || made.after < limit - (i == BASIS ? 88 : 56)) /* one more rank of q_proj */
          fail_msg("%s %g: %d of at most %d", methods[i].name, ratios[r], (int)made.after, (int)limit);
        assert_int_equal(made.matrix_count, (keep ? 3 : 4) * LAYERS);
        int64_t own = made.shared;
        for (int m = 0; m < made.matrix_count; m++) own += made.matrices[m].after - made.matrices[m].before;
        assert_int_equal(made.before + own, made.after);
        bool stays = ch_params_find(&made.model.params, "model.layers.1.self_attn.o_proj.weight") >= 0;
        assert_int_equal(stays, keep);
        ch_compressed_free(&made);
      }
  ch_calibration_free(calibration);
  unload(model);
}

/* Tests every rule that decides on ranks, with weighted and unweighted errors. */
static void every_rule_for_ranks_keeps_to_the_budget(void **state) {
  (void)state;
  static const ch_ranks rules[] = {CH_RANKS_SHARE, CH_RANKS_PROJECTION, CH_RANKS_SEARCHED};
  ch_model *model = random_model(GROUPED, GQA);
  ch_calibration *calibration = calibrate(model);
  for (int i = 0; i < METHODS; i++)
    for (int rule = 0; rule < 3; rule++)
      for (int unweighted = 0; unweighted < 2; unweighted++) {
        ch_compress_options options = {
            .ratio = 0.3, .dtype = CH_F32, .group_size = 2, .ranks = rules[rule], .unweighted = unweighted};
        ch_compressed_model made;
        must(methods[i].run(model, calibration, &options, &made, &failure));
        int64_t limit = (int64_t)(0.7 * (double)made.before + 1e-6), own = made.shared;
        for (int m = 0; m < made.matrix_count; m++) own += made.matrices[m].after - made.matrices[m].before;
        assert_int_equal(made.before + own, made.after);
        assert_int_equal(made.after, attention_parameters(&made.model.params));
        if (made.after > limit || made.after < limit - (i == BASIS ? 88 : 56))
          fail_msg("%s, rule %d: %d of at most %d", methods[i].name, rule, (int)made.after, (int)limit);
        ch_compressed_free(&made);
      }
  ch_calibration_free(calibration);
  unload(model);
}

/* Matrices [32, 24], [16, 24] and [24, 32] have ranks of at most 24, 16 and 24. */
static void ranks_by_projection_are_a_share_of_the_rank_there_can_be(void **state) {
  (void)state;
  ch_model *model = random_model(GROUPED, GQA);
  for (double ratio = 0.1; ratio < 0.6; ratio += 0.1) {
    ch_compress_options options = {.ratio = ratio, .dtype = CH_F32, .ranks = CH_RANKS_PROJECTION};
    ch_compressed_model made;
    must(ch_compress_svd(model, NULL, &options, &made, &failure));
    double budget = (1 - ratio) * (double)made.before,
           exact = budget / (LAYERS * (2 * 24 * 56 + 2 * 16 * 40));
    for (int i = 0; i < made.matrix_count; i++) {
      const ch_compressed_matrix *m = &made.matrices[i];
      bool narrow = m->projection[0] == 'k' || m->projection[0] == 'v';
      double part = exact * (narrow ? 16 : 24);
      if (!((double)m->rank > part - 1 && (double)m->rank < part + 1.1)) /* whole ranks; some get one more */
        fail_msg("ratio %g, %s: rank %d where %g is the part", ratio, m->projection, (int)m->rank, part);
    }
    ch_compressed_free(&made);
  }
  unload(model);
}

static void ranks_in_proportion_respect_what_is_least_and_most(void **state) {
  (void)state;
  const double parts[] = {1, 10, 4};
  ch_ranked_matrix m[] = {{.cost = 10, .most = 20}, {.cost = 10, .most = 6}, {.cost = 20, .most = 20}};
  /* The second matrix gets its maximum, rank 6, for 60 of the 260 parameters. The other 200 pay for ranks 2.2 and 8.9
     of the first and third: 2 and 8, and then one more of the third. */
  assert_int_equal(ch_proportional_ranks(m, parts, 3, 0, 260), 0);
  assert_true(m[0].rank == 2 && m[1].rank == 6 && m[2].rank == 9);
  const double few[] = {0.01, 1, 1};
  /* The first matrix gets the minimum, rank 1. The other 50 parameters pay for rank 1.7 of the second and third: 1 and
     1, then one more of the second and of the first. */
  assert_int_equal(ch_proportional_ranks(m, few, 3, 1, 60), 0);
  assert_true(m[0].rank == 2 && m[1].rank == 2 && m[2].rank == 1);
}

static void layers_of_a_group_have_one_basis_but_for_the_output(void **state) {
  (void)state;
  ch_model *model = random_model(GROUPED, GQA);
  ch_calibration *calibration = calibrate(model);
  ch_compress_options options = {.ratio = 0.3, .dtype = CH_F32, .group_size = 2};
  ch_compressed_model made;
  must(ch_compress_basis_sharing(model, calibration, &options, &made, &failure));
  const ch_sharing *sharing = &made.model.config.sharing;
  assert_true(sharing->type == CH_SHARING_LOW_RANK && sharing->group_count == 2 && made.groups == 2);
  assert_true(sharing->groups[0][1] == 1 && sharing->groups[1][0] == 2 && sharing->groups[1][1] == 2);
  static const char *const there[] = {"model.dictionary.0.q_proj.basis", "model.dictionary.1.v_proj.basis",
                                      "model.layers.1.self_attn.k_proj.b.weight",
                                      "model.layers.2.self_attn.o_proj.a.weight"},
                           *const absent[] = {"model.layers.0.self_attn.q_proj.a.weight",
                                              "model.dictionary.0.o_proj.basis",
                                              "model.layers.0.self_attn.q_proj.weight"};
  for (int i = 0; i < 4; i++) assert_true(ch_params_find(&made.model.params, there[i]) >= 0);
  for (int i = 0; i < 3; i++) assert_true(ch_params_find(&made.model.params, absent[i]) < 0);
  for (int m = 0; m < made.matrix_count; m++) /* results are in the order of layers */
    assert_int_equal(made.matrices[m].layer, m / 4);
  ch_compressed_free(&made);
  ch_calibration_free(calibration);
  unload(model);
}

static void svd_takes_the_same_share_of_every_matrix(void **state) {
  (void)state;
  ch_model *model = random_model(GROUPED, GQA);
  for (double ratio = 0.1; ratio < 0.6; ratio += 0.07) {
    ch_compress_options options = {.ratio = ratio, .dtype = CH_F32};
    ch_compressed_model made;
    must(ch_compress_svd(model, NULL, &options, &made, &failure));
    for (int i = 0; i < made.matrix_count; i++) {
      const ch_compressed_matrix *m = &made.matrices[i];
      double unit = (double)m->after / (double)m->rank, share = (1 - ratio) * (double)m->before / unit;
      /* One more rank of this matrix may fit when none of a larger matrix does. */
      if (!((double)m->rank > share - 1 && (double)m->rank < share + 2))
        fail_msg("ratio %g: rank %d where %g is the share", ratio, (int)m->rank, share);
    }
    ch_compressed_free(&made);
  }
  unload(model);
}

static void calibration_lowers_the_error_of_outputs(void **state) {
  (void)state;
  ch_model *model = random_model(GROUPED, GQA);
  ch_calibration *calibration = calibrate(model);
  ch_compress_options options = {.ratio = 0.4, .dtype = CH_F32};
  ch_compressed_model whitened, plain;
  must(ch_compress_svd_llm(model, calibration, &options, &whitened, &failure));
  must(ch_compress_svd(model, calibration, &options, &plain, &failure));
  for (int i = 0; i < plain.matrix_count; i++) {
    assert_true(plain.matrices[i].whitened_error == -1 && whitened.matrices[i].whitened_error >= 0);
    if (plain.matrices[i].rank == whitened.matrices[i].rank)
      assert_true(plain.matrices[i].error <= whitened.matrices[i].error + 1e-6);
  }
  ch_compressed_free(&whitened);
  ch_compressed_free(&plain);
  ch_calibration_free(calibration);
  unload(model);
}

/* The third q_proj is a combination of the other two, so two atoms represent all three of them exactly. */
static void what_two_atoms_can_say_they_say(void **state) {
  (void)state;
  ch_model *model = random_model(GROUPED, GQA);
  float *first = tensor_of(model, "model.layers.0.self_attn.", "q_proj.weight"),
        *second = tensor_of(model, "model.layers.1.self_attn.", "q_proj.weight"),
        *third = tensor_of(model, "model.layers.2.self_attn.", "q_proj.weight");
  for (int i = 0; i < 32 * 24; i++) third[i] = 0.5F * first[i] - 2 * second[i];
  static const char *const kept[] = {"k_proj", "v_proj", "o_proj"};
  ch_compress_options options = {
      .ratio = 0.05, .groups = 1, .atoms = 2, .dtype = CH_F32, .keep = kept, .keep_count = 3};
  ch_compressed_model made;
  must(ch_compress_masa(model, NULL, &options, &made, &failure));
  assert_true(made.groups == 1 && made.atoms == 2 && made.shared == 2 * 32 * 24);
  ch_model view = as_model(&made);
  assert_same_logits(model, &view, 1e-5, "two atoms");
  for (int i = 0; i < 3; i++) assert_true(made.matrices[i].error < 1e-6);
  ch_compressed_free(&made);
  unload(model);
}

static void what_cannot_be_is_said_in_a_sentence(void **state) {
  (void)state;
  static const char *const unknown[] = {"z_proj"}, *const all[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
  const struct {
    ch_compress_method *run;
    ch_compress_options options;
    const char *words;
  } cases[] = {
      {ch_compress_svd_llm, {.ratio = 0.2}, "calibration"},
      {ch_compress_basis_sharing, {.ratio = 0.2, .group_size = 2}, "calibration"},
      {ch_compress_svd, {.ratio = 1}, "between 0 and 1"},
      {ch_compress_svd, {.ratio = -0.1}, "between 0 and 1"},
      {ch_compress_svd, {.ratio = NAN}, "between 0 and 1"},
      {ch_compress_svd, {.ratio = 0.99}, "at most 0."},
      {ch_compress_svd,
       {.ratio = 0.2, .keep = unknown, .keep_count = 1},
       "it has q_proj, k_proj, v_proj, o_proj"},
      {ch_compress_svd, {.ratio = 0.2, .keep = all, .keep_count = 4}, "nothing remains to compress"},
      {ch_compress_masa, {.ratio = 0.9}, "a ratio of at most 0.6"},
      {ch_compress_masa, {.ratio = 0.3, .groups = 9}, "1 to 3 groups, not 9"},
      {ch_compress_masa, {.ratio = 0.3, .groups = 1, .atoms = 3}, "save no parameters; give fewer"},
  };
  ch_model *model = random_model(GROUPED, GQA);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_compressed_model made;
    ch_error error = {0};
    if (cases[i].run(model, NULL, &cases[i].options, &made, &error) == CH_OK ||
        !strstr(error.message, cases[i].words))
      fail_msg("case %d: \"%s\" where %s is needed", (int)i, error.message, cases[i].words);
  }
  unload(model);
}

static ch_status stop(void *context, const char *what, double done, double total, ch_error *error) {
  (void)what;
  if (!(done >= 0 && done <= total)) fail_msg("%g of %g done", done, total);
  return --*(int *)context < 0 ? ch_fail(error, CH_ERROR_INTERRUPTED, "stopped") : CH_OK;
}

static void stopping_anywhere_leaves_nothing(void **state) {
  (void)state;
  ch_model *model = random_model(GROUPED, GQA);
  for (int i = 0; i < 3; i++)
    for (int left = 0; i != 1 && left < 40; left += 7) {
      int steps = left;
      ch_compress_options options = {.ratio = 0.3, .dtype = CH_F32, .step = stop, .context = &steps};
      ch_compressed_model made;
      ch_status status = methods[i].run(model, NULL, &options, &made, &failure);
      if (status == CH_OK) ch_compressed_free(&made);
      assert_true(status == CH_OK || status == CH_ERROR_INTERRUPTED);
    }
  unload(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(truncation_is_the_best_in_output_error),
      cmocka_unit_test(inputs_of_zeros_have_no_factor_and_say_so),
      cmocka_unit_test(groups_are_cut_where_layers_drift),
      cmocka_unit_test(ranks_go_where_a_parameter_helps_most),
      cmocka_unit_test(with_no_limit_every_method_is_exact),
      cmocka_unit_test(never_more_than_asked_and_hardly_less),
      cmocka_unit_test(every_rule_for_ranks_keeps_to_the_budget),
      cmocka_unit_test(ranks_by_projection_are_a_share_of_the_rank_there_can_be),
      cmocka_unit_test(ranks_in_proportion_respect_what_is_least_and_most),
      cmocka_unit_test(layers_of_a_group_have_one_basis_but_for_the_output),
      cmocka_unit_test(svd_takes_the_same_share_of_every_matrix),
      cmocka_unit_test(calibration_lowers_the_error_of_outputs),
      cmocka_unit_test(what_two_atoms_can_say_they_say),
      cmocka_unit_test(what_cannot_be_is_said_in_a_sentence),
      cmocka_unit_test(stopping_anywhere_leaves_nothing)};
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
