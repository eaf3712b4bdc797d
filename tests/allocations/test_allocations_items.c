/* Tests that tables of items are read, or that a lack of memory is reported as such. */
#include "allocations/every_allocation.h"
#include "eval/tasks/items.h"

static ch_status read_table(const char *directory, ch_error *error) {
  static const char table[] = "q,a\nwhat,\"1, or 2\"\nwhy,3\n";
  static const ch_item_forms forms;
  ch_items items = {0};
  char path[128];
  snprintf(path, sizeof path, "%s/items", directory);
  CH_TRY(ch_write_file(path, table, sizeof table - 1, error));
  ch_status status = ch_items_read(path, &forms, 0, &items, error);
  if (status == CH_ERROR_FORMAT) fail_msg("%s", error->message);
  if (status == CH_OK) assert_int_equal(items.count, 2);
  ch_items_free(&items);
  return status;
}

static void tables(void **state) {
  (void)state;
  check_every_allocation("reading a table", read_table, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables),
  };
  return RUN_ON_ONE_THREAD(tests);
}
