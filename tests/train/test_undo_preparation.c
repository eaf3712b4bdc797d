/* Tests that a failed attempt to train deletes its own files and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "train/undo_preparation.h"
#include "scratch.h"

static void put(const char *name, const char *text) {
  ch_error error;
  assert_int_equal(ch_write_file(in_root(name), text, strlen(text), &error), CH_OK);
}

static void directories_and_files_that_were_made_are_removed(void **state) {
  (void)state;
  ch_preparation attempt;
  ch_error error;
  ch_preparation_begin(&attempt, in_root("new/deep/er//"));
  assert_int_equal(ch_make_directory(in_root("new/deep/er"), &error), CH_OK);
  put("new/deep/er/data.tokens", "x");
  put("new/deep/er/data.tokens.tmp.12", "x");
  put("new/deep/er/compare.json", "{}");
  put("new/deep/er/log.jsonl", "");
  ch_preparation_undo(&attempt);
  ch_preparation_end(&attempt);
  assert_false(ch_is_directory(in_root("new")));
  assert_true(ch_is_directory(root));
}

static void what_was_there_before_stays(void **state) {
  (void)state;
  ch_preparation attempt;
  ch_error error;
  assert_int_equal(ch_make_directory(in_root("old"), &error), CH_OK);
  put("old/data.tokens", "x");
  ch_preparation_begin(&attempt, in_root("old"));
  put("old/data.json", "{}");
  ch_preparation_undo(&attempt);
  ch_preparation_end(&attempt);
  assert_true(ch_is_file(in_root("old/data.tokens")));
  assert_false(ch_is_file(in_root("old/data.json")));
}

static void weights_strangers_and_logs_with_lines_stay(void **state) {
  (void)state;
  ch_preparation attempt;
  ch_error error;
  ch_preparation_begin(&attempt, in_root("run"));
  assert_int_equal(ch_make_directory(in_root("run"), &error), CH_OK);
  put("run/checkpoint.safetensors", "x");
  put("run/notes.txt", "x");
  put("run/log.jsonl", "{}\n");
  put("run/tokenizer.json", "{}");
  ch_preparation_undo(&attempt);
  ch_preparation_end(&attempt);
  assert_true(ch_is_file(in_root("run/checkpoint.safetensors")));
  assert_true(ch_is_file(in_root("run/notes.txt")));
  assert_true(ch_is_file(in_root("run/log.jsonl")));
  assert_false(ch_is_file(in_root("run/tokenizer.json")));
}

static void what_another_run_prepares_stays(void **state) {
  (void)state;
  ch_preparation attempt;
  ch_error error;
  ch_preparation_begin(&attempt, in_root("shared"));
  assert_int_equal(ch_make_directory(in_root("shared"), &error), CH_OK);
  put("shared/data.tokens", "x");
  int lock = open(in_root("shared"), O_RDONLY | O_DIRECTORY);
  assert_int_equal(flock(lock, LOCK_EX), 0);
  ch_preparation_undo(&attempt);
  assert_true(ch_is_file(in_root("shared/data.tokens")));
  close(lock);
  ch_preparation_undo(&attempt);
  ch_preparation_end(&attempt);
  assert_false(ch_is_directory(in_root("shared")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(directories_and_files_that_were_made_are_removed),
      cmocka_unit_test(what_was_there_before_stays),
      cmocka_unit_test(weights_strangers_and_logs_with_lines_stay),
      cmocka_unit_test(what_another_run_prepares_stays),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
