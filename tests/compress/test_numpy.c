/* Tests compression of small matrices against NumPy's results for the papers' own formulas
 * (numpy_numbers.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "numpy_numbers.h"
#include "small_models.h"

#include "compress/calibration.h"
#include "compress/virtual_heads.h"

enum { LAYERS = 4, WIDTH = 6, ROWS = 8, KEYS = 4, HEADS = 2, TOKENS = 400, WINDOW = 40 };
static const double tolerance = 2e-5;

static float *tensor_of(const ch_model *model, const char *format, int layer) {
  char name[120];
  snprintf(name, sizeof name, format, layer);
  int row = ch_params_find(&model->params, name);
  if (row < 0) fail_msg("there is no %s", name);
  return model->weights.tensors[row].data;
}

static double weight(int layer, int a, int b, int which) {
  return (double)(float)(sin(1 + 3 * a + 5 * b * b + a * b + 0.7 * layer * (a + 1) + which) +
                         0.5 * cos(a - 2 * b + which));
}

static void fill(float *to, int layer, int rows, int which) {
  for (int a = 0; a < rows; a++)
    for (int b = 0; b < WIDTH; b++) to[a * WIDTH + b] = (float)weight(layer, a, b, which);
}

/* Creates a model whose blocks add nothing to the residual stream, so that the inputs of every layer are the normalised
   embeddings. */
static ch_model *model_by_formula(void) {
  ch_model *model = sized_model_of(
      WIDTH, 4,
      "'num_hidden_layers': 4, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 2, "
      "'rms_norm_eps': 1e-5, 'attention': {'type': 'gqa'}",
      CH_F32);
  float *embedding = tensor_of(model, "model.embed_tokens.weight", 0);
  for (int v = 0; v < VOCABULARY; v++)
    for (int i = 0; i < WIDTH; i++) embedding[v * WIDTH + i] = (float)sin(2 + 3 * v + (v + 2) * i);
  for (int l = 0; l < LAYERS; l++) {
    float *gain = tensor_of(model, "model.layers.%d.input_layernorm.weight", l);
    for (int i = 0; i < WIDTH; i++) gain[i] = (float)(1 + 0.2 * l - 0.1 * i);
    fill(tensor_of(model, "model.layers.%d.self_attn.q_proj.weight", l), l, ROWS, 0);
    fill(tensor_of(model, "model.layers.%d.self_attn.k_proj.weight", l), l, KEYS, 1);
    memset(tensor_of(model, "model.layers.%d.self_attn.o_proj.weight", l), 0, sizeof(float) * WIDTH * ROWS);
    memset(tensor_of(model, "model.layers.%d.mlp.down_proj.weight", l), 0, sizeof(float) * WIDTH * 4);
  }
  return model;
}

static ch_calibration *calibrate(const ch_model *model) {
  static const char *const names[] = {"q_proj", "k_proj"};
  ch_calibration_options options = {.projections = names, .projection_count = 2, .window = WINDOW};
  ch_calibration *calibration;
  int32_t tokens[TOKENS + 1];
  for (int t = 0; t <= TOKENS; t++) tokens[t] = (t * 5 + t * t) % VOCABULARY;
  must(ch_calibrate(model, tokens, TOKENS + 1, &options, &calibration, &failure));
  assert_int_equal(ch_calibration_tokens(calibration), TOKENS);
  return calibration;
}

static void assert_numbers(const char *what, const double *got, const double *expected, int count) {
  for (int i = 0; i < count; i++)
    if (!(fabs(got[i] - expected[i]) < tolerance * (1 + fabs(expected[i]))))
      fail_msg("%s: number %d is %.9g and NumPy's %.9g", what, i, got[i], expected[i]);
}

static void inputs_of_a_text_are_those_of_numpy(void **state) {
  (void)state;
  ch_model *model = model_by_formula();
  ch_calibration *calibration = calibrate(model);
  const ch_autocorrelation *c = ch_calibration_of(calibration, 3, "q_proj");
  double got[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; i++) got[i] = (double)c->c[i];
  assert_numbers("E[x x^T]", got, numpy_autocorrelation, WIDTH * WIDTH);
  ch_calibration_free(calibration);
  ch_model_unload(model);
}

/* --- factors ------------------------------------------------------------------------------------------------ */

static const char *const kept[] = {"k_proj", "v_proj", "o_proj"};

static void compress(const ch_model *model, const ch_calibration *calibration, ch_compress_method *method,
                     ch_compress_options options, ch_compressed_model *made, ch_model *view) {
  options.dtype = CH_F32;
  options.keep = kept;
  options.keep_count = 3;
  must(method(model, calibration, &options, made, &failure));
  *view = (ch_model){.config = made->model.config, .params = made->model.params};
  view->weights.tensors = made->model.tensors;
}

/* Adds to W [8, 6] the product B [8, rank] A [rank, 6]. */
static void add_product(const float *b, const float *a, int rank, double *w) {
  for (int o = 0; o < ROWS; o++)
    for (int i = 0; i < WIDTH; i++)
      for (int r = 0; r < rank; r++) w[o * WIDTH + i] += (double)b[o * rank + r] * (double)a[r * WIDTH + i];
}

/* There are 576 attention parameters, 384 of them unchanged; rank 2 in each layer has 112. */
static void svd_llm_is_that_of_numpy(void **state) {
  (void)state;
  ch_model *model = model_by_formula(), view;
  ch_calibration *calibration = calibrate(model);
  ch_compressed_model made;
  double got[ROWS * WIDTH] = {0};
  compress(model, calibration, ch_compress_svd_llm, (ch_compress_options){.ratio = 0.1388}, &made, &view);
  assert_int_equal(made.after, 384 + 112);
  add_product(tensor_of(&view, "model.layers.%d.self_attn.q_proj.b.weight", 2),
              tensor_of(&view, "model.layers.%d.self_attn.q_proj.a.weight", 2), 2, got);
  assert_numbers("svd-llm", got, numpy_svd_llm, ROWS * WIDTH);
  ch_compressed_free(&made);
  ch_calibration_free(calibration);
  ch_model_unload(model);
}

/* Rank 2 in both groups has 88 parameters. */
static void basis_sharing_is_that_of_numpy(void **state) {
  (void)state;
  ch_model *model = model_by_formula(), view;
  ch_calibration *calibration = calibrate(model);
  ch_compressed_model made;
  double got[2 * ROWS * WIDTH] = {0};
  compress(model, calibration, ch_compress_basis_sharing,
           (ch_compress_options){.ratio = 0.1805, .group_size = 2}, &made, &view);
  assert_int_equal(made.after, 384 + 88);
  assert_int_equal(made.groups, 2);
  assert_int_equal(made.shared, 2 * 2 * WIDTH);
  const float *basis = tensor_of(&view, "model.dictionary.%d.q_proj.basis", 1);
  for (int l = 0; l < 2; l++)
    add_product(tensor_of(&view, "model.layers.%d.self_attn.q_proj.b.weight", 2 + l), basis, 2,
                got + l * ROWS * WIDTH);
  assert_numbers("basis sharing", got, numpy_basis, 2 * ROWS * WIDTH);
  ch_compressed_free(&made);
  ch_calibration_free(calibration);
  ch_model_unload(model);
}

/* --- atoms -------------------------------------------------------------------------------------------------- */

/* Atoms are stored at the size of the matrices, so c_ls is the stored coefficient times the length of the
   stored atom. */
static void check_atoms(const ch_model *view) {
  const float *atoms = tensor_of(view, "model.dictionary.%d.q_proj.atoms", 0);
  double length[2], across = 0, got[2 * LAYERS];
  for (int s = 0; s < 2; s++) {
    length[s] = 0;
    for (int i = 0; i < ROWS * WIDTH; i++) length[s] += pow((double)atoms[s * ROWS * WIDTH + i], 2);
    length[s] = sqrt(length[s]);
  }
  for (int i = 0; i < ROWS * WIDTH; i++) across += (double)atoms[i] * (double)atoms[ROWS * WIDTH + i];
  assert_true(fabs(across) < 1e-5 * length[0] * length[1]); /* tr(D_1^T D_2) = 0 */
  for (int l = 0; l < LAYERS; l++) {
    const float *c = tensor_of(view, "model.layers.%d.self_attn.q_proj.coefficients", l);
    for (int s = 0; s < 2; s++) got[2 * l + s] = fabs((double)c[s]) * length[s];
  }
  assert_numbers("coefficients", got, numpy_coefficients, 2 * LAYERS);
}

/* Two atoms and their coefficients have 104 parameters, and residuals of rank 1 in each layer have 56. */
static void check_pca(const ch_calibration *calibration, const ch_model *model, const double *expected) {
  ch_model view;
  ch_compressed_model made;
  double got[ROWS * WIDTH] = {0};
  compress(model, calibration, ch_compress_masa,
           (ch_compress_options){.ratio = 0.0555, .groups = 1, .atoms = 2, .unweighted = true}, &made, &view);
  assert_int_equal(made.after, 384 + 104 + 56);
  for (int m = 0; m < made.matrix_count; m++) assert_int_equal(made.matrices[m].rank, 1);
  check_atoms(&view);
  const float *atoms = tensor_of(&view, "model.dictionary.%d.q_proj.atoms", 0),
              *c = tensor_of(&view, "model.layers.%d.self_attn.q_proj.coefficients", 1);
  for (int s = 0; s < 2; s++)
    for (int i = 0; i < ROWS * WIDTH; i++) got[i] += (double)c[s] * (double)atoms[s * ROWS * WIDTH + i];
  add_product(tensor_of(&view, "model.layers.%d.self_attn.q_proj.residual.b.weight", 1),
              tensor_of(&view, "model.layers.%d.self_attn.q_proj.residual.a.weight", 1), 1, got);
  assert_numbers("matrix PCA", got, expected, ROWS * WIDTH);
  ch_compressed_free(&made);
}

static void matrix_pca_without_weights_is_that_of_numpy(void **state) {
  (void)state;
  ch_model *model = model_by_formula();
  ch_calibration *calibration = calibrate(model);
  check_pca(NULL, model, numpy_pca);
  check_pca(calibration, model, numpy_pca_whitened);
  ch_calibration_free(calibration);
  ch_model_unload(model);
}

/* Checks that weighting the errors changes the result for this kind of model. Otherwise, the comparison with NumPy's
   unweighted results would prove nothing. */
static void measured_weights_give_other_atoms(void **state) {
  (void)state;
  ch_model *model = model_by_formula(), view;
  ch_compressed_model made;
  for (int i = 0; i < ROWS * WIDTH; i++)
    tensor_of(model, "model.layers.%d.self_attn.q_proj.weight", 3)[i] *= 4;
  double lost[2];
  for (int unweighted = 0; unweighted < 2; unweighted++) {
    compress(model, NULL, ch_compress_masa,
             (ch_compress_options){.ratio = 0.15, .groups = 1, .atoms = 2, .unweighted = unweighted}, &made,
             &view);
    lost[unweighted] = 0;
    for (int m = 0; m < made.matrix_count; m++) {
      lost[unweighted] += pow(made.matrices[m].error, 2);
    }
    ch_compressed_free(&made);
  }
  if (!(lost[0] < 0.98 * lost[1]))
    fail_msg("relative errors: %g with weights and %g without", lost[0], lost[1]);
  ch_model_unload(model);
}

/* --- heads -------------------------------------------------------------------------------------------------- */

static void virtual_heads_are_those_of_numpy(void **state) {
  (void)state;
  ch_model *model = model_by_formula();
  ch_calibration *calibration = calibrate(model);
  for (int whitened = 0; whitened < 2; whitened++) {
    ch_head_factors f;
    float rebuilt[KEYS * WIDTH], bias[KEYS];
    double got[KEYS * WIDTH];
    must(ch_head_factors_find(model, 1, CH_ON_K, whitened ? calibration : NULL, &f, &failure));
    must(ch_head_factors_rebuild(&f, 1, rebuilt, bias, &failure));
    for (int i = 0; i < KEYS * WIDTH; i++) got[i] = (double)rebuilt[i];
    assert_numbers("virtual heads", got, whitened ? numpy_heads_whitened : numpy_heads, KEYS * WIDTH);
    ch_head_factors_free(&f);
  }
  ch_calibration_free(calibration);
  ch_model_unload(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(inputs_of_a_text_are_those_of_numpy),
                                     cmocka_unit_test(svd_llm_is_that_of_numpy),
                                     cmocka_unit_test(basis_sharing_is_that_of_numpy),
                                     cmocka_unit_test(matrix_pca_without_weights_is_that_of_numpy),
                                     cmocka_unit_test(measured_weights_give_other_atoms),
                                     cmocka_unit_test(virtual_heads_are_those_of_numpy)};
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
