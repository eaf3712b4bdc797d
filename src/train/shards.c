/* Sends rows of divided lookup tables to the ranks that need them, and returns their gradients (shards.h
 * explains the rounds). */
#include "train/shards.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/progress.h"
#include "base/share.h"

enum { ROUNDS = 2 };

static int self_of(const ch_shards *shards) {
  return shards->set->rank;
}

static int ranks_of(const ch_shards *shards) {
  return shards->set->ranks;
}

static size_t element(const ch_shards *shards) {
  return ch_dtype_size(shards->set->dtype);
}

static ch_shard_round *round_at(ch_shards *shards, int64_t round) {
  return &shards->rounds[round % ROUNDS];
}

/* --- division over ranks -------------------------------------------------------------------------------- */

static int64_t micro_batch(const ch_shards *shards, int64_t round, int rank) {
  return round * ranks_of(shards) + rank;
}

static bool has_part(const ch_shards *shards, int64_t round, int rank) {
  return micro_batch(shards, round, rank) < shards->micro_batches;
}

/* Returns the tokens of a rank's micro-batch; NULL if one of them is invalid, which that rank will report. */
static const int32_t *tokens_of(const ch_shards *shards, int64_t round, int rank) {
  int64_t at = shards->by_round ? rank : micro_batch(shards, round, rank);
  const int32_t *tokens = shards->tokens + at * shards->rows;
  int64_t vocabulary = shards->set->params->rows[shards->tables[0].parameter].shape[0];
  for (int64_t i = 0; i < shards->rows; i++)
    if (tokens[i] < 0 || tokens[i] >= vocabulary) return NULL;
  return tokens;
}

static int64_t columns_of(const ch_shards *shards, const ch_shard_table *table, int rank, int64_t *first) {
  *first = ch_share_begin(table->columns, rank, ranks_of(shards));
  return ch_share_begin(table->columns, rank + 1, ranks_of(shards)) - *first;
}

/* Returns the share of `rank` in a buffer of all columns, and sets *bytes. */
static char *share(const ch_shards *shards, const ch_shard_table *table, char *buffer, int rank,
                   size_t *bytes) {
  int64_t first, columns = columns_of(shards, table, rank, &first);
  *bytes = (size_t)(shards->rows * columns) * element(shards);
  return buffer + (size_t)(table->place + shards->rows * first) * element(shards);
}

/* Returns this rank's columns for the tokens of `rank`, in a buffer of such columns. */
static char *own_columns(const ch_shards *shards, const ch_shard_table *table, char *buffer, int rank) {
  return buffer + (size_t)(rank * shards->own + table->own_place) * element(shards);
}

static size_t own_bytes(const ch_shards *shards, const ch_shard_table *table) {
  return (size_t)(shards->rows * table->own) * element(shards);
}

static int rows_tag(const ch_shards *shards, int table) {
  return shards->first_tag + table;
}

static int gradients_tag(const ch_shards *shards, int table) {
  return shards->first_tag + shards->count + table;
}

/* --- waiting -------------------------------------------------------------------------------------------- */

/* Waits for all transfers of one kind. With `patient`, a stop does not end the waiting. Returns false if stopped. */
static bool await(const ch_shards *shards, ch_transfer *transfers, bool patient) {
  for (int i = 0; i < shards->count * ranks_of(shards); i++)
    if (!ch_ranks_wait(shards->ranks, &transfers[i], patient ? NULL : shards->stop, shards->stop_context))
      return false;
  return true;
}

static ch_status interrupted(ch_error *error) {
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
}

/* --- rows ----------------------------------------------------------------------------------------------- */

/* Looks up rows of this rank's columns for the tokens of `rank`, and sends them unless `rank` is this
   rank. */
static void serve(ch_shards *shards, int64_t round, int rank, bool patient) {
  ch_shard_round *r = round_at(shards, round);
  const int32_t *tokens = patient ? NULL : tokens_of(shards, round, rank);
  for (int t = 0; t < shards->count; t++) {
    const ch_shard_table *table = &shards->tables[t];
    size_t bytes = own_bytes(shards, table);
    bool here = rank == self_of(shards);
    char *to =
        here ? share(shards, table, r->rows, rank, &bytes) : own_columns(shards, table, r->looked_up, rank);
    if (bytes == 0) continue;
    const ch_tensor *weight = &shards->set->weights[table->parameter];
    if (tokens)
      shards->engine->kernels->embedding_forward(&shards->engine->team, shards->rows, table->own, tokens,
                                                 weight->data, weight->dtype, to);
    if (!here)
      ch_ranks_send(shards->ranks, rank, rows_tag(shards, t), to, bytes,
                    &r->rows_out[t * ranks_of(shards) + rank]);
  }
}

static void expect_rows(ch_shards *shards, int64_t round) {
  ch_shard_round *r = round_at(shards, round);
  for (int t = 0; t < shards->count; t++)
    for (int rank = 0; rank < ranks_of(shards); rank++) {
      size_t bytes;
      char *to = share(shards, &shards->tables[t], r->rows, rank, &bytes);
      if (rank != self_of(shards) && bytes > 0)
        ch_ranks_receive(shards->ranks, rank, rows_tag(shards, t), to, bytes,
                         &r->rows_in[t * ranks_of(shards) + rank]);
    }
}

/* Sends a round's rows and begins to receive those for this rank. */
static bool post(ch_shards *shards, int64_t round, bool patient) {
  ch_shard_round *r = round_at(shards, round);
  if (!await(shards, r->rows_out, patient) || !await(shards, r->rows_in, patient)) return false;
  if (has_part(shards, round, self_of(shards))) expect_rows(shards, round);
  for (int rank = 0; rank < ranks_of(shards); rank++)
    if (has_part(shards, round, rank)) serve(shards, round, rank, patient);
  shards->posted = round + 1;
  return true;
}

static bool post_up_to(ch_shards *shards, int64_t round) {
  if (round >= shards->round_count) round = shards->round_count - 1;
  while (shards->posted <= round)
    if (!post(shards, shards->posted, false)) return false;
  return true;
}

/* --- gradients ------------------------------------------------------------------------------------------ */

static void send_gradients(ch_shards *shards, int64_t round) {
  ch_shard_round *r = round_at(shards, round);
  int ranks = ranks_of(shards);
  for (int t = 0; t < shards->count; t++)
    for (int rank = 0; rank < ranks && shards->tables[t].trained; rank++) {
      const ch_shard_table *table = &shards->tables[t];
      size_t bytes;
      const char *data = share(shards, table, r->gradients, rank, &bytes);
      if (rank == self_of(shards)) continue;
      if (bytes > 0 && has_part(shards, round, self_of(shards)))
        ch_ranks_send(shards->ranks, rank, gradients_tag(shards, t), data, bytes,
                      &r->gradients_out[t * ranks + rank]);
      if (table->own > 0 && has_part(shards, round, rank))
        ch_ranks_receive(shards->ranks, rank, gradients_tag(shards, t),
                         own_columns(shards, table, r->received, rank), own_bytes(shards, table),
                         &r->gradients_in[t * ranks + rank]);
    }
  shards->left = round + 1;
}

/* Adds a round's gradients of this rank's columns, micro-batch after micro-batch. */
static bool add(ch_shards *shards, int64_t round) {
  ch_shard_round *r = round_at(shards, round);
  const ch_engine *engine = shards->engine;
  if (!await(shards, r->gradients_in, false)) return false;
  for (int rank = 0; rank < ranks_of(shards) && has_part(shards, round, rank); rank++) {
    const int32_t *tokens = tokens_of(shards, round, rank);
    for (int t = 0; t < shards->count && tokens; t++) {
      const ch_shard_table *table = &shards->tables[t];
      const ch_tensor *gradient = &shards->set->gradients[table->parameter];
      size_t bytes;
      const char *from = rank == self_of(shards) ? share(shards, table, r->gradients, rank, &bytes)
                                                 : own_columns(shards, table, r->received, rank);
      if (table->own > 0 && table->trained)
        engine->kernels->embedding_backward(&engine->team, shards->rows, table->own, gradient->shape[0],
                                            tokens, from, gradient->data, round > 0 || rank > 0);
    }
  }
  shards->added = round + 1;
  return true;
}

/* --- a step --------------------------------------------------------------------------------------------- */

void ch_shards_begin(ch_shards *shards, int64_t micro_batches, const int32_t *tokens, bool backward) {
  if (shards->count == 0) return;
  shards->micro_batches = micro_batches;
  shards->round_count = (micro_batches + ranks_of(shards) - 1) / ranks_of(shards);
  shards->tokens = tokens;
  shards->by_round = !backward;
  shards->backward = backward;
  shards->posted = shards->left = shards->added = 0;
}

/* Makes runs read the rows of this round and write their gradients. */
static void bind(ch_shards *shards, int64_t round) {
  const ch_shard_round *r = round_at(shards, round);
  for (int t = 0; t < shards->count; t++) {
    const ch_shard_table *table = &shards->tables[t];
    size_t at = (size_t)table->place * element(shards);
    shards->weights[table->parameter].data = r->rows + at;
    shards->gradient_data[table->parameter] = r->gradients + at;
  }
}

ch_status ch_shards_enter(ch_shards *shards, int64_t round, ch_error *error) {
  if (shards->count == 0) return CH_OK;
  ch_shard_round *r = round_at(shards, round);
  double start = ch_clock(), sent = ch_ranks_traffic(shards->ranks).sent;
  if (!post_up_to(shards, shards->by_round ? round : round + 1)) return interrupted(error);
  if (!await(shards, r->rows_in, false) || !await(shards, r->gradients_out, false)) return interrupted(error);
  while (shards->backward && shards->added <= round - ROUNDS) /* this round reuses their memory */
    if (!add(shards, shards->added)) return interrupted(error);
  bind(shards, round);
  /* A run adds to gradients from the second micro-batch on. */
  if (shards->backward) memset(r->gradients, 0, (size_t)shards->all * element(shards));
  ch_profile_note(shards->engine->profile, "exchange_rows", start, 0,
                  ch_ranks_traffic(shards->ranks).sent - sent);
  return CH_OK;
}

void ch_shards_leave(ch_shards *shards, int64_t round) {
  if (shards->count == 0) return;
  double start = ch_clock(), sent = ch_ranks_traffic(shards->ranks).sent;
  send_gradients(shards, round);
  ch_profile_note(shards->engine->profile, "exchange_row_gradients", start, 0,
                  ch_ranks_traffic(shards->ranks).sent - sent);
}

/* Waits for all transfers in progress. With `patient`, a stop does not end the waiting. Returns false if
   stopped. */
static bool await_all(ch_shards *shards, bool patient) {
  for (int i = 0; i < ROUNDS; i++) {
    ch_shard_round *r = &shards->rounds[i];
    if (!await(shards, r->rows_in, patient) || !await(shards, r->rows_out, patient) ||
        !await(shards, r->gradients_in, patient) || !await(shards, r->gradients_out, patient))
      return false;
  }
  return true;
}

ch_status ch_shards_end(ch_shards *shards, ch_error *error) {
  if (shards->count == 0) return CH_OK;
  double start = ch_clock();
  if (!post_up_to(shards, shards->round_count)) return interrupted(error);
  while (shards->backward && shards->added < shards->round_count)
    if (!add(shards, shards->added)) return interrupted(error);
  if (!await_all(shards, false)) return interrupted(error);
  ch_profile_note(shards->engine->profile, "exchange_row_gradients", start, 0, 0);
  return CH_OK;
}

void ch_shards_give_up(ch_shards *shards) {
  if (shards->count == 0) return;
  while (shards->posted < shards->round_count) post(shards, shards->posted, true);
  for (int64_t round = shards->left; shards->backward && round < shards->round_count; round++) {
    await(shards, round_at(shards, round)->gradients_in, true);
    await(shards, round_at(shards, round)->gradients_out, true);
    send_gradients(shards, round);
  }
  await_all(shards, true);
}

/* --- creation ------------------------------------------------------------------------------------------- */

static void list_tables(ch_shards *shards) {
  int self = self_of(shards);
  for (int p = 0; p < shards->set->params->count; p++) {
    if (shards->set->keeping[p] != CH_KEPT_COLUMNS) continue;
    const ch_param *param = &shards->set->params->rows[p];
    ch_shard_table *table = &shards->tables[shards->count++];
    *table = (ch_shard_table){.parameter = p,
                              .trained = !param->frozen,
                              .columns = param->shape[1],
                              .place = shards->all,
                              .own_place = shards->own};
    table->own = columns_of(shards, table, self, &table->first);
    shards->all += shards->rows * table->columns;
    shards->own += shards->rows * table->own;
  }
}

static bool reserve_rounds(ch_shards *shards) {
  size_t messages = (size_t)(shards->count * ranks_of(shards)), all = (size_t)shards->all * element(shards),
         others = (size_t)(shards->own * ranks_of(shards)) * element(shards);
  shards->transfers = calloc(4 * ROUNDS * messages, sizeof *shards->transfers);
  bool enough = shards->transfers != NULL;
  for (int i = 0; i < ROUNDS && enough; i++) {
    ch_shard_round *r = &shards->rounds[i];
    char **buffers[] = {&r->rows, &r->gradients, &r->looked_up, &r->received};
    for (int b = 0; b < 4 && enough; b++)
      enough = (*buffers[b] = ch_pages_alloc((b < 2 ? all : others) + 1)) != NULL;
    r->rows_in = shards->transfers + 4 * (size_t)i * messages;
    r->rows_out = r->rows_in + messages;
    r->gradients_in = r->rows_out + messages;
    r->gradients_out = r->gradients_in + messages;
  }
  return enough;
}

ch_status ch_shards_create(ch_shards *shards, ch_rank_group *ranks, const ch_engine *engine,
                           const ch_parameter_set *set, int64_t rows, int first_tag, ch_stop_test stop,
                           void *stop_context, ch_error *error) {
  size_t params = (size_t)set->params->count;
  *shards = (ch_shards){.ranks = ranks,
                        .engine = engine,
                        .set = set,
                        .rows = rows,
                        .first_tag = first_tag,
                        .stop = stop,
                        .stop_context = stop_context};
  shards->tables = calloc(params + 1, sizeof *shards->tables);
  shards->weights = calloc(params + 1, sizeof *shards->weights);
  shards->gradient_data = calloc(params + 1, sizeof *shards->gradient_data);
  bool enough = shards->tables && shards->weights && shards->gradient_data;
  if (enough) {
    memcpy(shards->weights, set->weights, params * sizeof *set->weights);
    memcpy(shards->gradient_data, set->gradient_data, params * sizeof *set->gradient_data);
    list_tables(shards);
    enough = shards->count == 0 || reserve_rounds(shards);
  }
  if (enough) return CH_OK;
  ch_shards_free(shards);
  return ch_no_memory(error);
}

void ch_shards_free(ch_shards *shards) {
  size_t all = (size_t)shards->all, others = 0;
  if (shards->set) {
    all *= element(shards);
    others = (size_t)(shards->own * ranks_of(shards)) * element(shards);
  }
  for (int i = 0; i < ROUNDS; i++) {
    ch_shard_round *r = &shards->rounds[i];
    char *buffers[] = {r->rows, r->gradients, r->looked_up, r->received};
    for (int b = 0; b < 4; b++)
      if (buffers[b]) ch_pages_free(buffers[b], (b < 2 ? all : others) + 1);
  }
  free(shards->tables);
  free(shards->transfers);
  free(shards->weights);
  free(shards->gradient_data);
  *shards = (ch_shards){0};
}

static size_t bytes_of(int64_t all, int64_t own, int ranks, size_t size) {
  return 2 * ROUNDS * (size_t)(all + own * ranks) * size;
}

size_t ch_shards_bytes(const ch_shards *shards) {
  return shards->count ? bytes_of(shards->all, shards->own, ranks_of(shards), element(shards)) : 0;
}

size_t ch_shards_bytes_of(const ch_params *params, ch_dtype dtype, int64_t rows, int rank, int ranks) {
  int64_t all = 0, own = 0;
  for (int p = 0; p < params->count; p++) {
    if (!ch_parameter_is_table(&params->rows[p])) continue;
    int64_t columns = params->rows[p].shape[1];
    all += rows * columns;
    own += rows * (ch_share_begin(columns, rank + 1, ranks) - ch_share_begin(columns, rank, ranks));
  }
  return bytes_of(all, own, ranks, ch_dtype_size(dtype));
}
