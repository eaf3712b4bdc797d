/* crosshead sweep --data TEXT: which learning rates are stable, and where the losses go. */
#include <stdlib.h>
#include <string.h>

#include <crosshead/version.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/keep.h"
#include "cli/lineup.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/typed.h"
#include "report/sweep_page.h"
#include "report/sweep_text.h"
#include "train/sweep.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *data, *out, *runs, *rates, *schedule;
  ch_lineup lineup;
  int64_t batch, seeds, jobs, evaluations, eval_tokens, budget;
  bool json;
} arguments;

static const char *const schedules[] = {"constant", "cosine", NULL};

#define AT(member) offsetof(arguments, member)
static const ch_option options[] = {
    {.name = "data",
     .type = CH_OPTION_PATH,
     .offset = AT(data),
     .metavar = "TEXT",
     .required = true,
     .help = "The text to train on, UTF-8; a part of it is held back for validation."},
    CH_LINEUP_MECHANISMS(AT(lineup)),
    {.name = "lr",
     .type = CH_OPTION_TEXT,
     .offset = AT(rates),
     .metavar = "LIST",
     .default_value = "3e-4,1e-3,3e-3,1e-2,3e-2",
     .help =
         "Learning rates with commas between, or FROM..TO:N for N of them in equal ratios. More can be given "
         "later."},
    {.name = "out",
     .type = CH_OPTION_PATH,
     .offset = AT(out),
     .metavar = "DIR",
     .default_value = "sweep",
     .help = "Where models and results go. The same command on a directory that has some continues there."},
    {.name = "json",
     .type = CH_OPTION_FLAG,
     .offset = AT(json),
     .help = "Print the contents of results.json instead of the table."},
    CH_RUNS_OPTION(AT(runs)),
    {.name = "jobs",
     .type = CH_OPTION_COUNT,
     .offset = AT(jobs),
     .metavar = "N",
     .min = 1,
     .max = 64,
     .help = "Runs at a time; the threads are divided among them (as many as threads, where memory allows)."},
    {.name = "", .help = "Law"},
    {.name = "budget",
     .type = CH_OPTION_COUNT,
     .offset = AT(budget),
     .metavar = "TOKENS",
     .min = 1,
     .max = 0,
     .help = "Tokens that losses are extrapolated to (ten times --tokens)."},
    {.name = "evaluations",
     .type = CH_OPTION_COUNT,
     .offset = AT(evaluations),
     .metavar = "N",
     .default_value = "30",
     .min = 1,
     .max = 10000,
     .help = "Evaluations of each run: the points that a law is fitted to, less the first tenth."},
    {.name = "eval-tokens",
     .type = CH_OPTION_COUNT,
     .offset = AT(eval_tokens),
     .metavar = "N",
     .min = 1,
     .max = 0,
     .help = "Validation tokens of an evaluation (a hundredth of --tokens, 16384 at least)."},
    {.name = "", .help = "Size"},
    CH_LINEUP_SIZE(AT(lineup)),
    {.name = "", .help = "Text"},
    CH_LINEUP_TOKENIZER(AT(lineup)),
    {.name = "", .help = "Training"},
    CH_LINEUP_TOKENS(AT(lineup)),
    {.name = "batch",
     .type = CH_OPTION_COUNT,
     .offset = AT(batch),
     .metavar = "N",
     .default_value = "16",
     .min = 1,
     .max = 65536,
     .help = "Sequences of a step."},
    CH_LINEUP_SEQ(AT(lineup)),
    {.name = "schedule",
     .type = CH_OPTION_CHOICE,
     .offset = AT(schedule),
     .metavar = "NAME",
     .default_value = "constant",
     .choices = schedules,
     .help = "How the learning rate goes on after the warm-up; laws want it constant."},
    CH_LINEUP_WARMUP(AT(lineup)),
    {.name = "seeds",
     .type = CH_OPTION_COUNT,
     .offset = AT(seeds),
     .metavar = "N",
     .default_value = "1",
     .min = 1,
     .max = CH_SWEEP_MOST_SEEDS,
     .help =
         "Runs of each mechanism and rate, with --seed and those that follow it. More can be given later."},
    {0},
};

/* --- progress ----------------------------------------------------------------------------------------------------- */

typedef struct display {
  const arguments *arguments;
  ch_progress_line progress;
  ch_keeper keeper;
  int planned, done;
  double steps_taken, steps_left; /* of all runs */
  int64_t steps;                  /* of a run */
} display;

static void on_preparing(void *context, const char *stage, double done, double total) {
  display *d = context;
  if (ch_progress_due(&d->progress))
    ch_progress_show(&d->progress, false, "%s: %.0f %%", stage, total > 0 ? 100 * done / total : 0.0);
}

static void on_prepared(void *context, const ch_sweep *sweep) {
  display *d = context;
  char train[32];
  d->planned = sweep->planned;
  d->steps = sweep->about.training.steps;
  d->steps_left = (double)sweep->planned * (double)d->steps;
  ch_progress_print(
      &d->progress, "%s: %s tokens to train on; %d runs of %lld steps, %lld at a time on %lld thread%s each",
      sweep->about.data.file, ch_format_count((double)sweep->about.data.train_tokens, train, sizeof train),
      sweep->planned, (long long)d->steps, (long long)sweep->jobs, (long long)sweep->threads,
      sweep->threads == 1 ? "" : "s");
}

static void on_step(void *context, const ch_swept *run, const ch_step_report *report, int64_t steps) {
  display *d = context;
  char left[32];
  d->steps_taken++;
  if (!ch_progress_due(&d->progress)) return;
  double rate = d->steps_taken / ch_progress_seconds(&d->progress);
  ch_progress_show(
      &d->progress, false, "%d of %d runs done  %s at %.4g: step %lld/%lld, loss %.3f  %s left", d->done,
      d->planned, run->name, run->lr, (long long)report->step, (long long)steps, report->loss,
      ch_format_duration((d->steps_left - d->steps_taken) / (rate > 0 ? rate : 1), left, sizeof left));
}

static void on_finished(void *context, const ch_swept *run, bool earlier) {
  display *d = context;
  ch_text verdict = {0};
  ch_swept alone = *run;
  alone.verdict = run->stability.verdict; /* the others are not known yet */
  ch_sweep_verdict(&alone, &verdict);
  d->done++;
  if (earlier) d->steps_left -= (double)d->steps;
  ch_progress_print(&d->progress, "%s: %s, validation loss %.4f, %lld spike%s%s", run->directory,
                    verdict.data ? verdict.data : "", run->validation_loss, (long long)run->stability.spikes,
                    run->stability.spikes == 1 ? "" : "s", earlier ? " (finished earlier)" : "");
  ch_text_free(&verdict);
  char *directory = ch_path_join(d->arguments->out, run->directory);
  d->keeper.labels.status = run->stopped && run->stability.verdict != CH_NOT_FINITE ? "stopped" : NULL;
  if (directory) ch_keeper_keep(&d->keeper, directory, run->name, &d->progress);
  free(directory);
}

static ch_status write_page(void *context, const ch_sweep *sweep, ch_error *error) {
  const display *d = context;
  ch_text html = {0};
  char *path = ch_path_join(d->arguments->out, "report.html");
  ch_status status = path ? ch_sweep_page_write(sweep, &html, error)
                          : ch_fail(error, CH_ERROR_MEMORY, "no memory for the report");
  if (status == CH_OK) status = ch_write_file(path, html.data, html.size, error);
  ch_text_free(&html);
  free(path);
  return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static ch_status print(const arguments *a, const ch_sweep *sweep, ch_error *error) {
  ch_text text = {0};
  if (a->json)
    return ch_print_json(ch_sweep_to_json(sweep), JSON_INDENT(1) | JSON_REAL_PRECISION(CH_DIGITS_SHOWN),
                         error);
  ch_sweep_table(sweep, &text);
  ch_text_printf(&text, "\nMore in %s/report.html (charts) and %s/results.json.\n", a->out, a->out);
  return ch_print_text(&text, error);
}

static ch_status ask(const arguments *a, ch_sweep_options *asked, ch_error *error) {
  ch_sweep_options_default(asked);
  ch_lineup_ask(a, &a->lineup, &asked->compare);
  asked->compare.data = a->data;
  asked->compare.out = a->out;
  asked->compare.batch = a->batch;
  asked->compare.schedule = strcmp(a->schedule, "cosine") == 0 ? CH_SCHEDULE_COSINE : CH_SCHEDULE_CONSTANT;
  asked->compare.eval_tokens = a->eval_tokens;
  asked->compare.version = CH_VERSION_STRING;
  asked->seeds = a->seeds;
  asked->jobs = a->jobs;
  asked->evaluations = a->evaluations;
  asked->budget = (double)a->budget;
  return ch_sweep_rates(a->rates, asked, error);
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_sweep_options asked;
  ch_sweep sweep = {0};
  ch_text command = {0};
  display d = {.arguments = a};
  ch_sweep_events events = {.context = &d,
                            .preparing = on_preparing,
                            .prepared = on_prepared,
                            .step = on_step,
                            .finished = on_finished,
                            .written = write_page,
                            .interrupted = ch_stop_wanted};
  CH_TRY(ask(a, &asked, error));
  CH_TRY(ch_keeper_begin(&d.keeper, a->runs, a->out, error));
  ch_put_typed("sweep", options, a, &command);
  asked.compare.command = command.data ? command.data : "";
  d.keeper.labels = (ch_run_labels){.kind = "sweep", .dataset = a->data, .command = command.data};
  ch_interrupt_watch();
  ch_progress_begin(&d.progress, stderr);
  ch_status status = ch_sweep_run(&asked, &events, &sweep, error);
  ch_progress_end(&d.progress);
  ch_interrupt_release();
  if (status == CH_OK) status = print(a, &sweep, error);
  ch_arena_free(&sweep.about.arena);
  ch_text_free(&command);
  ch_keeper_end(&d.keeper);
  return status;
}

const ch_command ch_cmd_sweep = {
    .name = "sweep",
    .positional = "",
    .summary = "Find the largest stable learning rate of each mechanism, and extrapolate its loss.",
    .description = "Trains each mechanism at every rate of a grid, as `compare` does at one, several runs at "
                   "a time. Counts "
                   "loss spikes, tells stable runs from unstable ones, takes the largest rate whose runs are "
                   "stable, and fits "
                   "L(D) = (D_c/D)^alpha + L_0 to the validation losses of stable runs, with confidence "
                   "intervals and the loss "
                   "at a budget of tokens.\n\n"
                   "Writes results.json and report.html. An interrupted sweep continues when the same "
                   "command is run again. "
                   "`crosshead fit` fits the law to a curve from elsewhere.",
    .examples = "crosshead sweep --data book.txt --mechanisms mha,mea --lr 1e-4,5e-4,1e-3,3e-3\n"
                "crosshead sweep --data book.txt --lr 1e-4..3e-2:6 --seeds 3 --budget 1G --out rates",
    .options = options,
    .list_title = "Mechanisms",
    .list = ch_lineup_list,
    .arguments_size = sizeof(arguments),
    .run = run,
};
