/* The public function that trains a model: it runs the training and its control, and turns the trainer's callbacks
 * into events. train_decide.c and train_data.c convert the settings to options. */
#include <crosshead/train.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/adapters.h"
#include "api/train_private.h"
#include "io/extra_files.h"
#include "tensor/team.h"
#include "train/undo_preparation.h"
#include "train/run.h"
#include "train/worker.h"

void ch_train_defaults(ch_train_settings *settings) {
  *settings = (ch_train_settings){.vision.label_smoothing = -1,
                                  .training.seed = CH_TRAIN_SEED_USUAL,
                                  .optimizer = {.schedule = CH_TRAIN_USUAL,
                                                .warmup = -1,
                                                .weight_decay = -1,
                                                .clip = -1,
                                                .beta1 = -1,
                                                .beta2 = -1},
                                  .report = {.eval_every = -1, .eval_tokens = -1, .checkpoint_every = -1}};
}

/* --- callbacks --------------------------------------------------------------------------------------------------- */

static int64_t parameter_count(const ch_trainer *trainer) {
  const ch_params *params = ch_trainer_params(trainer);
  int64_t count = 0;
  for (int p = 0; p < params->count; p++) count += ch_param_figure(&params->rows[p]);
  return count;
}

static void tell_start(void *context, int64_t step, const ch_trained_on *on) {
  ch_train_job *t = context;
  const ch_train_settings *s = t->settings;
  const ch_train_options *o = ch_trainer_options(t->trainer);
  bool vision = ch_config_is_vision(&t->config);
  (void)on;
  t->began = true;
  t->began_step = step;
  ch_training_trace(t, 0);
  const ch_train_start start = {.images = vision,
                                .resumed = t->resumed,
                                .control = t->is_control,
                                .step = step,
                                .steps = o->steps,
                                .batch = o->batch,
                                .accumulate = o->accumulate,
                                .sequence = o->sequence,
                                .parameters = parameter_count(t->trainer),
                                .tokens = vision ? ch_training_epoch(t) : t->data.train_tokens,
                                .bytes = ch_trainer_bytes(t->trainer),
                                .ranks = ch_rank_count(s->workers.ranks)};
  ch_training_tell(t, (ch_train_event){.kind = CH_TRAIN_EVENT_START, .as.start = {&start}});
}

static void tell_step(void *context, const ch_step_report *report) {
  ch_train_job *t = context;
  ch_train_step step;
  ch_training_trace(t, report->step - t->began_step);
  ch_train_step_of(report, t->options.steps, &step);
  ch_training_tell(t, (ch_train_event){.kind = CH_TRAIN_EVENT_STEP, .as.step = {&step}});
}

static void tell_share(void *context, double share) {
  ch_training_tell(context, (ch_train_event){.kind = CH_TRAIN_EVENT_SHARE, .as.share = {share}});
}

static void tell_evaluating(void *context) {
  ch_train_job *t = context;
  ch_progress_record record;
  ch_trainer_progress(t->trainer, &record);
  ch_training_tell(t, (ch_train_event){.kind = CH_TRAIN_EVENT_EVALUATING, .as.evaluating = {record.step}});
}

static void tell_evaluation(void *context, const ch_validation_point *point) {
  ch_train_job *t = context;
  ch_train_evaluation evaluation = {
      .step = point->step, .loss = point->loss, .top1 = point->top1, .top5 = point->top5};
  if (!ch_trainer_expert_shares(t->trainer, &evaluation.least_expert, &evaluation.most_expert))
    evaluation.least_expert = evaluation.most_expert = -1;
  ch_training_tell(t, (ch_train_event){.kind = CH_TRAIN_EVENT_EVALUATION, .as.evaluation = {&evaluation}});
}

static bool is_stopped(void *context) {
  ch_train_job *t = context;
  const ch_train_settings *s = t->settings;
  if (s->stop && !t->stopped) t->stopped = s->stop(s->user);
  return t->stopped;
}

/* --- the run ----------------------------------------------------------------------------------------------------- */

/* Trains to the end: from the checkpoint if the run is resumed, else from the weights of the model `from`, or from
   new weights if `from` is NULL. */
static ch_status drive(ch_train_job *t, const char *from, ch_error *error) {
  ch_rank_group *ranks = t->settings->workers.ranks;
  /* PyTorch has a micro-batch of its own, which a resumed run may change. The trainer adopts the checkpoint's. */
  if (t->resumed && t->settings->workers.engine == CH_ENGINE_PYTORCH) t->options.micro_batch = 0;
  const ch_trainer_start start = {
      .ranks = ranks, .stored = t->resumed ? t->checkpoint : from, .stop = is_stopped, .stop_context = t};
  CH_TRY(ch_trainer_create_over(&start, &t->config, &t->options, ch_training_source(t), &t->trainer, error));
  if (from && !t->resumed) CH_TRY(ch_trainer_load_weights(t->trainer, from, error));
  const ch_train_settings *s = t->settings;
  const ch_worker worker = {.python = s->workers.python,
                            .device = s->workers.device,
                            .text = t->text,
                            .micro_batch = s->training.micro_batch,
                            .shard = s->workers.shard,
                            .prepare = s->workers.prepare};
  const ch_train_events events = {.context = t,
                                  .worker = s->workers.engine == CH_ENGINE_PYTORCH ? &worker : NULL,
                                  .started = tell_start,
                                  .step = tell_step,
                                  .share = tell_share,
                                  .evaluating = tell_evaluating,
                                  .evaluated = tell_evaluation,
                                  .interrupted = is_stopped};
  CH_TRY(ch_train_run(t->trainer, t->out, t->settings->model.resume, &events, error));
  bool gives = !ch_config_is_vision(&t->config) && ch_ranks_leads(ranks);
  ch_status status = gives ? ch_data_give_tokenizer(&t->data, t->out, error) : CH_OK;
  if (status == CH_OK && gives && from && !t->settings->text.tokenizer)
    status = ch_copy_generation_settings(from, t->out, error);
  return ch_agree(ranks, status, error);
}

/* Opens the data on all ranks. Rank 0 prepares the data first. */
static ch_status open_data(ch_train_job *t, ch_error *error) {
  ch_rank_group *ranks = t->settings->workers.ranks;
  bool leads = ch_ranks_leads(ranks);
  CH_TRY(ch_agree(ranks, leads ? ch_training_open_data(t, error) : CH_OK, error));
  return ch_agree(ranks, leads ? CH_OK : ch_training_open_data(t, error), error);
}

static ch_status run_training(ch_train_job *t, ch_training_control *control, ch_error *error) {
  ch_rank_group *ranks = t->settings->workers.ranks;
  CH_TRY(ch_agree(ranks, ch_training_decide(t, error), error));
  CH_TRY(ch_training_compare_start(t, error));
  CH_TRY(ch_agree(ranks, ch_training_find_control(t, control, error), error));
  CH_TRY(open_data(t, error));
  CH_TRY(ch_training_compare_data(t, error));
  ch_status status = ch_ranks_leads(ranks) ? ch_training_record_control(t, control, error) : CH_OK;
  CH_TRY(ch_agree(ranks, status, error));
  return drive(t, t->settings->model.init_from, error);
}

/* Frees the trainer of the main run and trains the control. */
static ch_status run_control(ch_train_job *t, ch_training_control *control, ch_error *error) {
  ch_trainer_free(t->trainer);
  t->trainer = NULL;
  CH_TRY(ch_agree(t->settings->workers.ranks, ch_training_open_control(t, control, error), error));
  ch_status status = drive(&control->run, control->model, error);
  if (status != CH_ERROR_INTERRUPTED || !control->run.began) return status;
  ch_progress_record record;
  ch_trainer_progress(control->run.trainer, &record);
  return ch_fail(error, CH_ERROR_INTERRUPTED,
                 "interrupted after step %lld of %lld of the control; {resume} continues",
                 (long long)record.step, (long long)record.steps);
}

/* Returns the figures of a run for the caller's report. */
static json_t *training_figures(const ch_train_job *t) {
  ch_progress_record record;
  double least, most;
  char per_second[64];
  const char *unit = ch_trainer_unit(t->trainer);
  ch_trainer_progress(t->trainer, &record);
  snprintf(per_second, sizeof per_second, "train_%s_per_second", unit);
  json_t *object = json_pack("{ss sI sI sI sf sf sf}", "model", t->out, "parameters",
                             (json_int_t)parameter_count(t->trainer), "steps", (json_int_t)record.step, unit,
                             (json_int_t)record.tokens, "loss",
                             record.step ? record.losses[record.step - 1] : 0.0, "seconds", record.seconds,
                             per_second, record.seconds > 0 ? (double)record.tokens / record.seconds : 0.0);
  if (object && record.validation_points) {
    const ch_validation_point *last = &record.validation[record.validation_points - 1];
    json_object_set_new(object, "validation_loss", json_real(last->loss));
    if (last->top1 >= 0)
      json_object_update_new(object, json_pack("{sf sf}", "top1", last->top1, "top5", last->top5));
    else
      json_object_set_new(object, "perplexity", json_real(exp(last->loss)));
  }
  if (object && ch_trainer_expert_shares(t->trainer, &least, &most))
    json_object_set_new(object, "expert_shares", json_pack("[ff]", least, most));
  return object;
}

ch_status ch_train(const char *out, const ch_train_settings *settings, char **json, ch_error *error) {
  if (!out || !settings) return ch_refuse_null(error, out ? "the settings" : "the directory's name");
  ch_train_job *t = calloc(1, sizeof *t);
  if (!t) return ch_no_memory(error);
  ch_train_settings own = *settings;
  if (!ch_ranks_leads(settings->workers.ranks)) own.event = NULL; /* only rank 0 reports */
  t->settings = &own;
  t->out = out;
  t->text = out;
  ch_team team = ch_team_of(settings->workers.threads);
  ch_team_before before = ch_team_enter(&team);
  ch_preparation attempt = {0};
  if (ch_ranks_leads(settings->workers.ranks)) ch_preparation_begin(&attempt, out);
  ch_training_control control = {0};
  json_t *result = NULL;
  ch_status status = run_training(t, &control, error);
  if (status == CH_OK) {
    result = training_figures(t);
    if (control.model) status = run_control(t, &control, error);
    if (control.model && status == CH_OK)
      json_object_set_new(result, "control", training_figures(&control.run));
  }
  if (status != CH_OK && status != CH_ERROR_INTERRUPTED && !t->began) ch_preparation_undo(&attempt);
  ch_preparation_end(&attempt);
  ch_team_leave(before);
  if (status == CH_OK)
    status = ch_api_json(result, json, error);
  else
    json_decref(result);
  if (status == CH_OK && t->traced != CH_OK) status = ch_fail_as(error, t->traced, &t->trace_error);
  ch_training_control_free(&control);
  ch_trainer_free(t->trainer);
  ch_profile_release(&t->profile);
  ch_data_close(&t->data);
  ch_image_data_close(&t->images);
  free(t->checkpoint);
  free(t);
  return status;
}

char *ch_python_of(const char *python) {
  return ch_find_python(python);
}
