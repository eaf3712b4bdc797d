/* Places buffers in one block of memory so that buffers alive at the same time do not overlap. */
#ifndef CH_GRAPH_LAYOUT_H
#define CH_GRAPH_LAYOUT_H

#include <stddef.h>

#include "base/error.h"

enum { CH_MAX_INTERVALS = 2 };

/* A buffer and the steps during which it is alive: one interval, or two if it is dropped in between. Intervals
   include their ends. */
typedef struct ch_buffer {
  size_t bytes, offset;
  int intervals;
  int first[CH_MAX_INTERVALS], last[CH_MAX_INTERVALS];
} ch_buffer;

/* Records that the buffer is written at step t. A second definition starts a second interval. */
void ch_buffer_define(ch_buffer *buffer, int t, size_t bytes);
/* Records that the buffer is read (or added to) at step t. */
void ch_buffer_use(ch_buffer *buffer, int t);
/* Sets every offset (largest buffer first, lowest free place); *end is the size of the block. */
ch_status ch_layout(ch_buffer *buffers, int count, size_t *end, ch_error *error);

#endif
