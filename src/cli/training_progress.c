/* The messages of crosshead train, during training and at its end. */
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "base/table.h"
#include "cli/interrupt.h"
#include "cli/training.h"
#include "cli/work.h"

/* Returns the prefix of messages about the run. */
static const char *whose(const ch_training_view *view) {
  return view->start.control ? "control, " : "";
}

static const char *unit_of(const ch_training_view *view) {
  return view->start.images ? "images" : "tokens";
}

/* A checkpoint has 12 bytes per parameter. Saving a large one can take a minute, so it is announced. */
bool ch_training_stops(void *context) {
  ch_training_view *view = context;
  const double slow_bytes = 256e6, bytes = 12 * (double)view->start.parameters;
  if (!ch_interrupted()) return false;
  if (view->began && !view->stopping && bytes >= slow_bytes) {
    char size[32];
    ch_progress_show(&view->line, true,
                     "saving a checkpoint of %sB; a second Ctrl-C ends at once, without it",
                     ch_format_count(bytes, size, sizeof size));
  }
  view->stopping = true;
  return true;
}

static void show_step(ch_training_view *view, const ch_train_step *step) {
  const ch_train_start *s = &view->start;
  int64_t taken = step->step - s->step;
  double weight = taken < 20 ? 1 / (double)taken : 0.05;
  view->step = step->step;
  view->smooth_loss += weight * (step->loss - view->smooth_loss);
  /* the first step may compile kernels and then takes longer than the others */
  if (view->smooth_seconds > 4 * step->seconds) view->smooth_seconds = step->seconds;
  view->smooth_seconds += weight * (step->seconds - view->smooth_seconds);
  bool last = step->step == step->steps;
  if (!last && !ch_progress_due(&view->line)) return;
  char tokens[32], left[32];
  double rate = (double)(s->batch * s->accumulate * s->sequence) / fmax(view->smooth_seconds, 1e-9);
  /* seconds per step, with the time of evaluations and checkpoints */
  double a_step = ch_progress_seconds(&view->line) / (double)taken;
  ch_format_duration((double)(step->steps - step->step) * a_step, left, sizeof left);
  ch_progress_show(&view->line, last, "%sstep %lld/%lld  loss %.4f  %s %s/s  lr %.2e%s%s%s", whose(view),
                   (long long)step->step, (long long)step->steps, view->smooth_loss,
                   ch_format_count(rate, tokens, sizeof tokens), unit_of(view), step->lr, last ? "" : "  ",
                   last ? "" : left, last ? "" : " left");
}

static void show_share(ch_training_view *view, double share) {
  if (view->evaluating)
    ch_progress_show(&view->line, false, "%sevaluating after step %lld/%lld  %.0f %%", whose(view),
                     (long long)view->step, (long long)view->start.steps, 100 * share);
  else
    ch_progress_show(&view->line, false, "%sstep %lld/%lld  %.0f %%", whose(view), (long long)view->step + 1,
                     (long long)view->start.steps, 100 * share);
}

/* Writes the quality of a model: "perplexity 3.21", or "top-1 61.20 %, top-5 95.00 %". */
static const char *quality(double loss, double top1, double top5, char *buffer, size_t size) {
  if (top1 >= 0)
    snprintf(buffer, size, "top-1 %.2f %%, top-5 %.2f %%", 100 * top1, 100 * top5);
  else
    snprintf(buffer, size, "perplexity %.2f", exp(loss));
  return buffer;
}

static void show_evaluation(ch_training_view *view, const ch_train_evaluation *e) {
  char experts[64] = "", shown[64];
  view->evaluating = false;
  if (e->least_expert >= 0)
    snprintf(experts, sizeof experts, ", expert shares %.1f to %.1f %%", 100 * e->least_expert,
             100 * e->most_expert);
  ch_progress_print(&view->line, "%sstep %lld: validation loss %.4f, %s%s", whose(view), (long long)e->step,
                    e->loss, quality(e->loss, e->top1, e->top5, shown, sizeof shown), experts);
}

static void show_start(ch_training_view *view, const ch_train_start *start) {
  view->began = true;
  view->start = *start;
  view->step = start->step;
  view->smooth_loss = view->smooth_seconds = 0;
  view->evaluating = false;
  char parameters[32], tokens[32], memory[32], batch[64] = "", length[40] = "";
  const char *unit = unit_of(view);
  char ranks[48] = "";
  if (start->ranks > 1) snprintf(ranks, sizeof ranks, " on each of %d ranks", (int)start->ranks);
  if (start->accumulate > 1) snprintf(batch, sizeof batch, " x %lld", (long long)start->accumulate);
  if (!start->images) snprintf(length, sizeof length, " x %lld", (long long)start->sequence);
  ch_progress_print(&view->line, "%s%s parameters, %s training %s, %sB of memory%s; %lld %s of %lld%s%s %s",
                    whose(view), ch_format_count((double)start->parameters, parameters, sizeof parameters),
                    ch_format_count((double)start->tokens, tokens, sizeof tokens), unit,
                    ch_format_count((double)start->bytes, memory, sizeof memory), ranks,
                    (long long)start->steps, ch_plural(start->steps, "step", "steps"),
                    (long long)start->batch, batch, length, unit);
  ch_progress_begin(&view->line, stderr); /* restarts the clock of ch_progress_seconds */
  if (view->resume && !start->resumed && !start->control)
    ch_progress_print(&view->line, "%s has no checkpoint yet: training begins at step 1", view->out);
  if (start->resumed && start->step < start->steps)
    ch_progress_print(&view->line, "%scontinuing after step %lld", whose(view), (long long)start->step);
  if (start->resumed && start->step == start->steps)
    ch_progress_print(&view->line, "%sall steps are done already", whose(view));
}

bool ch_training_show(const ch_train_event *event, void *context) {
  ch_training_view *view = context;
  switch (event->kind) {
  case CH_TRAIN_EVENT_PREPARATION:
    ch_progress_show(&view->line, false, "%s  %.0f %%", event->as.preparation.stage,
                     100 * event->as.preparation.share);
    return !ch_interrupted();
  case CH_TRAIN_EVENT_START:
    show_start(view, event->as.start.start);
    break;
  case CH_TRAIN_EVENT_STEP:
    show_step(view, event->as.step.step);
    break;
  case CH_TRAIN_EVENT_SHARE:
    show_share(view, event->as.share.share);
    break;
  case CH_TRAIN_EVENT_EVALUATING:
    view->step = event->as.evaluating.step;
    view->evaluating = true;
    break;
  case CH_TRAIN_EVENT_EVALUATION:
    show_evaluation(view, event->as.evaluation.evaluation);
    break;
  }
  return true;
}

static void put_run(const ch_training_view *view, const json_t *report, ch_text *text) {
  char tokens[32], speed[32], shown[64];
  const char *unit = unit_of(view),
             *rate = view->start.images ? "train_images_per_second" : "train_tokens_per_second";
  long long steps = ch_report_count(report, "steps");
  double loss = ch_json_number_at(report, "validation_loss", NAN);
  ch_text_printf(text, "%s: %lld %s, %s %s, training loss %.4f", ch_json_text_at(report, "model"), steps,
                 ch_plural(steps, "step", "steps"),
                 ch_format_count(ch_json_number_at(report, unit, 0), tokens, sizeof tokens), unit,
                 ch_json_number_at(report, "loss", 0));
  if (json_object_get(report, "validation_loss"))
    ch_text_printf(text, ", validation loss %.4f, %s", loss,
                   quality(loss, ch_json_number_at(report, "top1", -1), ch_json_number_at(report, "top5", -1),
                           shown, sizeof shown));
  ch_text_printf(text, ", %s %s/s\n",
                 ch_format_count(ch_json_number_at(report, rate, 0), speed, sizeof speed), unit);
}

/* Writes a figure of both models and the difference, or nothing if one of them lacks the figure. */
static void put_difference(const char *name, const char *key, int decimals, const json_t *model,
                           const json_t *control, ch_table *table) {
  double a = ch_json_number_at(model, key, NAN), b = ch_json_number_at(control, key, NAN);
  if (isnan(a) || isnan(b)) return;
  ch_table_cell(table, "%s", name);
  ch_table_cell(table, "%.*f", decimals, a);
  ch_table_cell(table, "%.*f", decimals, b);
  ch_table_cell(table, "%+.*f", decimals, a - b);
  ch_table_end_row(table);
}

void ch_training_put_result(const ch_training_view *view, const json_t *report, ch_text *text) {
  static const char *const headings[] = {"", "model", "control", "difference"};
  const json_t *control = json_object_get(report, "control");
  ch_table table = {.columns = "l16r11", .gap = 1};
  put_run(view, report, text);
  if (!control) return;
  put_run(view, control, text);
  ch_text_puts(text, "\n");
  ch_table_row(&table, headings, sizeof headings / sizeof *headings);
  put_difference("training loss", "loss", 4, report, control, &table);
  put_difference("validation loss", "validation_loss", 4, report, control, &table);
  put_difference("perplexity", "perplexity", 2, report, control, &table);
  put_difference("top-1", "top1", 4, report, control, &table);
  ch_table_write(&table, text);
}
