/* Handing out runs to groups of ranks. Messages go between rank 0 and the first rank of each other group: reports of
 * what was made, which ask for more, and words that name the next piece. A word may come while a piece is made only
 * if it says to end. */
#define _GNU_SOURCE
#include "experiment/trial/scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/progress.h"

enum { WORD_TAG = 1, REPORT_TAG = 2 };

typedef enum report_kind { ASKS, IS_STOPPED, LEAVES } report_kind;

typedef struct report {
  int32_t kind;
  int32_t has_outcome;
  ch_outcome outcome;
} report;

/* Another group, as rank 0 sees it. */
typedef struct ch_scheduler_member {
  int rank; /* of its first rank */
  ch_transfer in, out;
  report said;
  ch_assignment word;
  int index;              /* index of the piece that it works on; -1: none */
  bool asks, ended, left; /* it waits for a message; was sent "stop"; has sent its last message */
} ch_scheduler_member;

/* Rank 0, as the first rank of another group sees it. */
typedef struct ch_scheduler_lead {
  ch_transfer in, out;
  ch_assignment word;
  report say;
  bool warned; /* rank 0 knows that this group is stopped */
} ch_scheduler_lead;

static const ch_assignment nothing = {.model = -1};

static void rest(void) {
  static const struct timespec nap = {0, 2000000};
  nanosleep(&nap, NULL);
}

static bool asked_to_stop(const ch_scheduler *crew) {
  return crew->stop && crew->stop(crew->stop_context);
}

bool ch_scheduler_leads(const ch_scheduler *crew) {
  return ch_ranks_leads(crew->all);
}

bool ch_scheduler_writes(const ch_scheduler *crew) {
  return ch_ranks_leads(crew->own);
}

bool ch_scheduler_is_alone(const ch_scheduler *crew) {
  return !crew->all;
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

/* The memory of rank 0, or of the first rank of another group. */
static ch_status make_places(ch_scheduler *crew, int each, ch_error *error) {
  bool leads = ch_scheduler_leads(crew);
  if (leads) crew->members = calloc((size_t)crew->groups, sizeof *crew->members);
  if (!leads) crew->lead = calloc(1, sizeof *crew->lead);
  if (!crew->members && !crew->lead) return ch_no_memory(error);
  for (int g = 0; leads && g < crew->groups; g++)
    crew->members[g] = (ch_scheduler_member){.rank = g * each, .index = -1};
  return CH_OK;
}

ch_status ch_scheduler_open(ch_rank_group *ranks, int64_t each, ch_stop_test stop, void *stop_context,
                            ch_scheduler *crew, ch_error *error) {
  int count = ch_rank_count(ranks);
  *crew = (ch_scheduler){.groups = 1, .stop = stop, .stop_context = stop_context};
  CH_TRY(ch_agree(ranks, check_groups(count, each, error), error));
  if (!ranks) return CH_OK;
  crew->all = ranks;
  crew->groups = count / (int)each;
  CH_TRY(ch_agree(ranks, make_places(crew, (int)each, error), error));
  ch_status status = CH_OK;
  if (each > 1) status = ch_ranks_split(ranks, ch_own_rank(ranks) / (int)each, &crew->own, error);
  return ch_agree(ranks, status, error);
}

void ch_scheduler_close(ch_scheduler *crew) {
  ch_close_ranks(crew->own);
  free(crew->members);
  free(crew->lead);
  *crew = (ch_scheduler){0};
}

ch_status ch_scheduler_conclude(ch_scheduler *crew, ch_status status, ch_error *error) {
  if (!crew->all) return status;
  ch_error told = {.status = status};
  if (error && ch_scheduler_leads(crew)) told = *error;
  told.status = status;
  ch_ranks_broadcast(crew->all, 0, &told, sizeof told);
  return told.status == CH_OK ? CH_OK : ch_fail_as(error, told.status, &told);
}

/* --- rank 0 ------------------------------------------------------------------------------------------------------ */

static void listen_to(ch_scheduler *crew, ch_scheduler_member *m) {
  ch_ranks_receive(crew->all, m->rank, REPORT_TAG, &m->said, sizeof m->said, &m->in);
}

/* The other groups send their first message when they begin to follow. */
static void start_groups(ch_scheduler *crew) {
  for (int g = 1; !crew->began && g < crew->groups; g++) listen_to(crew, &crew->members[g]);
  crew->began = true;
}

static void note(ch_scheduler *crew, int index, const ch_outcome *outcome) {
  crew->outcomes[index] = *outcome;
  crew->outcomes[index].done = true;
  if (outcome->status == CH_ERROR_INTERRUPTED) crew->stopped = true;
}

static void hear(ch_scheduler *crew, ch_scheduler_member *m) {
  const report *said = &m->said;
  if (said->has_outcome && m->index >= 0) {
    note(crew, m->index, &said->outcome);
    m->index = -1;
  }
  m->asks = m->asks || said->kind == ASKS;
  if (said->kind == IS_STOPPED) crew->stopped = true;
  m->left = said->kind == LEAVES;
  if (!m->left) listen_to(crew, m);
}

static void send_assignment(ch_scheduler *crew, ch_scheduler_member *m, const ch_assignment *word) {
  ch_ranks_wait(crew->all, &m->out, NULL, NULL);
  m->word = *word;
  m->asks = false;
  m->ended = word->model < 0;
  ch_ranks_send(crew->all, m->rank, WORD_TAG, &m->word, sizeof m->word, &m->out);
}

/* Receives the groups' messages, and gives pieces to those that wait. */
static void serve(ch_scheduler *crew) {
  for (int g = 1; g < crew->groups; g++) {
    ch_scheduler_member *m = &crew->members[g];
    while (!m->left && ch_ranks_done(crew->all, &m->in)) hear(crew, m);
  }
  crew->stopped = crew->stopped || asked_to_stop(crew);
  for (int g = 1; g < crew->groups; g++) {
    ch_scheduler_member *m = &crew->members[g];
    if (crew->stopped && !m->ended) send_assignment(crew, m, &nothing);
    if (m->ended || !m->asks || !crew->work || crew->next == crew->work->count) continue;
    m->index = crew->next++;
    send_assignment(crew, m, &crew->work->pieces[m->index]);
  }
}

ch_status ch_scheduler_settle(ch_scheduler *crew, ch_error *error) {
  for (int i = 0; crew->work && i < crew->work->count; i++) {
    ch_outcome *outcome = &crew->outcomes[i];
    if (!outcome->done || outcome->told) continue;
    outcome->told = true;
    if (outcome->status == CH_ERROR_INTERRUPTED) continue;
    ch_status status = crew->work->made(crew->work->context, i, outcome, error);
    if (status == CH_OK) continue;
    crew->stopped = true; /* without a place for results, training is useless */
    return status;
  }
  return CH_OK;
}

static bool somebody_works(const ch_scheduler *crew) {
  for (int g = 1; g < crew->groups; g++)
    if (!crew->members[g].left && crew->members[g].index >= 0) return true;
  return false;
}

/* Works on a piece with rank 0's own group. */
static ch_status make_own(ch_scheduler *crew, int index, ch_error *error) {
  ch_assignment piece = crew->work->pieces[index];
  ch_outcome outcome = {.status = CH_OK};
  ch_error own = {0};
  ch_ranks_broadcast(crew->own, 0, &piece, sizeof piece);
  outcome.status = crew->work->make(crew->work->context, &piece, &outcome.began, &own);
  if (outcome.status != CH_OK) outcome.error = own;
  note(crew, index, &outcome);
  CH_TRY(ch_scheduler_settle(crew, error));
  bool ends = outcome.status != CH_OK && !crew->all;
  return ends ? ch_fail_as(error, outcome.status, &own) : CH_OK;
}

static ch_status make_all(ch_scheduler *crew, ch_error *error) {
  ch_status status = CH_OK;
  for (serve(crew); status == CH_OK && !crew->stopped && crew->next < crew->work->count; serve(crew))
    status = make_own(crew, crew->next++, error);
  if (status != CH_OK) crew->stopped = true;
  for (serve(crew); somebody_works(crew); serve(crew)) {
    if (status == CH_OK) status = ch_scheduler_settle(crew, error);
    rest();
  }
  if (status == CH_OK) status = ch_scheduler_settle(crew, error);
  if (status == CH_OK && crew->stopped) status = ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
  return status;
}

ch_status ch_scheduler_make(ch_scheduler *crew, const ch_scheduler_work *work, ch_error *error) {
  crew->outcomes = calloc((size_t)work->count + 1, sizeof *crew->outcomes);
  if (!crew->outcomes) return ch_no_memory(error);
  crew->work = work;
  crew->next = 0;
  start_groups(crew);
  ch_status status = make_all(crew, error);
  crew->work = NULL;
  free(crew->outcomes);
  crew->outcomes = NULL;
  return status;
}

void ch_scheduler_dismiss(ch_scheduler *crew) {
  ch_assignment word = nothing;
  if (!crew->members) return;
  start_groups(crew);
  ch_ranks_broadcast(crew->own, 0, &word, sizeof word);
  for (int g = 1; g < crew->groups; g++)
    if (!crew->members[g].ended) send_assignment(crew, &crew->members[g], &nothing);
  for (int left = 1; left < crew->groups;) {
    serve(crew);
    left = 1;
    for (int g = 1; g < crew->groups; g++) left += crew->members[g].left;
    if (left < crew->groups) rest();
  }
  for (int g = 1; g < crew->groups; g++) ch_ranks_wait(crew->all, &crew->members[g].out, NULL, NULL);
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

bool ch_scheduler_has_patience(const ch_scheduler *crew, double begin) {
  enum { PATIENCE = 30 };
  if (ch_scheduler_is_alone(crew) || ch_clock() - begin > PATIENCE) return false;
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  return true;
}

/* --- other groups ------------------------------------------------------------------------------------------------ */

bool ch_scheduler_stops(ch_scheduler *crew) {
  if (crew->members) {
    serve(crew);
    return crew->stopped;
  }
  if (crew->lead && ch_scheduler_writes(crew) && ch_ranks_done(crew->all, &crew->lead->in))
    crew->stopped = true;
  return crew->stopped || asked_to_stop(crew);
}

static void say(ch_scheduler *crew, report_kind kind, const ch_outcome *outcome) {
  ch_scheduler_lead *lead = crew->lead;
  ch_ranks_wait(crew->all, &lead->out, NULL, NULL);
  lead->say = (report){.kind = (int32_t)kind, .has_outcome = outcome != NULL};
  if (outcome) lead->say.outcome = *outcome;
  ch_ranks_send(crew->all, 0, REPORT_TAG, &lead->say, sizeof lead->say, &lead->out);
}

/* Waits for rank 0's message; a signal that arrives meanwhile stops all ranks. */
static ch_assignment await_word(ch_scheduler *crew) {
  ch_scheduler_lead *lead = crew->lead;
  while (!ch_ranks_done(crew->all, &lead->in)) {
    if (!lead->warned && asked_to_stop(crew)) {
      lead->warned = true;
      say(crew, IS_STOPPED, NULL);
    }
    rest();
  }
  return lead->word;
}

static void expect_word(ch_scheduler *crew) {
  ch_ranks_receive(crew->all, 0, WORD_TAG, &crew->lead->word, sizeof crew->lead->word, &crew->lead->in);
}

/* The next piece of this group; .model < 0: there is none. */
static ch_assignment next_piece(ch_scheduler *crew) {
  ch_assignment piece = nothing;
  bool first = ch_scheduler_writes(crew);
  if (first) piece = await_word(crew);
  if (first && piece.model >= 0) expect_word(crew); /* during a piece only the message to end may come */
  ch_ranks_broadcast(crew->own, 0, &piece, sizeof piece);
  return piece;
}

void ch_scheduler_follow(ch_scheduler *crew, ch_assignment_maker make, void *context) {
  /* The other ranks of rank 0's group get its messages through the group. */
  bool first = ch_scheduler_writes(crew);
  if (first) expect_word(crew);
  if (first) say(crew, ASKS, NULL);
  for (ch_assignment piece = next_piece(crew); piece.model >= 0; piece = next_piece(crew)) {
    ch_outcome outcome = {.status = CH_OK};
    ch_error error = {0};
    outcome.status = make(context, &piece, &outcome.began, &error);
    outcome.error = error;
    if (first) say(crew, ASKS, &outcome);
  }
  if (first) say(crew, LEAVES, NULL);
  if (first) ch_ranks_wait(crew->all, &crew->lead->out, NULL, NULL);
}
