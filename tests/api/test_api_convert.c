/* Tests quantising, importing and exporting through the public interface: the outputs can be opened and
 * run. */
#include "api_testing.h"

enum { V = 2048, TOKENS = 12 };
static const int32_t tokens[TOKENS] = {1, 80, 147, 201, 282, 215, 286, 598, 629, 10, 208, 183};

/* Writes the logits after each token to `to` [TOKENS, V]. */
static void logits_of(const char *directory, float *to) {
  ch_model *model;
  ch_session *session;
  const float *logits;
  must(ch_model_open(directory, &model, &error));
  must(ch_session_create(model, NULL, &session, &error));
  must(ch_session_feed_all(session, tokens, TOKENS, &logits, &error));
  memcpy(to, logits, TOKENS * V * sizeof *to);
  ch_session_free(session);
  ch_model_close(model);
}

/* Returns the largest difference from MODEL's logits, as a share of MODEL's largest logit. */
static double distance(const char *directory) {
  static float original[TOKENS * V], got[TOKENS * V];
  logits_of(MODEL, original);
  logits_of(directory, got);
  double most = 0, largest = 0;
  for (int i = 0; i < TOKENS * V; i++) {
    most = fmax(most, fabs((double)original[i]));
    largest = fmax(largest, fabs((double)original[i] - (double)got[i]));
  }
  return largest / most;
}

static void fewer_bits_are_further_away(void **state) {
  (void)state;
  static const ch_precision types[] = {CH_PRECISION_BF16, CH_PRECISION_Q8_0, CH_PRECISION_Q4_0};
  static const char *const names[] = {"bf16", "q8_0", "q4_0"};
  double last_distance = 0, last_bytes = 1e9;
  for (int i = 0; i < 3; i++) {
    progress_watch watch = {0};
    ch_quantize_settings settings;
    ch_quantize_defaults(&settings);
    assert_int_equal(settings.type, CH_PRECISION_Q8_0);
    settings.type = types[i];
    settings.progress = watch_progress;
    settings.user = &watch;
    char *json;
    must(ch_quantize(MODEL, at(names[i]), &settings, &json, &error));
    json_t *figures = read_json(json);
    assert_string_equal(text_of(figures, "type"), names[i]);
    double bytes = number_of(figures, "bytes"), away = distance(at(names[i]));
    assert_true(bytes < last_bytes && bytes < number_of(figures, "bytes_before"));
    assert_true(number_of(figures, "matrices") > 0);
    assert_true(watch.last > 0);
    if (!(away > last_distance && away < 0.3)) fail_msg("%s is %g away", names[i], away);
    last_distance = away;
    last_bytes = bytes;
    json_decref(figures);
  }
  /* Quantised models are refused, because weights would be rounded twice. */
  assert_int_equal(ch_quantize(at("q4_0"), at("again"), NULL, NULL, &error), CH_ERROR_CONFIG);
  assert_false(is_there(at("again/config.json")));
}

static void impossible_quantisations_are_refused(void **state) {
  (void)state;
  ch_quantize_settings settings = {.type = CH_PRECISION_F32};
  assert_int_equal(ch_quantize(MODEL, at("none"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  settings.type = (ch_precision)99;
  assert_int_equal(ch_quantize(MODEL, at("none"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_quantize(MODEL, MODEL, NULL, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_quantize(NULL, at("none"), NULL, NULL, &error), CH_ERROR_ARGUMENT);
  progress_watch watch = {.cancel_at = 2};
  settings = (ch_quantize_settings){.type = CH_PRECISION_Q8_0, .progress = watch_progress, .user = &watch};
  assert_int_equal(ch_quantize(MODEL, at("none"), &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_false(is_there(at("none/config.json")));
  assert_false(is_there(at("none/model.safetensors")));
}

static void a_model_comes_back_from_gguf_as_it_was(void **state) {
  (void)state;
  ch_export_settings out;
  ch_export_defaults(&out);
  out.format = CH_EXPORT_GGUF;
  char *json;
  must(ch_export(MODEL, at("model.gguf"), &out, &json, &error));
  json_t *figures = read_json(json);
  assert_string_equal(text_of(figures, "format"), "gguf");
  assert_true(json_is_true(json_object_get(figures, "tokenizer")));
  json_decref(figures);
  assert_int_equal(ch_export(MODEL, at("model.gguf"), &out, NULL, &error), CH_ERROR_ARGUMENT);

  progress_watch watch = {0};
  ch_import_settings in;
  ch_import_defaults(&in);
  in.progress = watch_progress;
  in.user = &watch;
  must(ch_import(at("model.gguf"), at("back"), &in, &json, &error));
  figures = read_json(json);
  assert_int_equal(number_of(figures, "parameters_total"), 656000);
  json_decref(figures);
  assert_true(watch.last > 900 && watch.total == 1000);
  double away = distance(at("back"));
  if (!(away < 1e-6)) fail_msg("it came back %g away", away);
}

static void own_code_takes_the_place_of_a_class(void **state) {
  (void)state;
  ch_export_settings out;
  ch_export_defaults(&out);
  out.format = CH_EXPORT_TRANSFORMERS;
  for (int own = 0; own < 2; own++) {
    out.own_code = own;
    char *json;
    must(ch_export(MODEL, at(own ? "code" : "class"), &out, &json, &error));
    json_t *figures = read_json(json);
    assert_string_equal(text_of(figures, "model_type"), own ? "crosshead" : "llama");
    json_decref(figures);
    assert_int_equal(is_there(at(own ? "code/modeling_crosshead.py" : "class/modeling_crosshead.py")), own);
  }
  double away = distance(at("code"));
  if (away != 0) fail_msg("it came back %g away", away);
}

static void quantised_matrices_are_counted_whether_they_stay_so_or_not(void **state) {
  (void)state;
  ch_export_settings out;
  ch_export_defaults(&out);
  out.format = CH_EXPORT_GGUF;
  out.type = CH_PRECISION_Q8_0;
  must(ch_export(MODEL, at("q8.gguf"), &out, NULL, &error));
  static const char *const names[] = {"floats", "blocks"};
  int64_t counts[2] = {-1, -1};
  for (int keep = 0; keep < 2; keep++) {
    ch_import_settings in;
    ch_import_defaults(&in);
    in.keep_blocks = keep;
    in.matrices_quantised = &counts[keep];
    char *json;
    must(ch_import(at("q8.gguf"), at(names[keep]), &in, &json, &error));
    json_t *figures = read_json(json);
    assert_int_equal(number_of(figures, "matrices_in_blocks"), keep ? counts[keep] : 0);
    json_decref(figures);
  }
  assert_true(counts[0] > 0);
  assert_int_equal(counts[0], counts[1]);
}

static void a_directory_is_written_in_the_type_that_is_asked_for(void **state) {
  (void)state;
  ch_export_settings out;
  ch_export_defaults(&out);
  out.type = CH_PRECISION_F16;
  out.no_tokenizer = true;
  char *json;
  must(ch_export(MODEL, at("f16"), &out, &json, &error));
  json_t *figures = read_json(json);
  assert_string_equal(text_of(figures, "dtype"), "f16");
  assert_false(json_is_true(json_object_get(figures, "tokenizer")));
  json_decref(figures);
  double away = distance(at("f16"));
  assert_true(away > 0 && away < 1e-2);
  struct stat before, after;
  assert_int_equal(stat(MODEL "/model.safetensors", &before), 0);
  assert_int_equal(stat(at("f16/model.safetensors"), &after), 0);
  assert_true(after.st_size < before.st_size * 6 / 10);
  out.type = CH_PRECISION_Q8_0;
  assert_int_equal(ch_export(MODEL, at("q8"), &out, NULL, &error), CH_ERROR_ARGUMENT);
  out.type = CH_PRECISION_F32;
  out.format = (ch_export_format)7;
  assert_int_equal(ch_export(MODEL, at("q8"), &out, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_import(at("nothing"), at("q8"), NULL, NULL, &error), CH_ERROR_IO);
  progress_watch watch = {.cancel_at = 1};
  ch_import_settings in = {.progress = watch_progress, .user = &watch};
  assert_int_equal(ch_import(MODEL, at("q8"), &in, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_false(is_there(at("q8/config.json")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fewer_bits_are_further_away),
      cmocka_unit_test(impossible_quantisations_are_refused),
      cmocka_unit_test(a_model_comes_back_from_gguf_as_it_was),
      cmocka_unit_test(own_code_takes_the_place_of_a_class),
      cmocka_unit_test(quantised_matrices_are_counted_whether_they_stay_so_or_not),
      cmocka_unit_test(a_directory_is_written_in_the_type_that_is_asked_for),
  };
  return cmocka_run_group_tests(tests, make_work, remove_work);
}
