/* Tests that the texts of a recorded run are whole, or missing if any allocation fails. */
#include "allocations/every_allocation.h"
#include "runs/stored_texts.h"

static ch_status store(const char *directory, ch_error *error) {
  (void)directory;
  ch_arena arena = {0};
  json_t *value = json_pack("{ss s[i i] s{sf}}", "name", "gqa", "list", 1, 2, "more", "number", 0.5);
  const char *text = value ? ch_stored_json(&arena, value) : NULL,
             *machine = ch_stored_machine(&arena, value);
  if (text) assert_string_equal(text, "{\"name\":\"gqa\",\"list\":[1,2],\"more\":{\"number\":0.5}}");
  if (machine && value) assert_non_null(strstr(machine, "\"number\":0.5"));
  ch_status status = text && machine ? CH_OK : ch_no_memory(error);
  json_decref(value);
  ch_arena_free(&arena);
  return status;
}

static void stored_texts(void **state) {
  (void)state;
  check_every_allocation("storing the texts of a run", store, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stored_texts),
  };
  return RUN_ON_ONE_THREAD(tests);
}
