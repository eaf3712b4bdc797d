/* Places buffers greedily: the largest first, each at the lowest offset that is free while it is alive. */
#include "graph/layout.h"

#include <stdbool.h>
#include <stdlib.h>

enum { ALIGN = 256 };

void ch_buffer_define(ch_buffer *buffer, int t, size_t bytes) {
  buffer->bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
  int i = buffer->intervals;
  if (i < CH_MAX_INTERVALS)
    buffer->intervals++;
  else
    i = CH_MAX_INTERVALS - 1;
  buffer->first[i] = buffer->last[i] = t;
}

void ch_buffer_use(ch_buffer *buffer, int t) {
  if (buffer->intervals) buffer->last[buffer->intervals - 1] = t;
}

static bool alive_together(const ch_buffer *a, const ch_buffer *b) {
  for (int i = 0; i < a->intervals; i++)
    for (int j = 0; j < b->intervals; j++)
      if (a->first[i] <= b->last[j] && b->first[j] <= a->last[i]) return true;
  return false;
}

static int larger_first(const void *pa, const void *pb) {
  const ch_buffer *a = *(ch_buffer *const *)pa, *b = *(ch_buffer *const *)pb;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return (a > b) - (a < b);
}

static int by_offset(const void *pa, const void *pb) {
  const ch_buffer *a = *(ch_buffer *const *)pa, *b = *(ch_buffer *const *)pb;
  return (a->offset > b->offset) - (a->offset < b->offset);
}

ch_status ch_layout(ch_buffer *buffers, int count, size_t *end, ch_error *error) {
  ch_buffer **order = malloc((size_t)count * sizeof *order),
            **rivals = malloc((size_t)count * sizeof *rivals);
  if (!order || !rivals) {
    free(order);
    free(rivals);
    return ch_no_memory(error);
  }
  int used = 0;
  for (int i = 0; i < count; i++)
    if (buffers[i].intervals) order[used++] = &buffers[i];
  qsort(order, (size_t)used, sizeof *order, larger_first);
  *end = 0;
  for (int i = 0; i < used; i++) {
    int n = 0;
    for (int j = 0; j < i; j++)
      if (alive_together(order[i], order[j])) rivals[n++] = order[j];
    qsort(rivals, (size_t)n, sizeof *rivals, by_offset);
    size_t place = 0;
    for (int j = 0; j < n && rivals[j]->offset < place + order[i]->bytes; j++) {
      size_t after = rivals[j]->offset + rivals[j]->bytes;
      if (after > place) place = after;
    }
    order[i]->offset = place;
    if (place + order[i]->bytes > *end) *end = place + order[i]->bytes;
  }
  free(order);
  free(rivals);
  return CH_OK;
}
