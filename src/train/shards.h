/* Lookup tables of gates of which every rank has some columns (EG-MLA, "Embedding Parallelism").
 *
 * The ranks' micro-batches of one turn, number k n to k n + n - 1, form a round. Each rank looks its columns
 * up for the tokens of all of them and sends everyone the rows of that one's tokens, where an operation joins
 * them (graph/ops/joined_rows.c). Gradients go the way back: each rank receives those of its columns and adds
 * them in the order of micro-batches, as one process does, so that the bits do not depend on the number of
 * ranks. Rows come a round before they are needed, and gradients are added a round or two after they were
 * computed, so that ranks which compute one behind the other do not wait. */
#ifndef CH_TRAIN_SHARDS_H
#define CH_TRAIN_SHARDS_H

#include "model/runner.h"
#include "ranks/ranks.h"
#include "train/parameter_set.h"

/* A table, and the elements before it in buffers of all columns, and of the own. */
typedef struct ch_shard_table {
  int parameter;
  bool trained;
  int64_t columns, own, first; /* own: columns from `first` on */
  int64_t place, own_place;
} ch_shard_table;

/* The messages of a round: every other one has the same memory. N: tokens of a micro-batch. */
typedef struct ch_shard_round {
  char *rows, *gradients;     /* [tables][ranks][N, columns of the rank] of the own micro-batch */
  char *looked_up, *received; /* [ranks][tables][N, own columns] rows for others, gradients of others */
  ch_transfer *rows_in, *rows_out, *gradients_in, *gradients_out; /* [tables, ranks] */
} ch_shard_round;

typedef struct ch_shards {
  ch_rank_group *ranks;
  const ch_engine *engine;
  const ch_parameter_set *set;
  int first_tag, count;
  ch_shard_table *tables; /* [count] */
  int64_t rows;           /* N */
  int64_t all, own;       /* elements of a round's rows, and of looked_up for one rank */
  ch_shard_round rounds[2];
  ch_transfer *transfers; /* that the rounds have */
  ch_tensor *weights;     /* [params] what a run reads: of tables, the rows of its tokens */
  void **gradient_data;   /* [params] gradients of these rows and of the other parameters */
  ch_stop_test stop;
  void *stop_context;
  /* Valid during a step or an evaluation: */
  int64_t micro_batches, round_count;
  const int32_t *tokens; /* of its micro-batches, or if they are fetched round by round of those of a round */
  bool by_round, backward;
  int64_t posted, left,
      added; /* rounds whose rows are under way, whose gradients are, and whose gradients were added */
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

/* Begins a step, with the tokens of all its micro-batches; or an evaluation, whose `tokens` change round by
 * round. */
void ch_shards_begin(ch_shards *shards, int64_t micro_batches, const int32_t *tokens, bool backward);
/* Begins round `round`. When it returns, the rows for this rank's micro-batch, if it has one, have
 * arrived. */
ch_status ch_shards_enter(ch_shards *shards, int64_t round, ch_error *error);
/* Ends a round, after this rank's micro-batch was differentiated. */
void ch_shards_leave(ch_shards *shards, int64_t round);
/* Ends the step, after all of this rank's micro-batches, and adds the gradients that are still in
 * transfer. */
ch_status ch_shards_end(ch_shards *shards, ch_error *error);
/* Ends the step after a failure: sends and receives the rest, whatever its values. */
void ch_shards_give_up(ch_shards *shards);

#endif
