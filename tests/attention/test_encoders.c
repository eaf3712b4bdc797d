/* Tests Vision Transformers with every mechanism: logits and losses against the reference, and gradients of all tensors
 * against finite differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/mechanisms/mechanism.h"
#include "base/random.h"
#include "model/runner.h"
#include "model/transformer.h"
#include "config_file/config_json.h"

enum { IMAGES = 3, CHANNELS = 2, SIZE = 6, CLASSES = 5, PIXELS = IMAGES * CHANNELS * SIZE * SIZE };

/* Keys of `attention`, and other keys, that are tested in addition to tested_mechanism.learns. */
static const char *const tried_attention[][2] = {
    {"'type': 'gqa'", "'attention_bias': true"},
    {"'type': 'gqa'", "'hidden_act': 'silu', 'norm': 'rmsnorm', 'mlp_bias': false"},
    {"'type': 'gqa'", "'hidden_act': 'reglu', 'norm_placement': 'post'"},
    {"'type': 'gqa', 'qk_norm': true, 'head_norm': true", "'num_key_value_heads': 2"},
    {"'type': 'gqa', 'knocking': {'type': 'mlp', 'on': ['v']}", "'num_key_value_heads': 1"},
    {"'type': 'gqa', 'head_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}", ""},
    {"'type': 'gta'", "'num_key_value_heads': 2"},
    {"'type': 'mla', 'kv_lora_rank': 5, 'qk_nope_head_dim': 3, 'qk_rope_head_dim': 2, 'v_head_dim': 4", ""},
    {"'type': 'mla', 'kv_lora_rank': 5, 'qk_nope_head_dim': 3, 'qk_rope_head_dim': 2, 'v_head_dim': 4, "
     "'q_lora_rank': 6, 'layer_group_size': 2",
     ""},
    {"'type': 'mfa'", "'head_dim': 6, 'num_attention_heads': 3"},
    {"'type': 'mfa_kr'", "'head_dim': 6, 'num_attention_heads': 3"},
    {"'type': 'diff'", "'attention_bias': true"},
    {"'type': 'diff', 'diff_lambda': 'per_pair', 'head_norm': false", "'num_key_value_heads': 2"},
    {"'type': 'talking'", "'attention_bias': true"},
    {"'type': 'talking', 'mix_logits': false", ""},
    {"'type': 'gqa'", "'sharing': {'type': 'masa', 'projections': ['q', 'k', 'v', 'o'], 'atoms': 2}"},
    {"'type': 'mfa'", "'sharing': {'type': 'masa', 'projections': ['q_b_proj', 'k', 'o'], 'atoms': 1}"},
    {"'type': 'talking'", "'sharing': {'type': 'low_rank', 'projections': ['q', 'o'], 'rank': 3}"},
    {"'type': 'gqa'", "'sharing': {'type': 'sequential', 'projections': ['q', 'k', 'v'], 'atoms': 1}"},
};

typedef struct specimen {
  char json[900];
  ch_config config;
  ch_params params;
  reference_config definition;
  ch_tensor *wide, *narrow;
  reference_tensor *named;
  float pixels[PIXELS];
  double wide_pixels[PIXELS];
  int32_t labels[IMAGES];
  double logits[IMAGES * CLASSES], loss, largest;
} specimen;

static ch_error error;

static void must(const specimen *s, ch_status status) {
  if (status != CH_OK) fail_msg("%s\n%s", s->json, error.message);
}

/* --- models and results of the reference -------------------------------------------------------------------- */

static void write_config(specimen *s, const char *attention, const char *beside) {
  snprintf(s->json, sizeof s->json,
           "{'model_type': 'crosshead_vit', 'image_size': %d, 'patch_size': 2, 'num_channels': %d, "
           "'num_classes': %d, "
           "'hidden_size': 16, 'intermediate_size': 20, 'num_hidden_layers': 2%s%s%s, 'attention': {%s}}",
           SIZE, CHANNELS, CLASSES, strstr(beside, "num_attention_heads") ? "" : ", 'num_attention_heads': 4",
           *beside ? ", " : "", beside, attention);
  for (char *c = s->json; *c; c++)
    if (*c == '\'') *c = '"';
}

static void fill_tensor(specimen *s, int p) {
  const ch_param *row = &s->params.rows[p];
  int64_t count = ch_param_count(row);
  double *wide = malloc((size_t)count * sizeof *wide);
  float *narrow = malloc((size_t)count * sizeof *narrow);
  ch_random random;
  ch_random_seed(&random, 17, ch_random_stream_of(row->name));
  bool norm = row->rank == 1 && strstr(row->name, ".weight");
  double spread = row->rank == 1 ? 0.4 : 1.2 / sqrt((double)row->shape[row->rank - 1]);
  for (int64_t i = 0; i < count; i++) {
    narrow[i] = (float)((norm ? 1 : 0) + spread * ch_random_normal(&random));
    wide[i] = (double)narrow[i];
  }
  s->wide[p] = (ch_tensor){.dtype = CH_F64, .rank = row->rank, .data = wide};
  s->narrow[p] = (ch_tensor){.dtype = CH_F32, .rank = row->rank, .data = narrow};
  s->named[p] = (reference_tensor){.name = row->name, .rank = row->rank, .data = wide};
  memcpy(s->wide[p].shape, row->shape, sizeof row->shape);
  memcpy(s->narrow[p].shape, row->shape, sizeof row->shape);
  memcpy(s->named[p].shape, row->shape, sizeof row->shape);
}

static void open_specimen(specimen *s, const char *attention, const char *beside) {
  memset(s, 0, sizeof *s);
  write_config(s, attention, beside);
  must(s, ch_config_parse(s->json, "encoder", &s->config, &error));
  must(s, ch_model_declare(&s->config, &s->params, &error));
  reference_config_parse(s->json, &s->definition);
  size_t count = (size_t)s->params.count;
  s->wide = calloc(count, sizeof *s->wide);
  s->narrow = calloc(count, sizeof *s->narrow);
  s->named = calloc(count, sizeof *s->named);
  for (int p = 0; p < s->params.count; p++) fill_tensor(s, p);
  ch_random random;
  ch_random_seed(&random, 18, 0);
  for (int i = 0; i < PIXELS; i++) {
    s->pixels[i] = (float)ch_random_normal(&random);
    s->wide_pixels[i] = (double)s->pixels[i];
  }
  for (int i = 0; i < IMAGES; i++) s->labels[i] = (int32_t)ch_random_below(&random, CLASSES);
  reference_weights weights = {s->named, s->params.count};
  s->loss = reference_see(&s->definition, &weights, s->wide_pixels, s->labels, IMAGES, s->logits);
  for (int i = 0; i < IMAGES * CLASSES; i++) s->largest = fmax(s->largest, fabs(s->logits[i]));
}

static void close_specimen(specimen *s) {
  for (int p = 0; p < s->params.count; p++) {
    free(s->wide[p].data);
    free(s->narrow[p].data);
  }
  free(s->wide), free(s->narrow), free(s->named);
  ch_params_free(&s->params);
}

/* --- results of the library --------------------------------------------------------------------------------- */

/* Writes the root's values as doubles. With `gradients`, computes the gradients of the mean loss. */
static void run(const specimen *s, ch_dtype dtype, ch_head head, void *const *gradients, int64_t count,
                double *value) {
  ch_engine engine;
  ch_runner *runner;
  const void *root;
  must(s, ch_engine_init(&engine, dtype, &error));
  ch_model_graph shape = {
      .sequences = IMAGES, .length = 1, .dtype = dtype, .head = head, .trainable = gradients != NULL};
  must(s, ch_runner_create(&engine, &s->config, &s->params, &shape, gradients != NULL, &runner, &error));
  ch_runner_call call = {.weights = dtype == CH_F64 ? s->wide : s->narrow,
                         .pixels = s->pixels,
                         .targets = s->labels,
                         .gradients = gradients,
                         .seed = 1.0 / IMAGES};
  must(s, ch_runner_run(runner, &call, &root, &error));
  for (int64_t i = 0; i < count; i++)
    value[i] = dtype == CH_F64 ? ((const double *)root)[i] : (double)((const float *)root)[i];
  ch_runner_free(runner);
  ch_engine_free(&engine);
}

static void compare_logits(const specimen *s, ch_dtype dtype, double tolerance) {
  double logits[IMAGES * CLASSES];
  run(s, dtype, CH_HEAD_LOGITS, NULL, IMAGES * CLASSES, logits);
  for (int i = 0; i < IMAGES * CLASSES; i++)
    if (!(fabs(logits[i] - s->logits[i]) <= tolerance * s->largest))
      fail_msg("%s\nlogit %d is %.10g and should be %.10g", s->json, i, logits[i], s->logits[i]);
}

/* Compares the losses, and the numbers of classes that are ranked before the label. */
static void compare_scores(const specimen *s) {
  double scores[IMAGES * 2], sum = 0;
  run(s, CH_F64, CH_HEAD_SCORES, NULL, IMAGES * 2, scores);
  for (int i = 0; i < IMAGES; i++) {
    int before = 0;
    for (int k = 0; k < CLASSES; k++)
      before += s->logits[i * CLASSES + k] > s->logits[i * CLASSES + s->labels[i]];
    assert_true(scores[2 * i + 1] == before);
    sum += scores[2 * i];
  }
  if (!(fabs(sum / IMAGES - s->loss) <= 1e-9 * s->loss)) fail_msg("%s\nloss %.12g", s->json, sum / IMAGES);
}

static double mean_loss(const specimen *s) {
  double losses[IMAGES], sum = 0;
  run(s, CH_F64, CH_HEAD_LOSS, NULL, IMAGES, losses);
  for (int i = 0; i < IMAGES; i++) sum += losses[i];
  return sum / IMAGES;
}

static void compare_gradient(const specimen *s, int p, const double *gradient) {
  const double step = 2e-5;
  int64_t count = ch_param_count(&s->params.rows[p]);
  double *x = s->wide[p].data, along = 0, size = 0, loss[2];
  double *kept = malloc((size_t)count * sizeof *kept), *direction = malloc((size_t)count * sizeof *direction);
  memcpy(kept, x, (size_t)count * sizeof *kept);
  ch_random random;
  ch_random_seed(&random, 19, ch_random_stream_of(s->params.rows[p].name));
  for (int64_t i = 0; i < count; i++) {
    direction[i] = ch_random_normal(&random) / sqrt((double)count);
    along += direction[i] * gradient[i];
    size += fabs(direction[i] * gradient[i]);
  }
  for (int side = 0; side < 2; side++) {
    for (int64_t i = 0; i < count; i++) x[i] = kept[i] + (side ? -step : step) * direction[i];
    loss[side] = mean_loss(s);
  }
  memcpy(x, kept, (size_t)count * sizeof *kept);
  double differences = (loss[0] - loss[1]) / (2 * step);
  if (!(fabs(along - differences) <= 1e-5 * size + 1e-9))
    fail_msg("%s\ngradient of %s along a direction is %.10g, differences say %.10g", s->json,
             s->params.rows[p].name, along, differences);
  free(kept), free(direction);
}

static void compare_gradients(const specimen *s) {
  int count = s->params.count;
  void **gradients = calloc((size_t)count, sizeof *gradients);
  double losses[IMAGES];
  for (int p = 0; p < count; p++) gradients[p] = malloc(ch_tensor_bytes(&s->wide[p]));
  run(s, CH_F64, CH_HEAD_LOSS, gradients, IMAGES, losses);
  for (int p = 0; p < count; p++) {
    compare_gradient(s, p, gradients[p]);
    free(gradients[p]);
  }
  free(gradients);
}

/* --- tests -------------------------------------------------------------------------------------------------- */

/* Calls `check` with every tested encoder. Every mechanism has at least one. */
static void for_each_encoder(void (*check)(const specimen *s)) {
  static specimen s;
  for (size_t i = 0; i < sizeof tried_attention / sizeof *tried_attention; i++) {
    open_specimen(&s, tried_attention[i][0], tried_attention[i][1]);
    check(&s);
    close_specimen(&s);
  }
  for (const tested_mechanism *const *m = tested_mechanisms(); *m; m++) {
    int tried_of_it = 0;
    for (const tried *t = (*m)->learns; t->attention; t++) {
      char attention[400];
      if (strstr(t->attention, "gate_embedding_dim")) continue; /* images have no token ids */
      snprintf(attention, sizeof attention, "'type': '%s'%s%s", (*m)->name, *t->attention ? ", " : "",
               t->attention);
      open_specimen(&s, attention, t->sizes);
      check(&s);
      close_specimen(&s);
      tried_of_it++;
    }
    if (!tried_of_it) fail_msg("no encoder with attention %s is tried", (*m)->name);
  }
}

static void compare_values(const specimen *s) {
  compare_logits(s, CH_F64, 1e-9);
  compare_logits(s, CH_F32, 5e-5);
  compare_scores(s);
}

static void every_mechanism_sees_whole_images_as_its_definition_says(void **state) {
  (void)state;
  for_each_encoder(compare_values);
}

static void gradients_of_every_tensor_equal_differences(void **state) {
  (void)state;
  for_each_encoder(compare_gradients);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_mechanism_sees_whole_images_as_its_definition_says),
      cmocka_unit_test(gradients_of_every_tensor_equal_differences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
