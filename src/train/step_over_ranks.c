/* Passes sums of gradients from the micro-batch of one rank to the next (step_over_ranks.h explains the
 * order). */
#include "train/step_over_ranks.h"

#include <stdlib.h>
#include <string.h>

/* --- tags ----------------------------------------------------------------------------------------------- */

/* Returns the tag of a parameter's pieces. The first tags are those of sums by index; those of pieces and of three
 * kinds of messages follow. */
static int piece_tag(const ch_relay *relay, int parameter) {
  return relay->count + parameter;
}

static int carried_tag(const ch_relay *relay) {
  return relay->count + relay->set->params->count;
}

static int warning_tag(const ch_relay *relay) {
  return carried_tag(relay) + 1;
}

int ch_relay_moment_tag(const ch_relay *relay) {
  return warning_tag(relay) + 1;
}

/* --- the ring of ranks ---------------------------------------------------------------------------------- */

static int ranks_of(const ch_relay *relay) {
  return ch_rank_count(relay->ranks);
}

static int owner_of(const ch_relay *relay, int64_t micro_batch) {
  return (int)(micro_batch % ranks_of(relay));
}

int64_t ch_relay_first(const ch_relay *relay) {
  return ch_own_rank(relay->ranks);
}

int64_t ch_relay_stride(const ch_relay *relay) {
  return ranks_of(relay);
}

/* Returns true if the gradient of a parameter goes from micro-batch to micro-batch. shards.c sends those of divided
   tables. */
static bool travels(const ch_relay *relay, int parameter) {
  return !relay->set->params->rows[parameter].frozen && relay->set->keeping[parameter] != CH_KEPT_COLUMNS;
}

/* Returns true if a sum of the plan goes from micro-batch to micro-batch. */
static bool is_passed_on(const ch_relay *relay, int sum) {
  return relay->sums[sum].bytes > 0;
}

/* --- sums ----------------------------------------------------------------------------------------------- */

/* Begins to receive the sum to which micro-batch `index` adds. The previous sum must have been sent, because it has
   the same memory. */
static void expect(ch_relay *relay, ch_relay_sum *sum, int64_t index) {
  int tag = (int)(sum - relay->sums);
  ch_ranks_receive(relay->ranks, owner_of(relay, index - 1), tag, sum->data, sum->bytes, &sum->in);
  sum->expected = index;
}

/* Advances the transfers of a sum: after it has been sent, the next one may be received. */
static void look_after(ch_relay *relay, ch_relay_sum *sum) {
  if (sum->bytes == 0) return;
  if (!ch_ranks_done(relay->ranks, &sum->out)) return;
  int64_t index = sum->sent < 0 ? ch_relay_first(relay) : sum->sent + ranks_of(relay);
  if (index > 0 && index < relay->micro_batches && sum->expected < index) expect(relay, sum, index);
}

static void moved(void *context) {
  enum { AT_ONCE = 4 };
  ch_relay *relay = context;
  for (int i = 0; i < AT_ONCE && i < relay->count; i++) {
    look_after(relay, &relay->sums[relay->next]);
    relay->next = (relay->next + 1) % relay->count;
  }
}

static bool asked_to_stop(void *relay) {
  return ch_relay_stops(relay);
}

/* Waits for a transfer. With `patient`, a stop does not end the waiting. */
static bool await(ch_relay *relay, ch_transfer *transfer, bool patient) {
  return ch_ranks_wait(relay->ranks, transfer, patient ? NULL : asked_to_stop, relay);
}

static ch_status interrupted(ch_error *error) {
  return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
}

static bool receive_sum(ch_relay *relay, ch_relay_sum *sum, bool patient) {
  if (relay->current == 0 || sum->arrived == relay->current) return true; /* the first of a step overwrites */
  if (sum->expected < relay->current) {
    if (!await(relay, &sum->out, patient)) return false;
    expect(relay, sum, relay->current);
  }
  if (!await(relay, &sum->in, patient)) return false;
  sum->arrived = relay->current;
  return true;
}

static ch_status wanted(void *context, int index, ch_error *error) {
  ch_relay *relay = context;
  ch_relay_sum *sum = &relay->sums[index];
  double start = ch_clock();
  if (!is_passed_on(relay, index)) return CH_OK;
  if (!receive_sum(relay, sum, false)) return interrupted(error);
  if (relay->current > 0)
    ch_profile_note(relay->engine->profile, "receive_gradients", start, 0, (double)sum->bytes);
  return CH_OK;
}

static void written(void *context, int index) {
  ch_relay *relay = context;
  ch_relay_sum *sum = &relay->sums[index];
  double start = ch_clock();
  if (!is_passed_on(relay, index)) return;
  ch_ranks_send(relay->ranks, owner_of(relay, relay->current + 1), index, sum->data, sum->bytes, &sum->out);
  sum->sent = relay->current;
  ch_profile_note(relay->engine->profile, "send_gradients", start, 0, (double)sum->bytes);
}

/* --- pieces --------------------------------------------------------------------------------------------- */

static char *piece_data(const ch_relay *relay, int parameter, ch_parameter_piece piece, size_t *bytes) {
  size_t size = ch_dtype_size(relay->set->dtype);
  *bytes = (size_t)piece.count * size;
  return (char *)relay->set->gradients[parameter].data + (size_t)piece.first * size;
}

/* Sends a final gradient to the ranks that own its pieces. */
static void final(void *context, int parameter) {
  ch_relay *relay = context;
  double start = ch_clock(), sent = 0;
  int self = ch_own_rank(relay->ranks), ranks = ranks_of(relay);
  if (!travels(relay, parameter)) return;
  relay->handed_out[parameter] = true;
  for (int rank = 0; rank < ranks; rank++) {
    size_t bytes;
    ch_parameter_piece piece = ch_parameter_piece_of(relay->set, parameter, rank);
    const void *data = piece_data(relay, parameter, piece, &bytes);
    if (rank == self || bytes == 0) continue;
    ch_ranks_send(relay->ranks, rank, piece_tag(relay, parameter), data, bytes,
                  &relay->pieces[parameter * ranks + rank]);
    sent += (double)bytes;
  }
  if (sent > 0) ch_profile_note(relay->engine->profile, "send_gradients", start, 0, sent);
}

static void receive_pieces(ch_relay *relay) {
  for (int p = 0; p < relay->set->params->count; p++) {
    size_t bytes;
    void *data = piece_data(relay, p, relay->set->pieces[p], &bytes);
    if (bytes > 0 && travels(relay, p))
      ch_ranks_receive(relay->ranks, ranks_of(relay) - 1, piece_tag(relay, p), data, bytes,
                       &relay->pieces[p]);
  }
}

/* --- sums over the rows of all passes ------------------------------------------------------------------- */

static bool take(ch_relay *relay, int64_t index, bool patient) {
  if (relay->taken == index) return true;
  if (relay->asked < index && index > 0)
    ch_ranks_receive(relay->ranks, owner_of(relay, index - 1), carried_tag(relay), &relay->taken_sums,
                     sizeof relay->taken_sums, &relay->taking);
  relay->asked = index;
  if (index == 0) relay->taken_sums = (ch_pass_sums){0};
  if (!await(relay, &relay->taking, patient)) return false;
  relay->taken = index;
  return true;
}

ch_status ch_relay_take(ch_relay *relay, int64_t index, ch_pass_sums *sums, ch_error *error) {
  if (!relay->ranks) return CH_OK;
  if (!take(relay, index, false)) return interrupted(error);
  *sums = relay->taken_sums;
  return CH_OK;
}

void ch_relay_give(ch_relay *relay, int64_t index, const ch_pass_sums *sums) {
  if (!relay->ranks) return;
  relay->given = index;
  if (index + 1 == relay->micro_batches) return;
  /* The previous transfer is that of a micro-batch that other ranks have finished meanwhile. */
  await(relay, &relay->giving, true);
  relay->given_sums = *sums;
  ch_ranks_send(relay->ranks, owner_of(relay, index + 1), carried_tag(relay), &relay->given_sums,
                sizeof relay->given_sums, &relay->giving);
}

void ch_relay_spread(ch_relay *relay, void *data, size_t bytes) {
  ch_ranks_broadcast(relay->ranks, relay->ranks ? owner_of(relay, relay->micro_batches - 1) : 0, data, bytes);
}

/* --- failures ------------------------------------------------------------------------------------------- */

bool ch_relay_stops(ch_relay *relay) {
  if (relay->stop && relay->stop(relay->stop_context)) return true;
  return ch_alarm_rings(&relay->alarm);
}

/* Receives and sends the remaining messages of a failed step, whose values do not matter. */
static void pass_on_the_rest(ch_relay *relay) {
  int64_t first = relay->current < 0 ? ch_relay_first(relay) : relay->current;
  for (int64_t index = first; index < relay->micro_batches; index += ranks_of(relay)) {
    if (index != relay->current) ch_relay_enter(relay, index);
    bool last = index + 1 == relay->micro_batches;
    for (int s = 0; s < relay->count; s++) {
      if (!is_passed_on(relay, s)) continue;
      receive_sum(relay, &relay->sums[s], true);
      if (!last && relay->sums[s].sent < index) written(relay, s);
    }
    for (int p = 0; last && p < relay->set->params->count; p++)
      if (travels(relay, p) && !relay->handed_out[p]) final(relay, p);
  }
}

static void carry_the_rest(ch_relay *relay) {
  int64_t first = relay->given < 0 ? ch_relay_first(relay) : relay->given + ranks_of(relay);
  for (int64_t index = first; index < relay->micro_batches; index += ranks_of(relay)) {
    take(relay, index, true);
    ch_relay_give(relay, index, &relay->taken_sums);
  }
}

/* --- a step --------------------------------------------------------------------------------------------- */

void ch_relay_begin(ch_relay *relay, int64_t micro_batches, ch_stop_test stop, void *stop_context) {
  relay->micro_batches = micro_batches;
  relay->stop = stop;
  relay->stop_context = stop_context;
  relay->current = relay->asked = relay->taken = relay->given = -1;
  ch_alarm_reset(&relay->alarm);
  if (!relay->ranks) return;
  memset(relay->handed_out, 0, (size_t)relay->set->params->count * sizeof *relay->handed_out);
  for (int s = 0; s < relay->count; s++) {
    ch_relay_sum *sum = &relay->sums[s];
    sum->data = ch_runner_gradient_sum(relay->runner, relay->set->gradient_data, s);
    sum->expected = sum->arrived = sum->sent = -1;
  }
}

void ch_relay_enter(ch_relay *relay, int64_t index) {
  relay->current = index;
  if (!relay->ranks || index == 0) return;
  for (int s = 0; s < relay->count; s++) look_after(relay, &relay->sums[s]);
}

const ch_gradient_listener *ch_relay_listener(const ch_relay *relay) {
  return relay->ranks ? &relay->listener : NULL;
}

/* Waits for a transfer also after a stop. A stop raises the alarm once, so that the other ranks' passes end sooner. */
static ch_status await_telling(ch_relay *relay, ch_transfer *transfer, ch_status status, ch_error *error) {
  if (await(relay, transfer, status != CH_OK)) return status;
  ch_alarm_raise(&relay->alarm);
  await(relay, transfer, true);
  return interrupted(error);
}

ch_status ch_relay_end_step(ch_relay *relay, ch_status status, ch_error *error) {
  if (!relay->ranks) return status;
  if (status == CH_OK) status = ch_shards_end(&relay->shards, error);
  if (status != CH_OK) {
    ch_alarm_raise(&relay->alarm);
    ch_shards_give_up(&relay->shards);
    pass_on_the_rest(relay);
    carry_the_rest(relay);
  }
  double start = ch_clock(), received = 0;
  for (int s = 0; s < relay->count; s++) status = await_telling(relay, &relay->sums[s].out, status, error);
  status = await_telling(relay, &relay->giving, status, error);
  bool last = owner_of(relay, relay->micro_batches - 1) == ch_own_rank(relay->ranks);
  if (!last) receive_pieces(relay);
  int pieces = relay->set->params->count * (last ? ranks_of(relay) : 1);
  for (int i = 0; i < pieces; i++) status = await_telling(relay, &relay->pieces[i], status, error);
  for (int p = 0; !last && p < relay->set->params->count; p++)
    if (travels(relay, p))
      received += (double)relay->set->pieces[p].count * (double)ch_dtype_size(relay->set->dtype);
  ch_profile_note(relay->engine->profile, "receive_gradients", start, 0, received);
  return status;
}

ch_status ch_relay_end_evaluation(ch_relay *relay, ch_status status, ch_error *error) {
  if (!relay->ranks) return status;
  if (status == CH_OK) status = ch_shards_end(&relay->shards, error);
  if (status != CH_OK) {
    ch_alarm_raise(&relay->alarm);
    ch_shards_give_up(&relay->shards);
    carry_the_rest(relay);
  }
  await(relay, &relay->giving, true);
  return status;
}

ch_status ch_relay_agree(ch_relay *relay, ch_status status, ch_error *error) {
  return ch_alarm_agree(&relay->alarm, status, error);
}

/* --- creation ------------------------------------------------------------------------------------------- */

ch_status ch_relay_create(ch_relay *relay, ch_rank_group *ranks, const ch_engine *engine,
                          const ch_runner *runner, const ch_parameter_set *set, int64_t loads, int64_t rows,
                          ch_error *error) {
  *relay = (ch_relay){.ranks = ranks, .engine = engine, .runner = runner, .set = set};
  if (!ranks) return CH_OK;
  if (!set->memory->host)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "training over several ranks needs weights in the processor's own memory");
  const ch_gradient_sum *sums = ch_runner_gradient_sums(runner, &relay->count);
  size_t params = (size_t)set->params->count, count = (size_t)ch_rank_count(ranks);
  bool last = ch_own_rank(ranks) + 1 == (int)count;
  relay->sums = calloc((size_t)relay->count + 1, sizeof *relay->sums);
  relay->pieces = calloc(params * (last ? count : 1) + 1, sizeof *relay->pieces);
  relay->handed_out = calloc(params + 1, sizeof *relay->handed_out);
  relay->load_room = calloc(count * (size_t)(loads + 2), sizeof *relay->load_room);
  if (!relay->sums || !relay->pieces || !relay->handed_out || !relay->load_room) {
    ch_relay_free(relay);
    return ch_no_memory(error);
  }
  for (int s = 0; s < relay->count; s++) /* a sum of 0 bytes is not passed on */
    if (sums[s].parameter < 0 || travels(relay, sums[s].parameter)) relay->sums[s].bytes = sums[s].bytes;
  relay->listener = (ch_gradient_listener){
      .final = final, .wanted = wanted, .written = written, .moved = moved, .context = relay};
  ch_status status = ch_alarm_create(&relay->alarm, ranks, warning_tag(relay), error);
  if (status == CH_OK)
    status = ch_shards_create(&relay->shards, ranks, engine, set, rows, ch_relay_moment_tag(relay) + 1,
                              asked_to_stop, relay, error);
  if (status != CH_OK) ch_relay_free(relay);
  return status;
}

void ch_relay_free(ch_relay *relay) {
  ch_shards_free(&relay->shards);
  free(relay->sums);
  free(relay->pieces);
  free(relay->handed_out);
  ch_alarm_free(&relay->alarm);
  free(relay->load_room);
  *relay = (ch_relay){0};
}
