/* Best-fit packing with a bounded number of open windows. */
#include "text/packing.h"

#include <stdbool.h>

#include <stdlib.h>
#include <string.h>

ch_status ch_packer_init(ch_packer *packer, int64_t length, int32_t end_token,
                         ch_status (*emit)(void *, const int32_t *, int64_t, ch_error *), void *context,
                         ch_error *error) {
  *packer = (ch_packer){.length = length, .end_token = end_token, .emit = emit, .context = context};
  packer->windows = malloc(CH_PACKING_WINDOWS * (size_t)length * sizeof *packer->windows);
  return packer->windows ? CH_OK : ch_no_memory(error);
}

void ch_packer_free(ch_packer *packer) {
  free(packer->windows);
  *packer = (ch_packer){0};
}

static ch_status close_window(ch_packer *packer, int w, ch_error *error) {
  int32_t *window = packer->windows + w * packer->length;
  packer->padding += packer->length - packer->used[w];
  for (int64_t i = packer->used[w]; i < packer->length; i++) window[i] = packer->end_token;
  packer->used[w] = 0;
  return packer->emit(packer->context, window, packer->length, error);
}

static ch_status place(ch_packer *packer, const int32_t *ids, int64_t count, ch_error *error) {
  int best = -1, fullest = 0;
  for (int w = 0; w < CH_PACKING_WINDOWS; w++) {
    bool fits = packer->length - packer->used[w] >= count;
    if (fits && (best < 0 || packer->used[w] > packer->used[best])) best = w;
    if (packer->used[w] > packer->used[fullest]) fullest = w;
  }
  if (best < 0) {
    best = fullest;
    CH_TRY(close_window(packer, best, error));
  }
  memcpy(packer->windows + best * packer->length + packer->used[best], ids, (size_t)count * sizeof *ids);
  packer->used[best] += count;
  return packer->used[best] == packer->length ? close_window(packer, best, error) : CH_OK;
}

ch_status ch_packer_add(ch_packer *packer, const int32_t *ids, int64_t count, ch_error *error) {
  for (; count > packer->length; ids += packer->length, count -= packer->length)
    CH_TRY(packer->emit(packer->context, ids, packer->length, error));
  return count > 0 ? place(packer, ids, count, error) : CH_OK;
}

ch_status ch_packer_finish(ch_packer *packer, ch_error *error) {
  for (int w = 0; w < CH_PACKING_WINDOWS; w++)
    if (packer->used[w] > 0) CH_TRY(close_window(packer, w, error));
  return CH_OK;
}
