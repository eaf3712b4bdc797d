/* Assigns pieces of work to ranks in turn (number i belongs to rank i mod n), and exchanges the results. */
#include "ranks/shared.h"

#include <stdlib.h>
#include <string.h>

enum { ALARM_TAG = 1, DONE_TAG = 2 };

ch_status ch_shared_begin(ch_shared_work *shared, ch_rank_group *ranks, uint64_t hash, ch_error *error) {
  const ch_rank_fact fact = {"another text, model or other options", hash};
  *shared = (ch_shared_work){.ranks = ranks};
  CH_TRY(ch_agree(ranks, ch_alarm_create(&shared->alarm, ranks, ALARM_TAG, error), error));
  return ch_ranks_compare(ranks, &fact, 1, error);
}

int ch_shared_owner(const ch_shared_work *shared, int64_t piece) {
  return (int)(piece % ch_rank_count(shared->ranks));
}

bool ch_shared_is_own(const ch_shared_work *shared, int64_t piece) {
  return ch_shared_owner(shared, piece) == ch_own_rank(shared->ranks);
}

bool ch_shared_stops(ch_shared_work *shared) {
  return ch_alarm_rings(&shared->alarm);
}

ch_status ch_shared_agree(ch_shared_work *shared, ch_status status, ch_error *error) {
  if (status != CH_OK) ch_alarm_raise(&shared->alarm);
  return ch_alarm_agree(&shared->alarm, status, error);
}

/* Copies the items of `rank` from `items` to adjacent places in `packed`, or back. Returns the number of
   bytes copied. */
static size_t pack(const int32_t *owners, int64_t count, int rank, char *items, size_t bytes_each,
                   char *packed, bool back) {
  size_t size = 0;
  for (int64_t i = 0; i < count; i++) {
    char *item = items + (size_t)i * bytes_each;
    if (owners[i] != rank) continue;
    memcpy(back ? item : packed + size, back ? packed + size : item, bytes_each);
    size += bytes_each;
  }
  return size;
}

ch_status ch_shared_join(ch_shared_work *shared, const int32_t *owners, int64_t count, void *items,
                         size_t bytes_each, ch_error *error) {
  if (!shared->ranks) return CH_OK;
  char *packed = malloc((size_t)count * bytes_each + 1);
  ch_status status = packed ? CH_OK : ch_no_memory(error);
  status = ch_agree(shared->ranks, status, error);
  for (int rank = 0; status == CH_OK && rank < ch_rank_count(shared->ranks); rank++) {
    size_t size = pack(owners, count, rank, items, bytes_each, packed, false);
    if (size == 0) continue;
    ch_ranks_broadcast(shared->ranks, rank, packed, size);
    pack(owners, count, rank, items, bytes_each, packed, true);
  }
  free(packed);
  return status;
}

bool ch_shared_await_first(ch_shared_work *shared, ch_stop_test stop, void *context) {
  char nothing = 0;
  ch_transfer in = {0};
  if (!shared->ranks) return true;
  if (ch_ranks_leads(shared->ranks)) {
    for (int rank = 1; rank < ch_rank_count(shared->ranks); rank++) {
      ch_transfer out = {0};
      ch_ranks_send(shared->ranks, rank, DONE_TAG, &nothing, sizeof nothing, &out);
      ch_ranks_wait(shared->ranks, &out, NULL, NULL);
    }
    return true;
  }
  bool waited = ch_ranks_await_message(shared->ranks, DONE_TAG, stop, context);
  if (!waited) ch_alarm_raise(&shared->alarm);
  ch_ranks_receive(shared->ranks, 0, DONE_TAG, &nothing, sizeof nothing, &in);
  ch_ranks_wait(shared->ranks, &in, NULL, NULL);
  return waited;
}

void ch_shared_end(ch_shared_work *shared) {
  ch_alarm_free(&shared->alarm);
}
