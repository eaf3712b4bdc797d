/* Tests training of compressed models. A model whose tensors alone give the ranks of residuals and the
 * numbers of atoms is trained from its directory, saved, resumed and exported with them. */
#include "training.h"

#include "infer/model.h"
#include "model/transformer.h"
#include "config_file/config_json.h"

static const char dictionary[] = "model.dictionary.0.q_proj.atoms",
                  residual[] = "model.layers.1.self_attn.q_proj.residual.a.weight";

/* Writes a model of two layers: q_proj has one atom for both, and only layer 1 has a residual. */
static void write_model(const char *directory, ch_config *config) {
  ch_known_shape rows[] = {{dictionary, 3, {1, 32, 32}}, {residual, 2, {3, 32}}};
  ch_known_shapes known = {rows, 2};
  ch_params params = {.known = &known};
  ch_error error = {0};
  *config = test_config();
  config->sharing =
      (ch_sharing){.type = CH_SHARING_MASA, .projection_count = 1, .groups = {{0, 1}}, .group_count = 1};
  snprintf(config->sharing.projections[0], CH_PROJECTION_NAME_SIZE, "q_proj");
  assert_ok(ch_config_validate(config, "made", &failure));
  if (ch_model_declare_saved("/nowhere.safetensors", "", config, &(ch_params){0}, &error) == CH_OK)
    fail_msg("shapes were found in a file that is not there");
  assert_ok(ch_model_declare(config, &params, &failure));
  ch_tensor *tensors = calloc((size_t)params.count, sizeof *tensors);
  for (int i = 0; i < params.count; i++) {
    const ch_param *row = &params.rows[i];
    ch_random random;
    ch_random_seed(&random, 5, ch_random_stream_of(row->name));
    float *data = malloc((size_t)ch_param_count(row) * sizeof *data);
    for (int64_t k = 0; k < ch_param_count(row); k++)
      data[k] = (row->rank == 1 ? 1.0F : 0.0F) + 0.05F * (float)ch_random_normal(&random);
    tensors[i] = (ch_tensor){.dtype = CH_F32, .rank = row->rank, .data = data};
    memcpy(tensors[i].shape, row->shape, sizeof row->shape);
  }
  assert_ok(ch_model_write(directory, config, &params, tensors, CH_F32, &failure));
  for (int i = 0; i < params.count; i++) free(tensors[i].data);
  free(tensors);
  params.known = NULL;
  ch_params_free(&params);
}

static ch_trainer *open_trainer(const char *stored, const ch_config *config) {
  ch_train_options options = test_options(6);
  ch_batch_source source = made_up_source();
  ch_trainer *trainer = NULL;
  assert_ok(ch_trainer_create_like(stored, config, &options, &source, &trainer, &failure));
  return trainer;
}

static void step(ch_trainer *trainer, int count) {
  while (count--) take_step(trainer);
}

static ch_model *load(const char *directory) {
  ch_model *model = NULL;
  assert_ok(ch_model_load(directory, CH_WEIGHTS_F32, &model, &failure));
  return model;
}

static const ch_tensor *tensor_of(const ch_model *model, const char *name) {
  int index = ch_params_find(&model->params, name);
  if (index < 0) fail_msg("%s is not there", name);
  return &model->weights.tensors[index];
}

static void assert_same(const ch_model *a, const ch_model *b, const char *name, bool same) {
  const ch_tensor *x = tensor_of(a, name), *y = tensor_of(b, name);
  assert_int_equal(ch_tensor_bytes(x), ch_tensor_bytes(y));
  bool equal = memcmp(x->data, y->data, ch_tensor_bytes(x)) == 0;
  if (equal != same) fail_msg("%s %s", name, equal ? "was not trained" : "differs");
}

static void residuals_train_and_a_resumed_run_has_them_too(void **state) {
  (void)state;
  char *base = make_directory(), from[600], whole[600], part[600], saved[600];
  snprintf(from, sizeof from, "%s/from", base);
  snprintf(whole, sizeof whole, "%s/whole", base);
  snprintf(part, sizeof part, "%s/part", base);
  snprintf(saved, sizeof saved, "%s/saved.safetensors", base);
  assert_ok(ch_make_directory(from, &failure));
  ch_config config;
  write_model(from, &config);

  ch_trainer *trainer = open_trainer(from, &config);
  assert_ok(ch_trainer_load_weights(trainer, from, &failure));
  step(trainer, 3);
  assert_ok(ch_trainer_save(trainer, saved, &failure));
  step(trainer, 3);
  assert_ok(ch_make_directory(whole, &failure));
  assert_ok(ch_trainer_export(trainer, whole, &failure));
  ch_trainer_free(trainer);

  trainer = open_trainer(saved, &config);
  assert_ok(ch_trainer_resume(trainer, saved, &failure));
  step(trainer, 3);
  assert_ok(ch_make_directory(part, &failure));
  assert_ok(ch_trainer_export(trainer, part, &failure));
  ch_trainer_free(trainer);

  ch_model *before = load(from), *after = load(whole), *resumed = load(part);
  static const char *const names[] = {dictionary, residual,
                                      "model.layers.1.self_attn.q_proj.residual.b.weight",
                                      "model.layers.0.self_attn.q_proj.coefficients"};
  for (int i = 0; i < 4; i++) {
    assert_same(before, after, names[i], false);
    assert_same(after, resumed, names[i], true);
  }
  ch_model_unload(before);
  ch_model_unload(after);
  ch_model_unload(resumed);
  remove_directory(base);
}

static void a_configuration_alone_does_not_say_how_many(void **state) {
  (void)state;
  ch_config config = test_config();
  config.sharing =
      (ch_sharing){.type = CH_SHARING_MASA, .projection_count = 1, .groups = {{0, 1}}, .group_count = 1};
  snprintf(config.sharing.projections[0], CH_PROJECTION_NAME_SIZE, "q_proj");
  ch_train_options options = test_options(6);
  ch_batch_source source = made_up_source();
  ch_trainer *trainer = NULL;
  ch_error error = {0};
  assert_int_equal(ch_trainer_create(&config, &options, &source, &trainer, &error), CH_ERROR_CONFIG);
  assert_non_null(strstr(error.message, "\"sharing.atoms\" is missing"));
  assert_non_null(strstr(error.message, dictionary));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(residuals_train_and_a_resumed_run_has_them_too),
                                     cmocka_unit_test(a_configuration_alone_does_not_say_how_many)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
