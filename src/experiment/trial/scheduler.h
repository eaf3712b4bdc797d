/* Schedules the runs of an experiment: one process trains them one after another, or each of several groups of ranks
 * trains one run at a time.
 *
 * Rank 0 has the list of runs. It sends the next run to each idle group and receives the result. Between messages it
 * trains runs together with its own group. All other ranks wait for assignments until rank 0 ends the work. A failed
 * run does not end other runs; a signal to one rank ends all runs, each with a checkpoint. */
#ifndef CH_EXPERIMENT_TRIAL_SCHEDULER_H
#define CH_EXPERIMENT_TRIAL_SCHEDULER_H

#include "base/error.h"
#include "ranks/ranks.h"

/* A piece of work: a run of a model, or the runs that find its learning rate. */
typedef struct ch_assignment {
  int32_t model;       /* index in the plan; -1: no work is left */
  int32_t tries_rates; /* 1: the piece tunes the model's learning rate; 0: it trains a run */
  uint64_t seed;
  double lr;
} ch_assignment;

/* The outcome of a piece of work. */
typedef struct ch_outcome {
  ch_status status;
  bool done, told; /* `done`: the piece has ended; `told`: ch_scheduler_settle has handled it */
  bool began;      /* true if a step was trained */
  ch_error error;  /* valid if `status` is not CH_OK */
} ch_outcome;

/* Works on a piece. Every rank of a group calls it. *began becomes true if a step was trained, now or earlier. */
typedef ch_status (*ch_assignment_maker)(void *context, const ch_assignment *piece, bool *began,
                                         ch_error *error);

/* A list of pieces and the functions that work on them. */
typedef struct ch_scheduler_work {
  const ch_assignment *pieces; /* [count] in the order in which they should start */
  int count;
  ch_assignment_maker make;
  /* Called on rank 0 with the index of a piece that is done or has failed, but not after an interruption. An error ends
     the work. */
  ch_status (*made)(void *context, int index, const ch_outcome *outcome, ch_error *error);
  void *context;
} ch_scheduler_work;

typedef struct ch_scheduler {
  ch_rank_group *all; /* all ranks of the job; NULL: one process */
  ch_rank_group *own; /* ranks of this group, which train one run together; NULL: this process alone */
  int groups;         /* number of groups */
  bool began;         /* rank 0: true once it listens to the other groups */
  bool stopped;       /* true once all runs must save a checkpoint and end */
  ch_stop_test stop;
  void *stop_context;
  struct ch_scheduler_member *members; /* rank 0: [groups] state of each group; NULL on other ranks */
  struct ch_scheduler_lead *lead;      /* other ranks of a job: state of a group's first rank */
  const ch_scheduler_work *work;       /* rank 0: the list of pieces, while ch_scheduler_make runs */
  ch_outcome *outcomes;                /* rank 0: [work->count] */
  int next;                            /* rank 0: index of the next piece to assign */
} ch_scheduler;

/* Divides the ranks of a job (NULL: this process alone) into groups of `each`. `stop` may be NULL. All ranks call it.
 * Errors: CH_ERROR_ARGUMENT if `each` does not divide the number of ranks. Release with ch_scheduler_close, also on
 * failure. */
ch_status ch_scheduler_open(ch_rank_group *ranks, int64_t each, ch_stop_test stop, void *stop_context,
                            ch_scheduler *scheduler, ch_error *error);
void ch_scheduler_close(ch_scheduler *scheduler);

/* Returns true if this rank has the list, prints messages and writes the files that all runs share. */
bool ch_scheduler_leads(const ch_scheduler *scheduler);
/* Returns true if this rank writes the files of the run that its group trains. */
bool ch_scheduler_writes(const ch_scheduler *scheduler);
/* Returns true if this process is not one of several ranks. */
bool ch_scheduler_is_alone(const ch_scheduler *scheduler);

/* Returns true if a run in training should stop. Rank 0 also receives messages and assigns pieces to waiting groups. */
bool ch_scheduler_stops(ch_scheduler *scheduler);
/* Calls `made` for pieces that have ended. Rank 0 calls it between two steps. Errors: those of `made`. */
ch_status ch_scheduler_settle(ch_scheduler *scheduler, ch_error *error);

/* Returns true if a piece failed for a reason that the other pieces share, such as a Python without PyTorch. */
bool ch_scheduler_is_hopeless(const ch_outcome *outcome);
/* Works through all pieces and returns when all groups are done. Rank 0 calls it. Failures go to `made`. In a single group
 * the first hopeless one ends the work and is returned. CH_ERROR_INTERRUPTED: some pieces are not done. */
ch_status ch_scheduler_make(ch_scheduler *scheduler, const ch_scheduler_work *work, ch_error *error);
/* Ends ch_scheduler_follow on the other ranks. Rank 0 calls it. */
void ch_scheduler_dismiss(ch_scheduler *scheduler);
/* Works on the pieces that rank 0 assigns. All other ranks call it. */
void ch_scheduler_follow(ch_scheduler *scheduler, ch_assignment_maker make, void *context);

/* The failures of an experiment that continued with other pieces. */
typedef struct ch_scheduler_failures {
  int count, first; /* number of failures, and lowest number of a failed run or model */
  ch_status status; /* status of failure `first` */
  ch_error error;   /* message of failure `first` */
} ch_scheduler_failures;

/* Records the failure of the run or model with number `at`. */
void ch_scheduler_note_failure(ch_scheduler_failures *failures, int at, const ch_outcome *outcome);
/* Returns CH_OK if there are no failures, else the first one's status, with a message that has their number. */
ch_status ch_scheduler_report_failures(const ch_scheduler_failures *failures, ch_error *error);

/* Waits a moment for a file that another group wrote, because a network file system may show it late. Returns false if
 * the wait since `begin` (ch_clock) was long enough, or no other process could have written the file. */
bool ch_scheduler_has_patience(const ch_scheduler *scheduler, double begin);

/* Returns rank 0's status and message on all ranks. */
ch_status ch_scheduler_conclude(ch_scheduler *scheduler, ch_status status, ch_error *error);

#endif
