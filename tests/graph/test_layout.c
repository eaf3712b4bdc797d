/* Tests the placement of buffers by lifetime: buffers that are live at the same time do not overlap, and space is
 * reused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/random.h"
#include "graph/layout.h"

enum { BUFFERS_TESTED = 200, STEPS = 100 };

static bool together(const ch_buffer *a, const ch_buffer *b) {
  for (int i = 0; i < a->intervals; i++)
    for (int j = 0; j < b->intervals; j++)
      if (!(a->last[i] < b->first[j] || b->last[j] < a->first[i])) return true;
  return false;
}

static void random_buffers_do_not_overlap(void **state) {
  (void)state;
  ch_random random;
  for (uint64_t seed = 0; seed < 20; seed++) {
    ch_random_seed(&random, seed, 0);
    ch_buffer buffers[BUFFERS_TESTED] = {0};
    size_t sum = 0, end = 0;
    for (int i = 0; i < BUFFERS_TESTED; i++) {
      int t = (int)ch_random_below(&random, STEPS);
      ch_buffer_define(&buffers[i], t, 1 + ch_random_below(&random, 100000));
      ch_buffer_use(&buffers[i], t + (int)ch_random_below(&random, 10));
      if (i % 3 == 0) ch_buffer_define(&buffers[i], t + 20, buffers[i].bytes);
      sum += buffers[i].bytes;
    }
    assert_int_equal(ch_layout(buffers, BUFFERS_TESTED, &end, NULL), CH_OK);
    for (int i = 0; i < BUFFERS_TESTED; i++) {
      assert_true(buffers[i].offset + buffers[i].bytes <= end);
      assert_int_equal(buffers[i].offset % 64, 0);
      for (int j = 0; j < i; j++)
        if (together(&buffers[i], &buffers[j]))
          assert_true(buffers[i].offset + buffers[i].bytes <= buffers[j].offset ||
                      buffers[j].offset + buffers[j].bytes <= buffers[i].offset);
    }
    assert_true(end < sum / 2);
  }
}

static void a_chain_needs_two_places(void **state) {
  (void)state;
  ch_buffer chain[50] = {0};
  size_t end;
  for (int i = 0; i < 50; i++) {
    ch_buffer_define(&chain[i], i, 1024);
    ch_buffer_use(&chain[i], i + 1);
  }
  assert_int_equal(ch_layout(chain, 50, &end, NULL), CH_OK);
  assert_int_equal(end, 2048);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_buffers_do_not_overlap),
      cmocka_unit_test(a_chain_needs_two_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
