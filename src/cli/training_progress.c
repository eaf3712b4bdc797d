/* What crosshead train says while it works, and at its end. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/training.h"
#include "eval/trace.h"

bool ch_training_show_preparation(void *context, const char *stage, double done, double total) {
  ch_training *run = context;
  ch_progress_show(&run->line, false, "%s  %.0f %%", stage, total > 0 ? 100 * done / total : 0);
  return !ch_interrupted();
}

void ch_training_show_step(void *context, const ch_step_report *report) {
  ch_training *run = context;
  int64_t steps = ch_trainer_options(run->trainer)->steps, taken = report->step - run->began_step;
  ch_training_trace(run, taken);
  double weight = taken < 20 ? 1 / (double)taken : 0.05;
  run->smooth_loss += weight * (report->loss - run->smooth_loss);
  run->smooth_seconds += weight * (report->seconds - run->smooth_seconds);
  bool last = report->step == steps;
  if (!last && !ch_progress_due(&run->line)) return;
  char tokens[32], left[32];
  double rate =
      (double)ch_train_step_tokens(ch_trainer_options(run->trainer)) / fmax(run->smooth_seconds, 1e-9);
  /* The time left counts evaluations and checkpoints too. */
  double a_step = ch_progress_seconds(&run->line) / (double)taken;
  ch_progress_show(&run->line, last, "step %lld/%lld  loss %.4f  %s %s/s  lr %.2e  %s left",
                   (long long)report->step, (long long)steps, run->smooth_loss,
                   ch_format_count(rate, tokens, sizeof tokens), ch_trainer_unit(run->trainer), report->lr,
                   ch_format_duration((double)(steps - report->step) * a_step, left, sizeof left));
}

/* What a loss is as people read it: "perplexity 3.21", or "top-1 61.2 %, top-5 95.0 %". */
static const char *quality(const ch_validation_point *point, char *buffer, size_t size) {
  if (point->top1 >= 0)
    snprintf(buffer, size, "top-1 %.2f %%, top-5 %.2f %%", 100 * point->top1, 100 * point->top5);
  else
    snprintf(buffer, size, "perplexity %.2f", exp(point->loss));
  return buffer;
}

void ch_training_show_evaluation(void *context, const ch_validation_point *point) {
  ch_training *run = context;
  char experts[64] = "", shown[64];
  double least, most;
  if (ch_trainer_expert_shares(run->trainer, &least, &most))
    snprintf(experts, sizeof experts, ", expert shares %.1f to %.1f %%", 100 * least, 100 * most);
  ch_progress_print(&run->line, "step %lld: validation loss %.4f, %s%s", (long long)point->step, point->loss,
                    quality(point, shown, sizeof shown), experts);
}
static int64_t parameter_count(const ch_trainer *trainer) {
  const ch_params *params = ch_trainer_params(trainer);
  int64_t count = 0;
  for (int p = 0; p < params->count; p++) count += ch_param_figure(&params->rows[p]);
  return count;
}

/* The first step of a run is like no other: its memory is touched for the first time. */
void ch_training_trace(ch_training *run, int64_t steps_done) {
  const ch_train_options *options = ch_trainer_options(run->trainer);
  ch_engine *engine = ch_trainer_engine(run->trainer);
  if (!run->args->trace) return;
  if (engine->profile) {
    engine->profile = NULL;
    run->traced =
        ch_trace_write(run->args->trace, 1, &(ch_traced){"train", &run->profile}, NULL, &run->trace_error);
    ch_profile_free(&run->profile);
    return;
  }
  int64_t traced = options->steps - run->began_step > 1 ? 1 : 0; /* steps before the one that is */
  if (steps_done != traced) return;
  run->profile.keep_events = true;
  engine->profile = &run->profile;
}

void ch_training_show_start(void *context, int64_t step) {
  ch_training *run = context;
  run->began = true;
  run->began_step = step;
  ch_training_trace(run, 0);
  char parameters[32], tokens[32], memory[32], batch[64] = "", length[40] = "";
  const ch_train_options *t = ch_trainer_options(run->trainer);
  const char *unit = ch_trainer_unit(run->trainer);
  bool vision = ch_config_is_vision(&run->config);
  if (t->accumulate > 1) snprintf(batch, sizeof batch, " x %lld", (long long)t->accumulate);
  if (!vision) snprintf(length, sizeof length, " x %lld", (long long)t->sequence);
  double trains = (double)(vision ? run->images.info.count[CH_IMAGES_TRAIN] : run->data.train_tokens);
  ch_progress_print(&run->line, "%s parameters, %s training %s, %sB of memory; %lld steps of %lld%s%s %s",
                    ch_format_count((double)parameter_count(run->trainer), parameters, sizeof parameters),
                    ch_format_count(trains, tokens, sizeof tokens), unit,
                    ch_format_count((double)ch_trainer_bytes(run->trainer), memory, sizeof memory),
                    (long long)t->steps, (long long)t->batch, batch, length, unit);
  ch_progress_begin(&run->line, stderr); /* rates count from here */
  if (run->args->resume && !run->resumed)
    ch_progress_print(&run->line, "%s has no checkpoint yet: training begins at step 1", run->args->out);
  if (run->resumed && run->began_step < t->steps)
    ch_progress_print(&run->line, "going on after step %lld", (long long)run->began_step);
  if (run->resumed && run->began_step == t->steps)
    ch_progress_print(&run->line, "all steps are done already");
}
ch_status ch_training_show_result(const ch_training *run, ch_error *error) {
  ch_progress_record record;
  ch_trainer_progress(run->trainer, &record);
  double rate = record.seconds > 0 ? (double)record.tokens / record.seconds : 0;
  const ch_validation_point *last =
      record.validation_points ? &record.validation[record.validation_points - 1] : NULL;
  double loss = record.step ? record.losses[record.step - 1] : 0;
  const char *unit = ch_trainer_unit(run->trainer);
  char per_second[64];
  if (!run->args->json) {
    char tokens[32], speed[32], shown[64];
    printf("%s: %lld steps, %s %s, training loss %.4f", run->args->out, (long long)record.step,
           ch_format_count((double)record.tokens, tokens, sizeof tokens), unit, loss);
    if (last) printf(", validation loss %.4f, %s", last->loss, quality(last, shown, sizeof shown));
    printf(", %s %s/s\n", ch_format_count(rate, speed, sizeof speed), unit);
    return CH_OK;
  }
  snprintf(per_second, sizeof per_second, "train_%s_per_second", unit);
  json_t *object =
      json_pack("{ss sI sI sI sf sf sf}", "model", run->args->out, "parameters",
                (json_int_t)parameter_count(run->trainer), "steps", (json_int_t)record.step, unit,
                (json_int_t)record.tokens, "loss", loss, "seconds", record.seconds, per_second, rate);
  if (object && last) {
    json_object_set_new(object, "validation_loss", json_real(last->loss));
    if (last->top1 >= 0)
      json_object_update_new(object, json_pack("{sf sf}", "top1", last->top1, "top5", last->top5));
    else
      json_object_set_new(object, "perplexity", json_real(exp(last->loss)));
  }
  double least, most;
  if (object && ch_trainer_expert_shares(run->trainer, &least, &most))
    json_object_set_new(object, "expert_shares", json_pack("[ff]", least, most));
  return ch_print_json(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9), error);
}
