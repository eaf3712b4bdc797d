/* Tests the slopes of sizes over widths, and the output of a check with missing sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "experiment/coordinate_check.h"
#include "report/coordinates_page.h"
#include "report/coordinates_text.h"

static void slopes_are_exponents_of_power_laws(void **state) {
  (void)state;
  const int64_t widths[] = {32, 64, 128, 512};
  const double exponents[] = {-1, -0.5, 0, 0.25, 2};
  double sizes[4];
  for (int e = 0; e < 5; e++) {
    for (int i = 0; i < 4; i++) sizes[i] = 0.7 * pow((double)widths[i], exponents[e]);
    assert_float_equal(ch_coordinate_slope(widths, sizes, 4), exponents[e], 1e-12);
  }
  sizes[1] = NAN; /* the remaining points are on the line */
  assert_float_equal(ch_coordinate_slope(widths, sizes, 4), 2, 1e-12);
  sizes[2] = sizes[3] = 0;
  assert_true(isnan(ch_coordinate_slope(widths, sizes, 4)));
}

/* Returns a check of two widths after 0 and 3 steps, with a name that contains markup and with missing sizes. */
static ch_coordinates made(void) {
  static const int64_t widths[] = {32, 64}, steps[] = {0, 3};
  static const double sizes[] = {1, 1, 2, NAN}, changes[] = {0, 0, 1.5, NAN}, slopes[] = {0, NAN},
                      none[] = {NAN, NAN};
  static ch_coordinate activation;
  static ch_coordinate_model model = {"<b>", &activation, 1};
  activation = (ch_coordinate){.name = "o_proj",
                               .of_stream = true,
                               .sizes = sizes,
                               .changes = changes,
                               .slopes = slopes,
                               .change_slopes = none};
  return (ch_coordinates){.about = {.command = "crosshead sweep",
                                    .version = "0",
                                    .created = "2026-01-31T00:00:00Z",
                                    .data = {.file = "a/text.txt", .tokenizer = "t"},
                                    .training = {.schedule = "constant"}},
                          .grid = {widths, steps, 2, 2, 1, 4, 8, 1, CH_PARAMETRIZATION_SPECTRAL, 0.5},
                          .models = &model};
}

static void sizes_that_are_missing_are_null_and_not_flat(void **state) {
  (void)state;
  ch_coordinates check = made();
  json_t *results = ch_coordinates_to_json(&check);
  assert_non_null(results);
  const json_t *models = json_object_get(results, "mechanisms"),
               *list = json_object_get(json_array_get(models, 0), "activations"),
               *a = json_array_get(list, 0);
  const json_t *last = json_array_get(json_object_get(a, "sizes"), 1);
  assert_string_equal(json_string_value(json_object_get(a, "unit")), "embedding");
  assert_float_equal(json_real_value(json_array_get(last, 0)), 2, 0);
  assert_true(json_is_null(json_array_get(last, 1)));
  assert_true(json_is_null(json_object_get(a, "slope")));
  assert_true(json_is_false(json_object_get(a, "flat")));
  json_decref(results);

  ch_text text = {0};
  ch_coordinates_table_write(&check, &text);
  assert_false(text.failed);
  assert_non_null(strstr(text.data, "o_proj *         2         -      - not flat       - not flat\n"));
  assert_non_null(
      strstr(text.data, "<b>: sizes are not flat for o_proj; changes are not flat for o_proj.\n"));
  assert_non_null(strstr(text.data, "after 3 steps at the rate 0.5, parametrization spectral"));
  ch_text_free(&text);
}

static void pages_have_a_figure_for_every_activation(void **state) {
  (void)state;
  ch_coordinates check = made();
  ch_text html = {0};
  ch_error error;
  assert_int_equal(ch_coordinates_page_write(&check, &html, &error), CH_OK);
  assert_non_null(strstr(html.data, "Activations over widths on text.txt"));
  assert_non_null(strstr(html.data, "&lt;b&gt;"));
  assert_null(strstr(html.data, "<b>"));
  /* Sizes of step 0 have both widths, those of step 3 one width. Changes are drawn only for step 3. */
  assert_non_null(strstr(html.data, "\"id\":\"sizes-1-1\""));
  assert_non_null(strstr(html.data, "\"points\":[[32,1.0],[64,1.0]]"));
  assert_non_null(strstr(html.data, "\"points\":[[32,2.0]]"));
  assert_non_null(strstr(html.data, "\"points\":[[32,1.5]]"));
  assert_null(strstr(html.data, "\"points\":[[32,0.0]"));
  ch_text_free(&html);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slopes_are_exponents_of_power_laws),
      cmocka_unit_test(sizes_that_are_missing_are_null_and_not_flat),
      cmocka_unit_test(pages_have_a_figure_for_every_activation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
