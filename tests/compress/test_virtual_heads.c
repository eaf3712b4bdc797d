/* Tests virtual heads: all of them reproduce the model, fewer lose what an SVD predicts, and biases and norms
 * survive. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "compress/calibration.h"
#include "compress/virtual_heads.h"
#include "compress_testing.h"

enum { GROUPS = 4, DIM = 6, WIDTH = 24 };

static const char plain[] = "'num_attention_heads': 8, 'num_key_value_heads': 4, 'head_dim': 6";
static const char biased[] =
    "'num_attention_heads': 8, 'num_key_value_heads': 4, 'head_dim': 6, 'attention_bias': true";

/* Returns the squared distance, in double, of a matrix and its biases from those that `components` components
   rebuild. */
static double distance(const ch_head_factors *f, int64_t components) {
  int64_t rows = f->heads * f->dim;
  float *weight = malloc((size_t)(rows * f->inputs) * sizeof *weight),
        *bias = calloc((size_t)rows, sizeof *bias);
  must(ch_head_factors_rebuild(f, components, weight, bias, &failure));
  double sum = 0;
  for (int64_t i = 0; i < rows * f->inputs; i++) sum += pow((double)weight[i] - f->weight[i], 2);
  for (int64_t i = 0; f->bias && i < rows; i++) sum += pow((double)bias[i] - f->bias[i], 2);
  free(weight);
  free(bias);
  return sum;
}

static double norm2(const ch_head_factors *f) {
  double sum = 0;
  for (int64_t i = 0; i < f->heads * f->dim * f->inputs; i++) sum += pow((double)f->weight[i], 2);
  for (int64_t i = 0; f->bias && i < f->heads * f->dim; i++) sum += pow((double)f->bias[i], 2);
  return sum;
}

static void singular_values_and_losses_are_those_of_the_matrix_of_heads(void **state) {
  (void)state;
  ch_model *model = random_model(biased, "'type': 'gqa'");
  for (unsigned on = CH_ON_K; on <= CH_ON_V; on <<= 1) {
    ch_head_factors f;
    must(ch_head_factors_find(model, 1, on, NULL, &f, &failure));
    assert_int_equal(f.heads, GROUPS);
    double total = norm2(&f), sum = 0, rest = total;
    for (int j = 0; j < GROUPS; j++) sum += f.values[j] * f.values[j];
    assert_true(fabs(sum - total) < 1e-9 * total);
    for (int j = 0; j < GROUPS; j++) {
      rest -= f.values[j] * f.values[j]; /* Eckart and Young */
      if (j) assert_true(f.values[j] <= f.values[j - 1]);
      assert_true(fabs(distance(&f, j + 1) - rest) < 1e-6 * total);
      assert_true(fabs(f.plain[j] - fmax(rest, 0) / total) < 1e-9);
    }
    ch_head_factors_free(&f);
  }
  unload(model);
}

static void components_are_orthonormal_and_their_mix_rebuilds_the_heads(void **state) {
  (void)state;
  enum { KEPT = 3 };
  ch_model *model = random_model(biased, "'type': 'gqa'");
  ch_head_factors f;
  must(ch_head_factors_find(model, 0, CH_ON_V, NULL, &f, &failure));
  float weight[KEPT * DIM * WIDTH], bias[KEPT * DIM], mix[GROUPS * KEPT];
  float whole[GROUPS * DIM * WIDTH], whole_bias[GROUPS * DIM];
  must(ch_head_factors_keep(&f, KEPT, weight, bias, mix, &failure));
  must(ch_head_factors_rebuild(&f, KEPT, whole, whole_bias, &failure));
  for (int a = 0; a < KEPT; a++)
    for (int b = 0; b < KEPT; b++) {
      double sum = 0;
      for (int i = 0; i < DIM * WIDTH; i++)
        sum += (double)weight[a * DIM * WIDTH + i] * weight[b * DIM * WIDTH + i];
      for (int i = 0; i < DIM; i++) sum += (double)bias[a * DIM + i] * bias[b * DIM + i];
      assert_true(fabs(sum - (a == b)) < 1e-5);
    }
  for (int g = 0; g < GROUPS; g++)
    for (int i = 0; i < DIM; i++) {
      double of_bias = 0;
      for (int j = 0; j < KEPT; j++) of_bias += (double)mix[g * KEPT + j] * bias[j * DIM + i];
      assert_true(fabs(of_bias - whole_bias[g * DIM + i]) < 1e-5);
      for (int k = 0; k < WIDTH; k++) {
        double sum = 0;
        for (int j = 0; j < KEPT; j++) sum += (double)mix[g * KEPT + j] * weight[(j * DIM + i) * WIDTH + k];
        assert_true(fabs(sum - whole[(g * DIM + i) * WIDTH + k]) < 1e-5);
      }
    }
  ch_head_factors_free(&f);
  unload(model);
}

/* Returns |W' x - W x|^2 over the calibration text, from E[x x^T] and E[x]. */
static double output_loss(const ch_head_factors *f, const ch_autocorrelation *x, int64_t components) {
  int64_t rows = f->heads * f->dim, n = f->inputs;
  float *weight = malloc((size_t)(rows * n) * sizeof *weight), *bias = calloc((size_t)rows, sizeof *bias);
  must(ch_head_factors_rebuild(f, components, weight, bias, &failure));
  double sum = 0;
  for (int64_t r = 0; r < rows; r++) {
    double b = f->bias ? (double)bias[r] - f->bias[r] : 0;
    sum += b * b;
    for (int64_t i = 0; i < n; i++) {
      double wi = (double)weight[r * n + i] - f->weight[r * n + i];
      sum += 2 * b * wi * x->mean[i];
      for (int64_t j = 0; j < n; j++)
        sum += wi * x->c[i * n + j] * ((double)weight[r * n + j] - f->weight[r * n + j]);
    }
  }
  free(weight);
  free(bias);
  return sum;
}

static void with_calibration_outputs_lose_least(void **state) {
  (void)state;
  ch_model *model = random_model(biased, "'type': 'gqa'");
  ch_calibration *calibration = calibrate(model);
  for (unsigned on = CH_ON_K; on <= CH_ON_V; on <<= 1) {
    const ch_autocorrelation *x = ch_calibration_of(calibration, 1, on == CH_ON_K ? "k_proj" : "v_proj");
    ch_head_factors f, free_of_data;
    must(ch_head_factors_find(model, 1, on, calibration, &f, &failure));
    must(ch_head_factors_find(model, 1, on, NULL, &free_of_data, &failure));
    double total = 0;
    for (int j = 0; j < GROUPS; j++) total += f.values[j] * f.values[j];
    for (int j = 1; j < GROUPS; j++) {
      double lost = output_loss(&f, x, j), otherwise = output_loss(&free_of_data, x, j);
      assert_true(fabs(lost / total - f.weighted[j - 1]) < 1e-4);
      assert_true(lost < otherwise * (1 + 1e-6));
      assert_true(f.plain[j - 1] > free_of_data.plain[j - 1] * (1 - 1e-9));
    }
    ch_head_factors_free(&f);
    ch_head_factors_free(&free_of_data);
  }
  ch_calibration_free(calibration);
  unload(model);
}

/* Compresses all layers to `components` and compares logits with those of the model with the rebuilt matrices. */
static void check_model(const char *sizes, const char *attention, const int64_t *components, double most) {
  ch_model *model = random_model(sizes, attention);
  ch_compressed_model compressed;
  ch_compress_options options = {.component_heads = components, .dtype = CH_F32};
  must(ch_compress_mea(model, NULL, &options, &compressed, &failure));
  for (int layer = 0; layer < LAYERS; layer++)
    for (unsigned on = CH_ON_K; on <= CH_ON_V; on <<= 1) {
      char name[80];
      ch_head_factors f;
      must(ch_head_factors_find(model, layer, on, NULL, &f, &failure));
      snprintf(name, sizeof name, "model.layers.%d.self_attn.%s_proj.", layer, on == CH_ON_K ? "k" : "v");
      must(ch_head_factors_rebuild(&f, components[layer] ? components[layer] : f.heads,
                                   tensor_of(model, name, "weight"), tensor_of(model, name, "bias"),
                                   &failure));
      ch_head_factors_free(&f);
    }
  ch_model mixed = as_model(&compressed);
  assert_same_logits(model, &mixed, most, attention);
  ch_compressed_free(&compressed);
  unload(model);
}

static void a_compressed_model_computes_what_its_rebuilt_matrices_do(void **state) {
  (void)state;
  static const int64_t all_two[] = {2, 2, 2}, listed[] = {1, 0, 3}, middle[] = {0, 2, 0};
  check_model(plain, "'type': 'gqa'", all_two, 5e-5);
  check_model(plain, "'type': 'gqa', 'qk_norm': true", listed, 5e-5);
  check_model(biased, "'type': 'gqa'", middle, 5e-5);
  check_model(biased, "'type': 'gqa', 'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['k', 'v']}", listed,
              5e-5);
}

static void all_heads_kept_is_the_model_itself(void **state) {
  (void)state;
  static const int64_t all[] = {4, 4, 4};
  ch_model *model = random_model(biased, "'type': 'gqa', 'qk_norm': true");
  ch_compressed_model compressed;
  ch_compress_options options = {.component_heads = all, .dtype = CH_F32};
  must(ch_compress_mea(model, NULL, &options, &compressed, &failure));
  assert_int_equal(compressed.model.config.attention.head_mix.on, 0);
  assert_int_equal(compressed.before, compressed.after);
  for (int i = 0; i < compressed.model.params.count; i++) {
    int from = ch_params_find(&model->params, compressed.model.params.rows[i].name);
    assert_ptr_equal(compressed.model.tensors[i].data, model->weights.tensors[from].data);
  }
  ch_compressed_free(&compressed);
  /* Decomposed and rebuilt from all components, a matrix is unchanged. */
  ch_head_factors f;
  must(ch_head_factors_find(model, 2, CH_ON_K, NULL, &f, &failure));
  assert_true(distance(&f, GROUPS) < 1e-11 * norm2(&f));
  ch_head_factors_free(&f);
  unload(model);
}

static void heads_that_are_alike_or_zero_need_no_more_components(void **state) {
  (void)state;
  ch_model *model = random_model(plain, "'type': 'gqa'");
  float *keys = tensor_of(model, "model.layers.0.self_attn.k_proj.", "weight");
  for (int g = 1; g < GROUPS; g++)
    for (int i = 0; i < DIM * WIDTH; i++) keys[g * DIM * WIDTH + i] = (float)(g - 2) * keys[i];
  memset(tensor_of(model, "model.layers.0.self_attn.v_proj.", "weight"), 0,
         sizeof(float) * GROUPS * DIM * WIDTH);
  for (unsigned on = CH_ON_K; on <= CH_ON_V; on <<= 1) {
    ch_head_factors f;
    float weight[2 * DIM * WIDTH], mix[GROUPS * 2];
    must(ch_head_factors_find(model, 0, on, NULL, &f, &failure));
    assert_true(distance(&f, 1) <= 1e-11 * norm2(&f));
    assert_true(f.plain[0] < 1e-11);
    must(ch_head_factors_keep(&f, 2, weight, NULL, mix, &failure));
    for (int i = 0; i < 2 * DIM * WIDTH; i++) assert_true(isfinite(weight[i]));
    ch_head_factors_free(&f);
  }
  unload(model);
}

static void refused(const char *sizes, const char *attention, const int64_t *components, const char *word) {
  ch_model *model = random_model(sizes, attention);
  ch_compressed_model compressed;
  ch_compress_options options = {.component_heads = components, .dtype = CH_F32};
  assert_int_not_equal(ch_compress_mea(model, NULL, &options, &compressed, &failure), CH_OK);
  if (!strstr(failure.message, word)) fail_msg("no '%s' in: %s", word, failure.message);
  unload(model);
}

static void what_cannot_be_done_is_said_in_a_sentence(void **state) {
  (void)state;
  static const int64_t fine[] = {2, 2, 2}, many[] = {2, 5, 2};
  refused(plain, "'type': 'gqa'", many, "1 to 4");
  refused("'num_attention_heads': 4",
          "'type': 'mla', 'kv_lora_rank': 10, 'qk_nope_head_dim': 6, 'qk_rope_head_dim': 4, 'v_head_dim': 8",
          fine, "\"mla\" attention");
  refused(plain, "'type': 'gqa', 'head_mix': {'on': ['k'], 'component_heads': 2}", fine, "absorb");
  refused("'num_attention_heads': 4, 'sharing': {'type': 'masa', 'projections': ['v'], 'atoms': 1}",
          "'type': 'gqa'", fine, "v_proj");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(singular_values_and_losses_are_those_of_the_matrix_of_heads),
      cmocka_unit_test(components_are_orthonormal_and_their_mix_rebuilds_the_heads),
      cmocka_unit_test(with_calibration_outputs_lose_least),
      cmocka_unit_test(a_compressed_model_computes_what_its_rebuilt_matrices_do),
      cmocka_unit_test(all_heads_kept_is_the_model_itself),
      cmocka_unit_test(heads_that_are_alike_or_zero_need_no_more_components),
      cmocka_unit_test(what_cannot_be_done_is_said_in_a_sentence),
  };
  return cmocka_run_group_tests(tests, make_directory_and_text, remove_directory);
}
