/* Split-KV decode: streaming attention over few queries, bound by the memory of the states.
 *
 * The tokens of every sequence are divided into one part per thread (fewer if there are few tokens). A thread
 * reads its parts once, for all heads, and keeps running sums for each part. The sums of a sequence's parts
 * are merged at the end, in the order of the tokens. If there are many sequences, a thread reads all parts of
 * a sequence as long as all threads get the same amount of work. */
#include "tensor/kernels/attention/attend_split_kv.h"

#include "tensor/kernels/attention/attend_bf16_dot.h"

enum { BLOCK_BYTES = 320 * 1024, FIRST_BLOCK = 32 };

static int64_t group_columns(const ch_attend *args) {
  return args->queries * (args->heads / args->kv_heads);
}

static decode_plan plan_decode(const ch_attend *args) {
  decode_plan plan = {.group_columns = group_columns(args),
                      .block = BLOCK,
                      .key_padded = round_up(args->key_dim, VL),
                      .value_padded = round_up(args->value_dim, VL)};
  plan.dots = plan.group_columns <= DOT_COLUMNS;
  if (plan.dots && plan.group_columns > 1) plan.block = CH_ATTEND_LONG_BLOCK;
  plan.pitch = plan.dots ? plan.group_columns : round_up(plan.group_columns, VL);
  plan.total = round_up(args->kv_heads * plan.pitch, VL);
  /* A block, its tiles and the prefetched next block together stay in L2. */
  int64_t token_bytes = args->kv_heads * (args->key_dim + args->value_dim) * (int64_t)sizeof(real);
  if (plan.dots && plan.group_columns > 1)
    while (plan.block > 8 && plan.block * token_bytes > BLOCK_BYTES) plan.block /= 2;
  while (plan.block > 8 &&
         args->producer->scratch_elements(args, args->kv_heads, plan.block) * (int64_t)sizeof(real) >
             BLOCK_BYTES / 2)
    plan.block /= 2;
  plan.in_place = args->producer->scratch_elements(args, args->kv_heads, plan.block) == 0;
  return plan;
}

static void allocate_state(const decode_plan *plan, scratch_arena *arena, decode_state *state) {
  state->max = arena_reals(arena, plan->total);
  state->sum = arena_reals(arena, plan->total);
  state->rows = arena_reals(arena, plan->total * plan->value_padded);
}

static void allocate_split_kv(const ch_attend *args, const decode_plan *plan, scratch_arena *arena,
                              decode_space *space) {
  space->tile = arena_reals(arena, args->producer->scratch_elements(args, args->kv_heads, plan->block));
  if (plan->dots) {
    attend_decode_allocate(args, plan, arena, space);
    return;
  }
  space->keys = arena_reals(arena, BLOCK * plan->key_padded);
  space->values = arena_reals(arena, BLOCK * plan->value_padded);
  space->scores = arena_reals(arena, SCORES);
  space->panel = arena_take(arena, args->kv_heads, sizeof *space->panel);
  for (int64_t g = 0; g < args->kv_heads; g++) {
    forward_panel panel;
    allocate_panel(args, arena, &panel);
    if (arena->base) space->panel[g] = panel;
  }
}

/* --- panels, for many columns --------------------------------------------------------------------------- */

static void start_panels(const ch_attend *args, const decode_plan *plan, int64_t sequence,
                         decode_space *space, const decode_state *state) {
  for (int64_t g = 0; g < args->kv_heads; g++) {
    forward_panel *panel = &space->panel[g];
    panel->columns.max = state->max + g * plan->pitch;
    panel->columns.sum = state->sum + g * plan->pitch;
    panel->sum = state->rows + g * plan->pitch * plan->value_padded;
    attend_start_panel(args, sequence, g, 0, plan->group_columns, panel);
  }
}

static void panel_block(const ch_attend *args, const decode_plan *plan, const decode_block *block,
                        const decode_space *space) {
  const ch_tiles *tiles = &block->tiles;
  int64_t coming = plan->in_place ? block->coming : 0;
  for (int64_t g = 0; g < args->kv_heads; g++) {
    block_rows rows =
        read_block(tiles, args->key_dim, args->value_dim, g, block->count, space->keys, space->values);
    upcoming next_keys =
        upcoming_rows(&tiles->keys, g, block->count, coming, args->key_dim - tiles->tail_dim);
    upcoming next_values = upcoming_rows(&tiles->values, g, block->count,
                                         rows.values == rows.keys ? 0 : coming, args->value_dim);
    attend_meet_block(args, &space->panel[g], block->first, block->count, &rows, space->scores, &next_keys,
                      &next_values);
  }
}

/* --- ranges of tokens ----------------------------------------------------------------------------------- */

/* Sets *first to the first token that any query of a sequence sees. Returns the number of tokens from there on. */
static int64_t visible_tokens(const ch_attend *args, int64_t sequence, int64_t *first) {
  int64_t end = tokens_before(args, sequence) + args->queries;
  *first = 0;
  if (args->document_start || args->window > 0) {
    *first = INT64_MAX;
    for (int64_t i = 0; i < args->queries; i++) {
      const visible_keys keys = keys_of_query(args, sequence, i);
      const int64_t own = keys.sink < keys.end_sink ? keys.sink : keys.first;
      if (own < *first) *first = own;
    }
  }
  return end > *first ? end - *first : 0;
}

/* Produces a block of at most `most` of the `left` tokens from `first` on. Sets its `coming` to the tokens of the
   next block, at most `coming`. */
static decode_block produce_block(const ch_attend *args, int64_t sequence, int64_t first, int64_t left,
                                  int64_t most, int64_t coming, void *scratch) {
  decode_block block = {.sequence = sequence, .first = first};
  block.count = left < most ? left : most;
  block.coming = left - block.count < coming ? left - block.count : coming;
  ch_tile_span span = {
      .sequence = sequence, .head = 0, .heads = args->kv_heads, .first = first, .count = block.count};
  args->producer->produce(args, &span, scratch, &block.tiles);
  return block;
}

/* The tokens of one part of a sequence, which one thread reads. */
typedef struct kv_part {
  int64_t sequence, first, end;
  int64_t part;
  bool last_of_own; /* true for the last part of a sequence of which this thread reads all parts */
} kv_part;

/* Returns the address of a part's first keys if tiles are read in place, else NULL. */
static const void *first_keys(const ch_attend *args, const decode_plan *plan, const kv_part *part) {
  if (!part || !plan->in_place || part->first >= part->end) return NULL;
  return produce_block(args, part->sequence, part->first, 1, 1, 0, NULL).tiles.keys.data;
}

static void read_tokens(const ch_attend *args, const decode_plan *plan, const kv_part *part,
                        const kv_part *after, decode_space *space, const decode_state *state) {
  if (plan->dots)
    attend_decode_start(args, plan, part->sequence, space, state);
  else
    start_panels(args, plan, part->sequence, space, state);
  /* The first block was not prefetched, so a long first block would wait. If blocks are long, the first block
     is short, and each next block is twice as long. */
  int64_t most = plan->block > BLOCK ? FIRST_BLOCK : plan->block;
  for (int64_t first = part->first; first < part->end;) {
    int64_t coming = 2 * most < plan->block ? 2 * most : plan->block;
    decode_block block =
        produce_block(args, part->sequence, first, part->end - first, most, coming, space->tile);
    if (block.coming == 0) block.keys_after = first_keys(args, plan, after);
    if (plan->dots)
      attend_decode_block(args, plan, &block, space, state);
    else
      panel_block(args, plan, &block, space);
    first += block.count;
    most = coming;
  }
}

static void write_all(const ch_attend *args, const decode_plan *plan, int64_t sequence,
                      const decode_state *state, int64_t begin, int64_t end) {
  for (int64_t column = begin; column < end; column++) {
    int64_t g = column / plan->group_columns, i = column % plan->group_columns, at = g * plan->pitch + i;
    column_place place = place_of(args, g, i);
    real sum = state->sum[at];
    attend_write(args, sequence, &place, state->rows + at * plan->value_padded, sum == 0 ? 0 : 1 / sum,
                 args->lse ? state->max[at] + real_log(sum) : 0);
  }
}

/* Merges a later part of the same sequence into `into`, for one column. */
static void merge_column(const decode_plan *plan, int64_t at, const decode_state *into,
                         const decode_state *part) {
  if (part->sum[at] == 0) return;
  real *row = into->rows + at * plan->value_padded;
  const real *other = part->rows + at * plan->value_padded;
  bool empty = into->sum[at] == 0;
  real max = empty || part->max[at] > into->max[at] ? part->max[at] : into->max[at];
  real keep = empty ? 0 : real_exp(into->max[at] - max), add = real_exp(part->max[at] - max);
  for (int64_t k = 0; k < plan->value_padded; k += VL)
    store(row + k, empty ? load(other + k) : vec_fma(load(row + k), splat(keep), load(other + k) * add));
  into->sum[at] = (empty ? 0 : into->sum[at] * keep) + part->sum[at] * add;
  into->max[at] = max;
}

static size_t space_bytes(const ch_attend *args, const decode_plan *plan) {
  scratch_arena arena = {0};
  decode_space space;
  allocate_split_kv(args, plan, &arena, &space);
  return arena.used;
}

static size_t state_bytes(const decode_plan *plan) {
  scratch_arena arena = {0};
  decode_state state;
  allocate_state(plan, &arena, &state);
  return arena.used;
}

/* --- parts of sequences --------------------------------------------------------------------------------- */

/* The layout of the scratch memory: the threads' working memory, then the states of all parts of all
   sequences. */
typedef struct split_memory {
  size_t thread_bytes, state_bytes;
  int most_parts;
} split_memory;

static split_memory memory_for(const ch_attend *args, const decode_plan *plan) {
  return (split_memory){space_bytes(args, plan), state_bytes(plan), args->team->threads};
}

static decode_state state_of_part(const ch_attend *args, const decode_plan *plan, const split_memory *memory,
                                  int64_t sequence, int64_t part) {
  scratch_arena arena = arena_at(args->scratch);
  arena.base += (size_t)memory->most_parts * memory->thread_bytes +
                (size_t)(sequence * memory->most_parts + part) * memory->state_bytes;
  decode_state state;
  allocate_state(plan, &arena, &state);
  return state;
}

/* Returns the number of parts that a sequence is divided into. The number depends only on the sequence's own
   length and the planned number of threads, so that the sequence's result does not depend on other
   sequences. */
static int64_t parts_of(const ch_attend *args, const decode_plan *plan, const split_memory *memory,
                        int64_t tokens) {
  int64_t work = tokens * args->kv_heads * plan->group_columns * (args->key_dim + args->value_dim);
  int64_t parts = work / (CH_PARALLEL_ELEMENTS / 2);
  return parts < 2 ? 1 : parts < memory->most_parts ? parts : memory->most_parts;
}

/* The owners of sequences. One thread reads all parts of a sequence, in their order in memory, as long as all
   threads get the same amount of work. Otherwise the sequence has no owner, and the threads take turns to
   read its parts. All threads compute the same owners. */
enum { MOST_OWNERS = 64, NO_OWNER = -1 };

typedef struct kv_owners {
  int64_t tokens[MOST_OWNERS], most; /* tokens of each thread so far, and the fair share (0: none) */
  int threads;
} kv_owners;

static kv_owners share_tokens(const ch_attend *args, int threads) {
  kv_owners owners = {.threads = threads};
  int64_t all = 0, first;
  for (int64_t s = 0; s < args->sequences; s++) all += visible_tokens(args, s, &first);
  owners.most = threads > MOST_OWNERS ? 0 : (all + threads - 1) / threads;
  return owners;
}

static int next_owner(kv_owners *owners, int64_t tokens) {
  if (owners->most == 0) return NO_OWNER;
  int least = 0;
  for (int t = 1; t < owners->threads; t++)
    if (owners->tokens[t] < owners->tokens[least]) least = t;
  if (owners->tokens[least] + tokens <= owners->most) {
    owners->tokens[least] += tokens;
    return least;
  }
  for (int t = 0; t < owners->threads; t++) owners->tokens[t] += tokens / owners->threads;
  return NO_OWNER;
}

/* Merges the parts of a sequence for some columns, in the order of the tokens, and writes the output. */
static void merge_sequence(const ch_attend *args, const decode_plan *plan, const split_memory *memory,
                           int64_t sequence, int64_t parts, int64_t begin, int64_t end) {
  decode_state whole = state_of_part(args, plan, memory, sequence, 0);
  for (int64_t p = 1; p < parts; p++) {
    decode_state part = state_of_part(args, plan, memory, sequence, p);
    for (int64_t c = begin; c < end; c++)
      merge_column(plan, c / plan->group_columns * plan->pitch + c % plan->group_columns, &whole, &part);
  }
  write_all(args, plan, sequence, &whole, begin, end);
}

static void read_part(const ch_attend *args, const decode_plan *plan, const split_memory *memory,
                      const kv_part *part, const kv_part *after, decode_space *space) {
  decode_state state = state_of_part(args, plan, memory, part->sequence, part->part);
  read_tokens(args, plan, part, after, space, &state);
  if (part->last_of_own)
    merge_sequence(args, plan, memory, part->sequence, part->part + 1, 0,
                   args->kv_heads * plan->group_columns);
}

/* First pass: reads this thread's parts of every sequence. At the end of each part it prefetches the next
   part's first keys. It also merges a sequence if this thread reads all of its parts. */
static void read_parts(const ch_attend *args, const decode_plan *plan, const split_memory *memory, int thread,
                       int threads) {
  scratch_arena arena = arena_at(args->scratch);
  arena.base += (size_t)thread * memory->thread_bytes;
  decode_space space;
  allocate_split_kv(args, plan, &arena, &space);
  kv_owners owners = share_tokens(args, threads);
  int64_t turn = 0, begin, end, first;
  kv_part before = {.sequence = -1};
  for (int64_t s = 0; s < args->sequences; s++) {
    int64_t tokens = visible_tokens(args, s, &first), parts = parts_of(args, plan, memory, tokens);
    const int owner = next_owner(&owners, tokens);
    for (int64_t p = 0; p < parts && tokens > 0; p++) {
      if (owner == NO_OWNER ? turn++ % threads != thread : owner != thread) continue;
      thread_range(tokens, (int)p, (int)parts, &begin, &end);
      const kv_part part = {s, first + begin, first + end, p,
                            (owner != NO_OWNER || parts == 1) && p == parts - 1};
      if (before.sequence >= 0) read_part(args, plan, memory, &before, &part, &space);
      before = part;
    }
  }
  if (before.sequence >= 0) read_part(args, plan, memory, &before, NULL, &space);
}

/* Second pass: merges this thread's share of the columns of every sequence that several threads read. */
static void merge_parts(const ch_attend *args, const decode_plan *plan, const split_memory *memory,
                        int thread, int threads) {
  kv_owners owners = share_tokens(args, threads);
  int64_t begin, end, first;
  thread_range(args->kv_heads * plan->group_columns, thread, threads, &begin, &end);
  for (int64_t s = 0; s < args->sequences; s++) {
    int64_t tokens = visible_tokens(args, s, &first), parts = parts_of(args, plan, memory, tokens);
    if (next_owner(&owners, tokens) == NO_OWNER && parts > 1)
      merge_sequence(args, plan, memory, s, parts, begin, end);
  }
}

static void write_unseen(const ch_attend *args, const decode_plan *plan) {
  for (int64_t s = 0; s < args->sequences; s++) {
    int64_t first;
    if (visible_tokens(args, s, &first) > 0) continue;
    for (int64_t c = 0; c < args->kv_heads * plan->group_columns; c++) {
      int64_t g = c / plan->group_columns, i = c % plan->group_columns;
      column_place place = place_of(args, g, i);
      attend_write(args, s, &place, NULL, 0, -(real)INFINITY);
    }
  }
}

/* Returns the call for the tile producer, which may return block-quantised tiles if there are few columns. */
static ch_attend as_produced(const ch_attend *args) {
  ch_attend own = *args;
  own.takes_blocks = group_columns(args) <= DOT_COLUMNS;
  return own;
}

void attend_split_kv(const ch_attend *given) {
  const ch_attend own = as_produced(given), *args = &own;
  decode_plan plan = plan_decode(args);
  split_memory memory = memory_for(args, &plan);
  int64_t tokens = 0, first;
  for (int64_t s = 0; s < args->sequences; s++) tokens += visible_tokens(args, s, &first);
  int64_t work = tokens * args->kv_heads * plan.group_columns * (args->key_dim + args->value_dim);
  write_unseen(args, &plan);
  /* `omp parallel if` is not used: creating a team of one thread is slower than the work. */
  if (work < CH_PARALLEL_ELEMENTS || args->team->workers == 1) {
    read_parts(args, &plan, &memory, 0, 1);
    merge_parts(args, &plan, &memory, 0, 1);
    return;
  }
#pragma omp parallel num_threads(args->team->workers)
  {
    read_parts(args, &plan, &memory, omp_get_thread_num(), omp_get_num_threads());
#pragma omp barrier
    merge_parts(args, &plan, &memory, omp_get_thread_num(), omp_get_num_threads());
  }
}

size_t attend_split_kv_scratch(const ch_attend *given) {
  const ch_attend own = as_produced(given), *args = &own;
  decode_plan plan = plan_decode(args);
  split_memory memory = memory_for(args, &plan);
  return (size_t)memory.most_parts * (memory.thread_bytes + (size_t)args->sequences * memory.state_bytes) +
         64;
}
