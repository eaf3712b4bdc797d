/* Lookup tables of gates of which every rank has some columns (EG-MLA, "Embedding Parallelism").
 *
 * Micro-batches k n to k n + n - 1 of n ranks form round k. Each rank looks up its columns for the tokens of all
 * micro-batches of a round and sends every rank the rows for its tokens, where an operation joins them
 * (graph/ops/joined_rows.c). Gradients go the opposite way: each rank receives those of its columns and adds them in
 * the order of micro-batches, as one process does, so that the bits do not depend on the number of ranks. Rows are
 * sent a round before they are needed, and gradients are added one or two rounds after they were computed, so that
 * ranks that compute one behind the other do not wait. */
#ifndef CH_TRAIN_SHARDS_H
#define CH_TRAIN_SHARDS_H

#include "model/runner.h"
#include "ranks/ranks.h"
#include "train/parameter_set.h"

/* A lookup table that is divided by columns. */
typedef struct ch_shard_table {
  int parameter;               /* index in the parameter table */
  bool trained;                /* false if the table is frozen */
  int64_t columns, own, first; /* columns of the table; columns of this rank; first column of this rank */
  int64_t place, own_place;    /* elements before the table in buffers of all columns, and of own columns */
} ch_shard_table;

/* The messages of a round. Every other round uses the same memory. N: tokens of a micro-batch. */
typedef struct ch_shard_round {
  char *rows, *gradients;     /* [tables][ranks][N, columns of the rank]: of this rank's micro-batch */
  char *looked_up, *received; /* [ranks][tables][N, own columns]: rows for other ranks, gradients from them */
  ch_transfer *rows_in, *rows_out, *gradients_in, *gradients_out; /* [tables, ranks] */
} ch_shard_round;

typedef struct ch_shards {
  ch_rank_group *ranks;
  const ch_engine *engine;
  const ch_parameter_set *set;
  int first_tag, count;   /* first tag of the messages; number of divided tables */
  ch_shard_table *tables; /* [count] */
  int64_t rows;           /* tokens N of a micro-batch */
  int64_t all, own;       /* all: elements of a round's `rows`; own: elements of `looked_up` for one rank */
  ch_shard_round rounds[2];
  ch_transfer *transfers; /* memory of the rounds' transfers */
  ch_tensor *weights;     /* [params]: weights that a run reads; rows for its tokens replace divided tables */
  void **gradient_data;   /* [params]: memory for gradients; for divided tables, for gradients of the rows */
  ch_stop_test stop;
  void *stop_context;
  int64_t micro_batches, round_count; /* micro-batches and rounds of the current step or evaluation */
  const int32_t *tokens;   /* tokens of all micro-batches of the step; in evaluations, of the round */
  bool by_round, backward; /* by_round: an evaluation; backward: a training step */
  /* numbers of rounds whose rows were sent, whose gradients were sent, and whose gradients were added */
  int64_t posted, left, added;
} ch_shards;

/* Creates the shards of those tables of `set` that are divided by columns. Micro-batches have `rows` tokens.
 * Messages have tags from first_tag on. `stop` ends waiting. Release with ch_shards_free. */
ch_status ch_shards_create(ch_shards *shards, ch_rank_group *ranks, const ch_engine *engine,
                           const ch_parameter_set *set, int64_t rows, int first_tag, ch_stop_test stop,
                           void *stop_context, ch_error *error);
void ch_shards_free(ch_shards *shards);
size_t ch_shards_bytes(const ch_shards *shards);
/* Computes ch_shards_bytes for one rank of several, without creating shards. */
size_t ch_shards_bytes_of(const ch_params *params, ch_dtype dtype, int64_t rows, int rank, int ranks);

/* Begins a training step (`backward`) with the tokens of all its micro-batches, or an evaluation, whose `tokens`
 * change from round to round. */
void ch_shards_begin(ch_shards *shards, int64_t micro_batches, const int32_t *tokens, bool backward);
/* Begins round `round`. When it returns, the rows for this rank's micro-batch, if it has one, have
 * arrived. */
ch_status ch_shards_enter(ch_shards *shards, int64_t round, ch_error *error);
/* Ends a round of a training step after this rank's micro-batch was differentiated: sends its gradients. */
void ch_shards_leave(ch_shards *shards, int64_t round);
/* Ends a training step or an evaluation after all of this rank's micro-batches. In a training step it adds
 * the gradients that are still in transfer. */
ch_status ch_shards_end(ch_shards *shards, ch_error *error);
/* Ends the step after a failure: sends and receives the remaining messages, whose values do not matter. */
void ch_shards_give_up(ch_shards *shards);

#endif
