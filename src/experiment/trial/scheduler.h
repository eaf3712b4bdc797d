/* Who trains the runs of an experiment: this process, one run after another, or groups of ranks, each of which trains
 * one run at a time.
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
  int32_t model; /* of the plan; -1: there is nothing more to do */
  int32_t tries_rates;
  uint64_t seed;
  double lr;
} ch_assignment;

/* The outcome of a piece of work. */
typedef struct ch_outcome {
  ch_status status;
  bool done, told;
  bool began;     /* a step was trained */
  ch_error error; /* if it failed */
} ch_outcome;

/* Works on a piece; called on every rank of a group. *began: a training step was done, now or earlier. */
typedef ch_status (*ch_assignment_maker)(void *context, const ch_assignment *piece, bool *began,
                                         ch_error *error);

/* Pieces, in the order in which they should start. */
typedef struct ch_scheduler_work {
  const ch_assignment *pieces;
  int count;
  ch_assignment_maker make;
  /* Called on rank 0 of the job with the index of a piece that is done or has failed, but not after an interruption. An
     error ends the work. */
  ch_status (*made)(void *context, int index, const ch_outcome *outcome, ch_error *error);
  void *context;
} ch_scheduler_work;

typedef struct ch_scheduler {
  ch_rank_group *all; /* NULL: a process alone */
  ch_rank_group *own; /* those that train one run together; NULL: this process alone */
  int groups;
  bool began;   /* rank 0 listens to the others */
  bool stopped; /* all runs end, each with a checkpoint */
  ch_stop_test stop;
  void *stop_context;
  struct ch_scheduler_member *members; /* [groups] on rank 0 of all */
  struct ch_scheduler_lead *lead;      /* of other ranks that lead a group */
  const ch_scheduler_work *work;       /* on rank 0, while work remains */
  ch_outcome *outcomes;                /* [work->count] */
  int next;
} ch_scheduler;

/* Divides the ranks of a job (NULL: this process alone) into groups of `each`. `stop` may be NULL. Every rank calls
 * it. Errors: CH_ERROR_ARGUMENT, where `each` does not divide the ranks. Release with ch_scheduler_close, also on
 * failure. */
ch_status ch_scheduler_open(ch_rank_group *ranks, int64_t each, ch_stop_test stop, void *stop_context,
                            ch_scheduler *scheduler, ch_error *error);
void ch_scheduler_close(ch_scheduler *scheduler);

/* Returns true if this rank has the list, prints messages and writes the files that all runs share. */
bool ch_scheduler_leads(const ch_scheduler *scheduler);
/* Returns true if this rank writes the files of the run that its group trains. */
bool ch_scheduler_writes(const ch_scheduler *scheduler);
/* Returns true if this process trains alone. */
bool ch_scheduler_is_alone(const ch_scheduler *scheduler);

/* Returns true if a run in training should stop. Also gives runs to waiting groups. */
bool ch_scheduler_stops(ch_scheduler *scheduler);
/* Tells what has become of other groups' pieces. For rank 0, between two steps. */
ch_status ch_scheduler_settle(ch_scheduler *scheduler, ch_error *error);

/* Works through all pieces on rank 0 and returns when all groups are done. Failures go to `made`; in a single
 * process the first failure ends the work and is returned. CH_ERROR_INTERRUPTED: some pieces are not done. */
ch_status ch_scheduler_make(ch_scheduler *scheduler, const ch_scheduler_work *work, ch_error *error);
/* Ends ch_scheduler_follow on the other ranks. Rank 0 calls it. */
void ch_scheduler_dismiss(ch_scheduler *scheduler);
/* Works on the pieces that rank 0 gives. All other ranks call it. */
void ch_scheduler_follow(ch_scheduler *scheduler, ch_assignment_maker make, void *context);

/* Failures, while work on other pieces continued. */
typedef struct ch_scheduler_failures {
  int count, first; /* the failure with the lowest number, */
  ch_status status; /* its status and its sentence */
  ch_error error;
} ch_scheduler_failures;

/* Notes what became of number `at`. */
void ch_scheduler_note_failure(ch_scheduler_failures *failures, int at, const ch_outcome *outcome);
/* Returns CH_OK, or the first failure's status and a sentence with the number of failures. */
ch_status ch_scheduler_report_failures(const ch_scheduler_failures *failures, ch_error *error);

/* Waits a moment for a file that another group wrote and that a network file system may show late. false: the wait
 * since `begin` (ch_clock) was long enough, or no other process could have written the file. */
bool ch_scheduler_has_patience(const ch_scheduler *scheduler, double begin);

/* Returns rank 0's status and sentence on all ranks. */
ch_status ch_scheduler_conclude(ch_scheduler *scheduler, ch_status status, ch_error *error);

#endif
