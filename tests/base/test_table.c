/* Tests text tables: widths, alignment, spans, missing and long cells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/table.h"

static void expect(ch_table *table, const char *expected) {
  ch_text text = {0};
  ch_table_write(table, &text);
  assert_false(text.failed);
  assert_string_equal(text.data ? text.data : "", expected);
  ch_text_free(&text);
}

static void test_aligns_columns_by_their_longest_cell(void **state) {
  (void)state;
  ch_table table = {.columns = "lr", .gap = 2};
  ch_table_cell(&table, "mechanism");
  ch_table_cell(&table, "loss");
  ch_table_cell(&table, "a");
  ch_table_end_row(&table);
  ch_table_cell(&table, "mha");
  ch_table_cell(&table, "%.4f", 3.5);
  ch_table_cell(&table, "±12");
  ch_table_end_row(&table);
  expect(&table, "mechanism    loss    a\n"
                 "mha        3.5000  ±12\n");
}

static void test_columns_have_a_least_width_and_lines_no_blanks_at_the_end(void **state) {
  (void)state;
  ch_table table = {.columns = "r4l5l12", .gap = 1};
  ch_table_cell(&table, "1");
  ch_table_cell(&table, "abc");
  ch_table_end_row(&table);
  ch_table_end_row(&table);
  ch_table_cell(&table, "12345");
  ch_table_cell(&table, "abcdefg");
  ch_table_cell(&table, "x");
  ch_table_cell(&table, "y");
  ch_table_end_row(&table);
  expect(&table, "    1 abc\n"
                 "\n"
                 "12345 abcdefg x            y\n");
}

static void test_a_span_covers_columns_and_does_not_widen_them(void **state) {
  (void)state;
  ch_table table = {.columns = "lr", .gap = 2};
  ch_table_cell(&table, "%s", "");
  ch_table_span(&table, 2, "both");
  ch_table_span(&table, 1, "single");
  ch_table_end_row(&table);
  ch_table_cell(&table, "%s", "");
  ch_table_span(&table, 2, "longer than two");
  ch_table_end_row(&table);
  for (int i = 0; i < 4; i++) ch_table_cell(&table, "%d", 100 * i);
  ch_table_end_row(&table);
  assert_string_equal(ch_table_at(&table, 0, 1), "both");
  assert_string_equal(ch_table_at(&table, 0, 2), "single");
  assert_null(ch_table_at(&table, 0, 3));
  assert_string_equal(ch_table_at(&table, 2, 3), "300");
  assert_null(ch_table_at(&table, 3, 0));
  expect(&table, "       bothsingle\n"
                 " longer than two\n"
                 "0  100  200  300\n");
}

static void test_a_table_without_cells_writes_nothing(void **state) {
  (void)state;
  ch_table table = {.columns = "lr", .gap = 2};
  assert_null(ch_table_at(&table, 0, 0));
  expect(&table, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_aligns_columns_by_their_longest_cell),
      cmocka_unit_test(test_columns_have_a_least_width_and_lines_no_blanks_at_the_end),
      cmocka_unit_test(test_a_span_covers_columns_and_does_not_widen_them),
      cmocka_unit_test(test_a_table_without_cells_writes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
