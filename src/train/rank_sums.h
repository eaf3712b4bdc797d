/* Gradients of a step in the order of ranks: each rank has added up those of its own micro-batches. Less waiting than in the order of
 * micro-batches (train/relay.h), and bits that depend on the number of ranks. */
#ifndef CH_TRAIN_RANK_SUMS_H
#define CH_TRAIN_RANK_SUMS_H

#include "model/runner.h"
#include "ranks/ranks.h"
#include "train/parameter_set.h"

typedef struct ch_rank_sums {
  ch_rank_group *ranks;
  const ch_engine *engine;
  const ch_parameter_set *set;
  int first_tag;
  ch_transfer *out; /* [params, ranks] */
  char *sum, *next; /* bytes of the largest own piece */
} ch_rank_sums;

/* Messages have tags from first_tag to first_tag + params - 1. Release with ch_rank_sums_free. */
ch_status ch_rank_sums_create(ch_rank_sums *sums, ch_rank_group *ranks, const ch_engine *engine,
                              const ch_parameter_set *set, int first_tag, ch_error *error);
void ch_rank_sums_free(ch_rank_sums *sums);
/* Every rank calls it, also after a failure of its step. This rank's pieces of set->gradients become the sums over all
   ranks; on the last rank, all pieces do. */
void ch_rank_sums_add(ch_rank_sums *sums);
/* Bytes that this rank sends for it. */
double ch_rank_sums_bytes(const ch_rank_sums *sums);

#endif
