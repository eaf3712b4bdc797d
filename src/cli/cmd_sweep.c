/* crosshead sweep: finds stable learning rates and extrapolates losses, or checks the sizes of activations at several
   widths. */
#include <stdlib.h>

#include <crosshead/sweep.h>

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
#include "cli/parse.h"
#include "cli/results.h"
#include "cli/command_text.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  ch_lineup lineup;
  const char *runs, *rates, *widths;
  int64_t jobs, budget, threads;
  bool json, force, coordinates;
} arguments;

static const char *const schedules[] = {"constant", "cosine", NULL};

#define AT(member) offsetof(arguments, member)
#define SET(member) AT(lineup.settings.member)
static const ch_option options[] = {
    CH_PATH_OPTION("data", SET(text.data), "TEXT",
                   "The text to train on, UTF-8. A part of it is held out for validation.", .alias = "text",
                   .required = true),
    CH_LINEUP_MECHANISMS(AT(lineup)),
    CH_TEXT_OPTION("lr", AT(rates), "LIST",
                   "Learning rates separated by commas, or FROM..TO:N for N rates in equal ratios. A "
                   "finished sweep can be continued with more rates. A coordinate check needs one rate, by "
                   "default that of `crosshead compare`.",
                   .default_value = "3e-4,1e-3,3e-3,1e-2,3e-2"),
    CH_PATH_OPTION("out", SET(report.out), "DIR",
                   "Directory for models and results. The same command continues an interrupted sweep there.",
                   .writes = CH_WRITES_JOB, .default_value = "sweep"),
    CH_FLAG_OPTION("json", AT(json), "Print the contents of results.json instead of the table."),
    CH_RUNS_OPTION(AT(runs)),
    CH_THREADS_OPTION(AT(threads)),
    CH_FORCE_OPTION(AT(force)),
    CH_COUNT_OPTION(
        "jobs", AT(jobs), "N", 1, 64,
        "Runs at the same time, which share the threads (default: one per thread, as far as memory allows)."),
    CH_LINEUP_RANKS(AT(lineup)),
    CH_LINEUP_ENGINE(AT(lineup)),
    CH_HEADING("Law"),
    CH_COUNT_OPTION("budget", AT(budget), "TOKENS", 1, 0,
                    "Number of tokens to extrapolate losses to (default: ten times --tokens)."),
    CH_COUNT_OPTION("evaluations", SET(training.evaluations), "N", 1, 10000,
                    "Evaluations per run. The law is fitted to them without the first tenth.",
                    .default_value = "30"),
    CH_COUNT_OPTION("eval-tokens", SET(training.eval_tokens), "N", 1, 0,
                    "Validation tokens per evaluation (default: 1/100 of --tokens, at least 16384)."),
    CH_HEADING("Widths"),
    CH_FLAG_OPTION("coordinate-check", AT(coordinates),
                   "Instead of a sweep, train models of several widths for 10 steps and show the size of "
                   "their activations. It should be the same at every width."),
    CH_TEXT_OPTION("widths", AT(widths), "LIST",
                   "Widths of a coordinate check in increasing order (default: 64,128,256,512)."),
    CH_HEADING("Size"),
    CH_LINEUP_SIZE(AT(lineup)),
    CH_HEADING("Text"),
    CH_LINEUP_TOKENIZER(AT(lineup)),
    CH_LINEUP_VALIDATION(AT(lineup)),
    CH_HEADING("Training"),
    CH_LINEUP_TOKENS(AT(lineup)),
    CH_COUNT_OPTION("batch", SET(training.batch), "N", 1, 65536,
                    "Sequences per step. With --coordinate-check the defaults are --batch 4 and --seq 64.",
                    .default_value = "16"),
    CH_LINEUP_MICRO_BATCH(AT(lineup), "Sequences"),
    CH_LINEUP_SEQ(AT(lineup)),
    CH_CHOICE_OPTION("schedule", AT(lineup.schedule), "NAME", schedules,
                     "Learning rate after the warm-up. Laws are fitted to runs with a constant rate only.",
                     .default_value = "constant"),
    CH_LINEUP_WARMUP(AT(lineup)),
    CH_COUNT_OPTION("seeds", SET(training.seeds), "N", 1, CH_SWEEP_MOST_SEEDS,
                    "Runs of each mechanism and rate, with the seeds --seed, --seed + 1 and so on. A "
                    "finished sweep can be continued with more seeds.",
                    .default_value = "1"),
    {0},
};

/* --- progress ----------------------------------------------------------------------------------------------- */

typedef struct display {
  const arguments *arguments;
  ch_progress_line progress;
  ch_run_recorder keeper;
  int planned, done; /* planned: number of runs; done: number of finished runs */
  /* steps_taken: steps that this command has completed; steps_left: all steps that it has to do */
  double steps_taken, steps_left;
  int64_t steps; /* steps per run */
} display;

static void show_preparation(display *d, const char *stage, double share) {
  if (ch_progress_due(&d->progress)) ch_progress_show(&d->progress, false, "%s: %.0f %%", stage, 100 * share);
}

static void show_outline(display *d, const ch_sweep_outline *outline) {
  char train[32];
  d->planned = outline->runs;
  d->steps = outline->steps;
  d->steps_left = (double)outline->runs * (double)d->steps;
  ch_progress_print(
      &d->progress, "%s: %s tokens to train on; %d %s of %lld %s, %lld at a time on %lld %s each",
      outline->data->file, ch_format_count((double)outline->data->train_tokens, train, sizeof train),
      outline->runs, ch_plural(outline->runs, "run", "runs"), (long long)d->steps,
      ch_plural(d->steps, "step", "steps"), (long long)outline->jobs, (long long)outline->threads,
      ch_plural(outline->threads, "thread", "threads"));
}

static void show_step(display *d, const ch_sweep_result *run, const ch_train_step *step) {
  char left[32];
  d->steps_taken++;
  if (!ch_progress_due(&d->progress)) return;
  double rate = d->steps_taken / ch_progress_seconds(&d->progress);
  ch_progress_show(
      &d->progress, false, "%d of %d runs done  %s at %.4g: step %lld/%lld, loss %.3f  %s left", d->done,
      d->planned, run->name, run->lr, (long long)step->step, (long long)step->steps, step->loss,
      ch_format_duration((d->steps_left - d->steps_taken) / (rate > 0 ? rate : 1), left, sizeof left));
}

static void show_run(display *d, const ch_sweep_result *run, bool earlier) {
  char *verdict = NULL;
  d->done++;
  if (earlier) d->steps_left -= (double)d->steps;
  ch_sweep_result_verdict(run, &verdict, NULL);
  ch_progress_print(&d->progress, "%s: %s, validation loss %.4f, %lld %s%s", run->directory,
                    verdict ? verdict : "", run->validation_loss, (long long)run->stability.spikes,
                    ch_plural(run->stability.spikes, "spike", "spikes"),
                    earlier ? " (finished earlier)" : "");
  ch_free(verdict);
  char *directory = ch_path_join(d->arguments->lineup.settings.report.out, run->directory);
  d->keeper.labels.status = run->stopped && run->stability.verdict != CH_NOT_FINITE ? "stopped" : NULL;
  if (directory) ch_run_recorder_record(&d->keeper, directory, run->name, &d->progress);
  free(directory);
}

/* Reports a failed run. The message names its directory, whose name has the seed. */
static void show_failed(display *d, const char *name, const ch_error *error) {
  char message[CH_MESSAGE_SIZE];
  d->steps_left -= (double)d->steps;
  ch_progress_print(&d->progress, "%s failed: %s", name, ch_message_of(error, message));
}

static bool on_event(const ch_sweep_event *event, void *user) {
  display *d = user;
  switch (event->kind) {
  case CH_SWEEP_EVENT_PREPARATION:
    show_preparation(d, event->as.preparation.stage, event->as.preparation.share);
    break;
  case CH_SWEEP_EVENT_OUTLINE:
    show_outline(d, event->as.outline.outline);
    break;
  case CH_SWEEP_EVENT_STEP:
    show_step(d, event->as.step.run, event->as.step.step);
    break;
  case CH_SWEEP_EVENT_RUN:
    show_run(d, event->as.run.run, event->as.run.earlier);
    break;
  case CH_SWEEP_EVENT_FAILED:
    show_failed(d, event->as.failed.name, event->as.failed.error);
    break;
  case CH_SWEEP_EVENT_PREPARED: /* show_outline has its figures */
  case CH_SWEEP_EVENT_BEGIN:
    break;
  }
  return true;
}

/* --- the command -------------------------------------------------------------------------------------------- */

static ch_status print(const arguments *a, const ch_sweep *sweep, ch_error *error) {
  char *text;
  if (a->json) {
    CH_TRY(ch_sweep_json(sweep, &text, error));
    return ch_results_print_json(text, error);
  }
  CH_TRY(ch_sweep_table(sweep, &text, error));
  return ch_results_print_table(text, a->lineup.settings.report.out, error);
}

/* Checks the output before anything is written, on rank 0. */
static ch_status begin(const arguments *a, display *d, ch_error *error) {
  const char *out = a->lineup.settings.report.out;
  CH_TRY(ch_check_job("out", out, CH_SWEEP_SETTINGS, error));
  return ch_run_recorder_begin(&d->keeper, a->runs, out, error);
}

static ch_status sweep_rates(const arguments *a, ch_error *error) {
  ch_sweep *sweep;
  ch_text command = {0};
  display d = {.arguments = a};
  ch_sweep_settings settings;
  ch_sweep_defaults(&settings);
  const ch_compare_settings given = ch_lineup_settings(&a->lineup);
  settings.lineup = given.lineup;
  settings.text = given.text;
  settings.training = given.training;
  settings.workers = given.workers;
  settings.report = given.report;
  settings.event = on_event;
  settings.stop = ch_stop_wanted;
  settings.user = &d;
  settings.lr = a->rates;
  settings.jobs = a->jobs;
  settings.budget = a->budget;
  CH_TRY(ch_devices_spread(&settings.workers, error));
  settings.workers.ranks = ch_job_ranks();
  const char *data = settings.text.data;
  bool leads = ch_job_leads();
  CH_TRY(ch_sweep_check(&settings, error));
  CH_TRY(ch_job_agree(leads ? begin(a, &d, error) : CH_OK, error));
  ch_put_command_line("sweep", options, a, &command);
  settings.report.command = command.data;
  d.keeper.labels = (ch_run_labels){.kind = "sweep", .dataset = data, .command = command.data};
  ch_interrupt_watch(CH_SAVES_WORK);
  ch_progress_begin(&d.progress, leads ? stderr : NULL);
  ch_status status = ch_sweep_rates(&settings, &sweep, error);
  ch_progress_end(&d.progress);
  ch_interrupt_release();
  if (status == CH_OK) {
    if (leads) status = print(a, sweep, error);
    ch_sweep_free(sweep);
  }
  ch_text_free(&command);
  ch_run_recorder_end(&d.keeper);
  return status;
}

/* --- the coordinate check ----------------------------------------------------------------------------------- */

static bool on_coordinate_event(const ch_coordinate_event *event, void *user) {
  display *d = user;
  if (event->kind == CH_COORDINATE_EVENT_PREPARATION)
    show_preparation(d, event->as.preparation.stage, event->as.preparation.share);
  else if (ch_progress_due(&d->progress))
    ch_progress_show(&d->progress, false, "%s at width %lld (%d of %d)", event->as.model.name,
                     (long long)event->as.model.width, event->as.model.index + 1, event->as.model.count);
  return true;
}

/* Fails for options of a sweep that a coordinate check does not have. */
static ch_status check_options(const arguments *a, ch_error *error) {
  static const char *const of_sweeps[] = {
      "params", "match",  "cache-per-token", "hidden",      "tokens", "schedule",      "warmup",
      "jobs",   "budget", "evaluations",     "eval-tokens", "runs",   "ranks-per-run", "micro-batch",
      "engine", "device", "shard",           "python",      NULL};
  for (int i = 0; of_sweeps[i]; i++)
    if (ch_option_given(a, of_sweeps[i]))
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s cannot be used with --coordinate-check; leave it out",
                     of_sweeps[i]);
  return CH_OK;
}

static ch_status coordinate_settings(const arguments *a, ch_coordinate_settings *settings, ch_error *error) {
  const ch_compare_settings given = ch_lineup_settings(&a->lineup);
  ch_coordinates_defaults(settings);
  settings->mechanisms = given.lineup.mechanisms;
  settings->heads = given.lineup.heads;
  settings->init = given.lineup.init;
  settings->parametrization = given.lineup.parametrization;
  settings->text = given.text;
  settings->tokenizer = given.lineup.tokenizer;
  settings->vocab = given.lineup.vocab;
  settings->type = given.training.type;
  settings->seed = given.training.seed;
  settings->threads = given.workers.threads;
  settings->report = given.report;
  if (ch_option_given(a, "layers")) settings->layers = given.lineup.layers;
  if (ch_option_given(a, "batch")) settings->batch = given.training.batch;
  if (ch_option_given(a, "seq")) settings->sequence = given.lineup.sequence;
  if (ch_option_given(a, "seeds")) settings->seeds = given.training.seeds;
  if (a->widths) settings->widths = a->widths;
  if (!ch_option_given(a, "lr")) return CH_OK;
  if (ch_parse_number(a->rates, &settings->lr) && settings->lr > 0) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "--lr %.80s is not one rate; a coordinate check needs one, such as 3e-3", a->rates);
}

static ch_status print_coordinates(const arguments *a, const ch_coordinates *coordinates, ch_error *error) {
  char *text;
  if (a->json) {
    CH_TRY(ch_coordinates_json(coordinates, &text, error));
    return ch_results_print_json(text, error);
  }
  CH_TRY(ch_coordinates_table(coordinates, &text, error));
  return ch_results_print_table(text, a->lineup.settings.report.out, error);
}

static ch_status check_coordinates(const arguments *a, ch_error *error) {
  ch_coordinates *coordinates;
  ch_text command = {0};
  display d = {.arguments = a};
  ch_coordinate_settings settings;
  if (ch_job_ranks())
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--coordinate-check is for one process; start it without mpirun");
  CH_TRY(check_options(a, error));
  CH_TRY(coordinate_settings(a, &settings, error));
  settings.event = on_coordinate_event;
  settings.stop = ch_stop_wanted;
  settings.user = &d;
  CH_TRY(ch_coordinates_check(&settings, error));
  CH_TRY(ch_check_job("out", settings.report.out, NULL, error));
  ch_put_command_line("sweep", options, a, &command);
  settings.report.command = command.data;
  ch_interrupt_watch(CH_SAVES_WORK);
  ch_progress_begin(&d.progress, stderr);
  ch_status status = ch_coordinates_measure(&settings, &coordinates, error);
  ch_progress_end(&d.progress);
  ch_interrupt_release();
  if (status == CH_OK) {
    status = print_coordinates(a, coordinates, error);
    ch_coordinates_free(coordinates);
  }
  ch_text_free(&command);
  return status;
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  if (a->coordinates) return check_coordinates(a, error);
  if (a->widths)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--widths needs --coordinate-check; give both or neither");
  return sweep_rates(a, error);
}

static void defaults(void *given) {
  arguments *a = given;
  ch_sweep_settings settings;
  ch_sweep_defaults(&settings);
  ch_compare_defaults(&a->lineup.settings);
  a->lineup.settings.lineup = settings.lineup;
  a->lineup.settings.training = settings.training;
  a->lineup.settings.workers = settings.workers;
}

const ch_command ch_cmd_sweep = {
    .name = "sweep",
    .positional = "",
    .meant = "data",
    .summary = "Find the largest stable learning rate of each mechanism, and extrapolate its loss.",
    .description =
        "Trains each mechanism at every learning rate of a grid, several runs at a time. Counts loss spikes, "
        "finds the largest rate at which all runs are stable, and fits L(D) = (D_c/D)^alpha + L_0 to the "
        "validation losses of stable runs, with confidence intervals and an extrapolated loss.\n\n"
        "With --coordinate-check it trains models of several widths for 10 steps instead, at one rate, and "
        "shows "
        "which activations do not keep their size from width to width.\n\n"
        "Under mpirun, groups of ranks train one run each at a time.\n\n"
        "Writes results.json and report.html. Run the same command again to continue an interrupted sweep. "
        "`crosshead fit` fits the law to a curve of another program.",
    .examples = "crosshead sweep --data book.txt --mechanisms mha,mea --lr 1e-4,5e-4,1e-3,3e-3\n"
                "crosshead sweep --data book.txt --lr 1e-4..3e-2:6 --seeds 3 --budget 1G --out rates\n"
                "crosshead sweep --data book.txt --mechanisms mha,mla --coordinate-check --widths 64,128,256",
    CH_LISTS_MECHANISMS,
    .defaults = defaults,
    .over_ranks = true,
    CH_RUNS(options, arguments, run),
};
