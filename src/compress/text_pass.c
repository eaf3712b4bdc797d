/* Runs windows in batches of one shape, and a smaller last batch, through planned passes that end in the loss.
 *
 * Ranks proceed in rounds: in each, rank r runs the r-th of the next batches. If fewer batches than ranks are left, the
 * other ranks run the last one too, and their results are discarded. So all ranks reach the same nodes in the same
 * order. */
#include "compress/text_pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/shared.h"
#include "text/hash.h"

enum { COLLECTOR_TAG = 16 }; /* first message tag; each rank has one */
enum { BATCH_ROWS = 2048, MOST_WINDOW = 1024 };

struct ch_text_pass {
  const ch_model *model;
  const int32_t *text;
  ch_text_pass_options options;
  /* length: tokens of a window; windows: windows of the text; sequences: windows of a batch */
  int64_t length, windows, sequences;
  ch_engine engine;
  /* runner: runner of a whole batch; last: runner of a smaller last batch, or NULL */
  ch_runner *runner, *last;
  int32_t *tokens, *targets; /* [sequences, length] */
  uint64_t hash;             /* hash of the text and the window, which must be equal on all ranks */
  ch_shared_work shared;     /* valid while windows run */
  ch_collector collector;
  /* first: first window of the round; count: windows of this rank's batch; at: first window of this rank's batch */
  int64_t first, count, at;
  int givers;   /* batches of the round */
  double share; /* finished share of the round */
  double sum;   /* sum of losses, on rank 0 */
};

static int64_t window_of(const ch_config *config, int64_t asked) {
  int64_t most = config->max_position_embeddings;
  if (asked > 0) return asked < most ? asked : most;
  return most < MOST_WINDOW ? most : MOST_WINDOW;
}

static ch_status make_runner(ch_text_pass *pass, int64_t sequences, ch_runner **runner, ch_error *error) {
  ch_model_graph shape = {
      .sequences = sequences, .length = pass->length, .dtype = CH_F32, .head = CH_HEAD_LOSS};
  return ch_runner_create(&pass->engine, &pass->model->config, &pass->model->params, &shape, false, runner,
                          error);
}

static bool stops(void *context);

static ch_status prepare_pass(ch_text_pass *pass, int64_t count, ch_error *error) {
  int64_t window = window_of(&pass->model->config, pass->options.window);
  pass->length = window < count - 1 ? window : count - 1;
  pass->windows = (count - 1) / pass->length;
  pass->sequences = pass->length < BATCH_ROWS ? BATCH_ROWS / pass->length : 1;
  if (pass->sequences > pass->windows) pass->sequences = pass->windows;
  size_t bytes = (size_t)(pass->sequences * pass->length) * sizeof(int32_t);
  pass->tokens = malloc(bytes);
  pass->targets = malloc(bytes);
  pass->hash = ch_hash_bytes(pass->text, (size_t)count * sizeof *pass->text, (uint64_t)pass->length);
  if (!pass->tokens || !pass->targets) return ch_no_memory(error);
  CH_TRY(ch_collector_create(&pass->collector, pass->options.ranks, COLLECTOR_TAG, stops, pass, error));
  CH_TRY(ch_engine_init_host(&pass->engine, CH_F32, error));
  CH_TRY(make_runner(pass, pass->sequences, &pass->runner, error));
  int64_t left = pass->windows % pass->sequences;
  return left ? make_runner(pass, left, &pass->last, error) : CH_OK;
}

static ch_status create(const ch_model *model, const int32_t *tokens, int64_t count,
                        const ch_text_pass_options *options, ch_text_pass **result, ch_error *error) {
  CH_TRY(ch_config_needs_text(&model->config, "calibration", error));
  if (count < 2)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the calibration text has %lld token%s; give at least 2, preferably thousands",
                   (long long)count, count == 1 ? "" : "s");
  ch_text_pass *pass = calloc(1, sizeof *pass);
  if (!pass) return ch_no_memory(error);
  pass->model = model;
  pass->text = tokens;
  pass->options = *options;
  *result = pass;
  return prepare_pass(pass, count, error);
}

ch_status ch_text_pass_create(const ch_model *model, const int32_t *tokens, int64_t count,
                              const ch_text_pass_options *options, ch_text_pass **result, ch_error *error) {
  *result = NULL;
  ch_status status = create(model, tokens, count, options, result, error);
  status = ch_agree(options->ranks, status, error);
  if (status == CH_OK) return CH_OK;
  ch_text_pass_free(*result);
  *result = NULL;
  return status;
}

void ch_text_pass_free(ch_text_pass *pass) {
  if (!pass) return;
  ch_runner_free(pass->runner);
  ch_runner_free(pass->last);
  ch_engine_free(&pass->engine);
  ch_collector_free(&pass->collector);
  free(pass->tokens);
  free(pass->targets);
  free(pass);
}

int64_t ch_text_pass_tokens(const ch_text_pass *pass) {
  return pass->windows * pass->length;
}

ch_gemm *ch_text_pass_gemm(const ch_text_pass *pass) {
  return pass->engine.gemm;
}

/* --- over ranks ------------------------------------------------------------------------------------------------- */

static int ranks_of(const ch_text_pass *pass) {
  return ch_rank_count(pass->options.ranks);
}

static int owner_of(const ch_text_pass *pass, int64_t number) {
  return (int)(number % ranks_of(pass));
}

ch_status ch_text_pass_collect(ch_text_pass *pass, int64_t number, const void *data, size_t row_bytes,
                               size_t fixed_bytes, ch_collector_take *take, void *context, ch_error *error) {
  size_t rows = (size_t)(pass->count * pass->length), most_rows = (size_t)(pass->sequences * pass->length);
  return ch_collect(&pass->collector, owner_of(pass, number), pass->givers, data,
                    row_bytes ? rows * row_bytes : fixed_bytes,
                    row_bytes ? most_rows * row_bytes : fixed_bytes, take, context, error);
}

void ch_text_pass_share(ch_text_pass *pass, int64_t number, void *data, size_t bytes) {
  ch_ranks_broadcast(pass->options.ranks, owner_of(pass, number), data, bytes);
}

ch_status ch_text_pass_agree(ch_text_pass *pass, ch_status status, ch_error *error) {
  return ch_agree(pass->options.ranks, status, error);
}

/* --- running ---------------------------------------------------------------------------------------------------- */

/* Reports progress: `share` of the current round is done. Every rank reports the progress of all. */
static ch_status told(ch_text_pass *pass, double share, ch_error *error) {
  const ch_text_pass_options *o = &pass->options;
  int64_t left = pass->windows - pass->first, round = pass->sequences * ranks_of(pass);
  double windows = (double)pass->first + share * (double)(left < round ? left : round);
  pass->share = share;
  if (ch_shared_stops(&pass->shared)) return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
  if (!o->step) return CH_OK;
  return o->step(o->context, o->what, windows * (double)pass->length, (double)ch_text_pass_tokens(pass),
                 error);
}

/* Returns true if the pass should stop while it waits for other ranks. */
static bool stops(void *context) {
  ch_text_pass *pass = context;
  return told(pass, pass->share, NULL) != CH_OK;
}

/* Adds the losses of a batch. */
static ch_status take_losses(void *context, const void *data, size_t bytes, ch_error *error) {
  ch_text_pass *pass = context;
  const float *losses = data;
  for (size_t i = 0; i < bytes / sizeof *losses; i++) pass->sum += (double)losses[i];
  if (isfinite(pass->sum)) return CH_OK;
  return ch_fail(error, CH_ERROR_NUMERIC, "the model's loss on the calibration text is not finite");
}

/* Runs this rank's batch: the `count` windows from `at` on. */
static ch_status run_batch(ch_text_pass *pass, ch_runner_call *call, ch_error *error) {
  const void *losses = NULL;
  int64_t rows = pass->count * pass->length;
  const int32_t *from = pass->text + pass->at * pass->length; /* windows are adjacent */
  memcpy(pass->tokens, from, (size_t)rows * sizeof *from);
  memcpy(pass->targets, from + 1, (size_t)rows * sizeof *from);
  CH_TRY(ch_runner_run(pass->count == pass->sequences ? pass->runner : pass->last, call, &losses, error));
  return ch_text_pass_collect(pass, 0, losses, sizeof(float), 0, take_losses, pass, error);
}

/* The context of look_on, which the runner calls after each node. look_on reports progress and unmaps the weights of
   finished layers, because a batch of a large model needs minutes. */
typedef struct onlooker {
  ch_text_pass *pass;
  const ch_observer *observer; /* observer of ch_text_pass_run, or NULL */
  ch_error *error;
} onlooker;

static ch_status look_on(void *context, const ch_run *run, const ch_node *node) {
  const onlooker *o = context;
  if (o->observer) CH_TRY(o->observer->seen(o->observer->context, run, node));
  ch_model_forget_used(o->pass->model, run, node);
  return told(o->pass, ch_run_share(run), o->error);
}

static ch_status run_rounds(ch_text_pass *pass, const ch_tensor *tensors, const ch_observer *observer,
                            ch_error *error) {
  onlooker looking = {.pass = pass, .observer = observer, .error = error};
  ch_observer both = {.seen = look_on, .context = &looking};
  ch_runner_call call = {
      .weights = tensors, .tokens = pass->tokens, .targets = pass->targets, .observer = &both};
  int64_t batches = (pass->windows + pass->sequences - 1) / pass->sequences;
  int ranks = ranks_of(pass), self = ch_own_rank(pass->options.ranks);
  pass->sum = 0;
  pass->first = 0;
  CH_TRY(told(pass, 0, error));
  for (int64_t batch = 0; batch < batches; batch += ranks) {
    int64_t own = batch + self < batches ? batch + self : batches - 1;
    pass->givers = batches - batch < ranks ? (int)(batches - batch) : ranks;
    pass->first = batch * pass->sequences;
    pass->at = own * pass->sequences;
    int64_t left = pass->windows - pass->at;
    pass->count = left < pass->sequences ? left : pass->sequences;
    CH_TRY(run_batch(pass, &call, error));
    CH_TRY(told(pass, 1, error));
  }
  return CH_OK;
}

ch_status ch_text_pass_run(ch_text_pass *pass, const ch_tensor *tensors, const ch_observer *observer,
                           double *loss, ch_error *error) {
  ch_status status = ch_shared_begin(&pass->shared, pass->options.ranks, pass->hash, error);
  if (status == CH_OK) {
    status = ch_shared_agree(&pass->shared, run_rounds(pass, tensors, observer, error), error);
    ch_collector_settle(&pass->collector, status);
  }
  ch_shared_end(&pass->shared);
  CH_TRY(status);
  ch_text_pass_share(pass, 0, &pass->sum, sizeof pass->sum);
  *loss = pass->sum / (double)ch_text_pass_tokens(pass);
  return CH_OK;
}
