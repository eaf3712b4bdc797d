/* Tests that image models in 16-bit files compute what the same numbers give in F32. */
#include "small_models.h"
#include "tensor/kernels.h"
#include "team_testing.h"

enum { CHANNELS = 2, SIZE = 6, CLASSES = 5, IMAGES = 2, PIXELS = IMAGES * CHANNELS * SIZE * SIZE };

static ch_model *image_model(ch_dtype dtype) {
  static const char json[] =
      "{\"model_type\": \"crosshead_vit\", \"image_size\": 6, \"patch_size\": 2, \"num_channels\": 2, "
      "\"num_classes\": 5, \"hidden_size\": 17, \"intermediate_size\": 20, \"num_hidden_layers\": 2, "
      "\"num_attention_heads\": 3, \"head_dim\": 5, \"attention_bias\": true}";
  char *path = ch_path_join(directory, "config.json");
  ch_model *model;
  must(ch_write_file(path, json, strlen(json), &failure));
  must(ch_model_random(path, dtype, 1, &model, &failure));
  free(path);
  return model;
}

/* Copies the values of `from` to `to`, which is all F32. */
static void copy_values(const ch_model *from, ch_model *to) {
  for (int i = 0; i < from->params.count; i++) {
    const ch_tensor *tensor = &from->weights.tensors[i];
    assert_int_equal(to->weights.tensors[i].dtype, CH_F32);
    ch_kernels_best(CH_F32)->convert_from(all_threads(), ch_param_count(&from->params.rows[i]), tensor->data,
                                          tensor->dtype, to->weights.tensors[i].data);
  }
}

static void say(const ch_model *model, float *logits) {
  float pixels[PIXELS];
  ch_forward_result result;
  for (int i = 0; i < PIXELS; i++) pixels[i] = (float)(i * 7 % 13) / 6 - 1;
  ch_forward_request request = {.pixels = pixels, .sequences = IMAGES, .length = 1};
  must(ch_forward(model, &request, &result, &failure));
  memcpy(logits, result.logits, sizeof(float) * IMAGES * CLASSES);
  ch_forward_result_free(&result);
}

static void sixteen_bits_are_read_as_what_they_are(void **state) {
  (void)state;
  static const ch_dtype dtypes[] = {CH_BF16, CH_F16};
  float expected[IMAGES * CLASSES], got[IMAGES * CLASSES];
  for (int d = 0; d < 2; d++) {
    ch_model *narrow = image_model(dtypes[d]), *wide = image_model(CH_F32);
    copy_values(narrow, wide);
    say(wide, expected);
    say(narrow, got);
    for (int i = 0; i < IMAGES * CLASSES; i++)
      if (!(fabs((double)got[i] - (double)expected[i]) < 1e-5))
        fail_msg("%s: logit %d is %g and not %g", ch_dtype_name(dtypes[d]), i, (double)got[i],
                 (double)expected[i]);
    ch_model_unload(narrow);
    ch_model_unload(wide);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sixteen_bits_are_read_as_what_they_are)};
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
