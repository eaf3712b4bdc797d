/* Tests ranks over sockets: messages of any size arrive whole, also while all ranks send at once, and every fact is
 * compared. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "ranks/launch.h"
#include "ranks/ranks.h"

enum { RANKS = 3, LARGEST = 3 << 20, FACTS = 20, TAG = 5 };

static const size_t sizes[] = {0, 1, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, LARGEST};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* One rank, a thread. */
typedef struct rank_thread {
  pthread_t thread;
  int rank, sockets[RANKS];
  ch_rank_group *ranks;
  ch_status compared;
  ch_error error;
  char *all; /* [RANKS][LARGEST] */
  bool right;
} rank_thread;

/* Returns a byte of a message: it depends on the sender, the message and the place. */
static char byte_of(int rank, int message, size_t at) {
  return (char)((unsigned)(rank + 1) * 31 + (unsigned)message * 7 + (unsigned)(at * 2654435761U >> 13));
}

static void fill(char *data, int rank, int message, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) data[i] = byte_of(rank, message, i);
}

static bool is_filled(const char *data, int rank, int message, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (data[i] != byte_of(rank, message, i)) return false;
  return true;
}

/* Gathers messages of every size, then sends all of them to the next rank before it receives any. */
static void exchange(rank_thread *self) {
  for (int m = 0; m < SIZES; m++) {
    size_t bytes = sizes[m];
    fill(self->all + (size_t)self->rank * bytes, self->rank, m, bytes);
    ch_ranks_gather(self->ranks, self->all, bytes);
    for (int r = 0; r < RANKS; r++) self->right &= is_filled(self->all + (size_t)r * bytes, r, m, bytes);
  }
  int next = (self->rank + 1) % RANKS, before = (self->rank + RANKS - 1) % RANKS;
  ch_transfer out[SIZES] = {0}, in = {0};
  for (int m = 0; m < SIZES; m++) {
    fill(self->all, self->rank, m, sizes[m]);
    ch_ranks_send(self->ranks, next, TAG, self->all, sizes[m], &out[m]);
    self->right &= ch_ranks_wait(self->ranks, &out[m], NULL, NULL);
  }
  for (int m = 0; m < SIZES; m++) {
    ch_ranks_receive(self->ranks, before, TAG, self->all, sizes[m], &in);
    self->right &= ch_ranks_wait(self->ranks, &in, NULL, NULL);
    self->right &= is_filled(self->all, before, m, sizes[m]);
  }
}

/* Compares facts of which the last one of the last rank differs. */
static void compare(rank_thread *self) {
  ch_rank_fact facts[FACTS];
  for (int i = 0; i < FACTS; i++) facts[i] = (ch_rank_fact){"another program", (uint64_t)i};
  facts[FACTS - 1] = (ch_rank_fact){"other options", self->rank == RANKS - 1};
  self->compared = ch_ranks_compare(self->ranks, facts, FACTS, &self->error);
}

static void *run(void *context) {
  rank_thread *self = context;
  exchange(self);
  compare(self);
  return NULL;
}

static void messages_of_any_size_arrive_and_every_fact_is_compared(void **state) {
  (void)state;
  rank_thread threads[RANKS] = {0};
  for (int a = 0; a < RANKS; a++)
    for (int b = a + 1; b < RANKS; b++) {
      int pair[2];
      assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
      threads[a].sockets[b] = pair[0];
      threads[b].sockets[a] = pair[1];
    }
  for (int r = 0; r < RANKS; r++) {
    rank_thread *t = &threads[r];
    t->rank = r;
    t->right = true;
    t->all = malloc((size_t)RANKS * LARGEST);
    assert_non_null(t->all);
    assert_int_equal(ch_connect_ranks(r, RANKS, t->sockets, &t->ranks, &t->error), CH_OK);
    assert_int_equal(pthread_create(&t->thread, NULL, run, t), 0);
  }
  for (int r = 0; r < RANKS; r++) pthread_join(threads[r].thread, NULL);
  for (int r = 0; r < RANKS; r++) {
    assert_true(threads[r].right);
    assert_int_equal(threads[r].compared, CH_ERROR_ARGUMENT);
    assert_string_equal(
        threads[r].error.message,
        "rank 2 has other options than rank 0; start all ranks with the same program, options and files");
    ch_close_ranks(threads[r].ranks);
    free(threads[r].all);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_of_any_size_arrive_and_every_fact_is_compared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
