/* Tests whitening: errors weighted by the inputs of a text give the least loss of outputs on that text.
 * Values are from numpy, errors from plain loops. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compress_testing.h"

#include "compress/truncation.h"

#define GROUPED "'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 8"
#define GQA "'type': 'gqa', 'qk_norm': true"

/* The expected values are numpy's svd(M @ R)^2 and svd(M)^2 for M[a, b] = sin(1 + 3 a + 5 b^2 + a b) and C[a,
   b] = exp(-|a - b| / 3) sqrt(1 + a) sqrt(1 + b), with C = R R^T by eigh. */
static void singular_values_are_those_that_numpy_finds(void **state) {
  (void)state;
  static const struct {
    int out, in;
    double whitened[4], plain[4];
  } cases[] = {{4,
                6,
                {27.12715728, 8.49577469, 6.07223089, 0.78276506},
                {5.56529989, 4.04724314, 3.23015689, 0.73713748}},
               {6,
                4,
                {33.55529496, 5.87295875, 2.04381466, 0.444839},
                {4.82871706, 3.50498045, 2.93595391, 1.30410955}}};
  for (int k = 0; k < 2; k++) {
    int out = cases[k].out, in = cases[k].in;
    double m[24];
    float c[36];
    for (int a = 0; a < out; a++)
      for (int b = 0; b < in; b++) m[a * in + b] = sin(1 + 3 * a + 5 * b * b + a * b);
    for (int a = 0; a < in; a++)
      for (int b = 0; b < in; b++)
        c[a * in + b] = (float)(exp(-abs(a - b) / 3.0) * sqrt(1 + a) * sqrt(1 + b));
    const ch_autocorrelation inputs = {.n = in, .c = c};
    for (int whitened = 0; whitened < 2; whitened++) {
      const double *expected = whitened ? cases[k].whitened : cases[k].plain;
      ch_truncation t;
      must(ch_truncation_find(out, in, m, whitened ? &inputs : NULL, false, &t, &failure));
      for (int i = 0; i < 4; i++)
        if (fabs(t.values[i] - expected[i]) > 1e-5)
          fail_msg("[%d, %d] value %d: %.8f and not %.8f", out, in, i, t.values[i], expected[i]);
      ch_truncation_free(&t);
    }
  }
}

/* Returns E|(W - B A) x|^2 / E|W x|^2 of one matrix as written, by plain loops over tr(D C D^T). */
static double output_error(const ch_model *model, const ch_compressed_model *made,
                           const ch_compressed_matrix *row, const ch_autocorrelation *c) {
  char stem[80];
  snprintf(stem, sizeof stem, "model.layers.%d.self_attn.%s", row->layer, row->projection);
  ch_model small = as_model(made);
  const float *w = tensor_of(model, stem, ".weight"), *a = tensor_of(&small, stem, ".a.weight"),
              *b = tensor_of(&small, stem, ".b.weight");
  int64_t in = c->n, out = row->before / in;
  double lost = 0, all = 0, d[64];
  for (int64_t o = 0; o < out; o++) {
    for (int64_t i = 0; i < in; i++) {
      d[i] = (double)w[o * in + i];
      for (int64_t r = 0; r < row->rank; r++) d[i] -= (double)b[o * row->rank + r] * (double)a[r * in + i];
    }
    for (int64_t i = 0; i < in; i++)
      for (int64_t j = 0; j < in; j++) {
        lost += d[i] * (double)c->c[i * in + j] * d[j];
        all += (double)w[o * in + i] * (double)c->c[i * in + j] * (double)w[o * in + j];
      }
  }
  return lost / all;
}

static void every_matrix_of_svd_llm_loses_less_of_its_outputs_than_that_of_svd(void **state) {
  (void)state;
  ch_model *model = random_model(GROUPED, GQA);
  ch_calibration *calibration = calibrate(model);
  static const double ratios[] = {0.2, 0.3, 0.5};
  for (int r = 0; r < 3; r++) {
    ch_compress_options options = {.ratio = ratios[r], .dtype = CH_F32};
    ch_compressed_model whitened, plain;
    int compared = 0;
    must(ch_compress_svd_llm(model, calibration, &options, &whitened, &failure));
    must(ch_compress_svd(model, calibration, &options, &plain, &failure));
    for (int i = 0; i < plain.matrix_count; i++) {
      const ch_compressed_matrix *row = &whitened.matrices[i];
      const ch_autocorrelation *c = ch_calibration_of(calibration, row->layer, row->projection);
      double with = output_error(model, &whitened, row, c),
             without = output_error(model, &plain, &plain.matrices[i], c);
      if (fabs(sqrt(with) - row->whitened_error) > 1e-4)
        fail_msg("the report says %g where %g is lost", row->whitened_error, sqrt(with));
      if (row->rank != plain.matrices[i].rank) continue; /* remaining units of rank went to other matrices */
      compared++;
      if (with >= 0.99 * without)
        fail_msg("ratio %g, layer %d, %s: %g of the outputs lost, and %g without whitening", ratios[r],
                 row->layer, row->projection, with, without);
    }
    assert_true(compared >= plain.matrix_count - 3);
    ch_compressed_free(&whitened);
    ch_compressed_free(&plain);
  }
  ch_calibration_free(calibration);
  unload(model);
}

/* Returns the sum of the squared relative errors of all outputs, times their layers' shares. o_proj counts three times,
   k_proj twice. */
static double weighed_error(const ch_compressed_model *made, const double *shares) {
  double sum = 0;
  for (int i = 0; i < made->matrix_count; i++) {
    const ch_compressed_matrix *m = &made->matrices[i];
    double times = m->projection[0] == 'o' ? 3 : m->projection[0] == 'k' ? 2 : 1;
    sum += times * shares[m->layer] * m->whitened_error * m->whitened_error;
  }
  return sum;
}

static void masa_loses_less_than_svd_llm_of_what_it_weighs(void **state) {
  (void)state;
  ch_model *model = random_model(GROUPED, GQA);
  ch_calibration *calibration = calibrate(model);
  const double *shares = ch_calibration_shares(calibration);
  static const double ratios[] = {0.1, 0.2, 0.3, 0.4};
  for (int r = 0; r < 4; r++) {
    ch_compress_options options = {.ratio = ratios[r], .dtype = CH_F32};
    ch_compressed_model masa, llm;
    must(ch_compress_masa(model, calibration, &options, &masa, &failure));
    must(ch_compress_svd_llm(model, calibration, &options, &llm, &failure));
    double here = weighed_error(&masa, shares), there = weighed_error(&llm, shares);
    if (here > 0.8 * there) fail_msg("ratio %g: %g lost, and %g by svd-llm", ratios[r], here, there);
    ch_compressed_free(&masa);
    ch_compressed_free(&llm);
  }
  ch_calibration_free(calibration);
  unload(model);
}

/* Returns the sum of errors that a search for ranks minimises, weighted or unweighted. */
static double searched_error(const ch_model *model, const ch_compressed_model *made,
                             const ch_calibration *calibration, bool unweighted) {
  if (!unweighted) return weighed_error(made, ch_calibration_shares(calibration));
  double sum = 0;
  for (int i = 0; i < made->matrix_count; i++) {
    const ch_compressed_matrix *m = &made->matrices[i];
    char stem[80];
    snprintf(stem, sizeof stem, "model.layers.%d.self_attn.%s", m->layer, m->projection);
    const float *w = tensor_of(model, stem, ".weight");
    const ch_autocorrelation *c = ch_calibration_of(calibration, m->layer, m->projection);
    double all = 0;
    for (int64_t o = 0; o < m->before / c->n; o++)
      for (int64_t i2 = 0; i2 < c->n; i2++)
        for (int64_t j = 0; j < c->n; j++)
          all += (double)w[o * c->n + i2] * (double)c->c[i2 * c->n + j] * (double)w[o * c->n + j];
    sum += m->whitened_error * m->whitened_error * all;
  }
  return sum;
}

static void searched_ranks_lose_less_than_the_same_share_of_every_matrix(void **state) {
  (void)state;
  static ch_compress_method *const both[] = {ch_compress_svd_llm, ch_compress_basis_sharing};
  ch_model *model = random_model(GROUPED, GQA);
  ch_calibration *calibration = calibrate(model);
  for (int i = 0; i < 2; i++)
    for (int unweighted = 0; unweighted < 2; unweighted++) {
      ch_compress_options options = {
          .ratio = 0.3, .dtype = CH_F32, .group_size = 2, .unweighted = unweighted};
      ch_compressed_model shares, searched;
      must(both[i](model, calibration, &options, &shares, &failure));
      options.ranks = CH_RANKS_SEARCHED;
      must(both[i](model, calibration, &options, &searched, &failure));
      double here = searched_error(model, &searched, calibration, unweighted),
             there = searched_error(model, &shares, calibration, unweighted);
      if (!(here < 0.98 * there)) fail_msg("method %d: %g lost, and %g by share", i, here, there);
      ch_compressed_free(&shares);
      ch_compressed_free(&searched);
    }
  ch_calibration_free(calibration);
  unload(model);
}

/* Checks that no explicit number of atoms in one group gives a smaller error than the automatic choice. */
static void no_number_of_groups_and_atoms_that_is_asked_for_is_better_than_the_choice(void **state) {
  (void)state;
  ch_model *model = random_model(GROUPED, GQA);
  ch_calibration *calibration = calibrate(model);
  const double *shares = ch_calibration_shares(calibration);
  ch_compress_options options = {.ratio = 0.25, .dtype = CH_F32};
  ch_compressed_model chosen, asked;
  must(ch_compress_masa(model, calibration, &options, &chosen, &failure));
  int tried = 0;
  for (options.atoms = 1; options.atoms <= LAYERS; options.atoms++) {
    options.groups = 1;
    if (ch_compress_masa(model, calibration, &options, &asked, &failure) != CH_OK) continue;
    tried++;
    assert_true(weighed_error(&chosen, shares) <= weighed_error(&asked, shares) * (1 + 1e-4));
    ch_compressed_free(&asked);
  }
  assert_true(tried >= 2);
  ch_compressed_free(&chosen);
  ch_calibration_free(calibration);
  unload(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(singular_values_are_those_that_numpy_finds),
      cmocka_unit_test(every_matrix_of_svd_llm_loses_less_of_its_outputs_than_that_of_svd),
      cmocka_unit_test(masa_loses_less_than_svd_llm_of_what_it_weighs),
      cmocka_unit_test(searched_ranks_lose_less_than_the_same_share_of_every_matrix),
      cmocka_unit_test(no_number_of_groups_and_atoms_that_is_asked_for_is_better_than_the_choice)};
  return cmocka_run_group_tests(tests, make_directory_and_text, remove_directory);
}
