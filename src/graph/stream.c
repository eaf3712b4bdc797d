/* Evaluates streamed values for a block of tokens. The attention loop requests blocks; the operations' `stream`
 * functions compute them. */
#include "graph/stream.h"

#include <string.h>

#include "tensor/tile_producers.h"

/* The number of values in a block of states (CH_Q8_0, CH_Q4_0). */
enum { STATE_BLOCK = 32 };

/* --- collecting ----------------------------------------------------------------------------------------- */

static int place_of(const ch_stream *stream, const ch_node *node) {
  int i = 0;
  while (i < stream->nodes && stream->node[i] != node) i++;
  return i;
}

static ch_status collect(ch_stream *stream, const ch_node *node) {
  if (!node->streamed || place_of(stream, node) < stream->nodes) return CH_OK;
  if (!node->op->stateful)
    for (int i = 0; i < node->inputs; i++) CH_TRY(collect(stream, node->in[i]));
  if (stream->nodes == CH_MAX_STREAM_NODES || node->inputs > CH_MAX_STREAM_INPUTS)
    return ch_fail(stream->run->error, CH_ERROR_CONFIG,
                   "more than %d operations between cache and attention, or one of more than %d inputs",
                   CH_MAX_STREAM_NODES, CH_MAX_STREAM_INPUTS);
  stream->node[stream->nodes++] = node;
  return CH_OK;
}

/* Returns true if a node's value is in the cache, row after row for its tokens. The rows of parts by id are
   gathered instead. */
static bool lies_in_cache(const ch_node *node) {
  return node->op->stateful && !node->op->stream;
}

static bool block_quantised(const ch_node *node) {
  return lies_in_cache(node) && ch_dtype_is_block_quantised(node->op->state_type(node));
}

/* Returns the element type in which readers get a node's value. */
static ch_dtype type_of(const ch_node *node) {
  return lies_in_cache(node) && !block_quantised(node) ? node->op->state_type(node) : node->dtype;
}

/* Returns the columns that are computed for `wanted`. Block-quantised states are converted in whole
   blocks. */
static ch_column_range made_columns(const ch_node *node, ch_column_range wanted) {
  return block_quantised(node) ? ch_whole_groups(wanted, STATE_BLOCK) : wanted;
}

/* Returns true if attention reads whole heads of a value that consists of columns of its inputs. */
static bool is_slices(const ch_stream_end *end) {
  const ch_node *node = end->node;
  int64_t width = 0;
  if (!node->op->stream_slice || end->offset > 0 || end->stride != end->dim) return false;
  for (int i = 0; i < node->inputs; i++) {
    if (!node->in[i]->streamed) return false;
    width += node->op->stream_slice(node, i).width;
  }
  return width == end->dim;
}

static ch_stream_end slice_of(const ch_node *node, int i) {
  ch_head_slice slice = node->op->stream_slice(node, i);
  return (ch_stream_end){node->in[i], slice.offset, slice.stride, slice.width};
}

/* If heads are columns of another value, reads them from that value. Keys that are columns of two values of one
   type are read from both. */
static void read_slices(ch_stream *stream) {
  ch_stream_end *keys = &stream->end[CH_STREAM_KEYS], *values = &stream->end[CH_STREAM_VALUES];
  while (keys->node->inputs == 1 && is_slices(keys)) *keys = slice_of(keys->node, 0);
  while (values->node->inputs == 1 && is_slices(values)) *values = slice_of(values->node, 0);
  const ch_node *node = keys->node;
  if (node->inputs != 2 || !is_slices(keys) || type_of(node->in[0]) != type_of(node->in[1])) return;
  if (node->op->stream_slice(node, 0).width % CH_TAIL_UNIT != 0) return;
  *keys = slice_of(node, 0);
  stream->end[CH_STREAM_KEY_TAILS] = slice_of(node, 1);
}

/* Returns true if block-quantised states can be tiles without conversion. */
static bool are_whole_blocks(const ch_stream *stream, const ch_node *node) {
  if (!block_quantised(node)) return false;
  for (int n = 0; n < stream->nodes; n++)
    for (int i = 0; !stream->node[n]->op->stateful && i < stream->node[n]->inputs; i++)
      if (stream->node[n]->in[i] == node) return false;
  for (int i = 0; i < CH_STREAM_ENDS; i++) {
    const ch_stream_end *end = &stream->end[i];
    if (end->node != node) continue;
    if (stream->end[CH_STREAM_KEY_TAILS].node && i != CH_STREAM_VALUES) return false;
    if (end->offset % STATE_BLOCK != 0 || end->stride % STATE_BLOCK != 0 || end->dim % STATE_BLOCK != 0)
      return false;
  }
  return true;
}

ch_status ch_stream_open(ch_stream *stream, const ch_run *run, const ch_stream_end *keys,
                         const ch_stream_end *values) {
  *stream = (ch_stream){.run = run};
  stream->end[CH_STREAM_KEYS] = *keys;
  stream->end[CH_STREAM_VALUES] = *values;
  read_slices(stream);
  for (int i = 0; i < CH_STREAM_ENDS; i++)
    if (stream->end[i].node) CH_TRY(collect(stream, stream->end[i].node));
  for (int n = 0; n < stream->nodes; n++) stream->whole_blocks[n] = are_whole_blocks(stream, stream->node[n]);
  return CH_OK;
}

/* --- columns -------------------------------------------------------------------------------------------- */

ch_column_range ch_groups_of(ch_column_range wanted, int64_t width, int64_t other_width) {
  int64_t first = wanted.first / width, end = (wanted.first + wanted.count + width - 1) / width;
  return (ch_column_range){first * other_width, (end - first) * other_width};
}

ch_column_range ch_whole_groups(ch_column_range wanted, int64_t width) {
  return ch_groups_of(wanted, width, width);
}

static ch_column_range joined(ch_column_range a, ch_column_range b) {
  if (a.count == 0 || b.count == 0) return a.count ? a : b;
  int64_t first = a.first < b.first ? a.first : b.first;
  int64_t a_end = a.first + a.count, b_end = b.first + b.count;
  return (ch_column_range){first, (a_end > b_end ? a_end : b_end) - first};
}

static ch_column_range needed_of(const ch_node *node, int input, ch_column_range wanted) {
  return node->op->stream_needs ? node->op->stream_needs(node, input, wanted) : wanted;
}

/* Finds the columns of every node that heads head … head+heads-1 need. */
static void find_columns(const ch_stream *stream, int64_t head, int64_t heads, ch_column_range columns[]) {
  memset(columns, 0, (size_t)stream->nodes * sizeof *columns);
  for (int i = 0; i < CH_STREAM_ENDS; i++) {
    const ch_stream_end *end = &stream->end[i];
    if (!end->node) continue;
    ch_column_range own = {end->offset + head * end->stride, (heads - 1) * end->stride + end->dim};
    int place = place_of(stream, end->node);
    columns[place] = joined(columns[place], own);
  }
  for (int n = stream->nodes - 1; n >= 0; n--) {
    const ch_node *node = stream->node[n];
    if (node->op->stream_whole) columns[n] = (ch_column_range){0, ch_node_columns(node)};
    for (int i = 0; !node->op->stateful && i < node->inputs; i++) {
      if (!node->in[i]->streamed) continue;
      int place = place_of(stream, node->in[i]);
      columns[place] = joined(columns[place], needed_of(node, i, columns[n]));
    }
  }
}

/* --- evaluating ----------------------------------------------------------------------------------------- */

/* An arena of scratch, in elements of one type. With base NULL, it only counts them. */
typedef struct scratch_arena {
  char *base;
  int64_t used;
  size_t element;
} scratch_arena;

static void *take(scratch_arena *arena, int64_t elements) {
  enum { LINE = 16 };
  void *piece = arena->base ? arena->base + (size_t)arena->used * arena->element : NULL;
  arena->used += (elements + LINE - 1) / LINE * LINE;
  return piece;
}

void ch_stream_parts(const ch_stream *stream, ch_state_view parts[CH_MAX_STATE_PARTS]) {
  int count = 0;
  for (int n = 0; n < stream->nodes && count < CH_MAX_STATE_PARTS; n++)
    if (lies_in_cache(stream->node[n]))
      parts[count++] = stream->node[n]->op->states(stream->run, stream->node[n]);
}

/* Returns states as the cache stores them. Block-quantised ones are converted into `space` [count, columns],
   unless it is NULL. */
static ch_stream_value of_cache(const ch_stream *stream, const ch_node *node, const ch_tile_span *span,
                                ch_column_range columns, void *space) {
  const ch_kernels *kernels = stream->run->kernels;
  ch_state_view view = node->op->states(stream->run, node);
  ch_column_range made = made_columns(node, columns);
  int64_t at = ch_state_at(&view, span->sequence, span->first) + made.first;
  const char *data = (const char *)view.data + ch_dtype_bytes(view.dtype, at);
  if (!block_quantised(node) || !space) return (ch_stream_value){data, view.dtype, view.token_stride, made};
  kernels->unpack_states(span->count, made.count, data,
                         (int64_t)ch_dtype_bytes(view.dtype, view.token_stride), view.dtype, space);
  return (ch_stream_value){space, kernels->dtype, made.count, made};
}

/* Returns `wanted` columns of a value as dense rows of `dtype`, [count, wanted.count]: in place, or copied to
   `space`. dtype is the kernels' type, or another one if the value has that type. */
static ch_stream_value made_dense(const ch_run *run, const ch_stream_value *value, ch_dtype dtype,
                                  ch_column_range wanted, int64_t count, void *space) {
  const ch_kernels *kernels = run->kernels;
  int64_t skipped = wanted.first - value->columns.first;
  if (value->dtype == dtype && value->stride == wanted.count && skipped == 0) return *value;
  size_t from = ch_dtype_size(value->dtype), to = ch_dtype_size(dtype);
  bool together = value->stride == wanted.count && skipped == 0;
  int64_t rows = together ? 1 : count, row = together ? count * wanted.count : wanted.count;
  for (int64_t t = 0; t < rows; t++) {
    const char *x = (const char *)value->data + (size_t)(t * value->stride + skipped) * from;
    char *y = (char *)space + (size_t)(t * row) * to;
    if (dtype == kernels->dtype)
      kernels->convert_from(run->team, row, x, value->dtype, y);
    else
      kernels->convert_to(run->team, row, x, dtype, y);
  }
  return (ch_stream_value){space, dtype, wanted.count, wanted};
}

/* The computation of the values of a span. */
typedef struct tile_job {
  const ch_stream *stream;
  int64_t count; /* tokens of the span */
  /* takes_blocks: true if block-quantised states may remain blocks; many: true if all threads compute many
     tokens, false if one thread computes a few */
  bool takes_blocks, many;
  ch_column_range columns[CH_MAX_STREAM_NODES]; /* columns of every node */
} tile_job;

static bool makes_many(const tile_job *m, const ch_node *node) {
  return m->many && node->op->stream_many;
}

/* Allocates space for the value of node n, and for dense copies of its inputs if they may be needed. */
static void *take_node(const tile_job *m, int n, scratch_arena *arena, void *copies[CH_MAX_STREAM_INPUTS]) {
  const ch_stream *stream = m->stream;
  const ch_node *node = stream->node[n];
  const ch_column_range *columns = m->columns;
  int64_t count = m->count;
  if (m->takes_blocks && stream->whole_blocks[n]) return NULL;
  if (block_quantised(node)) return take(arena, count * made_columns(node, columns[n]).count);
  if (lies_in_cache(node)) return NULL;
  for (int i = 0; !node->op->stateful && i < node->inputs; i++) {
    const ch_node *input = node->in[i];
    copies[i] = NULL;
    if (!input->streamed || node->op->stream_raw) continue;
    ch_column_range wanted = needed_of(node, i, columns[n]);
    ch_column_range made = made_columns(input, columns[place_of(stream, input)]);
    bool others = made.first != wanted.first || made.count != wanted.count;
    if ((lies_in_cache(input) && !block_quantised(input)) || others || makes_many(m, node))
      copies[i] = take(arena, count * wanted.count);
  }
  return take(arena, (count + 2) * columns[n].count);
}

/* Returns the type in which node n receives a streamed input. */
static ch_dtype given_type(const tile_job *m, const ch_node *node, const ch_stream_value *value) {
  ch_dtype own = m->stream->run->kernels->dtype;
  return makes_many(m, node) && !node->op->stream_unrounded && node->graph->compute == CH_BF16 &&
                 value->dtype == own
             ? CH_BF16
             : own;
}

static ch_status evaluate(const tile_job *m, int n, const ch_tile_span *span, ch_stream_value *values,
                          scratch_arena *arena) {
  const ch_stream *stream = m->stream;
  const ch_node *node = stream->node[n];
  const ch_column_range *columns = m->columns;
  void *copies[CH_MAX_STREAM_INPUTS], *space = take_node(m, n, arena, copies);
  if (lies_in_cache(node)) {
    values[n] = of_cache(stream, node, span, columns[n], space);
    return CH_OK;
  }
  ch_stream_call call = {.run = stream->run,
                         .node = node,
                         .sequence = span->sequence,
                         .first = span->first,
                         .count = span->count,
                         .wanted = columns[n],
                         .space = space};
  for (int i = 0; !node->op->stateful && i < node->inputs; i++) {
    if (!node->in[i]->streamed) continue;
    const ch_stream_value *value = &values[place_of(stream, node->in[i])];
    call.in[i] = node->op->stream_raw ? *value
                                      : made_dense(stream->run, value, given_type(m, node, value),
                                                   needed_of(node, i, columns[n]), span->count, copies[i]);
  }
  values[n] = (ch_stream_value){space, stream->run->kernels->dtype, columns[n].count, columns[n]};
  if (makes_many(m, node)) return node->op->stream_many(&call);
  node->op->stream(&call);
  return CH_OK;
}

static ch_tile tile_of(const ch_stream *stream, const ch_stream_end *end, const ch_stream_value *values,
                       int64_t head) {
  const ch_stream_value *value = &values[place_of(stream, end->node)];
  int64_t at = end->offset + head * end->stride - value->columns.first;
  return (ch_tile){.data = (const char *)value->data + ch_dtype_bytes(value->dtype, at),
                   .dtype = value->dtype,
                   .stride = value->stride,
                   .head_stride = end->stride};
}

static ch_status make_tiles(tile_job *m, const ch_tile_span *span, void *space, ch_tiles *tiles) {
  const ch_stream *stream = m->stream;
  ch_stream_value made[CH_MAX_STREAM_NODES];
  scratch_arena arena = {.base = space, .element = ch_dtype_size(stream->run->kernels->dtype)};
  find_columns(stream, span->head, span->heads, m->columns);
  for (int n = 0; n < stream->nodes; n++) CH_TRY(evaluate(m, n, span, made, &arena));
  const ch_stream_end *end = stream->end;
  *tiles = (ch_tiles){.keys = tile_of(stream, &end[CH_STREAM_KEYS], made, span->head),
                      .values = tile_of(stream, &end[CH_STREAM_VALUES], made, span->head)};
  if (!end[CH_STREAM_KEY_TAILS].node) return CH_OK;
  tiles->tail = tile_of(stream, &end[CH_STREAM_KEY_TAILS], made, span->head);
  tiles->tail_dim = end[CH_STREAM_KEY_TAILS].dim;
  return CH_OK;
}

static void produce(const ch_attend *args, const ch_tile_span *span, void *scratch, ch_tiles *tiles) {
  tile_job m = {.stream = args->context, .count = span->count, .takes_blocks = args->takes_blocks};
  make_tiles(&m, span, scratch, tiles); /* cannot fail for few tokens */
}

/* Returns the number of elements of scratch for the values of `heads` heads from `head` on. */
static int64_t elements_of(tile_job *m, int64_t head, int64_t heads) {
  scratch_arena arena = {.element = ch_dtype_size(m->stream->run->kernels->dtype)};
  find_columns(m->stream, head, heads, m->columns);
  for (int n = 0; n < m->stream->nodes; n++) {
    void *copies[CH_MAX_STREAM_INPUTS];
    take_node(m, n, &arena, copies);
  }
  return arena.used;
}

/* Returns the maximum number of elements that `heads` consecutive heads need. A head's columns may be in one block of
   states or in two, so the number of computed columns differs between heads. */
static int64_t scratch_elements(const ch_attend *args, int64_t heads, int64_t count) {
  tile_job m = {.stream = args->context, .count = count, .takes_blocks = args->takes_blocks};
  int64_t most = 0;
  for (int64_t head = 0; head == 0 || head + heads <= args->kv_heads; head++) {
    int64_t own = elements_of(&m, head, heads);
    if (own > most) most = own;
  }
  return most;
}

const ch_tile_producer ch_tile_producer_stream = {
    .name = "stream", .produce = produce, .scratch_elements = scratch_elements};

/* --- tiles laid out for many queries -------------------------------------------------------------------- */

double ch_stream_flops(const ch_stream *stream) {
  double flops = 0;
  for (int n = 0; n < stream->nodes; n++) {
    const ch_node *node = stream->node[n];
    if (node->op->flops) flops += node->op->flops(node) / (double)ch_node_rows(node);
  }
  return flops;
}

int64_t ch_stream_laid_elements(const ch_stream *stream, int64_t heads, int64_t count) {
  return elements_of(&(tile_job){.stream = stream, .count = count, .many = true}, 0, heads);
}

ch_status ch_stream_lay(const ch_stream *stream, const ch_tile_span *span, void *space, ch_laid_tiles *laid) {
  laid->first = span->first;
  return make_tiles(&(tile_job){.stream = stream, .count = span->count, .many = true}, span, space,
                    &laid->tiles);
}

/* Returns the part of a tile from a token and a head on. */
static ch_tile tile_from(ch_tile tile, int64_t token, int64_t head) {
  tile.data = (const char *)tile.data +
              (token * tile.stride + head * tile.head_stride) * (int64_t)ch_dtype_size(tile.dtype);
  return tile;
}

static void produce_laid(const ch_attend *args, const ch_tile_span *span, void *scratch, ch_tiles *tiles) {
  (void)scratch;
  const ch_laid_tiles *laid = args->context;
  int64_t token = span->first - laid->first;
  *tiles = (ch_tiles){.keys = tile_from(laid->tiles.keys, token, span->head),
                      .values = tile_from(laid->tiles.values, token, span->head),
                      .tail_dim = laid->tiles.tail_dim};
  if (tiles->tail_dim > 0) tiles->tail = tile_from(laid->tiles.tail, token, span->head);
}

const ch_tile_producer ch_tile_producer_laid = {
    .name = "laid", .produce = produce_laid, .scratch_elements = ch_tile_no_scratch};
