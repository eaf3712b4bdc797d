/* The weights, gradients and moments that a rank holds, and their layout. */
#include "train/parameter_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/share.h"

/* Elements of a cache line of bytes. Tensors and parts of every type start on cache lines, so that two threads never
 * write one line. */
enum { LINE = 64 };

static int64_t up_to_lines(int64_t elements) {
  return (elements + LINE - 1) / LINE * LINE;
}

/* --- division over ranks -------------------------------------------------------------------------------- */

/* Returns the number of columns of `rank` of a tensor that is divided by columns, and sets *first. */
static int64_t own_columns(const ch_param *param, int rank, int ranks, int64_t *first) {
  int64_t all = param->shape[param->rank - 1];
  *first = ch_share_begin(all, rank, ranks);
  return ch_share_begin(all, rank + 1, ranks) - *first;
}

static int64_t elements_here(const ch_param *param, ch_keeping keeping, int rank, int ranks) {
  int64_t first, count = ch_param_count(param);
  if (keeping != CH_KEPT_COLUMNS) return count;
  return count / param->shape[param->rank - 1] * own_columns(param, rank, ranks, &first);
}

/* Sets the elements and parts of the regions, and places (or NULL). */
static void lay_out(const ch_params *params, int rank, int ranks, const ch_keeping *keeping, int64_t *places,
                    ch_parameter_region regions[CH_KEEPINGS]) {
  for (int p = 0; p < params->count; p++) {
    ch_parameter_region *region = &regions[keeping[p]];
    if (places) places[p] = region->elements;
    region->elements += up_to_lines(elements_here(&params->rows[p], keeping[p], rank, ranks));
  }
  for (int k = 0; k < CH_KEEPINGS; k++) {
    int owners = k == CH_KEPT_COLUMNS ? 1 : ranks;
    regions[k].part = up_to_lines((regions[k].elements + owners - 1) / owners);
    regions[k].elements = owners * regions[k].part;
  }
}

static int64_t part_begin(const ch_parameter_set *set, ch_keeping keeping, int rank) {
  return keeping == CH_KEPT_COLUMNS ? 0 : rank * set->regions[keeping].part;
}

ch_parameter_piece ch_parameter_piece_of(const ch_parameter_set *set, int parameter, int rank) {
  const ch_param *param = &set->params->rows[parameter];
  ch_keeping keeping = set->keeping[parameter];
  ch_parameter_piece piece = {.count = elements_here(param, keeping, rank, set->ranks)};
  if (keeping == CH_KEPT_COLUMNS) {
    piece.columns = own_columns(param, rank, set->ranks, &piece.first);
    return piece;
  }
  int64_t begin = part_begin(set, keeping, rank), end = begin + set->regions[keeping].part;
  int64_t from = set->places[parameter], to = from + piece.count, first = from > begin ? from : begin,
          last = to < end ? to : end;
  if (first >= last) return (ch_parameter_piece){0};
  return (ch_parameter_piece){.first = first - from, .count = last - first};
}

/* --- memory --------------------------------------------------------------------------------------------- */

static ch_dtype read_type(ch_keeping keeping, ch_dtype dtype) {
  return keeping == CH_KEPT_ROUNDED ? CH_BF16 : dtype;
}

static ch_parameter_bytes bytes_of(const ch_parameter_region *region, ch_keeping keeping, ch_dtype dtype) {
  size_t size = ch_dtype_size(dtype), part = (size_t)region->part * size;
  return (ch_parameter_bytes){.weights = (size_t)region->elements * ch_dtype_size(read_type(keeping, dtype)),
                              .gradients = (size_t)region->elements * size,
                              .masters = keeping == CH_KEPT_ROUNDED ? part : 0,
                              .moments = 2 * part};
}

static ch_parameter_bytes add_up(const ch_parameter_region regions[CH_KEEPINGS], ch_dtype dtype) {
  ch_parameter_bytes all = {0};
  for (int k = 0; k < CH_KEEPINGS; k++) {
    ch_parameter_bytes some = bytes_of(&regions[k], k, dtype);
    all.weights += some.weights;
    all.gradients += some.gradients;
    all.masters += some.masters;
    all.moments += some.moments;
  }
  return all;
}

ch_parameter_bytes ch_parameter_bytes_of(const ch_params *params, ch_dtype dtype, int rank, int ranks,
                                         const ch_keeping *keeping) {
  ch_parameter_region regions[CH_KEEPINGS] = {{0}};
  lay_out(params, rank, ranks, keeping, NULL, regions);
  return add_up(regions, dtype);
}

ch_parameter_bytes ch_parameter_set_bytes(const ch_parameter_set *set) {
  return add_up(set->regions, set->dtype);
}

static size_t all_of(ch_parameter_bytes bytes) {
  return bytes.weights + bytes.gradients + bytes.masters + bytes.moments;
}

static bool allocate(const ch_value_memory *memory, size_t bytes, void **block) {
  return bytes == 0 || (*block = memory->allocate(bytes)) != NULL;
}

static bool allocate_region(ch_parameter_set *set, ch_keeping keeping) {
  ch_parameter_region *region = &set->regions[keeping];
  ch_parameter_bytes bytes = bytes_of(region, keeping, set->dtype);
  bool enough = allocate(set->memory, bytes.weights, &region->weights) &&
                allocate(set->memory, bytes.gradients, &region->gradients) &&
                allocate(set->memory, bytes.masters, &region->masters) &&
                allocate(set->memory, bytes.moments / 2, &region->m) &&
                allocate(set->memory, bytes.moments / 2, &region->v);
  if (enough && keeping != CH_KEPT_ROUNDED && region->weights)
    region->masters =
        (char *)region->weights + (size_t)part_begin(set, keeping, set->rank) * ch_dtype_size(set->dtype);
  return enough;
}

static void release_region(const ch_parameter_set *set, ch_keeping keeping) {
  const ch_parameter_region *region = &set->regions[keeping];
  ch_parameter_bytes bytes = bytes_of(region, keeping, set->dtype);
  if (region->weights) set->memory->release(region->weights, bytes.weights);
  if (region->gradients) set->memory->release(region->gradients, bytes.gradients);
  if (region->masters && bytes.masters) set->memory->release(region->masters, bytes.masters);
  if (region->m) set->memory->release(region->m, bytes.moments / 2);
  if (region->v) set->memory->release(region->v, bytes.moments / 2);
}

/* --- views ---------------------------------------------------------------------------------------------- */

/* Returns a view of the tensor at `data`: of the whole tensor, or of this rank's columns of a divided table. */
static ch_tensor view_of(const ch_parameter_set *set, int p, ch_dtype dtype, void *data) {
  const ch_param *param = &set->params->rows[p];
  ch_tensor view = {.dtype = dtype, .rank = param->rank, .data = data};
  for (int i = 0; i < param->rank; i++) view.shape[i] = param->shape[i];
  if (set->keeping[p] == CH_KEPT_COLUMNS) view.shape[param->rank - 1] = set->pieces[p].columns;
  return view;
}

/* Returns a view of this rank's piece in a block that holds its part of the region. */
static ch_tensor piece_of(const ch_parameter_set *set, int p, void *block) {
  ch_parameter_piece piece = set->pieces[p];
  ch_keeping keeping = set->keeping[p];
  int64_t before = keeping == CH_KEPT_COLUMNS ? 0 : piece.first,
          at = set->places[p] + before - part_begin(set, keeping, set->rank);
  void *data = piece.count > 0 ? (char *)block + at * (int64_t)ch_dtype_size(set->dtype) : block;
  if (keeping == CH_KEPT_COLUMNS || piece.count == ch_param_count(&set->params->rows[p]))
    return view_of(set, p, set->dtype, data);
  return (ch_tensor){.dtype = set->dtype, .rank = 1, .shape = {piece.count}, .data = data};
}

static void place(ch_parameter_set *set) {
  for (int p = 0; p < set->params->count; p++) {
    ch_keeping keeping = set->keeping[p];
    const ch_parameter_region *region = &set->regions[keeping];
    ch_dtype read = read_type(keeping, set->dtype);
    set->pieces[p] = ch_parameter_piece_of(set, p, set->rank);
    set->weights[p] =
        view_of(set, p, read, (char *)region->weights + set->places[p] * (int64_t)ch_dtype_size(read));
    set->gradients[p] = view_of(
        set, p, set->dtype, (char *)region->gradients + set->places[p] * (int64_t)ch_dtype_size(set->dtype));
    set->masters[p] = piece_of(set, p, region->masters);
    set->m[p] = piece_of(set, p, region->m);
    set->v[p] = piece_of(set, p, region->v);
    set->gradient_data[p] = set->gradients[p].data;
  }
}

/* --- creation ------------------------------------------------------------------------------------------- */

/* Fails if a model cannot fit, because the system may grant more memory than exists and kill the program later. */
static ch_status check_room(size_t bytes, ch_error *error) {
  double machine = ch_machine_memory();
  if ((double)bytes <= machine) return CH_OK;
  return ch_fail(
      error, CH_ERROR_MEMORY,
      "weights, gradients and two moments need %.1f GB, but this machine has %.1f GB; train a smaller model",
      (double)bytes / 1e9, machine / 1e9);
}

bool ch_parameter_is_table(const ch_param *param) {
  return param->kind == CH_PARAM_GATE_EMBEDDING;
}

/* Allocates squares for the divided columns of all ranks, or for the columns of the widest table if these are
   more. */
static bool allocate_squares(ch_parameter_set *set) {
  int64_t most = 1;
  for (int r = 0; r < set->ranks; r++) {
    int64_t columns = 0;
    for (int p = 0; p < set->params->count; p++)
      if (set->keeping[p] == CH_KEPT_COLUMNS) columns += ch_parameter_piece_of(set, p, r).columns;
    if (columns > set->squares_each) set->squares_each = columns;
  }
  for (int p = 0; p < set->params->count; p++)
    if (ch_parameter_is_table(&set->params->rows[p]) && set->params->rows[p].shape[1] > most)
      most = set->params->rows[p].shape[1];
  if (set->ranks * set->squares_each > most) most = set->ranks * set->squares_each;
  set->table_squares = calloc((size_t)most, sizeof *set->table_squares);
  return set->table_squares != NULL;
}

ch_status ch_parameter_set_create_part(ch_parameter_set *set, const ch_params *params,
                                       const ch_kernels *kernels, int rank, int ranks,
                                       const ch_keeping *keeping, ch_error *error) {
  *set = (ch_parameter_set){
      .params = params, .dtype = kernels->dtype, .memory = kernels->memory, .rank = rank, .ranks = ranks};
  size_t count = (size_t)params->count;
  set->weights = calloc(5 * count, sizeof *set->weights);
  set->gradient_data = calloc(count, sizeof *set->gradient_data);
  set->places = calloc(count, sizeof *set->places);
  set->pieces = calloc(count, sizeof *set->pieces);
  set->keeping = calloc(count, sizeof *set->keeping);
  bool enough = set->weights && set->gradient_data && set->places && set->pieces && set->keeping;
  ch_status status = CH_OK;
  if (enough) {
    if (keeping) memcpy(set->keeping, keeping, count * sizeof *keeping);
    lay_out(params, rank, ranks, set->keeping, set->places, set->regions);
    status = check_room(all_of(ch_parameter_set_bytes(set)), error);
    enough = status != CH_OK || allocate_squares(set);
  }
  for (int k = 0; k < CH_KEEPINGS && enough && status == CH_OK; k++) enough = allocate_region(set, k);
  if (!enough)
    status = ch_fail(error, CH_ERROR_MEMORY, "no memory for weights, gradients and two moments (%zu MiB)",
                     all_of(ch_parameter_set_bytes(set)) >> 20);
  if (status != CH_OK) {
    ch_parameter_set_free(set);
    return status;
  }
  set->gradients = set->weights + count;
  set->masters = set->gradients + count;
  set->m = set->masters + count;
  set->v = set->m + count;
  place(set);
  return CH_OK;
}

void ch_parameter_set_free(ch_parameter_set *set) {
  for (int k = 0; k < CH_KEEPINGS; k++) release_region(set, k);
  free(set->weights);
  free(set->places);
  free(set->pieces);
  free(set->keeping);
  free(set->gradient_data);
  free(set->table_squares);
  *set = (ch_parameter_set){0};
}

/* --- whole tensors -------------------------------------------------------------------------------------- */

const ch_tensor *ch_parameter_pieces(const ch_parameter_set *set, ch_parameter_group group) {
  return group == CH_WEIGHTS ? set->masters : group == CH_FIRST_MOMENTS ? set->m : set->v;
}

ch_tensor ch_parameter_whole(const ch_parameter_set *set, int p, void *data) {
  const ch_param *param = &set->params->rows[p];
  ch_tensor whole = {.dtype = set->dtype, .rank = param->rank, .data = data};
  for (int i = 0; i < param->rank; i++) whole.shape[i] = param->shape[i];
  return whole;
}

/* Copies the columns of a piece between the piece and the whole table. */
static void copy_columns(const ch_parameter_set *set, ch_parameter_piece piece, const char *from,
                         int64_t from_columns, char *to, int64_t to_columns) {
  size_t size = ch_dtype_size(set->dtype);
  int64_t rows = piece.columns > 0 ? piece.count / piece.columns : 0;
  for (int64_t r = 0; r < rows; r++)
    set->memory->write(to + (size_t)(r * to_columns) * size, from + (size_t)(r * from_columns) * size,
                       (size_t)piece.columns * size);
}

void ch_parameter_set_put(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                          ch_parameter_group group, int p, const void *whole) {
  const ch_tensor *own = &ch_parameter_pieces(set, group)[p], *weight = &set->weights[p];
  ch_parameter_piece piece = set->pieces[p];
  const char *from = (const char *)whole + (size_t)piece.first * ch_dtype_size(set->dtype);
  if (set->keeping[p] == CH_KEPT_COLUMNS) {
    int64_t columns = set->params->rows[p].shape[set->params->rows[p].rank - 1];
    copy_columns(set, piece, from, columns, own->data, piece.columns);
    return;
  }
  if (group == CH_WEIGHTS && set->keeping[p] == CH_KEPT_WHOLE) {
    set->memory->write(weight->data, whole, ch_tensor_bytes(weight));
    return;
  }
  if (piece.count > 0) set->memory->write(own->data, from, ch_tensor_bytes(own));
  if (group == CH_WEIGHTS) kernels->convert_to(team, ch_tensor_count(weight), whole, CH_BF16, weight->data);
}

void ch_parameter_piece_join(const ch_parameter_set *set, int p, int rank, const void *from, void *whole) {
  ch_parameter_piece piece = ch_parameter_piece_of(set, p, rank);
  size_t size = ch_dtype_size(set->dtype);
  char *to = (char *)whole + (size_t)piece.first * size;
  if (set->keeping[p] == CH_KEPT_COLUMNS)
    copy_columns(set, piece, from, piece.columns, to,
                 set->params->rows[p].shape[set->params->rows[p].rank - 1]);
  else if (piece.count > 0)
    memcpy(to, from, (size_t)piece.count * size);
}
