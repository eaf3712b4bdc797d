/* crosshead compare: options, progress and messages of a comparison. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crosshead/compare.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/destination.h"
#include "cli/devices.h"
#include "cli/interrupt.h"
#include "cli/job.h"
#include "cli/record_run.h"
#include "cli/comparison_options.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/results.h"
#include "cli/command_text.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  ch_lineup lineup;
  const char *runs, *only;
  int64_t threads;
  const char *cache_budget;
  double tolerance, risk; /* --tolerance and --risk, in percent */
  bool json, force, dry_run, tune;
} arguments;

enum { MOST_TRIED_RATES = 5 };

static const char *const schedules[] = {"cosine", "constant", NULL};

#define AT(member) offsetof(arguments, member)
#define SET(member) AT(lineup.settings.member)
static const ch_option options[] = {
    CH_PATH_OPTION("data", SET(text.data), "TEXT",
                   "The text to train on, UTF-8. A part of it is held out for validation.", .alias = "text"),
    CH_PATH_OPTION("images", SET(vision.images), "DIR",
                   "Images (CIFAR or IDX files) to train Vision Transformers on, instead of --data."),
    CH_LINEUP_MECHANISMS(AT(lineup)),
    CH_PATH_OPTION(
        "out", SET(report.out), "DIR",
        "Directory for models and results. The same command continues an interrupted comparison there.",
        .writes = CH_WRITES_JOB, .default_value = "comparison"),
    CH_FLAG_OPTION("json", AT(json), "Print the contents of results.json instead of the table."),
    CH_FLAG_OPTION("dry-run", AT(dry_run),
                   "Time some steps of each model and print how many runs there are, how long they will take "
                   "and how much memory and disk they need. Write nothing."),
    CH_FLAG_OPTION("remeasure", SET(verdict.remeasure),
                   "Time training and decoding of all models again, also of those that are finished."),
    CH_RUNS_OPTION(AT(runs)),
    CH_THREADS_OPTION(AT(threads)),
    CH_FORCE_OPTION(AT(force)),
    CH_HEADING("Size"),
    CH_LINEUP_SIZE(AT(lineup)),
    CH_COUNT_OPTION("patch", SET(vision.patch), "PIXELS", 1, 4096,
                    "Side length of an image patch (default: gives about 64 patches)."),
    CH_COUNT_OPTION("image-size", SET(vision.image_size), "PIXELS", 1, 4096,
                    "Side length of the images that models see. It is a multiple of the side length in the "
                    "files, whose pixels are repeated (default: as in the files)."),
    CH_HEADING("Text"),
    CH_LINEUP_TOKENIZER(AT(lineup)),
    CH_LINEUP_VALIDATION(AT(lineup)),
    CH_COUNT_OPTION("eval-tokens", SET(training.eval_tokens), "N", 1, 0,
                    "Validation tokens per evaluation (default: all, but at most 1/30 of --tokens, or 32768 "
                    "if that is more; images: all)."),
    CH_HEADING("Training"),
    CH_LINEUP_TOKENS(AT(lineup)),
    CH_COUNT_OPTION("epochs", SET(vision.epochs), "N", 1, 100000,
                    "With --images: passes over all images that each model is trained for.",
                    .default_value = "10"),
    CH_COUNT_OPTION("batch", SET(training.batch), "N", 1, 65536,
                    "Sequences per step (default: 16, or fewer so that there are at least 256 steps), or "
                    "images per step (default: 64)."),
    CH_LINEUP_MICRO_BATCH(AT(lineup), "Sequences (images)"),
    CH_LINEUP_SEQ(AT(lineup)),
    CH_TEXT_OPTION("lr", SET(rates.rates), "RATE",
                   "Peak learning rate (default: 4e-3; with --parametrization standard 2e-3, for images "
                   "1e-3), or rates of single mechanisms: mla=6e-3,mha=2e-3.",
                   .setting = "rates"),
    CH_FLAG_OPTION("tune", AT(tune),
                   "Find each mechanism's own learning rate first: three to five runs of each, with the "
                   "first seed and all tokens. Runs that are clearly worse are stopped early."),
    CH_CHOICE_OPTION("schedule", AT(lineup.schedule), "NAME", schedules, "Learning rate after the warm-up.",
                     .default_value = "cosine"),
    CH_LINEUP_WARMUP(AT(lineup)),
    CH_COUNT_OPTION("seeds", SET(training.seeds), "N", 1, CH_COMPARE_MOST_SEEDS,
                    "Runs of each model, with the seeds --seed, --seed + 1 and so on. The report then shows "
                    "means, standard deviations and which differences exceed the noise. A finished "
                    "comparison can be continued with more seeds.",
                    .default_value = "1"),
    CH_HEADING("Tasks"),
    CH_TEXT_OPTION(
        "tasks", SET(verdict.tasks), "LIST",
        "Evaluate every trained model on these tasks of `crosshead eval`, separated by commas: "
        "ruler:vt@256,hellaswag=items.jsonl. RULER's tasks generate their items, --seq tokens long unless a "
        "length follows an @. Tasks can be added to a finished comparison. They do not affect the verdict."),
    CH_COUNT_OPTION("task-items", SET(verdict.task_items), "N", 1, 1 << 30,
                    "Evaluate at most N items of each task.", .default_value = "100"),
    CH_HEADING("Larger models"),
    CH_TEXT_OPTION(
        "ladder", SET(schedule.ladder), "SIZES",
        "Compare at other sizes too, and fit scaling laws of loss against training FLOPs. SIZES are numbers "
        "of parameters like 100k,200k,400k,800k, trained in addition to --params (default: a half, a quarter "
        "and an eighth of it). The number of tokens is scaled in proportion.",
        .bare = ""),
    CH_COUNT_OPTION("target", SET(schedule.target), "N", 1, 0,
                    "With --ladder: predict the losses of models with N parameters, and how much more "
                    "compute the first mechanism would need to reach each of them."),
    CH_HEADING("Several processes"),
    CH_LINEUP_RANKS(AT(lineup)),
    CH_LINEUP_ENGINE(AT(lineup)),
    CH_TEXT_OPTION("only", AT(only), "I/N",
                   "Train only share I of N of the runs, and write no results. All shares take about equally "
                   "long. This is for job arrays whose jobs have the same --out.",
                   .setting = "part"),
    CH_FLAG_OPTION(
        "collect", SET(schedule.collect),
        "Train nothing. Combine the runs of all shares into the results that a single process would write."),
    CH_HEADING("Verdict"),
    CH_TEXT_OPTION("cache-budget", AT(cache_budget), "SIZE",
                   "The largest cache that the choice may have, in bytes per token, as in 200B or 2KiB. With "
                   "--context and --users: in bytes for all users' contexts together, as in 8GB."),
    CH_COUNT_OPTION("users", SET(verdict.users), "N", 1, 1 << 30,
                    "With --cache-budget: users with --context tokens each who share it."),
    CH_FLAG_OPTION("until-decided", SET(schedule.until_decided),
                   "Add seeds where they lower the risk of the choice most, until it is at most --risk or "
                   "the --budget is spent."),
    CH_NUMBER_OPTION("risk", AT(risk), "PERCENT", 0, 100,
                     "With --until-decided: stop when the choice is, with 95 % confidence, at most PERCENT "
                     "behind the best. With --images: PERCENT points.",
                     .default_value = "1"),
    CH_TIME_OPTION("budget", SET(schedule.budget), "TIME",
                   "With --until-decided: the longest time for the training of all runs together, as in 90s, "
                   "30m or 2h."),
    CH_COUNT_OPTION(
        "context", SET(verdict.context), "N", 1, 1 << 30,
        "Length of text, in tokens, at which caches are compared. It matters for sliding windows, which "
        "cache no more than the window, and for linear attention (default: --seq)."),
    CH_NUMBER_OPTION(
        "tolerance", AT(tolerance), "PERCENT", 0, 100,
        "The verdict picks the model with the smallest cache among those whose loss is at most PERCENT above "
        "the lowest. With --images: the model with the fewest attention parameters among those whose top-1 "
        "accuracy is at most PERCENT points below the highest.",
        .default_value = "1"),
    {0},
};

/* --- progress ----------------------------------------------------------------------------------------------- */

typedef struct display {
  const arguments *arguments;
  ch_progress_line progress;
  ch_run_recorder keeper;
  /* name of the model in training, with its seed if there are several seeds */
  char name[160];
  double seconds; /* smoothed seconds of a step */
  /* timing_began: ch_clock at the start of the first timing round; turn_began: ch_clock at the start of the current
     one */
  double timing_began, turn_began;
  int32_t turn;
  const char *out; /* directory of the size of the ladder that is being trained */
} display;

static void show_prepared(display *d, const ch_comparison_data *data) {
  char train[32], validation[32];
  if (data->images) {
    ch_progress_print(&d->progress, "%s: %s images (%s) to train on, %s to validate, %lld classes",
                      data->file, ch_format_count((double)data->train_tokens, train, sizeof train),
                      data->format,
                      ch_format_count((double)data->validation_tokens, validation, sizeof validation),
                      (long long)data->classes);
    return;
  }
  ch_progress_print(&d->progress, "%s: %s tokens to train on, %s to validate, a vocabulary of %lld",
                    data->file, ch_format_count((double)data->train_tokens, train, sizeof train),
                    ch_format_count((double)data->validation_tokens, validation, sizeof validation),
                    (long long)data->vocab_size);
}

static const char *unit_of(const display *d) {
  return d->arguments->lineup.settings.vision.images ? "images" : "tokens";
}

static void name_run(const display *d, const char *name, uint64_t seed, char *buffer, size_t size) {
  if (d->arguments->lineup.settings.training.seeds > 1 ||
      d->arguments->lineup.settings.schedule.until_decided)
    snprintf(buffer, size, "%s, seed %llu", name, (unsigned long long)seed);
  else
    snprintf(buffer, size, "%s", name);
}

static void show_begin(display *d, const ch_compare_position *at, const ch_model_result *model) {
  char size[32];
  long long steps = at->step.steps;
  name_run(d, at->name, at->seed, d->name, sizeof d->name);
  d->seconds = 0;
  if (at->tries_rate) {
    size_t length = strlen(d->name);
    snprintf(d->name + length, sizeof d->name - length, " at the rate %.3g", at->lr);
    ch_progress_print(&d->progress, "%s: %lld %s", d->name, steps, ch_plural(steps, "step", "steps"));
    return;
  }
  ch_progress_print(&d->progress, "%s (%d of %d): %lld %s of width %lld, FFN %lld, %s parameters, %lld %s",
                    d->name, at->run + 1, at->runs, (long long)model->layers,
                    ch_plural(model->layers, "layer", "layers"), (long long)model->hidden_size,
                    (long long)model->intermediate_size,
                    ch_format_count((double)model->parameters, size, sizeof size), steps,
                    ch_plural(steps, "step", "steps"));
}

static void show_step(display *d, const ch_compare_position *at) {
  const ch_train_step *step = &at->step;
  /* the first step may compile kernels and then takes longer than the others */
  bool like_others = d->seconds > 0 && d->seconds < 4 * step->seconds;
  d->seconds = like_others ? 0.9 * d->seconds + 0.1 * step->seconds : step->seconds;
  if (!ch_progress_due(&d->progress)) return;
  char rate[32], left[32];
  double tokens = (double)step->tokens / (double)step->step / (d->seconds > 0 ? d->seconds : 1);
  /* steps of the later runs, per group of ranks */
  double later = (double)step->steps * (at->runs - at->run - 1) / at->groups;
  double remaining = d->seconds * ((double)(step->steps - step->step) + later);
  char count[48] = "";
  if (at->tries_rate)
    remaining = d->seconds * (double)(step->steps - step->step);
  else
    snprintf(count, sizeof count, " (%d of %d)", at->run + 1, at->runs);
  ch_progress_show(&d->progress, false, "%s%s  step %lld/%lld  loss %.3f  %s %s/s  %s of training left",
                   d->name, count, (long long)step->step, (long long)step->steps, step->loss,
                   ch_format_count(tokens, rate, sizeof rate), unit_of(d),
                   ch_format_duration(remaining, left, sizeof left));
}

static void show_share(display *d, const ch_compare_position *at, double share) {
  ch_progress_show(&d->progress, false, "%s (%d of %d)  %sstep %lld/%lld  %.0f %%", d->name, at->run + 1,
                   at->runs, at->evaluating ? "evaluating after " : "",
                   (long long)at->step.step + !at->evaluating, (long long)at->step.steps, 100 * share);
}

static void keep_run(display *d, const ch_model_result *model) {
  char *directory = ch_path_join(d->out, model->directory);
  if (directory) ch_run_recorder_record(&d->keeper, directory, model->name, &d->progress);
  free(directory);
}

static void show_model(display *d, const ch_model_result *model, bool earlier) {
  char rate[32], accuracy[32] = "", name[160];
  name_run(d, model->name, model->seed, name, sizeof name);
  if (isinf(model->validation_loss)) {
    ch_progress_print(&d->progress, "%s: diverged after %s %s; a lower --lr may help%s", name,
                      ch_format_count((double)model->tokens_trained, rate, sizeof rate), unit_of(d),
                      earlier ? " (finished earlier)" : "");
    keep_run(d, model);
    return;
  }
  if (model->images) snprintf(accuracy, sizeof accuracy, "top-1 %.2f %%, ", 100 * model->top1);
  ch_progress_print(&d->progress, "%s: %svalidation loss %.4f, %s %s/s%s", name, accuracy,
                    model->validation_loss,
                    ch_format_count(model->train_tokens_per_second, rate, sizeof rate), unit_of(d),
                    earlier ? " (finished earlier)" : "");
  keep_run(d, model);
}

static void show_failed(display *d, const char *name, uint64_t seed, const ch_error *error) {
  char run[160], message[CH_MESSAGE_SIZE];
  name_run(d, name, seed, run, sizeof run);
  ch_progress_print(&d->progress, "%s failed: %s", run, ch_message_of(error, message));
}

static void show_timing(display *d, int32_t turn, int32_t turns, const ch_model_result *model) {
  char name[160];
  char left[48] = "", time[32];
  name_run(d, model->name, model->seed, name, sizeof name);
  double now = ch_clock();
  if (turn == 0) d->timing_began = now;
  if (turn == 0 || turn != d->turn) d->turn_began = now;
  d->turn = turn;
  if (!ch_progress_due(&d->progress)) return;
  if (turn > 0) {
    double of_a_turn = (d->turn_began - d->timing_began) / turn;
    double remaining = of_a_turn * (turns - turn) - (now - d->turn_began);
    if (remaining > 0)
      snprintf(left, sizeof left, ", %s left", ch_format_duration(remaining, time, sizeof time));
  }
  ch_progress_show(&d->progress, false, "timing all models, round %d of %d: %s%s", turn + 1, turns, name,
                   left);
}

static void show_asking(display *d, const ch_model_result *model, const char *task, int64_t done,
                        int64_t total) {
  char name[160];
  name_run(d, model->name, model->seed, name, sizeof name);
  if (total > 0 && ch_progress_due(&d->progress))
    ch_progress_show(&d->progress, false, "%s, task %s: %.0f %%", name, task,
                     100 * (double)done / (double)total);
}

/* Prints that a size of the ladder begins. `directory` is valid until its runs have ended. */
static void show_rung(display *d, int32_t index, int32_t rungs, int64_t parameters, const char *directory) {
  char size[32];
  d->out = directory;
  ch_progress_print(&d->progress, "size %d of %d: %s parameters, in %s", index + 1, rungs,
                    ch_format_count((double)parameters, size, sizeof size), directory);
}

static bool on_event(const ch_compare_event *event, void *user) {
  display *d = user;
  switch (event->kind) {
  case CH_COMPARE_EVENT_PREPARATION:
    if (ch_progress_due(&d->progress))
      ch_progress_show(&d->progress, false, "%s: %.0f %%", event->as.preparation.stage,
                       100 * event->as.preparation.share);
    break;
  case CH_COMPARE_EVENT_PREPARED:
    show_prepared(d, event->as.prepared.data);
    break;
  case CH_COMPARE_EVENT_RUNG:
    show_rung(d, event->as.rung.index, event->as.rung.rungs, event->as.rung.parameters,
              event->as.rung.directory);
    break;
  case CH_COMPARE_EVENT_BEGIN:
    show_begin(d, event->as.begin.position, event->as.begin.model);
    break;
  case CH_COMPARE_EVENT_STEP:
    show_step(d, event->as.step.position);
    break;
  case CH_COMPARE_EVENT_SHARE:
    show_share(d, event->as.share.position, event->as.share.share);
    break;
  case CH_COMPARE_EVENT_MODEL:
    show_model(d, event->as.model.model, event->as.model.earlier);
    break;
  case CH_COMPARE_EVENT_FAILED:
    show_failed(d, event->as.failed.name, event->as.failed.seed, event->as.failed.error);
    break;
  case CH_COMPARE_EVENT_TIMING:
    show_timing(d, event->as.timing.turn, event->as.timing.turns, event->as.timing.model);
    break;
  case CH_COMPARE_EVENT_TIMED:
    keep_run(d, event->as.timed.model);
    break;
  case CH_COMPARE_EVENT_ASKING:
    show_asking(d, event->as.asking.model, event->as.asking.task, event->as.asking.done,
                event->as.asking.total);
    break;
  }
  return true;
}

/* --- the command -------------------------------------------------------------------------------------------- */

static ch_status print(const arguments *a, const ch_comparison *comparison, ch_error *error) {
  char *text;
  if (a->json) {
    CH_TRY(ch_comparison_json(comparison, &text, error));
    return ch_results_print_json(text, error);
  }
  CH_TRY(ch_comparison_table(comparison, &text, error));
  return ch_results_print_table(text, a->lineup.settings.report.out, error);
}

static ch_status foresee(const arguments *a, const ch_compare_settings *settings, ch_error *error) {
  ch_compare_forecast *forecast;
  char *text = NULL;
  ch_interrupt_watch(CH_NOTHING_SAVED);
  ch_status status = ch_compare_foresee(settings, &forecast, error);
  ch_interrupt_release();
  CH_TRY(status);
  status = a->json ? ch_compare_forecast_json(forecast, &text, error)
                   : ch_compare_forecast_text(forecast, &text, error);
  ch_compare_forecast_free(forecast);
  CH_TRY(status);
  return a->json ? ch_results_print_json(text, error) : ch_results_print_table(text, NULL, error);
}

/* Fails for options of text in a comparison on images, and the reverse. */
static ch_status check_kind(const arguments *a, ch_error *error) {
  static const char *const of_text[] = {"vocab", "tokenizer", "validation", "tokens", "seq", NULL};
  static const char *const of_images[] = {"epochs", "patch", "image-size", NULL};
  bool images = a->lineup.settings.vision.images != NULL;
  for (const char *const *name = images ? of_text : of_images; *name; name++)
    if (ch_option_given(a, *name))
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s is for comparisons on %s; leave it out", *name,
                     images ? "text" : "images");
  return CH_OK;
}

/* Reads a share such as "2/3". */
static ch_status read_share(const arguments *a, ch_compare_settings *settings, ch_error *error) {
  char extra;
  if (!a->only) return CH_OK;
  if (sscanf(a->only, "%d/%d%c", &settings->schedule.part, &settings->schedule.parts, &extra) == 2 &&
      settings->schedule.parts > 0)
    return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "--only is '%.40s'; write the share and the number of shares, as in 1/8, 2/8, ..., 8/8",
                 a->only);
}

static ch_status read_cache_budget(const arguments *a, ch_compare_settings *settings, ch_error *error) {
  int64_t bytes = 0;
  if (ch_option_given(a, "risk") && !settings->schedule.until_decided)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--risk needs --until-decided; give both or neither");
  if (!a->cache_budget) return CH_OK;
  if (!ch_parse_bytes(a->cache_budget, &bytes) || bytes < 1)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "--cache-budget: '%.60s' is not a size; write one like 200B, 2KiB (2^11) or 8GB (8 * 10^9)",
        a->cache_budget);
  settings->verdict.cache_budget = (double)bytes;
  return CH_OK;
}

/* Prints the runs of a share. They have no results until --collect combines all shares. */
static ch_status print_share(const ch_compare_settings *settings, const ch_comparison *comparison,
                             ch_error *error) {
  ch_text text = {0};
  int count = ch_comparison_count(comparison);
  ch_text_printf(&text, "Share %d of %d: ", settings->schedule.part, settings->schedule.parts);
  if (count == 0) ch_text_puts(&text, "it has no runs.");
  for (int i = 0; i < count; i++) {
    const ch_model_result *run = ch_comparison_run(comparison, i);
    ch_text_printf(&text, "%s%s", i ? ", " : "", run->directory);
  }
  if (count)
    ch_text_printf(&text, " %s finished in %s.", ch_plural(count, "is", "are"), settings->report.out);
  ch_text_puts(&text, " When all shares are finished, run the same command with --collect instead of --only "
                      "to see the results.\n");
  return ch_print_text(&text, error);
}

/* Checks --out for one share of the runs. Another share may be preparing the text there, so it waits a few
 * seconds for the settings, the last file to be written. */
static ch_status check_shared(const char *out, ch_error *error) {
  static const struct timespec nap = {.tv_nsec = 50000000};
  static const double patience = 5;
  char stranger[64];
  for (double begin = ch_clock();; nanosleep(&nap, NULL)) {
    /* this test comes first, because the settings may be written in between */
    bool foreign = ch_find_foreign_to_run(out, stranger, sizeof stranger);
    ch_status status = ch_check_job("out", out, CH_COMPARE_SETTINGS, error);
    if (status == CH_OK || foreign || ch_clock() - begin > patience) return status;
  }
}

/* Checks the output before anything is written, on rank 0. */
static ch_status begin(const arguments *a, const ch_compare_settings *settings, display *d, ch_error *error) {
  if (a->force && (settings->schedule.parts || settings->schedule.collect))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--force would remove what other shares have trained; leave it out, or remove %s first",
                   settings->report.out);
  CH_TRY(settings->schedule.parts ? check_shared(settings->report.out, error)
                                  : ch_check_job("out", settings->report.out, CH_COMPARE_SETTINGS, error));
  /* shares run at the same time, so none of them writes to the file of runs */
  if (a->dry_run || settings->schedule.parts) return CH_OK;
  return ch_run_recorder_begin(&d->keeper, a->runs, settings->report.out, error);
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_comparison *comparison;
  ch_text command = {0};
  display d = {.arguments = a, .out = a->lineup.settings.report.out};
  ch_compare_settings settings = ch_lineup_settings(&a->lineup);
  CH_TRY(ch_devices_spread(&settings.workers, error));
  bool leads = ch_job_leads();
  settings.verdict.tolerance = a->tolerance / 100;
  settings.schedule.risk = a->risk / 100;
  settings.rates.tune = a->tune ? MOST_TRIED_RATES : 0;
  settings.event = on_event;
  settings.stop = ch_stop_wanted;
  settings.user = &d;
  settings.workers.ranks = ch_job_ranks();
  CH_TRY(read_share(a, &settings, error));
  CH_TRY(read_cache_budget(a, &settings, error));
  CH_TRY(ch_compare_check(&settings, error));
  CH_TRY(check_kind(a, error));
  CH_TRY(ch_job_agree(leads ? begin(a, &settings, &d, error) : CH_OK, error));
  if (a->dry_run) return leads ? foresee(a, &settings, error) : CH_OK;
  ch_put_command_line("compare", options, a, &command);
  if (command.failed) return ch_no_memory(error);
  settings.report.command = command.data;
  d.keeper.labels =
      (ch_run_labels){.kind = "compare",
                      .dataset = settings.text.data ? settings.text.data : settings.vision.images,
                      .command = command.data};
  ch_interrupt_watch(CH_SAVES_WORK);
  ch_progress_begin(&d.progress, leads ? stderr : NULL);
  ch_status status = ch_compare_mechanisms(&settings, &comparison, error);
  ch_progress_end(&d.progress);
  ch_interrupt_release();
  if (status == CH_OK) {
    if (leads)
      status =
          settings.schedule.parts ? print_share(&settings, comparison, error) : print(a, comparison, error);
    ch_comparison_free(comparison);
  }
  ch_text_free(&command);
  ch_run_recorder_end(&d.keeper);
  return status;
}

static void defaults(void *given) {
  arguments *a = given;
  ch_compare_defaults(&a->lineup.settings);
}

const ch_command ch_cmd_compare = {
    .name = "compare",
    .positional = "",
    .meant = "data",
    .summary = "Train attention mechanisms side by side on a text or on images and recommend one.",
    .description =
        "Trains a small model with each mechanism on the same text, with the same tokenizer, seed, batches "
        "and number of tokens. The FFN width is adjusted so that all models have the same number of "
        "parameters.\n\n"
        "Prints a table (validation loss and perplexity, parameters, cache per token, training and decoding "
        "speed) and "
        "writes results.json and report.html, a self-contained page with loss curves and the plot of quality "
        "against cache size. Every model stays in its own directory, ready for `crosshead generate`.\n\n"
        "With --images it trains Vision Transformers and compares their accuracies.\n\n"
        "Under mpirun, groups of ranks train several runs at the same time; --only and --collect do that "
        "without MPI.\n\n"
        "Run the same command again to continue an interrupted comparison.",
    .examples =
        "crosshead compare --data book.txt\n"
        "crosshead compare --data book.txt --mechanisms mha,gqa:4,mqa --params 3M --tokens 10M --out book",
    CH_LISTS_MECHANISMS,
    .defaults = defaults,
    .over_ranks = true,
    CH_RUNS(options, arguments, run),
};
