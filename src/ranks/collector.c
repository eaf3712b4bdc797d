/* Collects data in messages of one size. Each message begins with the number of bytes in use. */
#include "ranks/collector.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER = sizeof(uint64_t) };

static ch_status interrupted(ch_error *error) {
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
}

ch_status ch_collector_create(ch_collector *collector, ch_rank_group *ranks, int tag, ch_stop_test stop,
                              void *context, ch_error *error) {
  size_t count = (size_t)ch_rank_count(ranks);
  *collector = (ch_collector){.ranks = ranks, .tag = tag, .stop = stop, .context = context};
  if (!ranks) return CH_OK;
  collector->sent = calloc(count * (count + 1), sizeof *collector->sent);
  collector->taken = calloc(count, sizeof *collector->taken);
  return collector->sent && collector->taken ? CH_OK : ch_no_memory(error);
}

static ch_status make_room(char **data, size_t *room, size_t bytes, ch_error *error) {
  if (*room >= bytes) return CH_OK;
  char *more = realloc(*data, bytes);
  if (!more) return ch_no_memory(error);
  *data = more;
  *room = bytes;
  return CH_OK;
}

static ch_status give(ch_collector *c, int to, const void *data, size_t bytes, size_t most, ch_error *error) {
  int slot = c->next;
  uint64_t header = bytes;
  if (!ch_ranks_wait(c->ranks, &c->slots[slot].out, c->stop, c->context)) return interrupted(error);
  CH_TRY(make_room(&c->slots[slot].data, &c->slots[slot].room, HEADER + most, error));
  memcpy(c->slots[slot].data, &header, HEADER);
  memcpy(c->slots[slot].data + HEADER, data, bytes);
  memset(c->slots[slot].data + HEADER + bytes, 0, most - bytes);
  ch_ranks_send(c->ranks, to, c->tag + ch_own_rank(c->ranks), c->slots[slot].data, HEADER + most,
                &c->slots[slot].out);
  c->next = (slot + 1) % CH_COLLECTOR_SLOTS;
  int64_t *row = c->sent + ch_own_rank(c->ranks) * (ch_rank_count(c->ranks) + 1),
          *largest = row + ch_rank_count(c->ranks);
  row[to]++;
  if (*largest < (int64_t)(HEADER + most)) *largest = (int64_t)(HEADER + most);
  return CH_OK;
}

/* Receives a message that has arrived. Receiving cannot be interrupted, but waiting for a message can. */
static void receive(ch_collector *c, int from, size_t bytes) {
  ch_transfer in = {0};
  ch_ranks_receive(c->ranks, from, c->tag + from, c->received, bytes, &in);
  ch_ranks_wait(c->ranks, &in, NULL, NULL);
  c->taken[from]++;
}

static ch_status take_from(ch_collector *c, int from, size_t most, ch_collector_take *take, void *context,
                           ch_error *error) {
  uint64_t bytes;
  CH_TRY(make_room(&c->received, &c->room, HEADER + most, error));
  if (!ch_ranks_await_message(c->ranks, c->tag + from, c->stop, c->context)) return interrupted(error);
  receive(c, from, HEADER + most);
  memcpy(&bytes, c->received, HEADER);
  return take(context, c->received + HEADER, bytes, error);
}

ch_status ch_collect(ch_collector *c, int to, int givers, const void *data, size_t bytes, size_t most,
                     ch_collector_take *take, void *context, ch_error *error) {
  int self = ch_own_rank(c->ranks);
  if (to != self) return self < givers ? give(c, to, data, bytes, most, error) : CH_OK;
  for (int rank = 0; rank < givers; rank++)
    CH_TRY(rank == self ? take(context, data, bytes, error) : take_from(c, rank, most, take, context, error));
  return CH_OK;
}

/* Receives and drops the messages that were sent to this rank and not processed. */
static void drop_rest(ch_collector *c) {
  int count = ch_rank_count(c->ranks), self = ch_own_rank(c->ranks);
  ch_ranks_gather(c->ranks, c->sent, (size_t)(count + 1) * sizeof *c->sent);
  for (int from = 0; from < count; from++) {
    const int64_t *row = c->sent + from * (count + 1);
    size_t bytes = (size_t)row[count];
    while (c->taken[from] < row[self]) {
      /* out of memory: the messages stay pending, and the job ends */
      if (make_room(&c->received, &c->room, bytes, NULL) != CH_OK) return;
      receive(c, from, bytes);
    }
  }
}

void ch_collector_settle(ch_collector *c, ch_status status) {
  if (!c->ranks || !c->sent || !c->taken) return;
  if (status != CH_OK) drop_rest(c);
  for (int i = 0; i < CH_COLLECTOR_SLOTS; i++) ch_ranks_wait(c->ranks, &c->slots[i].out, NULL, NULL);
}

void ch_collector_free(ch_collector *c) {
  for (int i = 0; i < CH_COLLECTOR_SLOTS; i++) free(c->slots[i].data);
  free(c->received);
  free(c->sent);
  free(c->taken);
  *c = (ch_collector){0};
}
