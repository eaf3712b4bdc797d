/* Assigns runs to groups of ranks. Rank 0 exchanges messages with the first rank of each other group. A group reports a
 * finished run, and rank 0 answers with the next one. A group that trains can receive no message except "stop". */
#define _GNU_SOURCE
#include "experiment/trial/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/progress.h"

enum { WORD_TAG = 1, REPORT_TAG = 2 };

typedef enum report_kind { ASKS, IS_STOPPED, LEAVES } report_kind;

typedef struct report {
  int32_t kind;
  int32_t has_outcome;
  ch_outcome outcome;
} report;

/* Rank 0's state of another group. */
typedef struct ch_scheduler_member {
  int rank; /* number of the group's first rank */
  ch_transfer in, out;
  report said;
  ch_assignment word;
  int index; /* index of the group's piece; -1: none */
  /* `asks`: the group waits for a message; `ended`: it was sent "stop"; `left`: it has sent its last message */
  bool asks, ended, left;
} ch_scheduler_member;

/* The state of another group's first rank. */
typedef struct ch_scheduler_lead {
  ch_transfer in, out;
  ch_assignment word;
  report say;
  bool warned; /* true after rank 0 was sent IS_STOPPED */
} ch_scheduler_lead;

static const ch_assignment nothing = {.model = -1};

static void rest(void) {
  static const struct timespec nap = {0, 2000000};
  nanosleep(&nap, NULL);
}

static bool asked_to_stop(const ch_scheduler *scheduler) {
  return scheduler->stop && scheduler->stop(scheduler->stop_context);
}

bool ch_scheduler_leads(const ch_scheduler *scheduler) {
  return ch_ranks_leads(scheduler->all);
}

bool ch_scheduler_writes(const ch_scheduler *scheduler) {
  return ch_ranks_leads(scheduler->own);
}

bool ch_scheduler_is_alone(const ch_scheduler *scheduler) {
  return !scheduler->all;
}

/* --- groups ------------------------------------------------------------------------------------------------------ */

static ch_status check_groups(int count, int64_t each, ch_error *error) {
  if (each >= 1 && each <= count && count % each == 0) return CH_OK;
  if (count == 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{ranks_per_run} is %lld, and this is one process; start %lld or a multiple of them with "
                   "mpirun -n, or leave it out",
                   (long long)each, (long long)each);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "{ranks_per_run} is %lld, which does not divide the %d ranks of this job evenly; give a "
                 "divisor of %d",
                 (long long)each, count, count);
}

/* Allocates the state of rank 0, or the state of another rank. */
static ch_status make_places(ch_scheduler *scheduler, int each, ch_error *error) {
  bool leads = ch_scheduler_leads(scheduler);
  if (leads) scheduler->members = calloc((size_t)scheduler->groups, sizeof *scheduler->members);
  if (!leads) scheduler->lead = calloc(1, sizeof *scheduler->lead);
  if (!scheduler->members && !scheduler->lead) return ch_no_memory(error);
  for (int g = 0; leads && g < scheduler->groups; g++)
    scheduler->members[g] = (ch_scheduler_member){.rank = g * each, .index = -1};
  return CH_OK;
}

ch_status ch_scheduler_open(ch_rank_group *ranks, int64_t each, ch_stop_test stop, void *stop_context,
                            ch_scheduler *scheduler, ch_error *error) {
  int count = ch_rank_count(ranks);
  *scheduler = (ch_scheduler){.groups = 1, .stop = stop, .stop_context = stop_context};
  CH_TRY(ch_agree(ranks, check_groups(count, each, error), error));
  if (!ranks) return CH_OK;
  scheduler->all = ranks;
  scheduler->groups = count / (int)each;
  CH_TRY(ch_agree(ranks, make_places(scheduler, (int)each, error), error));
  ch_status status = CH_OK;
  if (each > 1) status = ch_ranks_split(ranks, ch_own_rank(ranks) / (int)each, &scheduler->own, error);
  return ch_agree(ranks, status, error);
}

void ch_scheduler_close(ch_scheduler *scheduler) {
  ch_close_ranks(scheduler->own);
  free(scheduler->members);
  free(scheduler->lead);
  *scheduler = (ch_scheduler){0};
}

ch_status ch_scheduler_conclude(ch_scheduler *scheduler, ch_status status, ch_error *error) {
  if (!scheduler->all) return status;
  ch_error told = {.status = status};
  if (error && ch_scheduler_leads(scheduler)) told = *error;
  told.status = status;
  ch_ranks_broadcast(scheduler->all, 0, &told, sizeof told);
  return told.status == CH_OK ? CH_OK : ch_fail_as(error, told.status, &told);
}

/* --- rank 0 ------------------------------------------------------------------------------------------------------ */

static void listen_to(ch_scheduler *scheduler, ch_scheduler_member *m) {
  ch_ranks_receive(scheduler->all, m->rank, REPORT_TAG, &m->said, sizeof m->said, &m->in);
}

/* Starts to receive from the other groups. Each sends its first message in ch_scheduler_follow. */
static void start_groups(ch_scheduler *scheduler) {
  for (int g = 1; !scheduler->began && g < scheduler->groups; g++)
    listen_to(scheduler, &scheduler->members[g]);
  scheduler->began = true;
}

static void note(ch_scheduler *scheduler, int index, const ch_outcome *outcome) {
  scheduler->outcomes[index] = *outcome;
  scheduler->outcomes[index].done = true;
  if (outcome->status == CH_ERROR_INTERRUPTED) scheduler->stopped = true;
}

static void hear(ch_scheduler *scheduler, ch_scheduler_member *m) {
  const report *said = &m->said;
  if (said->has_outcome && m->index >= 0) {
    note(scheduler, m->index, &said->outcome);
    m->index = -1;
  }
  m->asks = m->asks || said->kind == ASKS;
  if (said->kind == IS_STOPPED) scheduler->stopped = true;
  m->left = said->kind == LEAVES;
  if (!m->left) listen_to(scheduler, m);
}

static void send_assignment(ch_scheduler *scheduler, ch_scheduler_member *m, const ch_assignment *word) {
  ch_ranks_wait(scheduler->all, &m->out, NULL, NULL);
  m->word = *word;
  m->asks = false;
  m->ended = word->model < 0;
  ch_ranks_send(scheduler->all, m->rank, WORD_TAG, &m->word, sizeof m->word, &m->out);
}

/* Receives the groups' messages. Assigns pieces to groups that wait or, after a stop, sends "stop" to all groups. */
static void serve(ch_scheduler *scheduler) {
  for (int g = 1; g < scheduler->groups; g++) {
    ch_scheduler_member *m = &scheduler->members[g];
    while (!m->left && ch_ranks_done(scheduler->all, &m->in)) hear(scheduler, m);
  }
  scheduler->stopped = scheduler->stopped || asked_to_stop(scheduler);
  for (int g = 1; g < scheduler->groups; g++) {
    ch_scheduler_member *m = &scheduler->members[g];
    if (scheduler->stopped && !m->ended) send_assignment(scheduler, m, &nothing);
    if (m->ended || !m->asks || !scheduler->work || scheduler->next == scheduler->work->count) continue;
    m->index = scheduler->next++;
    send_assignment(scheduler, m, &scheduler->work->pieces[m->index]);
  }
}

ch_status ch_scheduler_settle(ch_scheduler *scheduler, ch_error *error) {
  for (int i = 0; scheduler->work && i < scheduler->work->count; i++) {
    ch_outcome *outcome = &scheduler->outcomes[i];
    if (!outcome->done || outcome->told) continue;
    outcome->told = true;
    if (outcome->status == CH_ERROR_INTERRUPTED) continue;
    ch_status status = scheduler->work->made(scheduler->work->context, i, outcome, error);
    if (status == CH_OK) continue;
    scheduler->stopped = true; /* results cannot be saved, so training is useless */
    return status;
  }
  return CH_OK;
}

static bool somebody_works(const ch_scheduler *scheduler) {
  for (int g = 1; g < scheduler->groups; g++)
    if (!scheduler->members[g].left && scheduler->members[g].index >= 0) return true;
  return false;
}

bool ch_scheduler_is_hopeless(const ch_outcome *outcome) {
  return outcome->status == CH_ERROR_CONFIG && !outcome->began;
}

/* Works on a piece with rank 0's own group. */
static ch_status make_own(ch_scheduler *scheduler, int index, ch_error *error) {
  ch_assignment piece = scheduler->work->pieces[index];
  ch_outcome outcome = {.status = CH_OK};
  ch_error own = {0};
  ch_ranks_broadcast(scheduler->own, 0, &piece, sizeof piece);
  outcome.status = scheduler->work->make(scheduler->work->context, &piece, &outcome.began, &own);
  if (outcome.status != CH_OK) outcome.error = own;
  note(scheduler, index, &outcome);
  CH_TRY(ch_scheduler_settle(scheduler, error));
  bool ends = scheduler->groups == 1 && ch_scheduler_is_hopeless(&outcome);
  return ends ? ch_fail_as(error, outcome.status, &own) : CH_OK;
}

static ch_status make_all(ch_scheduler *scheduler, ch_error *error) {
  ch_status status = CH_OK;
  for (serve(scheduler); status == CH_OK && !scheduler->stopped && scheduler->next < scheduler->work->count;
       serve(scheduler))
    status = make_own(scheduler, scheduler->next++, error);
  if (status != CH_OK) scheduler->stopped = true;
  for (serve(scheduler); somebody_works(scheduler); serve(scheduler)) {
    if (status == CH_OK) status = ch_scheduler_settle(scheduler, error);
    rest();
  }
  if (status == CH_OK) status = ch_scheduler_settle(scheduler, error);
  if (status == CH_OK && scheduler->stopped) status = ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
  return status;
}

ch_status ch_scheduler_make(ch_scheduler *scheduler, const ch_scheduler_work *work, ch_error *error) {
  scheduler->outcomes = calloc((size_t)work->count + 1, sizeof *scheduler->outcomes);
  if (!scheduler->outcomes) return ch_no_memory(error);
  scheduler->work = work;
  scheduler->next = 0;
  start_groups(scheduler);
  ch_status status = make_all(scheduler, error);
  scheduler->work = NULL;
  free(scheduler->outcomes);
  scheduler->outcomes = NULL;
  return status;
}

void ch_scheduler_dismiss(ch_scheduler *scheduler) {
  ch_assignment word = nothing;
  if (!scheduler->members) return;
  start_groups(scheduler);
  ch_ranks_broadcast(scheduler->own, 0, &word, sizeof word);
  for (int g = 1; g < scheduler->groups; g++)
    if (!scheduler->members[g].ended) send_assignment(scheduler, &scheduler->members[g], &nothing);
  for (int left = 1; left < scheduler->groups;) {
    serve(scheduler);
    left = 1;
    for (int g = 1; g < scheduler->groups; g++) left += scheduler->members[g].left;
    if (left < scheduler->groups) rest();
  }
  for (int g = 1; g < scheduler->groups; g++)
    ch_ranks_wait(scheduler->all, &scheduler->members[g].out, NULL, NULL);
}

void ch_scheduler_note_failure(ch_scheduler_failures *failures, int at, const ch_outcome *outcome) {
  if (failures->count++ > 0 && at > failures->first) return;
  failures->status = outcome->status;
  failures->first = at;
  failures->error = outcome->error;
}

ch_status ch_scheduler_report_failures(const ch_scheduler_failures *failures, ch_error *error) {
  if (failures->count == 0) return CH_OK;
  if (failures->count == 1) return ch_fail_as(error, failures->status, &failures->error);
  char prefix[64];
  snprintf(prefix, sizeof prefix, "%d runs failed, the first of them", failures->count);
  ch_fail_as(error, failures->status, &failures->error);
  return ch_fail_in(error, prefix);
}

bool ch_scheduler_has_patience(const ch_scheduler *scheduler, double begin) {
  enum { PATIENCE = 30 };
  if (ch_scheduler_is_alone(scheduler) || ch_clock() - begin > PATIENCE) return false;
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  return true;
}

/* --- other groups ------------------------------------------------------------------------------------------------ */

bool ch_scheduler_stops(ch_scheduler *scheduler) {
  if (scheduler->members) {
    serve(scheduler);
    return scheduler->stopped;
  }
  if (scheduler->lead && ch_scheduler_writes(scheduler) &&
      ch_ranks_done(scheduler->all, &scheduler->lead->in))
    scheduler->stopped = true;
  return scheduler->stopped || asked_to_stop(scheduler);
}

static void say(ch_scheduler *scheduler, report_kind kind, const ch_outcome *outcome) {
  ch_scheduler_lead *lead = scheduler->lead;
  ch_ranks_wait(scheduler->all, &lead->out, NULL, NULL);
  lead->say = (report){.kind = (int32_t)kind, .has_outcome = outcome != NULL};
  if (outcome) lead->say.outcome = *outcome;
  ch_ranks_send(scheduler->all, 0, REPORT_TAG, &lead->say, sizeof lead->say, &lead->out);
}

/* Waits for rank 0's message. A signal that arrives meanwhile stops all ranks. */
static ch_assignment await_word(ch_scheduler *scheduler) {
  ch_scheduler_lead *lead = scheduler->lead;
  while (!ch_ranks_done(scheduler->all, &lead->in)) {
    if (!lead->warned && asked_to_stop(scheduler)) {
      lead->warned = true;
      say(scheduler, IS_STOPPED, NULL);
    }
    rest();
  }
  return lead->word;
}

static void expect_word(ch_scheduler *scheduler) {
  ch_ranks_receive(scheduler->all, 0, WORD_TAG, &scheduler->lead->word, sizeof scheduler->lead->word,
                   &scheduler->lead->in);
}

/* Returns the next piece of this group, with .model < 0 if there is none. */
static ch_assignment next_piece(ch_scheduler *scheduler) {
  ch_assignment piece = nothing;
  bool first = ch_scheduler_writes(scheduler);
  if (first) piece = await_word(scheduler);
  if (first && piece.model >= 0) expect_word(scheduler); /* during a piece the message can only be "stop" */
  ch_ranks_broadcast(scheduler->own, 0, &piece, sizeof piece);
  return piece;
}

void ch_scheduler_follow(ch_scheduler *scheduler, ch_assignment_maker make, void *context) {
  /* Only the first rank of a group exchanges messages with rank 0. It broadcasts pieces to its group. */
  bool first = ch_scheduler_writes(scheduler);
  if (first) expect_word(scheduler);
  if (first) say(scheduler, ASKS, NULL);
  for (ch_assignment piece = next_piece(scheduler); piece.model >= 0; piece = next_piece(scheduler)) {
    ch_outcome outcome = {.status = CH_OK};
    ch_error error = {0};
    outcome.status = make(context, &piece, &outcome.began, &error);
    outcome.error = error;
    if (first) say(scheduler, ASKS, &outcome);
  }
  if (first) say(scheduler, LEAVES, NULL);
  if (first) ch_ranks_wait(scheduler->all, &scheduler->lead->out, NULL, NULL);
}
