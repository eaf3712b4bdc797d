/* Tests the names of settings in error messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"

static void as_option(const char *setting, char *out, size_t size, void *user) {
  (*(int *)user)++;
  snprintf(out, size, "--%s", strcmp(setting, "sequence") == 0 ? "seq" : setting);
}

static void assert_spelt(const ch_error *error, int names, const char *expected) {
  char text[2048];
  int count = 0;
  ch_error_spell(error, as_option, &count, text, sizeof text);
  assert_string_equal(text, expected);
  assert_int_equal(count, names);
  size_t length = strlen(expected);
  for (size_t size = 1; size <= length; size++) { /* a short buffer cuts the text off */
    memset(text, '#', sizeof text);
    ch_error_spell(error, as_option, &count, text, size);
    assert_int_equal(strlen(text), size - 1);
    assert_memory_equal(text, expected, size - 1);
    assert_int_equal(text[size], '#');
  }
}

static void front_ends_spell_settings(void **state) {
  (void)state;
  ch_error error;
  ch_fail(&error, CH_ERROR_ARGUMENT, "{batch} %d x {sequence} %d is too much", 2, 3);
  assert_string_equal(error.message, "batch 2 x sequence 3 is too much");
  assert_string_equal(error.setting, "batch");
  assert_spelt(&error, 2, "--batch 2 x --seq 3 is too much");
  ch_fail(&error, CH_ERROR_ARGUMENT, "%s: leave {%s} out", "a/sequence", "sequence");
  assert_string_equal(error.setting, "sequence");
  assert_spelt(&error, 1, "a/sequence: leave --seq out");
  ch_fail_in(&error, "batch");
  assert_spelt(&error, 1, "batch: a/sequence: leave --seq out");
  ch_error other;
  assert_int_equal(ch_fail_as(&other, CH_ERROR_IO, &error), CH_ERROR_IO);
  assert_int_equal(other.status, CH_ERROR_IO);
  assert_spelt(&other, 1, "batch: a/sequence: leave --seq out");
  ch_fail(&error, CH_ERROR_FORMAT, "write {\"type\": {...}} or {}");
  assert_string_equal(error.setting, "");
  assert_spelt(&error, 0, "write {\"type\": {...}} or {}");
}

/* Text that a message quotes is never mistaken for the name of a setting. */
static void quoted_text_stays(void **state) {
  (void)state;
  static const char *const quotes[] = {"{batch}", "\001batch\002", "\002batch\001",
                                       "\001",    "\002\002",      "--batch"};
  static const char *const shown[] = {"{batch}", "?batch?", "?batch?", "?", "??", "--batch"};
  for (size_t i = 0; i < sizeof quotes / sizeof *quotes; i++) {
    char expected[128];
    ch_error error;
    ch_fail(&error, CH_ERROR_ARGUMENT, "{sequence}: %s is not %s", quotes[i], quotes[i]);
    snprintf(expected, sizeof expected, "--seq: %s is not %s", shown[i], shown[i]);
    assert_spelt(&error, 1, expected);
    ch_fail_in(&error, quotes[i]);
    snprintf(expected, sizeof expected, "%s: --seq: %s is not %s", shown[i], shown[i], shown[i]);
    assert_spelt(&error, 1, expected);
  }
}

static void long_messages_name_what_fits(void **state) {
  (void)state;
  char text[1100];
  ch_error error;
  for (size_t length = 1000; length < sizeof text; length++) {
    for (size_t i = 0; i < length; i++) text[i] = i % 50 == 49 ? ' ' : 'x';
    text[length] = 0;
    ch_fail(&error, CH_ERROR_ARGUMENT, "{batch} %s{sequence}", text);
    int count = 0;
    char out[2 * sizeof error.message];
    ch_error_spell(&error, as_option, &count, out, sizeof out);
    bool whole = strstr(error.message, "sequence") != NULL;
    assert_int_equal(count, whole ? 2 : 1);
    assert_true(strlen(error.message) < sizeof error.message);
    assert_int_equal(strlen(out), strlen(error.message) + (whole ? 2 + 2 - strlen("uence") : 2));
  }
  ch_fail(&error, CH_ERROR_ARGUMENT, "{a} {b} {c} {d} {e} {f} {g} {h} {i} {j}");
  assert_spelt(&error, 8, "--a --b --c --d --e --f --g --h i j");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(front_ends_spell_settings),
      cmocka_unit_test(quoted_text_stays),
      cmocka_unit_test(long_messages_name_what_fits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
