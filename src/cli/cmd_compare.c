/* crosshead compare --data TEXT, or --images DIR */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/output.h"
#include "cli/command.h"
#include "cli/typed.h"
#include "cli/interrupt.h"
#include "cli/keep.h"
#include "cli/lineup.h"
#include "cli/parse.h"
#include "report/page.h"
#include "report/table.h"
#include "train/compare.h"
#include "train/match.h"

#include <crosshead/version.h>

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *data, *images, *out, *runs, *schedule;
  ch_lineup lineup;
  int64_t epochs, patch, batch, seeds, eval_tokens;
  double lr, tolerance;
  bool json;
} arguments;

static const char *const schedules[] = {"cosine", "constant", NULL};

#define AT(member) offsetof(arguments, member)
static const ch_option options[] = {
    {.name = "data",
     .type = CH_OPTION_PATH,
     .offset = AT(data),
     .metavar = "TEXT",
     .help = "The text to train on, UTF-8; a part of it is held back for validation."},
    {.name = "images",
     .type = CH_OPTION_PATH,
     .offset = AT(images),
     .metavar = "DIR",
     .help = "Instead of a text: images (CIFAR or IDX files) to train Vision Transformers on."},
    CH_LINEUP_MECHANISMS(AT(lineup)),
    {.name = "out",
     .type = CH_OPTION_PATH,
     .offset = AT(out),
     .metavar = "DIR",
     .default_value = "comparison",
     .help = "Where models and results go. The same command on a directory that has some continues there."},
    {.name = "json",
     .type = CH_OPTION_FLAG,
     .offset = AT(json),
     .help = "Print the contents of results.json instead of the table."},
    CH_RUNS_OPTION(AT(runs)),
    {.name = "", .help = "Size"},
    CH_LINEUP_SIZE(AT(lineup)),
    {.name = "patch",
     .type = CH_OPTION_COUNT,
     .offset = AT(patch),
     .metavar = "PIXELS",
     .min = 1,
     .max = 4096,
     .help = "Side of a patch of an image, instead of one that makes about 64 patches."},
    {.name = "", .help = "Text"},
    CH_LINEUP_TOKENIZER(AT(lineup)),
    {.name = "eval-tokens",
     .type = CH_OPTION_COUNT,
     .offset = AT(eval_tokens),
     .metavar = "N",
     .min = 1,
     .max = 0,
     .help = "Validation tokens of an evaluation (all, but at most a thirtieth of --tokens or 32768; of "
             "images all)."},
    {.name = "", .help = "Training"},
    CH_LINEUP_TOKENS(AT(lineup)),
    {.name = "epochs",
     .type = CH_OPTION_COUNT,
     .offset = AT(epochs),
     .metavar = "N",
     .default_value = "10",
     .min = 1,
     .max = 100000,
     .help = "With --images: passes over them that each model is trained for."},
    {.name = "batch",
     .type = CH_OPTION_COUNT,
     .offset = AT(batch),
     .metavar = "N",
     .min = 1,
     .max = 65536,
     .help = "Sequences of a step (16), or images (64)."},
    CH_LINEUP_SEQ(AT(lineup)),
    {.name = "lr",
     .type = CH_OPTION_NUMBER,
     .offset = AT(lr),
     .metavar = "RATE",
     .min = 1e-12,
     .max = 1,
     .help = "Peak learning rate (2e-3; of images 1e-3)."},
    {.name = "schedule",
     .type = CH_OPTION_CHOICE,
     .offset = AT(schedule),
     .metavar = "NAME",
     .default_value = "cosine",
     .choices = schedules,
     .help = "How the learning rate goes on after the warm-up."},
    CH_LINEUP_WARMUP(AT(lineup)),
    {.name = "seeds",
     .type = CH_OPTION_COUNT,
     .offset = AT(seeds),
     .metavar = "N",
     .default_value = "1",
     .min = 1,
     .max = CH_COMPARE_MOST_SEEDS,
     .help = "Runs of each model, with --seed and the seeds that follow it: shows means, spreads and which "
             "differences "
             "are larger than the noise. A finished comparison can be given more."},
    {.name = "", .help = "Verdict"},
    {.name = "tolerance",
     .type = CH_OPTION_NUMBER,
     .offset = AT(tolerance),
     .metavar = "PERCENT",
     .default_value = "1",
     .min = 0,
     .max = 100,
     .help = "Of the models whose loss is at most this much above the lowest, the one with the smallest "
             "cache is taken; with --images, whose top-1 accuracy is at most so many points below the "
             "highest, the "
             "one whose attention has the fewest parameters."},
    {0},
};

/* --- progress ----------------------------------------------------------------------------------------------------- */

typedef struct display {
  const arguments *arguments;
  ch_progress_line progress;
  ch_keeper keeper;
  char name[160]; /* of the model being trained, with the seed where there are several */
  int index, count;
  int64_t steps, step_tokens;
  double seconds;     /* smoothed, of a step */
  double other_steps; /* of the models after this one */
} display;

static void on_preparing(void *context, const char *stage, double done, double total) {
  display *d = context;
  if (ch_progress_due(&d->progress))
    ch_progress_show(&d->progress, false, "%s: %.0f %%", stage, total > 0 ? 100 * done / total : 0.0);
}

static void on_prepared(void *context, const ch_compared_data *data) {
  display *d = context;
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

static void name_run(const arguments *a, const char *name, uint64_t seed, char *buffer, size_t size) {
  if (a->seeds > 1)
    snprintf(buffer, size, "%s, seed %llu", name, (unsigned long long)seed);
  else
    snprintf(buffer, size, "%s", name);
}

static void on_begins(void *context, int index, int count, const char *name, const ch_config *config,
                      int64_t parameters, int64_t steps) {
  display *d = context;
  char size[32];
  name_run(d->arguments, name, (uint64_t)(d->arguments->lineup.seed + index / (count / d->arguments->seeds)),
           d->name, sizeof d->name);
  d->index = index;
  d->count = count;
  d->steps = steps;
  d->seconds = 0;
  d->other_steps = (double)steps * (count - index - 1);
  ch_progress_print(&d->progress,
                    "%s (%d of %d): %lld layers of width %lld, FFN %lld, %s parameters, %lld steps", d->name,
                    index + 1, count, (long long)config->num_hidden_layers, (long long)config->hidden_size,
                    (long long)ch_matched_width(config),
                    ch_format_count((double)parameters, size, sizeof size), (long long)steps);
}

static void on_step(void *context, const ch_step_report *report) {
  display *d = context;
  d->seconds = d->seconds > 0 ? 0.9 * d->seconds + 0.1 * report->seconds : report->seconds;
  if (!ch_progress_due(&d->progress)) return;
  char rate[32], left[32];
  double tokens = (double)d->step_tokens / (d->seconds > 0 ? d->seconds : 1);
  double remaining = d->seconds * ((double)(d->steps - report->step) + d->other_steps);
  ch_progress_show(&d->progress, false, "%s (%d of %d)  step %lld/%lld  loss %.3f  %s %s/s  %s left", d->name,
                   d->index + 1, d->count, (long long)report->step, (long long)d->steps, report->loss,
                   ch_format_count(tokens, rate, sizeof rate), d->arguments->images ? "images" : "tokens",
                   ch_format_duration(remaining, left, sizeof left));
}

static void keep_run(display *d, const ch_compared *model) {
  char *directory = ch_path_join(d->arguments->out, model->directory);
  if (directory) ch_keeper_keep(&d->keeper, directory, model->name, &d->progress);
  free(directory);
}

static void on_finished(void *context, const ch_compared *model, bool earlier) {
  display *d = context;
  char rate[32], accuracy[32] = "", name[160];
  name_run(d->arguments, model->name, model->seed, name, sizeof name);
  if (model->images) snprintf(accuracy, sizeof accuracy, "top-1 %.2f %%, ", 100 * model->top1);
  ch_progress_print(&d->progress, "%s: %svalidation loss %.4f, %s %s/s%s", name, accuracy,
                    model->validation_loss,
                    ch_format_count(model->train_tokens_per_second, rate, sizeof rate),
                    model->images ? "images" : "tokens", earlier ? " (finished earlier)" : "");
  keep_run(d, model);
}

static void on_timing(void *context, int turn, int turns, const ch_compared *model) {
  display *d = context;
  char name[160];
  name_run(d->arguments, model->name, model->seed, name, sizeof name);
  if (ch_progress_due(&d->progress))
    ch_progress_show(&d->progress, false, "timing all models in turns (%d of %d): %s", turn + 1, turns, name);
}

/* The run is kept again, with its speed. */
static void on_timed(void *context, const ch_compared *model) {
  keep_run(context, model);
}

/* --- what is left behind ------------------------------------------------------------------------------------------ */

static ch_status write_page(void *context, const ch_comparison *comparison, ch_error *error) {
  const display *d = context;
  ch_text html = {0};
  char *path = ch_path_join(d->arguments->out, "report.html");
  ch_status status = path ? ch_page_write(comparison, &html, error)
                          : ch_fail(error, CH_ERROR_MEMORY, "no memory for the report");
  if (status == CH_OK) status = ch_write_file(path, html.data, html.size, error);
  ch_text_free(&html);
  free(path);
  return status;
}

static ch_status print_json(const ch_comparison *comparison, ch_error *error) {
  return ch_print_json(ch_comparison_to_json(comparison),
                       JSON_INDENT(1) | JSON_REAL_PRECISION(CH_DIGITS_SHOWN), error);
}

static ch_status print_table(const arguments *a, const ch_comparison *comparison, ch_error *error) {
  ch_text text = {0};
  ch_table_write(comparison, &text);
  ch_text_printf(&text, "\nMore in %s/report.html (charts) and %s/results.json.\n", a->out, a->out);
  return ch_print_text(&text, error);
}

/* Options that mean nothing to what is compared on. */
static ch_status check_kind(const arguments *a, ch_error *error) {
  static const char *const of_text[] = {"vocab", "tokenizer", "tokens", "seq", NULL};
  static const char *const of_images[] = {"epochs", "patch", NULL};
  if (!a->data == !a->images)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   a->data ? "--data and --images exclude each other: a comparison is on one of them"
                           : "--data is missing: the text to train on; or --images, for Vision Transformers");
  for (const char *const *name = a->images ? of_text : of_images; *name; name++)
    if (ch_option_given(a, *name))
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s is for comparisons on %s; leave it out", *name,
                     a->images ? "text" : "images");
  return CH_OK;
}

/* What is usual for text or for images where nothing is asked for. */
static void choose_usual(const arguments *a, ch_compare_options *asked) {
  asked->batch = ch_option_given(a, "batch") ? a->batch : a->images ? 64 : 16;
  if (a->images) asked->sequence = 1;
  asked->lr = ch_option_given(a, "lr") ? a->lr : a->images ? 1e-3 : 2e-3;
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_compare_options asked;
  ch_comparison comparison;
  ch_text command = {0};
  display d = {.arguments = a};
  ch_compare_events events = {.context = &d,
                              .preparing = on_preparing,
                              .prepared = on_prepared,
                              .begins = on_begins,
                              .step = on_step,
                              .finished = on_finished,
                              .timing = on_timing,
                              .timed = on_timed,
                              .written = write_page,
                              .interrupted = ch_stop_wanted};
  CH_TRY(check_kind(a, error));
  CH_TRY(ch_keeper_begin(&d.keeper, a->runs, a->out, error));
  ch_compare_options_default(&asked);
  asked.images = a->images; /* decides defaults of the others */
  ch_lineup_ask(a, &a->lineup, &asked);
  choose_usual(a, &asked);
  d.step_tokens = asked.batch * asked.sequence;
  ch_put_typed("compare", options, a, &command);
  if (command.failed) return ch_fail(error, CH_ERROR_MEMORY, "no memory to start the comparison");
  asked.data = a->data;
  asked.epochs = a->epochs;
  asked.out = a->out;
  asked.shape.image.patch = a->patch;
  asked.schedule = strcmp(a->schedule, "constant") == 0 ? CH_SCHEDULE_CONSTANT : CH_SCHEDULE_COSINE;
  asked.seeds = a->seeds;
  asked.eval_tokens = a->eval_tokens;
  asked.tolerance = a->tolerance / 100;
  asked.command = command.data;
  d.keeper.labels =
      (ch_run_labels){.kind = "compare", .dataset = a->data ? a->data : a->images, .command = command.data};
  asked.version = CH_VERSION_STRING;
  ch_interrupt_watch();
  ch_progress_begin(&d.progress, stderr);
  ch_status status = ch_compare(&asked, &events, &comparison, error);
  ch_progress_end(&d.progress);
  ch_interrupt_release();
  if (status == CH_OK) status = a->json ? print_json(&comparison, error) : print_table(a, &comparison, error);
  ch_arena_free(&comparison.arena);
  ch_text_free(&command);
  ch_keeper_end(&d.keeper);
  return status;
}

const ch_command ch_cmd_compare = {
    .name = "compare",
    .positional = "",
    .summary = "Train attention mechanisms side by side on a text or on images and say which to take.",
    .description =
        "Trains a small model with each of the named mechanisms: on the same text, with the same tokenizer, "
        "seed, "
        "batches and number of tokens, and with the FFN width adjusted so that all have the same number of "
        "parameters.\n\n"
        "Prints a table (validation loss and perplexity, parameters, cache per token, training and decoding "
        "speed) and "
        "writes results.json and report.html, a page with loss curves and the quality-against-cache plot "
        "that needs "
        "no network. Every model is left in its own directory, ready for `crosshead generate`.\n\n"
        "With --images, Vision Transformers are trained, and accuracies are compared.\n\n"
        "An interrupted comparison continues when the same command is run again.",
    .examples =
        "crosshead compare --data book.txt\n"
        "crosshead compare --data book.txt --mechanisms mha,gqa:4,mqa --params 3M --tokens 10M --out book",
    .options = options,
    .list_title = "Mechanisms",
    .list = ch_lineup_list,
    .arguments_size = sizeof(arguments),
    .run = run,
};
