/* Tests progress lines outside a terminal: whole, readable lines at intervals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/progress.h"

/* Returns the text of the stream so far. The caller frees it. */
static char *written(FILE *stream) {
  long size = ftell(stream);
  char *text = calloc((size_t)size + 1, 1);
  rewind(stream);
  assert_int_equal(fread(text, 1, (size_t)size, stream), size);
  return text;
}

static void a_file_gets_forced_and_permanent_lines_without_escapes(void **state) {
  (void)state;
  FILE *stream = tmpfile();
  ch_progress_line progress;
  ch_progress_begin(&progress, stream);
  assert_false(progress.live);
  ch_progress_show(&progress, false, "too early"); /* plain lines come every ten seconds */
  ch_progress_show(&progress, true, "step %d", 3);
  ch_progress_print(&progress, "validation %.1f", 2.5);
  ch_progress_end(&progress);
  char *text = written(stream);
  assert_string_equal(text, "step 3\nvalidation 2.5\n");
  free(text);
  fclose(stream);
}

static void control_characters_are_left_out(void **state) {
  (void)state;
  FILE *stream = tmpfile();
  ch_progress_line progress;
  ch_progress_begin(&progress, stream);
  ch_progress_print(&progress, "a\nb\033[2Jc \xc3\xa9");
  char *text = written(stream);
  assert_string_equal(text, "ab[2Jc \xc3\xa9\n");
  free(text);
  fclose(stream);
}

static void no_stream_is_silent(void **state) {
  (void)state;
  ch_progress_line progress;
  ch_progress_begin(&progress, NULL);
  assert_false(ch_progress_due(&progress));
  ch_progress_show(&progress, true, "nothing");
  ch_progress_print(&progress, "nothing");
  ch_progress_end(&progress);
  assert_true(ch_progress_seconds(&progress) >= 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_gets_forced_and_permanent_lines_without_escapes),
      cmocka_unit_test(control_characters_are_left_out),
      cmocka_unit_test(no_stream_is_silent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
