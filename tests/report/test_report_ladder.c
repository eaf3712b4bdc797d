/* Tests the tables of a ladder for laws that the losses hardly constrain. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "report/ladder_page.h"
#include "laws/ladder_laws.h"
#include "report/ladder_text.h"

enum { RUNGS = 4 };

typedef struct sample {
  ch_ladder ladder;
  ch_ladder_mechanism mechanisms[2];
  int64_t sizes[RUNGS], tokens[RUNGS];
  const char *directories[RUNGS];
  double flops[RUNGS], parameters[RUNGS], losses[2][RUNGS];
} sample;

/* Creates mha and mla with the losses of laws without a floor, off by 2.5 % in alternating directions if
   `noisy`. Release them with ch_ladder_release(&s->ladder). */
static void make_ladder(sample *s, double first_alpha, double second_alpha, bool noisy) {
  ch_ladder_curve curves[2];
  ch_error error;
  *s = (sample){.ladder = {.rungs = RUNGS, .count = 2, .target = 10000000}};
  s->ladder.sizes = s->sizes;
  s->ladder.tokens = s->tokens;
  s->ladder.directories = s->directories;
  s->ladder.mechanisms = s->mechanisms;
  for (int i = 0; i < RUNGS; i++) {
    double off = noisy ? i % 2 ? 0.975 : 1.025 : 1;
    s->sizes[i] = 10000 << i;
    s->directories[i] = "";
    s->parameters[i] = (double)s->sizes[i];
    s->flops[i] = 1e10 * pow(4, i);
    s->losses[0][i] = 4 * pow(4, -first_alpha * i) * off;
    s->losses[1][i] = 4 * pow(4, -second_alpha * i) / off;
  }
  for (int m = 0; m < 2; m++) {
    const char *name = m ? "mla" : "mha";
    s->mechanisms[m] = (ch_ladder_mechanism){.name = name,
                                             .flops = s->flops,
                                             .losses = s->losses[m],
                                             .parameters = s->parameters,
                                             .seconds_per_flop = 1e-10};
    curves[m] = (ch_ladder_curve){.name = name,
                                  .rungs = RUNGS,
                                  .flops = s->flops,
                                  .losses = s->losses[m],
                                  .target_flops = 1e16,
                                  .seconds_per_flop = 1e-10};
  }
  assert_int_equal(ch_ladder_fit(curves, 2, 0, &s->ladder.laws, &error), CH_OK);
}

/* Returns the line for mla in the table of laws. */
static char *law_line(const sample *s, ch_text *text) {
  ch_ladder_write(&s->ladder, text);
  char *line = strstr(strstr(text->data, "\nlaw"), "\nmla") + 1;
  *strchr(line, '\n') = 0;
  return line;
}

static void assert_multiplier(double first_alpha, double second_alpha, bool noisy, const char *cell,
                              const char *value_html) {
  sample s;
  ch_text text = {0}, html = {0};
  make_ladder(&s, first_alpha, second_alpha, noisy);
  const char *line = law_line(&s, &text);
  if (!strstr(line, cell)) fail_msg("no %s in %s", cell, line);
  ch_ladder_put_tables(&s.ladder, &html);
  if (!strstr(html.data, value_html)) fail_msg("no %s in %s", value_html, html.data);
  ch_text_free(&text);
  ch_text_free(&html);
  ch_ladder_release(&s.ladder);
}

static void multipliers_that_no_law_can_say_are_cut(void **state) {
  (void)state;
  assert_multiplier(0.01, 0.1, false, "  over 1,000×  over 1,000×", "<td>over 1,000×</td>");
  assert_multiplier(0.3, 0.01, false, "  under 0.001×  under 0.001×", "<td>under 0.001×</td>");
  assert_multiplier(0.01, 0.1, true, "  over 1,000× (no bounds)", "<td>over 1,000× <small>no bounds</small>");
  assert_multiplier(0.05, 0.01, true, "  under 0.001× (up to 1.31)", "<small>up to 1.31</small>");
  assert_multiplier(0.3, 0.2, true, "  0.0052× (no bounds)", "<td>0.0052× <small>no bounds</small>");
  assert_multiplier(0.3, 0.2, false, "  0.01× (0.01 to 0.01)", "<td>0.01× <small>0.01 to 0.01</small>");
}

static void results_keep_the_numbers(void **state) {
  (void)state;
  sample s;
  make_ladder(&s, 0.01, 0.1, false);
  json_t *all = ch_ladder_to_json(&s.ladder);
  json_t *flops = json_object_get(json_array_get(json_object_get(all, "multipliers"), 1), "flops");
  assert_true(json_number_value(json_object_get(flops, "value")) > 1e50);
  assert_true(json_number_value(json_object_get(flops, "high")) > 1e50);
  json_decref(all);
  ch_ladder_release(&s.ladder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(multipliers_that_no_law_can_say_are_cut),
                                     cmocka_unit_test(results_keep_the_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
