/* Tests the collection of data from several ranks: it is in the order of ranks whatever their speed, and no
 * message is left after a failure. */
#include "training.h"

#include <sched.h>

#include "rank_threads.h"
#include "ranks/collector.h"
#include "ranks/shared.h"

enum { TAG = 100, PIECES = 40, MOST = 64, NOBODY = -1 };

/* The work of all ranks, and the result of each. */
typedef struct work {
  int failing_rank, failing_piece;
  double sums[MOST_RANKS]; /* sums of the values that each rank took */
  int taken[MOST_RANKS];
  ch_status status[MOST_RANKS];
  ch_error errors[MOST_RANKS];
} work;

typedef struct taker {
  work *work;
  int rank;
} taker;

/* Returns a value of a rank for a piece. The sum of all values has different bits in another order. */
static double value_of(int piece, int rank) {
  return 1.0 / (1 + piece * MOST_RANKS + rank);
}

static size_t size_of(int piece, int rank) {
  return sizeof(double) * (size_t)(1 + (piece + rank) % (MOST / (int)sizeof(double)));
}

/* Adds the numbers of a piece to the rank's sum. A wrong size would give a wrong sum. */
static ch_status take(void *context, const void *data, size_t bytes, ch_error *error) {
  const taker *t = context;
  const double *values = data;
  (void)error;
  for (size_t i = 0; i < bytes / sizeof *values; i++) t->work->sums[t->rank] += values[i];
  t->work->taken[t->rank]++;
  return CH_OK;
}

static bool stops(void *shared) {
  return ch_shared_stops(shared);
}

/* The last rank gives no data to every third piece, as if work were not evenly divided. */
static int givers_of(int piece, int count) {
  return piece % 3 == 2 && count > 1 ? count - 1 : count;
}

static ch_status work_through(ch_collector *collector, const rank_thread *self, work *w, ch_error *error) {
  taker t = {w, self->rank};
  for (int piece = 0; piece < PIECES; piece++) {
    double values[MOST / sizeof(double)];
    for (size_t i = 0; i < MOST / sizeof(double); i++) values[i] = value_of(piece, self->rank);
    for (int i = 0; i < 20 * ((self->rank + piece) % 3); i++) sched_yield(); /* ranks are not equally fast */
    if (self->rank == w->failing_rank && piece == w->failing_piece)
      return ch_fail(error, CH_ERROR_NUMERIC, "piece %d is broken", piece);
    CH_TRY(ch_collect(collector, piece % self->count, givers_of(piece, self->count), values,
                      size_of(piece, self->rank), MOST, take, &t, error));
  }
  return CH_OK;
}

static void work_of_rank(rank_thread *self) {
  work *w = self->context;
  ch_error *error = &w->errors[self->rank];
  ch_shared_work shared;
  ch_collector collector;
  ch_status status = ch_shared_begin(&shared, self->ranks, 1, error);
  if (status == CH_OK) status = ch_collector_create(&collector, self->ranks, TAG, stops, &shared, error);
  if (status == CH_OK) {
    status = ch_shared_agree(&shared, work_through(&collector, self, w, error), error);
    ch_collector_settle(&collector, status);
    ch_collector_free(&collector);
  }
  ch_shared_end(&shared);
  w->status[self->rank] = status;
}

static void data_are_taken_in_the_order_of_ranks(void **state) {
  (void)state;
  for (int count = 1; count <= MOST_RANKS; count++) {
    work w = {.failing_rank = NOBODY};
    run_ranks(count, work_of_rank, &w);
    for (int rank = 0; rank < count; rank++) {
      double sum = 0;
      int taken = 0;
      for (int piece = rank; piece < PIECES; piece += count)
        for (int from = 0; from < givers_of(piece, count); from++, taken++)
          for (size_t i = 0; i < size_of(piece, from) / sizeof(double); i++) sum += value_of(piece, from);
      assert_int_equal(w.status[rank], CH_OK);
      assert_int_equal(w.taken[rank], taken);
      assert_true(w.sums[rank] == sum);
    }
  }
}

/* run_ranks checks that no message is left. */
static void a_failure_anywhere_is_one_of_all(void **state) {
  (void)state;
  for (int piece = 0; piece < PIECES; piece++)
    for (int rank = 0; rank < 3; rank++) {
      work w = {.failing_rank = rank, .failing_piece = piece};
      char words[64];
      snprintf(words, sizeof words, "piece %d is broken", piece);
      run_ranks(3, work_of_rank, &w);
      for (int r = 0; r < 3; r++) {
        assert_int_equal(w.status[r], CH_ERROR_NUMERIC);
        assert_non_null(strstr(w.errors[r].message, words));
      }
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(data_are_taken_in_the_order_of_ranks),
      cmocka_unit_test(a_failure_anywhere_is_one_of_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
