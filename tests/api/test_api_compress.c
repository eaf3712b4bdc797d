/* Tests compression through the public interface: the result is smaller and computes nearly the same. */
#include "api_testing.h"

static double loss_of(const char *directory) {
  ch_model *model;
  char *json;
  must(ch_model_open(directory, &model, &error));
  must(ch_evaluate_text(model, at("text.txt"), NULL, &json, &error));
  json_t *figures = read_json(json);
  double loss = number_of(figures, "loss");
  json_decref(figures);
  ch_model_close(model);
  return loss;
}

static int begin(void **state) {
  if (make_work(state) != 0) return -1;
  static char text[40000];
  static const char *const sentences[] = {"Once upon a time, there was a little girl named Lily. ",
                                          "She loved to play outside in the park. ",
                                          "One day she saw a big red ball. ",
                                          "Her mom said it was time to go home. ",
                                          "They were very happy. ",
                                          "The dog ran to the tree and found a bird. ",
                                          "Tom wanted to help his friend. "};
  uint32_t random = 5;
  while (strlen(text) + 80 < sizeof text) {
    random = random * 1664525u + 1013904223u;
    strcat(text, sentences[(random >> 24) % 7]);
  }
  write_file(at("text.txt"), text);
  return 0;
}

static ch_compress_settings usual(ch_compression method) {
  static char text[256];
  strcpy(text, at("text.txt"));
  ch_compress_settings settings;
  ch_compress_defaults(&settings);
  settings.method = method;
  if (method != CH_COMPRESSION_MEA) settings.ratio = 0.3;
  if (method == CH_COMPRESSION_MEA) settings.component_heads = 1;
  if (method != CH_COMPRESSION_SVD) settings.calibration = text;
  return settings;
}

static void every_method_takes_away_what_was_asked(void **state) {
  (void)state;
  static const char *const names[] = {"mea", "masa", "svd-llm", "svd", "basis-sharing"};
  double original = loss_of(MODEL), whitened = 0;
  for (int method = 0; method < 5; method++) {
    progress_watch watch = {0};
    ch_compress_settings settings = usual((ch_compression)method);
    settings.progress = watch_progress;
    settings.user = &watch;
    char *json;
    must(ch_compress_model(MODEL, at(names[method]), &settings, &json, &error));
    json_t *report = read_json(json), *before = json_object_get(report, "before"),
           *after = json_object_get(report, "after");
    assert_string_equal(text_of(report, "method"), names[method]);
    assert_true(watch.total > 0);
    assert_true(json_array_size(json_object_get(report, "matrices")) > 0);
    if (method == CH_COMPRESSION_MEA)
      assert_true(number_of(after, "cache_elements_per_token") <
                  number_of(before, "cache_elements_per_token"));
    else
      assert_true(number_of(after, "parameters_attention") <=
                  0.7 * number_of(before, "parameters_attention"));
    double loss = loss_of(at(names[method]));
    if (!(loss != original && loss < original + 3))
      fail_msg("%s: %g, before %g", names[method], loss, original);
    if (method == CH_COMPRESSION_SVD_LLM) whitened = loss;
    if (method == CH_COMPRESSION_SVD) assert_true(whitened < loss); /* statistics of the inputs help */
    json_decref(report);
  }
}

static void note_stage(const char *name, void *user) {
  strcat(strcat(user, name), ";");
}

static json_t *matrix_of(const json_t *report, const char *projection) {
  size_t i;
  json_t *matrix;
  json_array_foreach(json_object_get(report, "matrices"), i, matrix) {
    if (strcmp(text_of(matrix, "projection"), projection) == 0) return matrix;
  }
  return NULL;
}

static void a_report_says_what_was_measured(void **state) {
  (void)state;
  static char stages[4096];
  char *json, *table = NULL;
  ch_compress_settings settings = usual(CH_COMPRESSION_SVD_LLM);
  settings.keep = "q,o_proj";
  settings.report = true;
  settings.command = "a test";
  settings.name = "elsewhere";
  settings.table = &table;
  settings.threads = 1;
  settings.stage = note_stage;
  settings.user = stages;
  must(ch_compress_model(MODEL, at("reported"), &settings, &json, &error));
  json_t *report = read_json(json), *before = json_object_get(report, "before"),
         *after = json_object_get(report, "after");
  /* The settings exclude queries and outputs. */
  assert_non_null(matrix_of(report, "k_proj"));
  assert_non_null(matrix_of(report, "v_proj"));
  assert_null(matrix_of(report, "q_proj"));
  assert_null(matrix_of(report, "o_proj"));
  assert_true(number_of(after, "perplexity") > number_of(before, "perplexity"));
  assert_true(number_of(before, "decode_tokens_per_second") > 0);
  assert_string_equal(text_of(report, "command"), "a test");
  assert_string_equal(text_of(report, "out"), "elsewhere");
  json_t *written = json_load_file(at("reported/report.json"), 0, NULL);
  assert_int_equal(json_object_size(written), json_object_size(report));
  json_decref(written);
  json_decref(report);
  assert_true(is_there(at("reported/report.html")));
  assert_non_null(strstr(table, "perplexity"));
  ch_free(table);
  assert_int_equal(strncmp(stages, "perplexity before;", 18), 0);
  assert_non_null(strstr(stages, ";perplexity after;"));

  /* Without a report, nothing is measured. */
  settings = usual(CH_COMPRESSION_SVD);
  must(ch_compress_model(MODEL, at("plain_svd"), &settings, &json, &error));
  report = read_json(json);
  assert_false(json_is_number(json_object_get(json_object_get(report, "before"), "perplexity")));
  assert_false(is_there(at("plain_svd/report.json")));
  json_decref(report);
}

static void a_budget_chooses_what_costs_least(void **state) {
  (void)state;
  char *json;
  ch_compress_settings settings = usual(CH_COMPRESSION_MEA);
  settings.component_heads = -1;
  settings.budget = 0.25;
  must(ch_compress_model(MODEL, at("quarter"), &settings, &json, &error));
  json_t *report = read_json(json), *profile = json_object_get(report, "profile");
  const json_t *before = json_object_get(report, "before"), *after = json_object_get(report, "after");
  double whole = number_of(before, "cache_elements_per_token");
  assert_true(number_of(after, "cache_elements_per_token") <= 0.75 * whole);
  assert_true(number_of(after, "cache_elements_per_token") > 0.5 * whole);
  assert_true(json_is_object(profile));
  json_decref(report);

  /* One of the two layers is compressed, the one whose loss grows least. */
  settings.component_heads = 2;
  settings.budget = 0.5;
  must(ch_compress_model(MODEL, at("half"), &settings, &json, &error));
  report = read_json(json);
  assert_true(number_of(json_object_get(report, "after"), "cache_elements_per_token") == 0.75 * whole);
  json_decref(report);

  /* A compressed model can be compressed again, but not with a budget. */
  settings = usual(CH_COMPRESSION_MEA);
  must(ch_compress_model(at("half"), at("less"), &settings, &json, &error));
  report = read_json(json);
  assert_true(number_of(json_object_get(report, "after"), "cache_elements_per_token") == 0.25 * whole);
  json_decref(report);
  settings.budget = 0.5;
  assert_int_equal(ch_compress_model(at("half"), at("none"), &settings, NULL, &error), CH_ERROR_CONFIG);
}

static void a_model_whose_heads_are_mixed_becomes_a_plain_one(void **state) {
  (void)state;
  char *json;
  must(ch_absorb_model(at("mea"), at("plain"), NULL, &json, &error));
  json_t *figures = read_json(json);
  assert_true(number_of(figures, "mixed_layers_folded") > 0);
  assert_true(number_of(figures, "cache_elements_per_token") >
              number_of(figures, "cache_elements_per_token_before"));
  json_decref(figures);
  assert_true(fabs(loss_of(at("plain")) - loss_of(at("mea"))) < 1e-4);
  ch_absorb_settings settings;
  ch_absorb_defaults(&settings);
  bool nonlinear = true;
  settings.keep_cache = true;
  settings.nonlinear_left = &nonlinear;
  must(ch_absorb_model(at("mea"), at("mixed"), &settings, &json, &error));
  assert_false(nonlinear);
  figures = read_json(json);
  assert_true(number_of(figures, "mixed_layers_left") > 0);
  json_decref(figures);
  settings.type = CH_PRECISION_Q8_0;
  assert_int_equal(ch_absorb_model(at("mea"), at("none"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_absorb_model(at("mea"), at("mea"), NULL, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_absorb_model(NULL, at("none"), NULL, NULL, &error), CH_ERROR_ARGUMENT);
}

/* Returns the bytes of the weights, and the logits after a few tokens. */
static uint64_t run_with(const ch_model_settings *settings, float logits[2048]) {
  ch_model *model;
  ch_session *session;
  ch_memory memory;
  const float *got;
  must(ch_model_open_with(at("masa"), settings, &model, &error));
  must(ch_memory_estimate(model, NULL, &memory, &error));
  must(ch_session_create(model, NULL, &session, &error));
  must(ch_session_feed(session, (const int32_t[]){1, 80, 147, 201}, 4, &got, &error));
  memcpy(logits, got, 2048 * sizeof *logits);
  ch_session_free(session);
  ch_model_close(model);
  return memory.weights;
}

static void a_kept_dictionary_takes_less_memory_and_says_the_same(void **state) {
  (void)state;
  static float written_out[2048], kept[2048], preloaded[2048];
  uint64_t whole = run_with(NULL, written_out);
  assert_true(run_with(&(ch_model_settings){.keep_dictionary = true}, kept) < whole);
  assert_int_equal(run_with(&(ch_model_settings){.preload = true}, preloaded), whole);
  assert_memory_equal(written_out, preloaded, sizeof written_out);
  for (int i = 0; i < 2048; i++) assert_true(fabsf(kept[i] - written_out[i]) < 1e-3f);
  ch_model *model;
  assert_int_equal(ch_model_open_with(MODEL, &(ch_model_settings){.keep_dictionary = true}, &model, &error),
                   CH_ERROR_ARGUMENT);
  assert_int_equal(
      ch_model_open_with(MODEL, &(ch_model_settings){.tokenizer = at("none.json")}, &model, &error),
      CH_ERROR_IO);
  assert_null(model);
  must(ch_model_open_with(MODEL, &(ch_model_settings){.tokenizer = TEST_DATA "/text/spm.json"}, &model,
                          &error));
  int32_t own[64], other[64];
  size_t own_count, other_count;
  must(ch_encode(model, "Once upon a time", 16, true, other, 64, &other_count, &error));
  ch_model_close(model);
  must(ch_model_open(MODEL, &model, &error));
  must(ch_encode(model, "Once upon a time", 16, true, own, 64, &own_count, &error));
  assert_true(own_count != other_count || memcmp(own, other, own_count * sizeof *own) != 0);
  ch_model_close(model);
}

static void impossible_compressions_are_refused(void **state) {
  (void)state;
  for (int i = 0; i < 26; i++) {
    ch_compress_settings settings =
        usual(i < 6 || (i >= 16 && i < 22) ? CH_COMPRESSION_MEA : CH_COMPRESSION_SVD_LLM);
    if (i == 0) settings.component_heads = 0;
    if (i == 1) settings.component_heads = 1000;
    if (i == 2) settings.ratio = 0.5;
    if (i == 3) settings.first_layer = 50;
    if (i == 4) settings.atoms = 2;
    if (i == 5) settings.type = CH_PRECISION_Q8_0;
    if (i == 6) settings.ratio = 1;
    if (i == 7) settings.calibration = NULL;
    if (i == 8) settings.calibration_tokens = 50;
    if (i == 9) settings.component_heads = 1;
    if (i == 10) settings.method = (ch_compression)7;
    if (i == 11) settings.groups = -1;
    if (i == 12) settings.keep = "q,w";
    if (i == 13) settings.budget = 0.5;
    if (i == 14) settings.data_free = true;
    if (i == 15) settings.text = settings.calibration; /* needs a report */
    if (i == 16) settings.component_heads = -1;
    if (i == 17) settings.budget = 1.5;
    if (i == 18) settings.threads = -1;
    if (i == 19) settings.calibration = NULL, settings.profile = true;
    if (i == 20) settings.ranks = CH_RANKS_SEARCHED;
    if (i == 21) settings.weighting = CH_ERROR_WEIGHTING_PAPER;
    if (i == 22) settings.weighting = CH_ERROR_WEIGHTING_PAPER; /* ranks by share do not allow it */
    if (i == 23) settings.ranks = (ch_ranks)4;
    if (i == 24) settings.weighting = (ch_error_weighting)2, settings.ranks = CH_RANKS_SEARCHED;
    if (i == 25) settings.group_size = 0;
    *error.message = 0;
    if (ch_compress_model(MODEL, at("none"), &settings, NULL, &error) != CH_ERROR_ARGUMENT)
      fail_msg("case %d: \"%s\"", i, error.message);
    assert_true(*error.message);
    assert_false(is_there(at("none/config.json")));
  }
  ch_compress_settings settings = usual(CH_COMPRESSION_MEA);
  settings.component_heads = 1000;
  assert_int_equal(ch_compress_model(MODEL, at("none"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(strncmp(error.message, "component_heads 1000: ", 22), 0);
  assert_string_equal(error.setting, "component_heads");
  settings = usual(CH_COMPRESSION_SVD);
  assert_int_equal(ch_compress_model(MODEL, MODEL, &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_compress_model(at("nothing"), at("none"), &settings, NULL, &error), CH_ERROR_IO);
  progress_watch watch = {.cancel_at = 2};
  settings.progress = watch_progress;
  settings.user = &watch;
  assert_int_equal(ch_compress_model(MODEL, at("none"), &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_false(is_there(at("none/config.json")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_method_takes_away_what_was_asked),
      cmocka_unit_test(a_report_says_what_was_measured),
      cmocka_unit_test(a_budget_chooses_what_costs_least),
      cmocka_unit_test(a_model_whose_heads_are_mixed_becomes_a_plain_one),
      cmocka_unit_test(a_kept_dictionary_takes_less_memory_and_says_the_same),
      cmocka_unit_test(impossible_compressions_are_refused),
  };
  return cmocka_run_group_tests(tests, begin, remove_work);
}
