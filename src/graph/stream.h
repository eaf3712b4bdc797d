/* States read block by block: the operations between the cache and the tiles of keys and values that
 * attention reads.
 *
 * A graph with a cache has values that cover all tokens of the cache: the cached states themselves, and the
 * values that a mechanism computes from them before attending (rotated keys, mixed heads, expanded latents ...).
 * Such streamed values are never stored. The operation that reads them requests the tiles of a block of tokens.
 * Every operation in between computes its value for that block, for the columns that the requested heads need,
 * in scratch that stays in the processor's cache. A mechanism defines one graph: training computes it for whole
 * sequences, decoding block by block as it reads the cache. */
#ifndef CH_GRAPH_STREAM_H
#define CH_GRAPH_STREAM_H

#include "graph/plan.h"

enum { CH_MAX_STREAM_NODES = 32, CH_MAX_STREAM_INPUTS = 4 };

/* Returns `wanted` columns widened to whole groups of `width`. ch_groups_of returns those groups in a value
   with groups of another width. */
ch_column_range ch_whole_groups(ch_column_range wanted, int64_t width);
ch_column_range ch_groups_of(ch_column_range wanted, int64_t width, int64_t other_width);

/* A streamed value for a block of tokens: column columns.first + c of token t at element t * stride + c. */
typedef struct ch_stream_value {
  const void *data;
  ch_dtype dtype;
  int64_t stride;
  ch_column_range columns;
} ch_stream_value;

/* The arguments of an operation's `stream`. Streamed inputs are dense rows of the run's type, [count,
   in[i].columns.count], unless the operation has stream_raw; other inputs come from ch_run_value as usual.
   `stream` runs on one thread. `stream_many` uses all threads, and its inputs are rounded to BF16 if the graph
   computes in BF16, unless the operation has stream_unrounded. */
struct ch_stream_call {
  const ch_run *run;
  const ch_node *node;
  int64_t sequence, first, count; /* tokens first … first+count-1 of a sequence */
  ch_stream_value in[CH_MAX_STREAM_INPUTS];
  ch_column_range wanted; /* columns of the node to compute */
  void *space;            /* room for the value [count, wanted.count] and two more rows */
};

/* A node that attention reads: head h has `dim` columns from offset + h * stride on. */
typedef struct ch_stream_end {
  const ch_node *node;
  int64_t offset, stride, dim;
} ch_stream_end;

enum { CH_STREAM_KEYS, CH_STREAM_KEY_TAILS, CH_STREAM_VALUES, CH_STREAM_ENDS };

/* The streamed values from which attention computes its keys and values. */
typedef struct ch_stream {
  const ch_run *run;
  const ch_node *node[CH_MAX_STREAM_NODES]; /* inputs before users */
  int nodes;
  /* true for block-quantised states that only attention reads, if each head consists of whole blocks */
  bool whole_blocks[CH_MAX_STREAM_NODES];
  ch_stream_end end[CH_STREAM_ENDS]; /* nodes that attention reads; an entry's node may be NULL */
} ch_stream;

/* Collects the values from which keys and values are computed. Without a cache in the run, only sizes can be
   queried. */
ch_status ch_stream_open(ch_stream *stream, const ch_run *run, const ch_stream_end *keys,
                         const ch_stream_end *values);

/* Writes the addresses of the states from which tiles are computed, so that attention can prefetch them. */
void ch_stream_parts(const ch_stream *stream, ch_state_view parts[CH_MAX_STATE_PARTS]);

/* Produces tiles through a stream; ch_attend.context is the ch_stream. */
extern const ch_tile_producer ch_tile_producer_stream;

/* The tiles of a span of tokens, for all heads, that all threads computed once for many queries. */
typedef struct ch_laid_tiles {
  ch_tiles tiles;
  int64_t first;
} ch_laid_tiles;

/* Returns the FLOPs (2 x multiply-adds) that a token's tiles cost. */
double ch_stream_flops(const ch_stream *stream);
/* Returns the number of elements of space that ch_stream_lay needs for `count` tokens of `heads` heads. */
int64_t ch_stream_laid_elements(const ch_stream *stream, int64_t heads, int64_t count);
/* Computes the tiles of a span into `space`, with all threads. */
ch_status ch_stream_lay(const ch_stream *stream, const ch_tile_span *span, void *space, ch_laid_tiles *laid);
/* Produces tiles from laid ones; ch_attend.context is the ch_laid_tiles. */
extern const ch_tile_producer ch_tile_producer_laid;

#endif
