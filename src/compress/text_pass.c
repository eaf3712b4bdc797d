/* Windows in batches of one shape, and a smaller last batch, through planned passes that end in the loss. */
#include "compress/text_pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_ROWS = 2048, MOST_WINDOW = 1024 };

struct ch_text_pass {
  const ch_model *model;
  const int32_t *text;
  ch_text_pass_options options;
  int64_t length, windows, sequences; /* of a window, of the text, of a batch */
  ch_engine engine;
  ch_runner *runner, *last;  /* of a whole batch; of the last one, where it is smaller */
  int32_t *tokens, *targets; /* [sequences, length] */
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

static ch_status prepare(ch_text_pass *pass, int64_t count, ch_error *error) {
  int64_t window = window_of(&pass->model->config, pass->options.window);
  pass->length = window < count - 1 ? window : count - 1;
  pass->windows = (count - 1) / pass->length;
  pass->sequences = pass->length < BATCH_ROWS ? BATCH_ROWS / pass->length : 1;
  if (pass->sequences > pass->windows) pass->sequences = pass->windows;
  size_t bytes = (size_t)(pass->sequences * pass->length) * sizeof(int32_t);
  pass->tokens = malloc(bytes);
  pass->targets = malloc(bytes);
  if (!pass->tokens || !pass->targets) return ch_fail(error, CH_ERROR_MEMORY, "no memory for tokens");
  CH_TRY(ch_engine_init_host(&pass->engine, CH_F32, error));
  CH_TRY(make_runner(pass, pass->sequences, &pass->runner, error));
  int64_t left = pass->windows % pass->sequences;
  return left ? make_runner(pass, left, &pass->last, error) : CH_OK;
}

ch_status ch_text_pass_create(const ch_model *model, const int32_t *tokens, int64_t count,
                              const ch_text_pass_options *options, ch_text_pass **result, ch_error *error) {
  *result = NULL;
  CH_TRY(ch_config_needs_text(&model->config, "calibration", error));
  if (count < 2)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the calibration text has %lld token%s; give at least 2, better some thousands",
                   (long long)count, count == 1 ? "" : "s");
  ch_text_pass *pass = calloc(1, sizeof *pass);
  if (!pass) return ch_fail(error, CH_ERROR_MEMORY, "no memory to run text");
  pass->model = model;
  pass->text = tokens;
  pass->options = *options;
  ch_status status = prepare(pass, count, error);
  if (status != CH_OK) {
    ch_text_pass_free(pass);
    return status;
  }
  *result = pass;
  return CH_OK;
}

void ch_text_pass_free(ch_text_pass *pass) {
  if (!pass) return;
  ch_runner_free(pass->runner);
  ch_runner_free(pass->last);
  ch_engine_free(&pass->engine);
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

/* windows: how many are through, a part of one counting as that. */
static ch_status told(const ch_text_pass *pass, double windows, ch_error *error) {
  const ch_text_pass_options *o = &pass->options;
  if (!o->step) return CH_OK;
  return o->step(o->context, o->what, windows * (double)pass->length, (double)ch_text_pass_tokens(pass),
                 error);
}

/* Windows first ... first + count - 1; adds their losses to *sum. */
static ch_status run_batch(ch_text_pass *pass, int64_t first, int64_t count, ch_runner_call *call,
                           double *sum, ch_error *error) {
  const void *losses = NULL;
  int64_t rows = count * pass->length;
  const int32_t *from = pass->text + first * pass->length; /* windows lie side by side */
  memcpy(pass->tokens, from, (size_t)rows * sizeof *from);
  memcpy(pass->targets, from + 1, (size_t)rows * sizeof *from);
  CH_TRY(ch_runner_run(count == pass->sequences ? pass->runner : pass->last, call, &losses, error));
  for (int64_t i = 0; i < rows; i++) *sum += (double)((const float *)losses)[i];
  if (isfinite(*sum)) return CH_OK;
  return ch_fail(error, CH_ERROR_NUMERIC, "the model's loss on the calibration text is not finite");
}

/* Who looks on, after whom the weights are let go of, and the windows that are running: of a large model a batch takes
   minutes. */
typedef struct onlooker {
  const ch_text_pass *pass;
  const ch_observer *observer; /* or NULL */
  int64_t first, count;
  ch_error *error;
} onlooker;

static ch_status look_on(void *context, const ch_run *run, const ch_node *node) {
  const onlooker *o = context;
  if (o->observer) CH_TRY(o->observer->seen(o->observer->context, run, node));
  ch_model_forget_used(o->pass->model, run, node);
  return told(o->pass, (double)o->first + ch_run_share(run) * (double)o->count, o->error);
}

ch_status ch_text_pass_run(ch_text_pass *pass, const ch_tensor *tensors, const ch_observer *observer,
                           double *loss, ch_error *error) {
  onlooker looking = {.pass = pass, .observer = observer, .error = error};
  ch_observer both = {.seen = look_on, .context = &looking};
  ch_runner_call call = {
      .weights = tensors, .tokens = pass->tokens, .targets = pass->targets, .observer = &both};
  double sum = 0;
  CH_TRY(told(pass, 0, error));
  for (int64_t first = 0; first < pass->windows;) {
    int64_t left = pass->windows - first, count = left < pass->sequences ? left : pass->sequences;
    looking.first = first;
    looking.count = count;
    CH_TRY(run_batch(pass, first, count, &call, &sum, error));
    first += count;
    CH_TRY(told(pass, (double)first, error));
  }
  *loss = sum / (double)ch_text_pass_tokens(pass);
  return CH_OK;
}
