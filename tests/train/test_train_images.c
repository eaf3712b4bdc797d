/* Tests training on images: batches with random access, runs that learn, and runs that resume with the same
 * bits. */
#include "training.h"

#include "config_file/config_json.h"
#include "train/image_data.h"

#define SHAPES TEST_DATA "/images"

/* Returns a small Vision Transformer for the test images, drawn shapes of 12 x 12 pixels. */
static ch_config vit_config(const char *attention) {
  ch_config config;
  ch_error error = {0};
  char text[600];
  snprintf(text, sizeof text,
           "{\"model_type\": \"crosshead_vit\", \"image_size\": 12, \"patch_size\": 3, \"num_channels\": 1, "
           "\"num_classes\": 6, \"hidden_size\": 32, \"intermediate_size\": 64, \"num_hidden_layers\": 2, "
           "\"num_attention_heads\": 4, \"attention\": {%s}}",
           attention);
  if (ch_config_parse(text, "test config", &config, &error) != CH_OK) fail_msg("%s", error.message);
  return config;
}

static ch_train_options vit_options(const ch_config *config, int64_t steps) {
  ch_train_options options;
  ch_train_options_default(config, &options);
  options.steps = steps;
  options.batch = 30;
  options.lr = 3e-3;
  options.seed = 3;
  options.crop = 1;
  options.label_smoothing = 0.05;
  return options;
}

static void open_shapes(const ch_config *config, const ch_train_options *options, ch_image_data *data) {
  assert_ok(ch_image_data_open(SHAPES "/shapes-idx", 0.05, "nowhere", data, &failure));
  assert_ok(ch_image_data_prepare(data, config, options, &failure));
}

static ch_trainer *make_vit(const ch_config *config, const ch_train_options *options,
                            const ch_image_data *data) {
  ch_trainer *trainer;
  assert_ok(ch_trainer_create(config, options, &data->source, &trainer, &failure));
  return trainer;
}

static void every_epoch_has_every_image_once_in_another_order(void **state) {
  (void)state;
  enum { COUNT = 600, ELEMENTS = 144 };
  ch_config config = vit_config("\"type\": \"gqa\"");
  ch_train_options options = vit_options(&config, 1);
  options.crop = 0;
  ch_image_data data;
  open_shapes(&config, &options, &data);
  assert_true(data.info.count[CH_IMAGES_TRAIN] == COUNT && data.source.validation_sequences == 120);
  static float pixels[2][COUNT * ELEMENTS];
  static int32_t labels[2][COUNT];
  int moved = 0;
  for (int epoch = 0; epoch < 2; epoch++) {
    ch_batch batch = {.sequences = COUNT, .length = 1, .targets = labels[epoch], .pixels = pixels[epoch]};
    int of_class[6] = {0};
    assert_ok(data.source.train(data.source.context, epoch * COUNT, &batch, &failure));
    for (int i = 0; i < COUNT; i++) of_class[labels[epoch][i]]++;
    for (int k = 0; k < 6; k++) assert_int_equal(of_class[k], 100);
  }
  for (int i = 0; i < COUNT; i++)
    moved += memcmp(pixels[0] + i * ELEMENTS, pixels[1] + i * ELEMENTS, 576) != 0;
  assert_true(moved > 500);
  /* The stream can be read at any place. */
  float some[3 * ELEMENTS];
  int32_t some_labels[3];
  ch_batch batch = {.sequences = 3, .length = 1, .targets = some_labels, .pixels = some};
  assert_ok(data.source.train(data.source.context, COUNT + 100, &batch, &failure));
  assert_memory_equal(some, pixels[1] + 100 * ELEMENTS, sizeof some);
  assert_memory_equal(some_labels, labels[1] + 100, sizeof some_labels);
  /* No image follows the last validation image. */
  assert_ok(data.source.validate(data.source.context, 119, &batch, &failure));
  assert_true(some_labels[0] == 119 % 6 && some_labels[1] == -1 && some_labels[2] == -1);
  ch_image_data_close(&data);
}

static ch_validation_point last_point(const ch_trainer *trainer) {
  ch_progress_record record;
  ch_trainer_progress(trainer, &record);
  assert_true(record.validation_points > 0);
  return record.validation[record.validation_points - 1];
}

static void vision_transformers_learn_to_tell_shapes_apart(void **state) {
  (void)state;
  enum { STEPS = 300 };
  static const char *const attentions[] = {"\"type\": \"gqa\"", "\"type\": \"mfa\", \"q_a_norm\": true",
                                           "\"type\": \"talking\""};
  for (int i = 0; i < 3; i++) {
    ch_config config = vit_config(attentions[i]);
    ch_train_options options = vit_options(&config, STEPS);
    ch_image_data data;
    double loss;
    open_shapes(&config, &options, &data);
    ch_trainer *trainer = make_vit(&config, &options, &data);
    assert_string_equal(ch_trainer_unit(trainer), "images");
    assert_ok(ch_trainer_evaluate(trainer, NULL, NULL, &loss, &failure));
    assert_true(fabs(loss - log(6)) < 0.1);
    for (int step = 0; step < STEPS; step++) assert_int_equal(take_step(trainer).tokens, 30 * (step + 1));
    assert_ok(ch_trainer_evaluate(trainer, NULL, NULL, &loss, &failure));
    ch_validation_point point = last_point(trainer);
    assert_true(point.loss == loss && point.top5 >= point.top1 && point.top5 <= 1);
    if (!(point.top1 > 0.35 && loss < 1.5))
      fail_msg("%s: top-1 %.3f, loss %.3f", attentions[i], point.top1, loss);
    ch_trainer_free(trainer);
    ch_image_data_close(&data);
  }
}

/* The accuracies of the last validation must be equal too. */
static void a_resumed_run_has_the_bits_of_an_unbroken_one(void **state) {
  (void)state;
  char *directory = make_directory(), *path = ch_path_join(directory, "checkpoint.safetensors");
  ch_config config = vit_config("\"type\": \"gqa\"");
  ch_train_options options = vit_options(&config, 8), stored;
  ch_image_data data;
  double loss;
  options.flip = true;
  open_shapes(&config, &options, &data);
  ch_trainer *unbroken = make_vit(&config, &options, &data), *first = make_vit(&config, &options, &data),
             *second = make_vit(&config, &options, &data);
  for (int step = 1; step <= 8; step++) {
    take_step(unbroken);
    if (step % 2 == 0) assert_ok(ch_trainer_evaluate(unbroken, NULL, NULL, &loss, &failure));
  }
  for (int step = 1; step <= 3; step++) {
    take_step(first);
    if (step % 2 == 0) assert_ok(ch_trainer_evaluate(first, NULL, NULL, &loss, &failure));
  }
  assert_ok(ch_trainer_save(first, path, &failure));
  assert_ok(ch_checkpoint_read_options(path, &stored, NULL, NULL, &failure));
  assert_true(stored.flip && stored.crop == 1 && stored.label_smoothing == 0.05 && stored.sequence == 1);
  assert_ok(ch_trainer_resume(second, path, &failure));
  for (int step = 4; step <= 8; step++) {
    take_step(second);
    if (step % 2 == 0) assert_ok(ch_trainer_evaluate(second, NULL, NULL, &loss, &failure));
  }
  assert_same_state(unbroken, second);
  ch_validation_point a = last_point(unbroken), b = last_point(second);
  assert_memory_equal(&a, &b, sizeof a);
  ch_trainer_free(unbroken), ch_trainer_free(first), ch_trainer_free(second);
  ch_image_data_close(&data);
  free(path);
  remove_directory(directory);
}

static void parts_of_a_batch_add_up_to_it(void **state) {
  (void)state;
  ch_config config = vit_config("\"type\": \"diff\"");
  ch_train_options options = vit_options(&config, 4);
  ch_image_data data;
  double losses[2], grad_norms[2];
  open_shapes(&config, &options, &data);
  for (int i = 0; i < 2; i++) {
    options.micro_batch = i ? 5 : 30;
    ch_trainer *trainer = make_vit(&config, &options, &data);
    ch_step_report report = take_step(trainer);
    losses[i] = report.loss, grad_norms[i] = report.grad_norm;
    ch_trainer_free(trainer);
  }
  assert_true(fabs(losses[0] - losses[1]) < 1e-5 && fabs(grad_norms[0] / grad_norms[1] - 1) < 1e-4);
  ch_image_data_close(&data);
}

static void options_of_the_other_kind_are_refused(void **state) {
  (void)state;
  ch_error error = {0};
  ch_config vit = vit_config("\"type\": \"gqa\""), text = test_config();
  ch_train_options options = vit_options(&vit, 5), of_text = test_options(5);
  options.documents = true;
  assert_int_equal(ch_train_options_check(&options, &vit, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "documents_apart is for text"));
  options.documents = false, options.crop = 7;
  assert_int_equal(ch_train_options_check(&options, &vit, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "crop 7 is more than half of the images' 12 pixels"));
  of_text.label_smoothing = 0.1;
  assert_int_equal(ch_train_options_check(&of_text, &text, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "label_smoothing is for images"));
}

static void images_that_do_not_fit_are_refused(void **state) {
  (void)state;
  ch_error error = {0};
  ch_config config = vit_config("\"type\": \"gqa\"");
  ch_train_options options = vit_options(&config, 5);
  ch_image_data data;
  assert_ok(ch_image_data_open(SHAPES "/shapes-cifar", 0.05, "nowhere", &data, &failure));
  assert_int_equal(ch_image_data_prepare(&data, &config, &options, &error), CH_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "holds images of 3 channels and 32 x 32 pixels"));
  ch_image_data_close(&data);
  assert_ok(
      ch_image_data_open(SHAPES "/shapes-idx/t10k-images-idx3-ubyte.gz", 1, "nowhere", &data, &failure));
  assert_int_equal(ch_image_data_prepare(&data, &config, &options, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "has no image left to train on"));
  ch_image_data_close(&data);
  assert_int_equal(ch_image_data_open(NULL, 1, "nowhere", &data, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "give them with data"));
  ch_image_data_close(&data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_epoch_has_every_image_once_in_another_order),
      cmocka_unit_test(vision_transformers_learn_to_tell_shapes_apart),
      cmocka_unit_test(a_resumed_run_has_the_bits_of_an_unbroken_one),
      cmocka_unit_test(parts_of_a_batch_add_up_to_it),
      cmocka_unit_test(options_of_the_other_kind_are_refused),
      cmocka_unit_test(images_that_do_not_fit_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
