/* The public functions of ranks. Inside the library, the functions of src/ranks are called. */
#include <crosshead/ranks.h>

#include "ranks/launch.h"
#include "ranks/ranks.h"

ch_status ch_ranks_join(ch_rank_group **ranks, ch_error *error) {
  return ch_join_ranks(ranks, error);
}

ch_status ch_ranks_over_sockets(int rank, int count, const int *sockets, ch_rank_group **ranks,
                                ch_error *error) {
  return ch_connect_ranks(rank, count, sockets, ranks, error);
}

void ch_ranks_leave(ch_rank_group *ranks) {
  ch_close_ranks(ranks);
}

int ch_ranks_rank(const ch_rank_group *ranks) {
  return ch_own_rank(ranks);
}

int ch_ranks_count(const ch_rank_group *ranks) {
  return ch_rank_count(ranks);
}

int ch_ranks_expected_rank(void) {
  return ch_launched_rank();
}

ch_status ch_ranks_agree(ch_rank_group *ranks, ch_status status, ch_error *error) {
  return ch_agree(ranks, status, error);
}

int ch_ranks_largest(ch_rank_group *ranks, int number) {
  return ch_largest_of_ranks(ranks, number);
}
