/* Tests heatmaps of trained models: the right matrices, with their numbers, each on its own scale. */
#include "small_models.h"

#include "io/model_files.h"
#include "report/page_matrices.h"

#define SIZES "'num_hidden_layers': 2, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'head_dim': 8"

/* Returns the sections for a model with these keys; *model receives the model. */
static char *sections_of(const char *keys, ch_model **model) {
  ch_text html = {0};
  ch_model_result run = {.name = "kha", .directory = "."};
  const ch_model_result *runs[] = {&run};
  ch_group group = {.name = "kha", .runs = runs, .count = 1};
  ch_summary summary = {.groups = &group, .count = 1, .seeds = 1};
  *model = model_of(keys, CH_F32);
  must(ch_model_write(directory, &(*model)->config, &(*model)->params, (*model)->weights.tensors, CH_F32,
                      &failure));
  ch_matrices_put(&summary, directory, &html);
  assert_false(html.failed);
  return html.data ? html.data : strdup("");
}

/* Returns the first figure. */
static json_t *figure_in(const char *html) {
  const char *start = strstr(html, "class=\"figure-data\">"),
             *end = start ? strstr(start, "</script>") : NULL;
  if (!end) fail_msg("no figure in: %s", html);
  start = strchr(start, '>') + 1;
  json_t *figure = json_loadb(start, (size_t)(end - start), 0, NULL);
  assert_non_null(figure);
  return figure;
}

static const float *tensor(const ch_model *model, const char *name) {
  int row = ch_params_find(&model->params, name);
  assert_in_range(row, 0, model->params.count - 1);
  return model->weights.tensors[row].data;
}

/* Asserts that a panel has a title and shows the matrix `data` [rows, columns]. */
static void assert_panel(const json_t *figure, size_t index, const char *title, const float *data, int rows,
                         int columns) {
  const json_t *panel = json_array_get(json_object_get(figure, "panels"), index);
  assert_string_equal(json_string_value(json_object_get(panel, "title")), title);
  const json_t *values = json_object_get(panel, "values");
  assert_int_equal(json_array_size(values), rows);
  for (int r = 0; r < rows; r++) {
    assert_int_equal(json_array_size(json_array_get(values, r)), columns);
    for (int c = 0; c < columns; c++)
      assert_float_equal(json_number_value(json_array_get(json_array_get(values, r), c)),
                         data[r * columns + c], 6e-5);
  }
}

static void knocking_is_shown_layer_by_layer_with_gates_apart(void **state) {
  (void)state;
  ch_model *model;
  char *html = sections_of(
      SIZES ", 'attention': {'type': 'gqa', 'knocking': {'type': 'mlp', 'on': ['k', 'v']}}", &model);
  json_t *figure = figure_in(html);
  assert_non_null(strstr(html, "Knocking projections of kha"));
  assert_int_equal(json_array_size(json_object_get(figure, "panels")), 2 * 2 * 3);
  assert_int_equal(json_integer_value(json_object_get(figure, "columns")), 6); /* one row per layer */
  int gates = 0;
  json_t *panel;
  size_t i;
  json_array_foreach(json_object_get(figure, "panels"), i, panel) {
    const char *title = json_string_value(json_object_get(panel, "title"));
    char name[96];
    int layer = title[6] - '0', scale = (int)json_integer_value(json_object_get(panel, "scale"));
    assert_int_equal(scale, strstr(title, ".gate") != NULL);
    gates += scale;
    snprintf(name, sizeof name, "model.layers.%d.self_attn.%s.weight", layer, title + 9);
    assert_panel(figure, i, title, tensor(model, name), 8, 8);
  }
  assert_int_equal(gates, 4);
  /* Matrices are clipped to values from 0 to 1, as in the paper. The scale of gates includes negative values. */
  const json_t *scales = json_object_get(figure, "scales");
  assert_float_equal(json_number_value(json_object_get(json_array_get(scales, 0), "low")), 0, 0);
  assert_float_equal(json_number_value(json_object_get(json_array_get(scales, 0), "high")), 1, 0);
  assert_true(json_number_value(json_object_get(json_array_get(scales, 1), "low")) < 0);
  json_decref(figure);
  free(html);
  ch_model_unload(model);
}

static void maps_of_single_heads_are_shown_one_by_one(void **state) {
  (void)state;
  ch_model *model;
  char *html = sections_of(
      SIZES
      ", 'attention': {'type': 'gqa', 'knocking': {'type': 'linear', 'on': ['q', 'v'], 'per_head': true}}",
      &model);
  json_t *figure = figure_in(html);
  assert_int_equal(json_array_size(json_object_get(figure, "panels")), 2 * (4 + 2));
  assert_int_equal(json_integer_value(json_object_get(figure, "columns")), 6);
  const float *q = tensor(model, "model.layers.0.self_attn.q_knock.weight");
  const float *v = tensor(model, "model.layers.1.self_attn.v_knock.weight");
  assert_panel(figure, 3, "layer 0: q_knock, head 3", q + (ptrdiff_t)3 * 8 * 8, 8, 8);
  assert_panel(figure, 11, "layer 1: v_knock, head 1", v + (ptrdiff_t)8 * 8, 8, 8);
  json_decref(figure);
  free(html);
  ch_model_unload(model);
}

static void head_mixes_are_shown(void **state) {
  (void)state;
  ch_model *model;
  char *html = sections_of(
      SIZES ", 'attention': {'type': 'gqa', 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}}", &model);
  json_t *figure = figure_in(html);
  assert_int_equal(json_array_size(json_object_get(figure, "panels")), 4);
  assert_panel(figure, 0, "layer 0: k_mix", tensor(model, "model.layers.0.self_attn.k_mix.weight"), 2, 3);
  json_decref(figure);
  free(html);
  ch_model_unload(model);
}

static void coefficients_are_a_row_a_layer_also_where_an_mlp_makes_them(void **state) {
  (void)state;
  static const char *const ways[] = {"direct", "mlp"};
  for (int way = 0; way < 2; way++) {
    char keys[256];
    ch_model *model;
    snprintf(
        keys, sizeof keys,
        SIZES
        ", 'attention': {'type': 'gqa'}, 'sharing': {'type': 'masa', 'projections': ['q', 'v'], 'atoms': 2, "
        "'coefficients': '%s'}",
        ways[way]);
    char *html = sections_of(keys, &model);
    json_t *figure = figure_in(html);
    assert_int_equal(json_array_size(json_object_get(figure, "panels")), 2);
    must(ch_model_materialise(model, CH_MATERIALISE_INFERENCE, &failure));
    float both[4];
    memcpy(both, tensor(model, "model.layers.0.self_attn.q_proj.coefficients"), 2 * sizeof *both);
    memcpy(both + 2, tensor(model, "model.layers.1.self_attn.q_proj.coefficients"), 2 * sizeof *both);
    assert_panel(figure, 0, "q_proj", both, 2, 2);
    json_decref(figure);
    free(html);
    ch_model_unload(model);
  }
}

static void plain_and_missing_models_have_no_heatmaps(void **state) {
  (void)state;
  ch_model *model;
  char *html = sections_of(SIZES ", 'attention': {'type': 'gqa'}", &model);
  assert_string_equal(html, "");
  free(html);
  ch_model_unload(model);
  ch_text none = {0};
  ch_model_result run = {.name = "gone", .directory = "gone"};
  const ch_model_result *runs[] = {&run};
  ch_group group = {.name = "gone", .runs = runs, .count = 1};
  ch_matrices_put(&(ch_summary){.groups = &group, .count = 1, .seeds = 1}, directory, &none);
  assert_null(none.data);
}

static void large_matrices_are_shown_by_blocks(void **state) {
  (void)state;
  ch_model *model;
  char *html = sections_of(
      "'num_hidden_layers': 1, 'num_attention_heads': 2, 'num_key_value_heads': 1, 'head_dim': 192, "
      "'attention': {'type': 'gqa', 'knocking': {'type': 'linear', 'on': ['v']}}",
      &model);
  json_t *figure = figure_in(html);
  const json_t *values = json_object_get(json_array_get(json_object_get(figure, "panels"), 0), "values");
  assert_int_equal(json_array_size(values), 96);
  const float *data = tensor(model, "model.layers.0.self_attn.v_knock.weight");
  double mean = (data[0] + data[1] + data[192] + data[193]) / 4.0;
  assert_float_equal(json_number_value(json_array_get(json_array_get(values, 0), 0)), mean, 6e-5);
  json_decref(figure);
  free(html);
  ch_model_unload(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(knocking_is_shown_layer_by_layer_with_gates_apart),
      cmocka_unit_test(maps_of_single_heads_are_shown_one_by_one),
      cmocka_unit_test(head_mixes_are_shown),
      cmocka_unit_test(coefficients_are_a_row_a_layer_also_where_an_mlp_makes_them),
      cmocka_unit_test(plain_and_missing_models_have_no_heatmaps),
      cmocka_unit_test(large_matrices_are_shown_by_blocks),
  };
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
