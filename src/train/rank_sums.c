/* Each piece of a gradient goes to its owner, which adds the ranks' contributions in their order. The sums go to the
   last rank, which computes the norm. */
#include "train/rank_sums.h"

#include <stdlib.h>
#include <string.h>

/* Gradients of divided tables go another way (train/shards.h). */
static bool travels(const ch_rank_sums *sums, int parameter) {
  return !sums->set->params->rows[parameter].frozen && sums->set->keeping[parameter] != CH_KEPT_COLUMNS;
}

static char *data_of(const ch_rank_sums *sums, int parameter, int rank, size_t *bytes) {
  size_t size = ch_dtype_size(sums->set->dtype);
  ch_parameter_piece piece = ch_parameter_piece_of(sums->set, parameter, rank);
  *bytes = travels(sums, parameter) ? (size_t)piece.count * size : 0;
  return (char *)sums->set->gradients[parameter].data + (size_t)piece.first * size;
}

static void send_to(ch_rank_sums *sums, int parameter, int owner, int to) {
  size_t bytes;
  const char *data = data_of(sums, parameter, owner, &bytes);
  if (bytes > 0)
    ch_ranks_send(sums->ranks, to, sums->first_tag + parameter, data, bytes,
                  &sums->out[parameter * sums->set->ranks + to]);
}

static void receive_from(const ch_rank_sums *sums, int parameter, int from, void *data, size_t bytes) {
  ch_transfer in = {0};
  ch_ranks_receive(sums->ranks, from, sums->first_tag + parameter, data, bytes, &in);
  ch_ranks_wait(sums->ranks, &in, NULL, NULL);
}

static void await_sent(ch_rank_sums *sums) {
  for (int i = 0; i < sums->set->params->count * sums->set->ranks; i++)
    ch_ranks_wait(sums->ranks, &sums->out[i], NULL, NULL);
}

/* Adds up this rank's piece of a gradient, in the order of ranks. */
static void add_up(ch_rank_sums *sums, int parameter) {
  const ch_parameter_set *set = sums->set;
  const ch_engine *engine = sums->engine;
  size_t bytes;
  char *own = data_of(sums, parameter, set->rank, &bytes);
  for (int rank = 0; bytes > 0 && rank < set->ranks; rank++) {
    char *to = rank == 0 ? sums->sum : sums->next;
    if (rank == set->rank)
      memcpy(to, own, bytes);
    else
      receive_from(sums, parameter, rank, to, bytes);
    if (rank > 0)
      engine->kernels->add(&engine->team, (int64_t)(bytes / ch_dtype_size(set->dtype)), sums->sum, sums->next,
                           sums->sum);
  }
  if (bytes > 0) memcpy(own, sums->sum, bytes);
}

void ch_rank_sums_add(ch_rank_sums *sums) {
  const ch_parameter_set *set = sums->set;
  int count = set->params->count, last = set->ranks - 1;
  for (int p = 0; p < count; p++)
    for (int rank = 0; rank < set->ranks; rank++)
      if (rank != set->rank) send_to(sums, p, rank, rank);
  for (int p = 0; p < count; p++) add_up(sums, p);
  await_sent(sums);
  for (int p = 0; p < count && set->rank != last; p++) send_to(sums, p, set->rank, last);
  for (int p = 0; p < count && set->rank == last; p++)
    for (int rank = 0; rank < last; rank++) {
      size_t bytes;
      char *data = data_of(sums, p, rank, &bytes);
      if (bytes > 0) receive_from(sums, p, rank, data, bytes);
    }
  await_sent(sums);
}

double ch_rank_sums_bytes(const ch_rank_sums *sums) {
  const ch_parameter_set *set = sums->set;
  double all = 0;
  for (int p = 0; p < set->params->count; p++)
    for (int rank = 0; rank < set->ranks; rank++) {
      size_t bytes;
      data_of(sums, p, rank, &bytes);
      if (rank != set->rank || rank != set->ranks - 1) all += (double)bytes;
    }
  return all;
}

ch_status ch_rank_sums_create(ch_rank_sums *sums, ch_rank_group *ranks, const ch_engine *engine,
                              const ch_parameter_set *set, int first_tag, ch_error *error) {
  size_t most = 1;
  *sums = (ch_rank_sums){.ranks = ranks, .engine = engine, .set = set, .first_tag = first_tag};
  for (int p = 0; p < set->params->count; p++) {
    size_t bytes;
    data_of(sums, p, set->rank, &bytes);
    if (bytes > most) most = bytes;
  }
  sums->out = calloc((size_t)(set->params->count * set->ranks) + 1, sizeof *sums->out);
  sums->sum = malloc(most);
  sums->next = malloc(most);
  if (sums->out && sums->sum && sums->next) return CH_OK;
  ch_rank_sums_free(sums);
  return ch_fail(error, CH_ERROR_MEMORY, "no memory to add gradients over ranks");
}

void ch_rank_sums_free(ch_rank_sums *sums) {
  free(sums->out);
  free(sums->sum);
  free(sums->next);
  *sums = (ch_rank_sums){0};
}
