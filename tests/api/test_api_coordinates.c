/* Tests the coordinate check through the public interface: it distinguishes flat sizes from growing ones and
 * lists the activations of every mechanism by name. */
#include "api_testing.h"

static char data[256];

static int begin(void **state) {
  if (make_work(state) != 0) return -1;
  static char text[60000];
  static const char *const words[] = {"the king ", "a sailor ", "sees ",   "follows ", "the river. ",
                                      "nobody ",   "three ",    "apples ", "under ",   "stones,\n"};
  uint32_t random = 3;
  while (strlen(text) + 20 < sizeof text) {
    random = random * 1664525u + 1013904223u;
    strcat(text, words[(random >> 24) % 10]);
  }
  strcpy(data, at("text.txt"));
  write_file(data, text);
  return 0;
}

typedef struct diary {
  int models;
  bool stops;
} diary;

static bool on_event(const ch_coordinate_event *event, void *user) {
  diary *d = user;
  if (event->kind != CH_COORDINATE_EVENT_MODEL) return true;
  assert_true(*event->as.model.name && event->as.model.width >= 32 && event->as.model.index == d->models &&
              event->as.model.index < event->as.model.count);
  d->models++;
  return true;
}

static bool on_stop(void *user) {
  return ((const diary *)user)->stops;
}

static ch_coordinate_settings usual(const char *out, diary *d) {
  ch_coordinate_settings settings;
  ch_coordinates_defaults(&settings);
  settings.text.data = data;
  settings.report.out = at(out);
  settings.mechanisms = "gqa";
  settings.vocab = 300;
  settings.layers = 2;
  settings.batch = 2;
  settings.sequence = 32;
  settings.seeds = 2;
  settings.threads = 2;
  settings.stop = on_stop;
  settings.user = d;
  settings.event = on_event;
  settings.widths = "32,64,128,256";
  settings.steps = 5;
  return settings;
}

static const ch_coordinate *activation(const ch_coordinate_model *model, const char *name) {
  for (int i = 0; i < model->activation_count; i++)
    if (strcmp(model->activations[i].name, name) == 0) return &model->activations[i];
  fail_msg("%s has no activation %s", model->name, name);
  return NULL;
}

static ch_coordinates *measured(ch_coordinate_settings settings) {
  ch_coordinates *check;
  must(ch_coordinates_measure(&settings, &check, &error));
  return check;
}

/* Checks the sizes before training against theory: the output of a matrix of independent weights on a normed
   input, and the products of such queries and keys. Initial weights are normal and truncated at 3 sigma,
   which leaves 0.973 of the variance. */
static void sizes_begin_as_the_initial_weights_say(void **state) {
  (void)state;
  const double truncated = sqrt(0.973);
  for (int p = CH_PARAMETRIZATION_STANDARD; p <= CH_PARAMETRIZATION_SPECTRAL; p++) {
    bool spectral = p == CH_PARAMETRIZATION_SPECTRAL;
    diary d = {0};
    ch_coordinate_settings settings = usual(spectral ? "first-spectral" : "first-standard", &d);
    settings.parametrization = (ch_parametrization)p;
    settings.steps = 1;
    ch_coordinates *check = measured(settings);
    ch_coordinate_grid grid;
    ch_coordinates_grid(check, &grid);
    assert_true(grid.width_count == 4 && grid.step_count == 2 && grid.model_count == 1);
    assert_true(grid.heads == 4 && grid.layers == 2 && grid.seeds == 2 &&
                grid.parametrization == settings.parametrization);
    assert_float_equal(grid.lr, spectral ? 4e-3 : 2e-3, 1e-12);
    const ch_coordinate_model *model = ch_coordinates_model(check, 0);
    for (int w = 0; w < 4; w++) {
      double inputs = (double)grid.widths[w];
      double expected = truncated * (spectral ? 1 : 0.02 * sqrt(inputs));
      double q = activation(model, "q_proj")->sizes[w], k = activation(model, "k_proj")->sizes[w];
      assert_float_equal(q, expected, 0.1 * expected);
      assert_float_equal(k, expected, 0.1 * expected);
      assert_float_equal(activation(model, "scores")->sizes[w], q * k, 0.25 * q * k);
      assert_float_equal(activation(model, "embedding")->sizes[w], 1, 1e-9);
      assert_float_equal(activation(model, "q_proj")->changes[w], 0, 0);
      assert_true(activation(model, "q_proj")->changes[4 + w] > 0);
    }
    ch_coordinates_free(check);
  }
}

/* Checks the slopes on this text. Those of projections are within 0.1 with the spectral rule and above 0.5
   with the standard one. Those of logits are -0.26 and +0.84, because the LM head's rows learn more slowly in
   wide models than flat logits would require. */
static void the_spectral_rule_is_flat_where_the_standard_one_is_not(void **state) {
  (void)state;
  static const char *const names[] = {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"};
  diary d = {0};
  ch_coordinate_settings settings = usual("spectral", &d);
  ch_coordinates *spectral = measured(settings);
  assert_int_equal(d.models, 4);
  d.models = 0;
  settings = usual("standard", &d);
  settings.parametrization = CH_PARAMETRIZATION_STANDARD;
  ch_coordinates *standard = measured(settings);
  ch_coordinate_grid grid;
  ch_coordinates_grid(spectral, &grid);
  assert_int_equal(grid.step_count, 4); /* 0, 1, 2, 5 */
  assert_true(grid.steps[0] == 0 && grid.steps[2] == 2 && grid.steps[3] == 5);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const ch_coordinate *a = activation(ch_coordinates_model(spectral, 0), names[i]);
    const ch_coordinate *b = activation(ch_coordinates_model(standard, 0), names[i]);
    if (!a->flat) fail_msg("%s is not flat with the spectral rule: its slope is %g", names[i], a->slopes[3]);
    if (b->flat) fail_msg("%s is flat with the standard rule: its slope is %g", names[i], b->slopes[3]);
  }
  double slope = activation(ch_coordinates_model(spectral, 0), "logits")->slopes[3];
  const ch_coordinate *grows = activation(ch_coordinates_model(standard, 0), "logits");
  assert_true(fabs(slope) < 0.45 && grows->slopes[3] > 0.6 && !grows->flat);
  ch_coordinates_free(spectral);
  ch_coordinates_free(standard);
}

static void assert_names(const ch_coordinate_model *model, const char *names) {
  char list[300] = "";
  for (int i = 0; i < model->activation_count; i++) {
    strcat(list, model->activations[i].name);
    strcat(list, model->activations[i].of_stream ? "* " : " ");
  }
  assert_string_equal(list, names);
}

static void every_projection_is_measured_by_its_name(void **state) {
  (void)state;
  diary d = {0};
  ch_coordinate_settings settings = usual("names", &d);
  settings.mechanisms = "mla,mfa,mea,egmla,masa-qkvo,low-rank,talking";
  settings.layers = 3;
  settings.seeds = settings.steps = 1;
  settings.widths = "32,48";
  ch_coordinates *check = measured(settings);
  static const char *const of_ffn = "gate_proj up_proj down_proj* stream* logits ";
  static const char *const of_attention[] = {
      "embedding* kv_a_proj_with_mqa q_proj kv_b_proj scores attention o_proj* ",
      "embedding* k_proj v_proj q_a_proj q_b_proj scores attention o_proj* ",
      "embedding* k_proj v_proj q_proj k_mix v_mix scores attention o_proj* ",
      "embedding* kv_a_proj_with_mqa q_proj kv_b_proj kv_gate_embed kv_gate_proj scores attention o_proj* ",
      "embedding* k_proj v_proj q_proj scores attention o_proj* ",
      "embedding* k_proj.a v_proj.a q_proj.a k_proj.b v_proj.b q_proj.b scores attention o_proj.a o_proj.b* ",
      "embedding* k_proj v_proj q_proj scores attention o_proj* "};
  for (int m = 0; m < 7; m++) {
    char names[300];
    snprintf(names, sizeof names, "%s%s", of_attention[m], of_ffn);
    assert_names(ch_coordinates_model(check, m), names);
  }
  assert_null(ch_coordinates_model(check, 7));
  assert_null(ch_coordinates_model(check, -1));
  assert_int_equal(d.models, 14);
  ch_coordinates_free(check);
}

static void results_are_written_and_the_same_every_time(void **state) {
  (void)state;
  diary d = {0};
  ch_coordinate_settings settings = usual("twice", &d);
  settings.widths = "32,64";
  settings.steps = 2;
  ch_coordinates *check = measured(settings);
  char *text, path[300];
  must(ch_coordinates_json(check, &text, &error));
  json_t *first = read_json(text);
  must(ch_coordinates_table(check, &text, &error));
  assert_non_null(strstr(text, "gqa"));
  ch_free(text);
  must(ch_coordinates_page(check, &text, &error));
  assert_non_null(strstr(text, "</html>"));
  ch_free(text);
  ch_coordinates_free(check);
  snprintf(path, sizeof path, "%s/report.html", settings.report.out);
  assert_true(is_there(path));
  snprintf(path, sizeof path, "%s/results.json", settings.report.out);
  json_t *written = json_load_file(path, 0, NULL);
  assert_non_null(written);
  assert_string_equal(text_of(written, "parametrization"), "spectral");
  assert_true(number_of(written, "flat_slope") == CH_COORDINATE_FLAT);
  assert_true(number_of(json_object_get(written, "training"), "steps") == 2);
  const json_t *list =
      json_object_get(json_array_get(json_object_get(written, "mechanisms"), 0), "activations");
  assert_int_equal(json_array_size(list), 12);
  const json_t *sizes = json_object_get(json_array_get(list, 0), "sizes");
  assert_int_equal(json_array_size(sizes), 3);
  assert_int_equal(json_array_size(json_array_get(sizes, 2)), 2);
  json_decref(written);

  d.models = 0;
  check = measured(settings); /* in the same directory */
  must(ch_coordinates_json(check, &text, &error));
  json_t *second = read_json(text);
  assert_true(json_equal(json_object_get(first, "mechanisms"), json_object_get(second, "mechanisms")));
  json_decref(first);
  json_decref(second);
  ch_coordinates_free(check);
}

static void a_check_can_be_stopped(void **state) {
  (void)state;
  diary d = {.stops = true};
  ch_coordinates *check;
  ch_coordinate_settings settings = usual("stopped", &d);
  assert_int_equal(ch_coordinates_measure(&settings, &check, &error), CH_ERROR_INTERRUPTED);
  assert_null(check);
}

static void impossible_checks_are_refused(void **state) {
  (void)state;
  diary d = {0};
  static const struct {
    const char *widths, *mechanisms, *says;
    int64_t steps, heads, layers;
  } cases[] = {
      {"64", "gqa", "one width", 5, 0, 2},
      {"64,x", "gqa", "is not a list of widths", 5, 0, 2},
      {"64,,128", "gqa", "is not a list of widths", 5, 0, 2},
      {"", "gqa", "is not a list of widths", 5, 0, 2},
      {"64,1000000", "gqa", "from 8 to 65536", 5, 0, 2},
      {"128,64", "gqa", "must increase", 5, 0, 2},
      {"64,64", "gqa", "must increase", 5, 0, 2},
      {"64,100", "gqa", "100 does not divide into 8 heads", 5, 0, 2},
      {"64,128", "gqa", "64 does not divide into 48 heads", 5, 48, 2},
      {"16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32", "gqa", "more than 16", 5, 0, 2},
      {"64,128", "gqq", "did you mean gqa", 5, 0, 2},
      {"64,128", "a/config.json", "a/config.json", 5, 0, 2},
      {"64,128", "gqa", "steps are 0", 0, 0, 2},
      {"64,128", "gqa", "steps are 1001", 1001, 0, 2},
      {"64,128", "gqa", "layers", 5, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_coordinate_settings settings = usual("none", &d);
    settings.widths = cases[i].widths;
    settings.mechanisms = cases[i].mechanisms;
    settings.steps = cases[i].steps;
    settings.heads = cases[i].heads;
    settings.layers = cases[i].layers;
    *error.message = 0;
    if (ch_coordinates_check(&settings, &error) == CH_OK || !strstr(error.message, cases[i].says))
      fail_msg("case %zu: \"%s\"", i, error.message);
    assert_null(strstr(error.message, "--"));
    assert_true(ch_coordinates_measure(&settings, NULL, &error) != CH_OK);
  }
  ch_coordinate_settings settings = usual("none", &d);
  settings.text.data = NULL;
  assert_int_equal(ch_coordinates_check(&settings, NULL), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_coordinates_check(NULL, NULL), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_coordinates_measure(NULL, NULL, NULL), CH_ERROR_ARGUMENT);
  assert_int_equal(d.models, 0);
  assert_false(is_there(at("none")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_begin_as_the_initial_weights_say),
      cmocka_unit_test(the_spectral_rule_is_flat_where_the_standard_one_is_not),
      cmocka_unit_test(every_projection_is_measured_by_its_name),
      cmocka_unit_test(results_are_written_and_the_same_every_time),
      cmocka_unit_test(a_check_can_be_stopped),
      cmocka_unit_test(impossible_checks_are_refused),
  };
  return cmocka_run_group_tests(tests, begin, remove_work);
}
