/* A step over several ranks: the division of micro-batches and the transfer of gradients.
 *
 * Micro-batch i of a step is differentiated by rank i mod n. The sum of a parameter's gradients goes from
 * each micro-batch to the next, which adds its own in place, so that the additions and their order are those
 * of one process: the bits do not depend on the number of ranks. All ranks compute at the same time, each
 * some operations behind the one before it, because a pass needs an earlier sum only when it reaches that
 * parameter. The last micro-batch has the gradients of the step. Its rank sends each rank the part that this rank
 * updates (ch_parameter_set), and the updated weights are gathered.
 *
 * A rank that fails notifies the others, which end their pass. It continues to receive and send the remaining
 * messages of the step. So no rank waits for a message that never comes, and all ranks reach the agreement at the
 * step's end. */
#ifndef CH_TRAIN_STEP_OVER_RANKS_H
#define CH_TRAIN_STEP_OVER_RANKS_H

#include "model/runner.h"
#include "ranks/alarm.h"
#include "train/shards.h"

/* Sums over the rows of all passes. */
typedef struct ch_pass_sums {
  double loss;         /* sum of the losses of all predicted tokens, or of all images */
  double balance_loss; /* balance loss as in ch_step_report */
  int64_t top1, top5;  /* images whose label has the highest score, or one of the five highest */
} ch_pass_sums;

/* One sum that goes from micro-batch to micro-batch. */
typedef struct ch_relay_sum {
  void *data;
  size_t bytes; /* size; 0: the sum is not passed on */
  ch_transfer in, out;
  int64_t expected, arrived, sent; /* own micro-batches: last sum requested, received and sent; -1: none */
} ch_relay_sum;

typedef struct ch_relay {
  ch_rank_group *ranks;
  const ch_engine *engine;
  const ch_runner *runner;
  const ch_parameter_set *set;
  int64_t micro_batches; /* micro-batches of the current step or evaluation */
  int64_t current;       /* this rank's micro-batch in progress; -1: none yet */
  ch_relay_sum *sums;    /* [count] */
  int count, next;       /* next: index of the sum whose transfers advance next */
  ch_transfer *pieces;   /* transfers of pieces: [params] to this rank; [params, ranks] on the last rank */
  bool *handed_out;      /* [params]: true if the last rank has sent the final gradient */
  ch_pass_sums taken_sums, given_sums; /* sums over rows: from the previous rank, and to the next one */
  ch_transfer taking, giving;          /* transfers of taken_sums and given_sums */
  int64_t asked, taken, given;         /* last own micro-batch whose sums were requested; received; sent on */
  ch_alarm alarm;                      /* alarm that a failing rank raises */
  ch_stop_test stop;
  void *stop_context;
  int64_t *load_room; /* [ranks, loads + 2]: scratch memory for sums of counts */
  ch_shards shards;   /* divided lookup tables */
  ch_gradient_listener listener;
} ch_relay;

/* Creates a relay for steps with `runner` and micro-batches of `rows` tokens. `loads` is the number of expert
   counts that are summed over ranks. Without ranks (NULL) the relay does nothing. Release with
   ch_relay_free. */
ch_status ch_relay_create(ch_relay *relay, ch_rank_group *ranks, const ch_engine *engine,
                          const ch_runner *runner, const ch_parameter_set *set, int64_t loads, int64_t rows,
                          ch_error *error);
void ch_relay_free(ch_relay *relay);

/* Begins a step or an evaluation of so many micro-batches. `stop` (or NULL) ends waiting. */
void ch_relay_begin(ch_relay *relay, int64_t micro_batches, ch_stop_test stop, void *stop_context);
/* Return this rank's first micro-batch, and the distance to its next one. */
int64_t ch_relay_first(const ch_relay *relay);
int64_t ch_relay_stride(const ch_relay *relay);
/* Begins this rank's micro-batch `index` of a training step. */
void ch_relay_enter(ch_relay *relay, int64_t index);
/* Returns the ch_runner_call.listener of a training step; NULL without other ranks. */
const ch_gradient_listener *ch_relay_listener(const ch_relay *relay);
/* Receives the sums over earlier micro-batches into *sums, before the rows of micro-batch `index` are added.
 * ch_relay_give then sends the new sums on. */
ch_status ch_relay_take(ch_relay *relay, int64_t index, ch_pass_sums *sums, ch_error *error);
void ch_relay_give(ch_relay *relay, int64_t index, const ch_pass_sums *sums);

/* Returns true if the caller's `stop` returns true or another rank has failed. */
bool ch_relay_stops(ch_relay *relay);
/* Ends a training step's passes with this rank's status. Afterwards this rank's pieces of the gradients are
 * final, and on the last rank all gradients. Returns the status, or CH_ERROR_INTERRUPTED after a stop while
 * waiting. */
ch_status ch_relay_end_step(ch_relay *relay, ch_status status, ch_error *error);
/* Ends an evaluation's passes. Returns as ch_relay_end_step does. */
ch_status ch_relay_end_evaluation(ch_relay *relay, ch_status status, ch_error *error);
/* Agrees on the status of the ranks' work since ch_relay_begin. Every rank calls it once. */
ch_status ch_relay_agree(ch_relay *relay, ch_status status, ch_error *error);
/* Broadcasts `data` from the rank with the last micro-batch. */
void ch_relay_spread(ch_relay *relay, void *data, size_t bytes);

/* Returns the tag of messages with pieces of moments. */
int ch_relay_moment_tag(const ch_relay *relay);

#endif
