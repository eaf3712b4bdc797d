/* Tests the windows of a text: every token is predicted once, with the promised context. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "eval/windows.h"

/* Counts how often each token is predicted. Checks that each window is inside the sequence. */
static void count_predictions(const ch_windows *windows, const int32_t *tokens, int64_t count,
                              int64_t longest, int *predicted) {
  memset(predicted, 0, (size_t)count * sizeof *predicted);
  for (int64_t w = 0; w < windows->count; w++) {
    const ch_score_window *window = &windows->data[w];
    int64_t begin = window->tokens - tokens;
    assert_in_range(begin, 0, count - 2);
    assert_in_range(window->length, 2, longest);
    assert_in_range(begin + window->length, 2, count);
    assert_in_range(window->first, 1, window->length - 1);
    for (int64_t i = window->first; i < window->length; i++) predicted[begin + i]++;
  }
}

static void strided_windows_predict_each_token_once_with_enough_context(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 1, 0);
  enum { MOST = 300 };
  int32_t tokens[MOST] = {0};
  int predicted[MOST];
  for (int round = 0; round < 400; round++) {
    int64_t count = 2 + (int64_t)ch_random_below(&random, MOST - 1);
    int64_t window = 2 + (int64_t)ch_random_below(&random, 40);
    int64_t stride = 1 + (int64_t)ch_random_below(&random, (uint64_t)window - 1);
    ch_windows windows = {0};
    assert_int_equal(ch_windows_strided(&windows, tokens, count, window, stride, NULL), CH_OK);
    count_predictions(&windows, tokens, count, window, predicted);
    assert_int_equal(predicted[0], 0);
    for (int64_t i = 1; i < count; i++) assert_int_equal(predicted[i], 1);
    for (int64_t w = 0; w < windows.count; w++) {
      assert_int_equal(windows.data[w].tokens - tokens, w * stride);
      if (w > 0) assert_true(windows.data[w].first >= window - stride);
    }
    ch_windows_free(&windows);
  }
}

/* The expected windows are those of lm-evaluation-harness, get_rolling_token_windows with context_len 1 and
   make_disjoint_window, worked out by hand for ten tokens t0 ... t9 behind a prefix and at most four inputs:
   (prefix t0 t1 t2 | t0 ... t3), (t3 ... t6 | t4 ... t7), and for the rest (t5 t6 t7 t8 | t8 t9). */
static void rolling_windows_are_those_of_the_harness(void **state) {
  (void)state;
  int32_t tokens[11] = {0};
  ch_windows windows = {0};
  assert_int_equal(ch_windows_rolling(&windows, tokens, 11, 4, NULL), CH_OK);
  static const struct { int begin, length, first; } expected[] = {{0, 5, 1}, {4, 5, 1}, {6, 5, 3}};
  assert_int_equal(windows.count, 3);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(windows.data[i].tokens - tokens, expected[i].begin);
    assert_int_equal(windows.data[i].length, expected[i].length);
    assert_int_equal(windows.data[i].first, expected[i].first);
  }
  ch_windows_free(&windows);
}

static void rolling_windows_predict_each_token_once(void **state) {
  (void)state;
  enum { MOST = 200 };
  int32_t tokens[MOST] = {0};
  int predicted[MOST];
  for (int64_t count = 2; count < MOST; count++)
    for (int64_t window = 1; window < 40; window += 3) {
      ch_windows windows = {0};
      assert_int_equal(ch_windows_rolling(&windows, tokens, count, window, NULL), CH_OK);
      count_predictions(&windows, tokens, count, window + 1, predicted);
      for (int64_t i = 1; i < count; i++) assert_int_equal(predicted[i], 1);
      ch_windows_free(&windows);
    }
}

static void sequences_of_one_token_have_no_window(void **state) {
  (void)state;
  int32_t token = 0;
  ch_windows windows = {0};
  assert_int_equal(ch_windows_strided(&windows, &token, 1, 8, 4, NULL), CH_OK);
  assert_int_equal(ch_windows_rolling(&windows, &token, 1, 8, NULL), CH_OK);
  assert_int_equal(windows.count, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strided_windows_predict_each_token_once_with_enough_context),
      cmocka_unit_test(rolling_windows_are_those_of_the_harness),
      cmocka_unit_test(rolling_windows_predict_each_token_once),
      cmocka_unit_test(sequences_of_one_token_have_no_window),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
