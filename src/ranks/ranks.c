/* Collective operations between ranks (sums, gathers, agreement), built on the messages of any transport. */
#define _GNU_SOURCE
#include "ranks/ranks.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct ch_rank_group {
  int rank, count;
  const ch_transport *transport;
  void *context;
  char host[64];
  ch_traffic traffic;
  int32_t *votes;  /* [count] memory for gathering one number of each rank */
  uint64_t *facts; /* [count] memory for gathering one fact of each rank */
};

ch_status ch_ranks_create(const ch_transport *transport, void *context, int rank, int count,
                          ch_rank_group **result, ch_error *error) {
  ch_rank_group *ranks = calloc(1, sizeof *ranks);
  *result = NULL;
  if (ranks) {
    *ranks = (ch_rank_group){.rank = rank, .count = count, .transport = transport, .context = context};
    ranks->votes = calloc((size_t)count, sizeof *ranks->votes);
    ranks->facts = calloc((size_t)count, sizeof *ranks->facts);
  }
  if (!ranks || !ranks->votes || !ranks->facts) {
    if (ranks) free(ranks->votes);
    if (ranks) free(ranks->facts);
    free(ranks);
    return ch_no_memory(error);
  }
  if (gethostname(ranks->host, sizeof ranks->host - 1) != 0) strcpy(ranks->host, "a host without a name");
  *result = ranks;
  return CH_OK;
}

void ch_close_ranks(ch_rank_group *ranks) {
  if (!ranks) return;
  ranks->transport->leave(ranks->context);
  free(ranks->votes);
  free(ranks->facts);
  free(ranks);
}

int ch_own_rank(const ch_rank_group *ranks) {
  return ranks ? ranks->rank : 0;
}

int ch_rank_count(const ch_rank_group *ranks) {
  return ranks ? ranks->count : 1;
}

bool ch_ranks_leads(const ch_rank_group *ranks) {
  return ch_own_rank(ranks) == 0;
}

ch_traffic ch_ranks_traffic(const ch_rank_group *ranks) {
  return ranks ? ranks->traffic : (ch_traffic){0};
}

ch_status ch_ranks_split(const ch_rank_group *ranks, int group, ch_rank_group **part, ch_error *error) {
  *part = NULL;
  if (!ranks) return CH_OK;
  if (!ranks->transport->split)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "ranks over sockets cannot be divided; start them with MPI, or leave out {ranks_per_run}");
  int rank, count;
  void *context = ranks->transport->split(ranks->context, group, &rank, &count);
  if (!context) return ch_no_memory(error);
  ch_status status = ch_ranks_create(ranks->transport, context, rank, count, part, error);
  if (status != CH_OK) ranks->transport->leave(context);
  return status;
}

/* --- messages ------------------------------------------------------------------------------------------- */

void ch_ranks_send(ch_rank_group *ranks, int to, int tag, const void *data, size_t bytes,
                   ch_transfer *transfer) {
  ranks->transport->send(ranks->context, to, tag, data, bytes, &transfer->handle);
  transfer->active = true;
  ranks->traffic.sent += (double)bytes;
}

void ch_ranks_receive(ch_rank_group *ranks, int from, int tag, void *data, size_t bytes,
                      ch_transfer *transfer) {
  ranks->transport->receive(ranks->context, from, tag, data, bytes, &transfer->handle);
  transfer->active = true;
  ranks->traffic.received += (double)bytes;
}

bool ch_ranks_done(const ch_rank_group *ranks, ch_transfer *transfer) {
  if (transfer->active && ranks->transport->done(ranks->context, &transfer->handle)) transfer->active = false;
  return !transfer->active;
}

/* Yields the processor, or after many calls sleeps. A large message needs many polls in a row to progress, so sleep
   comes late. */
static void rest(int64_t calls) {
  enum { EAGER = 4000, PATIENT = 40000 };
  static const struct timespec nap = {0, 20000}, sleep = {0, 500000};
  if (calls < EAGER)
    sched_yield();
  else
    nanosleep(calls < PATIENT ? &nap : &sleep, NULL);
}

/* Returns true if an event that depends on other ranks has happened. */
typedef bool ch_event_test(ch_rank_group *ranks, void *event);

static bool await(ch_rank_group *ranks, ch_event_test *happened, void *event, ch_stop_test stop,
                  void *stop_context) {
  double start = ch_clock(), ask = 0;
  bool done = false, stopped = false;
  for (int64_t calls = 0; !done && !stopped; calls++) {
    rest(calls);
    done = happened(ranks, event);
    double now = stop && !done ? ch_clock() : 0;
    if (now <= ask) continue;
    ask = now + 0.02;
    stopped = stop(stop_context);
  }
  ranks->traffic.waited += ch_clock() - start;
  return done;
}

static bool is_done(ch_rank_group *ranks, void *transfer) {
  return ch_ranks_done(ranks, transfer);
}

bool ch_ranks_wait(ch_rank_group *ranks, ch_transfer *transfer, ch_stop_test stop, void *stop_context) {
  if (!transfer->active || ch_ranks_done(ranks, transfer)) return true;
  return await(ranks, is_done, transfer, stop, stop_context);
}

static bool is_there(ch_rank_group *ranks, void *tag) {
  return ch_ranks_message_waits(ranks, *(const int *)tag);
}

bool ch_ranks_await_message(ch_rank_group *ranks, int tag, ch_stop_test stop, void *stop_context) {
  return ch_ranks_message_waits(ranks, tag) || await(ranks, is_there, &tag, stop, stop_context);
}

bool ch_ranks_message_waits(const ch_rank_group *ranks, int tag) {
  return ranks->transport->waits(ranks->context, tag);
}

/* --- collective operations ------------------------------------------------------------------------------ */

void ch_ranks_gather(ch_rank_group *ranks, void *all, size_t bytes_each) {
  if (!ranks) return;
  ch_transfer transfer = {.active = true};
  ranks->transport->gather(ranks->context, all, bytes_each, &transfer.handle);
  ch_ranks_wait(ranks, &transfer, NULL, NULL);
  ranks->traffic.sent += (double)(ranks->count - 1) * (double)bytes_each;
  ranks->traffic.received += (double)(ranks->count - 1) * (double)bytes_each;
}

void ch_ranks_broadcast(ch_rank_group *ranks, int root, void *data, size_t bytes) {
  if (!ranks) return;
  ch_transfer transfer = {.active = true};
  ranks->transport->broadcast(ranks->context, root, data, bytes, &transfer.handle);
  ch_ranks_wait(ranks, &transfer, NULL, NULL);
  if (ranks->rank == root)
    ranks->traffic.sent += (double)bytes;
  else
    ranks->traffic.received += (double)bytes;
}

void ch_ranks_sum(ch_rank_group *ranks, int64_t *values, int64_t n, int64_t *room) {
  if (!ranks || n == 0) return;
  memcpy(room + ranks->rank * n, values, (size_t)n * sizeof *values);
  ch_ranks_gather(ranks, room, (size_t)n * sizeof *values);
  for (int64_t i = 0; i < n; i++) values[i] = 0;
  for (int r = 0; r < ranks->count; r++)
    for (int64_t i = 0; i < n; i++) values[i] += room[r * n + i];
}

int ch_largest_of_ranks(ch_rank_group *ranks, int number) {
  if (!ranks) return number;
  ranks->votes[ranks->rank] = number;
  ch_ranks_gather(ranks, ranks->votes, sizeof *ranks->votes);
  for (int r = 0; r < ranks->count; r++)
    if (ranks->votes[r] > number) number = ranks->votes[r];
  return number;
}

bool ch_ranks_decide(ch_rank_group *ranks, bool of_rank_0) {
  unsigned char decision = of_rank_0;
  ch_ranks_broadcast(ranks, 0, &decision, sizeof decision);
  return decision;
}

/* Returns the rank whose failure is reported: the first that failed other than by an interruption, or else the first
   that failed; -1 if none failed. */
static int spokesman(const ch_rank_group *ranks) {
  int first = -1;
  for (int r = ranks->count - 1; r >= 0; r--) {
    if (ranks->votes[r] == CH_OK) continue;
    bool stronger =
        ranks->votes[r] != CH_ERROR_INTERRUPTED || first < 0 || ranks->votes[first] == CH_ERROR_INTERRUPTED;
    if (stronger) first = r;
  }
  return first;
}

ch_status ch_agree(ch_rank_group *ranks, ch_status status, ch_error *error) {
  if (!ranks) return status;
  ranks->votes[ranks->rank] = (int32_t)status;
  ch_ranks_gather(ranks, ranks->votes, sizeof *ranks->votes);
  int from = spokesman(ranks);
  if (from < 0) return CH_OK;
  bool by_all = true;
  for (int r = 0; r < ranks->count; r++) by_all = by_all && ranks->votes[r] == ranks->votes[from];
  char host[sizeof ranks->host], place[sizeof host + 32];
  ch_error reason = {0};
  if (ranks->rank == from && error) reason = *error;
  memcpy(host, ranks->host, sizeof host);
  ch_ranks_broadcast(ranks, from, &reason, sizeof reason);
  ch_ranks_broadcast(ranks, from, host, sizeof host);
  snprintf(place, sizeof place, "rank %d on %s", from, host);
  ch_fail_as(error, (ch_status)ranks->votes[from], &reason);
  if (!by_all) ch_fail_in(error, place);
  return (ch_status)ranks->votes[from];
}

ch_status ch_ranks_compare(ch_rank_group *ranks, const ch_rank_fact *facts, int count, ch_error *error) {
  if (!ranks) return CH_OK;
  for (int i = 0; i < count; i++) {
    ranks->facts[ranks->rank] = facts[i].value;
    ch_ranks_gather(ranks, ranks->facts, sizeof *ranks->facts);
    for (int r = 1; r < ranks->count; r++)
      if (ranks->facts[r] != ranks->facts[0])
        return ch_fail(error, CH_ERROR_ARGUMENT,
                       "rank %d has %s than rank 0; start all ranks with the same program, options and files",
                       r, facts[i].name);
  }
  return CH_OK;
}
