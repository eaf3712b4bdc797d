/* Cuts one sequence into strided windows, and a document into rolling windows. */
#include "eval/windows.h"

#include <stdlib.h>

void ch_windows_free(ch_windows *windows) {
  free(windows->data);
  *windows = (ch_windows){0};
}

static ch_status add_window(ch_windows *windows, ch_score_window window, ch_error *error) {
  if (windows->count == windows->capacity) {
    int64_t capacity = windows->capacity ? 2 * windows->capacity : 64;
    ch_score_window *data = realloc(windows->data, (size_t)capacity * sizeof *data);
    if (!data) return ch_no_memory(error);
    windows->data = data;
    windows->capacity = capacity;
  }
  windows->data[windows->count++] = window;
  return CH_OK;
}

/* Adds windows: window k holds tokens [k stride, k stride + window). The first token of all is never
 * predicted. */
ch_status ch_windows_strided(ch_windows *windows, const int32_t *tokens, int64_t count, int64_t window,
                             int64_t stride, ch_error *error) {
  int64_t predicted = 1;
  for (int64_t begin = 0; predicted < count; begin += stride) {
    int64_t end = begin + window < count ? begin + window : count;
    CH_TRY(add_window(windows, (ch_score_window){tokens + begin, end - begin, predicted - begin}, error));
    predicted = end;
  }
  return CH_OK;
}

/* Adds rolling windows. A window with `window` inputs spans window + 1 tokens. */
ch_status ch_windows_rolling(ch_windows *windows, const int32_t *tokens, int64_t count, int64_t window,
                             ch_error *error) {
  for (int64_t predicted = 1; predicted < count;) {
    int64_t end = predicted + window < count ? predicted + window : count;
    int64_t begin = end > window + 1 ? end - window - 1 : 0;
    CH_TRY(add_window(windows, (ch_score_window){tokens + begin, end - begin, predicted - begin}, error));
    predicted = end;
  }
  return CH_OK;
}
