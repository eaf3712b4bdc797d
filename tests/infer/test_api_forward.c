/* Tests single passes as a program would run them, with public headers only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include <crosshead/crosshead.h>

#define LLAMA TEST_DATA "/reference/llama_gqa"

enum { B = 2, T = 5, V = 128, D = 48 };
static const int32_t tokens[B][T] = {{1, 17, 3, 99, 4}, {1, 5, 5, 120, 64}};
static const ch_forward_request whole = {.tokens = tokens[0], .sequences = B, .length = T};

static ch_error error;

static void must(ch_status status) {
  if (status != CH_OK) fail_msg("%s", error.message);
}

static ch_model *exact(ch_precision compute, bool gradients) {
  ch_model *model = NULL;
  must(ch_model_open_exact(LLAMA, compute, gradients, &model, &error));
  return model;
}

/* Compares the logits of a pass with those of a session, and its loss with the mean of -ln p by ch_log_probability. */
static void logits_and_loss_are_those_of_a_session(void **state) {
  (void)state;
  ch_model *model = exact(CH_PRECISION_DEFAULT, false);
  ch_session *session = NULL;
  ch_session_settings settings;
  ch_session_defaults(&settings);
  settings.sequences = B;
  must(ch_session_create(model, &settings, &session, &error));
  const float *logits;
  must(ch_session_feed_all(session, tokens[0], T, &logits, &error));
  double loss = 0;
  for (int b = 0; b < B; b++)
    for (int t = 0; t + 1 < T; t++) {
      double log_probability;
      must(ch_log_probability(logits + (b * T + t) * V, V, tokens[b][t + 1], &log_probability, &error));
      loss -= log_probability / (B * (T - 1));
    }
  ch_forward_result result;
  must(ch_forward(model, &whole, &result, &error));
  assert_int_equal(result.sequences, B);
  assert_int_equal(result.length, T);
  assert_int_equal(result.classes, V);
  assert_true(result.has_loss && fabs(result.loss - loss) < 1e-5);
  assert_int_equal(result.gradient_count, 0);
  for (int i = 0; i < B * T * V; i++) assert_true(fabsf(result.logits[i] - logits[i]) < 1e-4f);
  ch_forward_result_free(&result);

  ch_forward_request request = whole;
  request.loss_alone = true;
  must(ch_forward(model, &request, &result, &error));
  assert_null(result.logits);
  assert_true(fabs(result.loss - loss) < 1e-5);
  ch_forward_result_free(&result);

  request.cached = 2;
  request.cache_keys = CH_PRECISION_F16;
  must(ch_forward(model, &request, &result, &error));
  assert_true(fabs(result.loss - loss) < 1e-3 && result.loss != loss);
  assert_int_equal(result.cache_tokens, B * T);
  assert_int_equal(result.cache_bytes_allocated, B * T * (32 * 2 + 32 * 4));
  ch_forward_result_free(&result);
  ch_session_free(session);
  ch_model_close(model);
}

static const ch_gradient *find(const ch_forward_result *result, const char *name) {
  for (int64_t i = 0; i < result->gradient_count; i++)
    if (strcmp(result->gradients[i].name, name) == 0) return &result->gradients[i];
  fail_msg("no gradient of %s", name);
  return NULL;
}

/* Over the vocabulary, the gradient of the logits sums to 0, and so does the gradient of the LM head. In the
   gradient of the embedding, rows of absent tokens are zero. */
static void gradients_are_those_of_the_loss(void **state) {
  (void)state;
  ch_forward_request request = whole;
  request.gradients = true;
  ch_model *wide = exact(CH_PRECISION_F64, true), *narrow = exact(CH_PRECISION_F32, true);
  ch_forward_result reference, result;
  must(ch_forward(wide, &request, &reference, &error));
  must(ch_forward(narrow, &request, &result, &error));
  assert_int_equal(reference.gradient_count, 3 + 2 * 9);
  assert_int_equal(result.gradient_count, reference.gradient_count);
  for (int64_t i = 0; i < result.gradient_count; i++) {
    const ch_gradient *a = &result.gradients[i], *b = &reference.gradients[i];
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->type, CH_PRECISION_F32);
    assert_int_equal(b->type, CH_PRECISION_F64);
    int64_t count = 1;
    for (int r = 0; r < a->rank; r++) count *= a->shape[r];
    double largest = 0;
    for (int64_t k = 0; k < count; k++) largest = fmax(largest, fabs(((const double *)b->data)[k]));
    assert_true(largest > 0);
    for (int64_t k = 0; k < count; k++)
      assert_true(fabs((double)((const float *)a->data)[k] - ((const double *)b->data)[k]) < 1e-4 * largest);
  }
  const ch_gradient *head = find(&reference, "lm_head.weight"),
                    *embedding = find(&reference, "model.embed_tokens.weight");
  assert_int_equal(head->rank, 2);
  assert_int_equal(head->shape[0], V);
  assert_int_equal(head->shape[1], D);
  for (int d = 0; d < D; d++) {
    double sum = 0;
    for (int v = 0; v < V; v++) sum += ((const double *)head->data)[v * D + d];
    assert_true(fabs(sum) < 1e-12);
  }
  for (int v = 0; v < V; v++) {
    bool there = false, any = false;
    /* The last token predicts nothing, so it gives its row no gradient. */
    for (int b = 0; b < B; b++)
      for (int t = 0; t + 1 < T; t++) there = there || tokens[b][t] == v;
    for (int d = 0; d < D; d++) any = any || ((const double *)embedding->data)[v * D + d] != 0;
    assert_int_equal(any, there);
  }
  ch_forward_result_free(&result);
  ch_forward_result_free(&reference);
  ch_model_close(narrow);
  ch_model_close(wide);
}

/* --- files -------------------------------------------------------------------------------------------------- */

static void write_tokens(const char *path) {
  static const char header[] = "{\"tokens\":{\"dtype\":\"I32\",\"shape\":[2,5],\"data_offsets\":[0,40]}}    ";
  uint64_t size = sizeof header - 1;
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(&size, 8, 1, file), 1);
  assert_int_equal(fwrite(header, 1, size, file), size);
  assert_int_equal(fwrite(tokens, sizeof tokens, 1, file), 1);
  assert_int_equal(fclose(file), 0);
}

static json_t *header_of(const char *path) {
  uint64_t size = 0;
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(&size, 8, 1, file), 1);
  char *text = calloc(1, size + 1);
  assert_int_equal(fread(text, 1, size, file), size);
  fclose(file);
  json_error_t problem;
  json_t *header = json_loads(text, 0, &problem);
  free(text);
  assert_non_null(header);
  return header;
}

static void files_are_read_and_written(void **state) {
  (void)state;
  char path[] = "/tmp/crosshead-forward-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  write_tokens(path);
  ch_model *model = exact(CH_PRECISION_F32, true);
  ch_forward_request request = {.gradients = true};
  must(ch_forward_read(path, model, &request, &error));
  assert_int_equal(request.sequences, B);
  assert_int_equal(request.length, T);
  assert_memory_equal(request.tokens, tokens, sizeof tokens);
  assert_true(request.gradients);
  ch_forward_result result;
  must(ch_forward(model, &request, &result, &error));
  ch_forward_request_free(&request);
  assert_null(request.tokens);
  must(ch_forward_write(path, &result, &error));
  json_t *header = header_of(path);
  int64_t shape[3] = {0};
  assert_int_equal(json_unpack(json_object_get(json_object_get(header, "logits"), "shape"), "[I,I,I]",
                               (json_int_t *)&shape[0], (json_int_t *)&shape[1], (json_int_t *)&shape[2]),
                   0);
  assert_int_equal(shape[0], B);
  assert_int_equal(shape[1], T);
  assert_int_equal(shape[2], V);
  assert_non_null(json_object_get(header, "loss"));
  assert_non_null(json_object_get(header, "grad.lm_head.weight"));
  json_decref(header);
  /* The file has no tokens. */
  assert_int_equal(ch_forward_read(path, model, &request, &error), CH_ERROR_FORMAT);
  assert_non_null(strstr(error.message, "no tensor named tokens"));
  assert_int_equal(remove(path), 0);
  ch_forward_result_free(&result);
  ch_model_close(model);
}

static void what_the_model_cannot_do_is_refused(void **state) {
  (void)state;
  ch_model *model = NULL;
  ch_session *session = NULL;
  ch_forward_result result;
  assert_int_equal(ch_model_open_exact(LLAMA, CH_PRECISION_BF16, true, &model, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_model_open_exact(LLAMA, CH_PRECISION_Q8_0, false, &model, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_model_open_exact("/nonexistent", 0, false, &model, &error), CH_ERROR_IO);
  assert_null(model);
  model = exact(CH_PRECISION_F64, false);
  assert_int_equal(ch_session_create(model, NULL, &session, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "F64"));
  ch_forward_request request = whole;
  request.cached = 1;
  assert_int_equal(ch_forward(model, &request, &result, &error), CH_ERROR_ARGUMENT);
  ch_model_close(model);
  model = exact(CH_PRECISION_F32, false);
  request = (ch_forward_request){.sequences = 1, .length = 1};
  assert_int_equal(ch_forward(model, &request, &result, &error), CH_ERROR_ARGUMENT);
  request = (ch_forward_request){.tokens = (int32_t[]){V}, .sequences = 1, .length = 1};
  assert_int_equal(ch_forward(model, &request, &result, &error), CH_ERROR_ARGUMENT);
  request = (ch_forward_request){.tokens = tokens[0], .sequences = 1, .length = 1, .gradients = true};
  assert_int_equal(ch_forward(model, &request, &result, &error), CH_ERROR_ARGUMENT);
  request.gradients = false;
  request.cache = CH_PRECISION_Q4_K;
  request.cached = 1;
  assert_int_equal(ch_forward(model, &request, &result, &error), CH_ERROR_ARGUMENT);
  ch_model_close(model);
  ch_model *trained = exact(CH_PRECISION_F32, true);
  request = whole;
  request.gradients = true;
  request.cached = 1;
  assert_int_equal(ch_forward(trained, &request, &result, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "has no gradients"));
  ch_model_close(trained);
  ch_forward_result_free(NULL);
  ch_forward_request_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_and_loss_are_those_of_a_session),
      cmocka_unit_test(gradients_are_those_of_the_loss),
      cmocka_unit_test(files_are_read_and_written),
      cmocka_unit_test(what_the_model_cannot_do_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
