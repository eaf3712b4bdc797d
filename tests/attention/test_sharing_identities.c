/* Tests models with shared matrices against models with equal dense ones: logits are equal, and gradients follow from
 * those of the dense model by the chain rule. */
#include "harness/trial.h"

enum { LAYERS = 3, HIDDEN = 16 };

static const char *in_dictionary(const char *projection) {
  static char name[128];
  snprintf(name, sizeof name, "model.dictionary.%s.atoms", projection);
  return name;
}

static const char *const projections[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
#define SIZES "'num_hidden_layers': 3, 'num_key_value_heads': 2"
#define NAMES "'projections': ['q', 'k', 'v', 'o']"

/* Returns the number of elements in a projection's matrix. */
static int64_t elements_of(const trial *dense, const char *projection) {
  return ch_param_count(&dense->s.params.rows[find(dense, in_layer(0, projection, "weight"))]);
}

static void put_atoms(const trial *dense, const trial *shared, int atoms) {
  for (int p = 0; p < 4; p++) {
    int64_t n = elements_of(dense, projections[p]);
    for (int s = 0; s < atoms; s++)
      memcpy(values(shared, in_dictionary(projections[p])) + s * n,
             values(dense, in_layer(s, projections[p], "weight")), (size_t)n * sizeof(double));
  }
}

static void one_hot_combinations_of_an_atom_a_layer_are_the_dense_model(void **state) {
  (void)state;
  trial *dense = open_trial(SIZES, "gqa", "");
  trial *shared = open_trial(SIZES ", 'sharing': {'type': 'masa', " NAMES ", 'atoms': 3}", "gqa", "");
  put_atoms(dense, shared, LAYERS);
  for (int p = 0; p < 4; p++)
    for (int l = 0; l < LAYERS; l++)
      for (int s = 0; s < LAYERS; s++)
        values(shared, in_layer(l, projections[p], "coefficients"))[s] = s == l;
  run(dense);
  run(shared);
  assert_same_logits(shared, dense);
  assert_same_gradients(shared, dense);
  for (int p = 0; p < 4; p++) {
    int64_t n = elements_of(dense, projections[p]);
    for (int l = 0; l < LAYERS; l++) {
      const double *dense_gradient = gradient(dense, in_layer(l, projections[p], "weight"));
      assert_same("gradients of atoms", gradient(shared, in_dictionary(projections[p])) + l * n,
                  dense_gradient, n);
      double expected[LAYERS] = {0}; /* gradients of the coefficients: c_s has <D_s, gradient of W> */
      for (int s = 0; s < LAYERS; s++)
        for (int64_t i = 0; i < n; i++)
          expected[s] += values(shared, in_dictionary(projections[p]))[s * n + i] * dense_gradient[i];
      assert_same("gradients of coefficients", gradient(shared, in_layer(l, projections[p], "coefficients")),
                  expected, LAYERS);
    }
  }
  close_trial(dense);
  close_trial(shared);
}

/* Checks a model with shared matrices against a dense one. Layer l of the dense model has atom atom[l]. The gradient of
   an atom is the sum over its layers. */
static void check_assignment(const char *sharing, int atoms, const int atom[LAYERS]) {
  trial *dense = open_trial(SIZES, "gqa", ""), *shared = open_trial(sharing, "gqa", "");
  for (int p = 0; p < 4; p++) {
    int64_t n = elements_of(dense, projections[p]);
    for (int l = 0; l < LAYERS; l++)
      memcpy(values(dense, in_layer(l, projections[p], "weight")),
             values(shared, in_dictionary(projections[p])) + atom[l] * n, (size_t)n * sizeof(double));
  }
  run(dense);
  run(shared);
  assert_same_logits(shared, dense);
  assert_same_gradients(shared, dense);
  for (int p = 0; p < 4; p++) {
    int64_t n = elements_of(dense, projections[p]);
    double *expected = calloc((size_t)(atoms * n), sizeof *expected);
    for (int l = 0; l < LAYERS; l++)
      for (int64_t i = 0; i < n; i++)
        expected[atom[l] * n + i] += gradient(dense, in_layer(l, projections[p], "weight"))[i];
    assert_same("gradients of atoms", gradient(shared, in_dictionary(projections[p])), expected, atoms * n);
    free(expected);
  }
  close_trial(dense);
  close_trial(shared);
}

static void atoms_by_turns_are_a_dense_model_that_repeats_itself(void **state) {
  (void)state;
#define SHARE(type, atoms) SIZES ", 'sharing': {'type': '" type "', " NAMES ", 'atoms': " #atoms "}"
  check_assignment(SHARE("sequential", 1), 1, (int[]){0, 0, 0});
  check_assignment(SHARE("sequential", 2), 2, (int[]){0, 0, 1});
  check_assignment(SHARE("sequential", 3), 3, (int[]){0, 1, 2});
  check_assignment(SHARE("repeat", 1), 1, (int[]){0, 0, 0});
  check_assignment(SHARE("repeat", 2), 2, (int[]){0, 1, 0});
  check_assignment(SHARE("repeat", 3), 3, (int[]){0, 1, 2});
}

/* With W = B I, the gradient of B is that of W, and the gradient of A is B^T times that of W. */
static void a_product_with_the_identity_is_the_dense_model(void **state) {
  (void)state;
  trial *dense = open_trial(SIZES, "gqa", "");
  /* all matrices have 16 inputs */
  trial *shared = open_trial(SIZES ", 'sharing': {'type': 'low_rank', " NAMES ", 'rank': 16}", "gqa", "");
  for (int p = 0; p < 4; p++)
    for (int l = 0; l < LAYERS; l++) {
      int64_t n = elements_of(dense, projections[p]);
      memcpy(values(shared, in_layer(l, projections[p], "b.weight")),
             values(dense, in_layer(l, projections[p], "weight")), (size_t)n * sizeof(double));
      for (int i = 0; i < HIDDEN * HIDDEN; i++)
        values(shared, in_layer(l, projections[p], "a.weight"))[i] = i / HIDDEN == i % HIDDEN;
    }
  run(dense);
  run(shared);
  assert_same_logits(shared, dense);
  assert_same_gradients(shared, dense);
  for (int p = 0; p < 4; p++)
    for (int l = 0; l < LAYERS; l++) {
      int64_t n = elements_of(dense, projections[p]);
      const double *weight = values(dense, in_layer(l, projections[p], "weight"));
      const double *of_weight = gradient(dense, in_layer(l, projections[p], "weight"));
      assert_same("gradients of B", gradient(shared, in_layer(l, projections[p], "b.weight")), of_weight, n);
      double expected[HIDDEN * HIDDEN] = {0};
      for (int64_t o = 0; o < n / HIDDEN; o++)
        for (int r = 0; r < HIDDEN; r++)
          for (int i = 0; i < HIDDEN; i++)
            expected[r * HIDDEN + i] += weight[o * HIDDEN + r] * of_weight[o * HIDDEN + i];
      assert_same("gradients of A", gradient(shared, in_layer(l, projections[p], "a.weight")), expected,
                  HIDDEN * HIDDEN);
    }
  close_trial(dense);
  close_trial(shared);
}

/* A common dictionary equals a dictionary for each projection with the same atoms. Its gradient is the sum of their
   gradients. */
static void a_common_dictionary_is_many_equal_ones(void **state) {
  (void)state;
  trial *apart = open_trial(SHARE("masa", 2), "gqa", "");
  trial *common = open_trial(
      SIZES ", 'sharing': {'type': 'masa', " NAMES ", 'atoms': 2, 'common_dictionary': true}", "gqa", "");
  static const char *const names[] = {"model.dictionary.common_16x16.atoms",
                                      "model.dictionary.common_8x16.atoms"};
  static const char *const members[2][2] = {{"q_proj", "o_proj"}, {"k_proj", "v_proj"}};
  for (int d = 0; d < 2; d++) {
    int64_t n = ch_param_count(&common->s.params.rows[find(common, names[d])]);
    for (int m = 0; m < 2; m++)
      memcpy(values(apart, in_dictionary(members[d][m])), values(common, names[d]),
             (size_t)n * sizeof(double));
  }
  run(apart);
  run(common);
  assert_same_logits(common, apart);
  assert_same_gradients(common, apart);
  for (int d = 0; d < 2; d++) {
    int64_t n = ch_param_count(&common->s.params.rows[find(common, names[d])]);
    double *sum = calloc((size_t)n, sizeof *sum);
    for (int m = 0; m < 2; m++)
      for (int64_t i = 0; i < n; i++) sum[i] += gradient(apart, in_dictionary(members[d][m]))[i];
    assert_same("gradients of common atoms", gradient(common, names[d]), sum, n);
    free(sum);
  }
  close_trial(apart);
  close_trial(common);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_hot_combinations_of_an_atom_a_layer_are_the_dense_model),
      cmocka_unit_test(atoms_by_turns_are_a_dense_model_that_repeats_itself),
      cmocka_unit_test(a_product_with_the_identity_is_the_dense_model),
      cmocka_unit_test(a_common_dictionary_is_many_equal_ones),
  };
  return cmocka_run_group_tests(tests, open_engine, close_engine);
}
