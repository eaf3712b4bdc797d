/* crosshead train: trains a model on text or images, in a directory that every other command opens. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/file_names.h"
#include "cli/destination.h"
#include "cli/devices.h"
#include "cli/interrupt.h"
#include "cli/job.h"
#include "cli/record_run.h"
#include "cli/output.h"
#include "cli/training.h"
#include "cli/command_text.h"
#include "cli/work.h"

/* Checks --out. Without a checkpoint it may hold text that an earlier command prepared and, with --resume, the log
 * of a run that ended before its first checkpoint. */
static ch_status check_out(const ch_training_arguments *a, bool checkpoint, ch_error *error) {
  char stranger[64];
  if (checkpoint)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--out %s already holds a training run; --resume continues it, --force replaces it",
                   a->out);
  if (!a->settings.model.resume) return ch_check_job("out", a->out, CH_TRAIN_CHECKPOINT, error);
  if (!ch_find_foreign_to_run(a->out, stranger, sizeof stranger)) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "--out %s has no checkpoint to resume but holds %s; give the directory of a run, or leave "
                 "--resume out",
                 a->out, stranger);
}

/* Fails for a new run without a configuration, and for an output that exists. */
static ch_status check(const ch_training_arguments *a, ch_error *error) {
  const ch_train_settings *s = &a->settings;
  bool checkpoint = ch_directory_has(a->out, CH_TRAIN_CHECKPOINT);
  if (s->model.resume && checkpoint) return CH_OK;
  CH_TRY(check_out(a, checkpoint, error));
  if (a->positional[0] || s->model.init_from) return CH_OK;
  if (s->model.resume)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "--out %s has no checkpoint to resume; give the directory of a run, or a config to start one",
        a->out);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "a config is missing: write `crosshead train CONFIG --data %s --out %s`",
                 s->text.data ? s->text.data : "TEXT", a->out);
}

/* Records the finished, interrupted or failed run. */
static void keep(const ch_training_arguments *a, ch_training_view *view, ch_run_recorder *keeper) {
  ch_text command = {0};
  ch_put_command_line("train", ch_training_option_table, a, &command);
  keeper->labels =
      (ch_run_labels){.kind = "train",
                      .dataset = a->settings.text.data ? a->settings.text.data : a->settings.vision.images,
                      .command = command.data};
  ch_run_recorder_record(keeper, a->out, NULL, &view->line);
  char *control = ch_path_join(a->out, CH_TRAIN_CONTROL);
  if (control && view->start.control) ch_run_recorder_record(keeper, control, NULL, &view->line);
  free(control);
  ch_text_free(&command);
}

/* Replaces "{resume} continues" at the end of the message by the command that continues the run. */
static ch_status say_how_to_continue(const ch_training_arguments *a, const ch_train_workers *workers,
                                     ch_error *error) {
  const ch_error was = *error;
  if (strcmp(was.setting, "resume") != 0) return was.status;
  ch_text more = {0};
  if (workers->engine == CH_ENGINE_PYTORCH) ch_text_printf(&more, " --engine pytorch");
  if (workers->device) ch_text_printf(&more, " --device %s", workers->device);
  if (workers->shard) ch_text_printf(&more, " --shard");
  if (workers->python) ch_text_printf(&more, " --python %s", workers->python);
  ch_fail(error, was.status, "%.*s`crosshead train --out %s --resume%s` continues", was.names[0].at,
          was.message, a->out, more.data ? more.data : "");
  ch_text_free(&more);
  return was.status;
}

/* Trains the model. *json is also set if the training succeeded and only writing the trace failed. */
static ch_status train(const ch_training_arguments *a, ch_training_view *view, char **json, ch_error *error) {
  ch_train_settings settings;
  CH_TRY(ch_job_agree(check(a, error), error));
  CH_TRY(ch_job_agree(ch_training_read(a, &settings, error), error));
  if (settings.workers.engine == CH_ENGINE_PYTORCH)
    CH_TRY(
        ch_devices_name(settings.workers.python, a->ranks_per_run, false, &settings.workers.device, error));
  else if (ch_option_given(a, "ranks-per-run"))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--ranks-per-run needs --engine pytorch; start ranks with mpirun -n");
  settings.event = ch_training_show;
  settings.stop = ch_training_stops;
  settings.user = view;
  settings.workers.ranks = ch_job_ranks();
  ch_interrupt_watch(CH_SAVES_WORK);
  ch_status status = ch_train(a->out, &settings, json, error);
  return status == CH_ERROR_INTERRUPTED ? say_how_to_continue(a, &settings.workers, error) : status;
}

static ch_status print_result(const ch_training_arguments *a, const ch_training_view *view, char *json,
                              ch_error *error) {
  json_t *report;
  CH_TRY(ch_report_read(json, &report, error));
  if (a->json) return ch_print_json(report, JSON_INDENT(2) | JSON_REAL_PRECISION(9), error);
  ch_text text = {0};
  if (a->settings.workers.prepare)
    ch_text_printf(&text, "%s is prepared; `python -m crosshead.worker %s` trains it\n", a->out, a->out);
  else
    ch_training_put_result(view, report, &text);
  json_decref(report);
  return ch_print_text(&text, error);
}

static ch_status run(const void *given, ch_error *error) {
  const ch_training_arguments *a = given;
  ch_training_view view = {.out = a->out, .resume = a->settings.model.resume};
  ch_run_recorder keeper;
  char *json = NULL;
  bool leads = ch_job_leads();
  ch_status kept = leads ? ch_run_recorder_begin(&keeper, a->runs, a->out, error) : CH_OK;
  CH_TRY(ch_job_agree(kept, error));
  ch_progress_begin(&view.line, leads ? stderr : NULL);
  ch_status status = train(a, &view, &json, error);
  if (view.began) keep(a, &view, &keeper); /* `began` is set only in the first process */
  if (leads) ch_run_recorder_end(&keeper);
  ch_progress_end(&view.line);
  ch_interrupt_release();
  if (!leads) free(json);
  if (!json || !leads) return status;
  ch_status printed = print_result(a, &view, json, status == CH_OK ? error : NULL);
  return status == CH_OK ? printed : status;
}

const ch_command ch_cmd_train = {
    .name = "train",
    .positional = "[CONFIG]",
    .meant = "data",
    .summary = "Train one model on a text, or on images.",
    .description =
        "CONFIG is a config.json (configs/ has some). Without --tokenizer, a tokenizer is trained on the "
        "training part of the text. --out becomes a model directory that every other command opens.\n\n"
        "Checkpoints are saved during training and when it is interrupted (Ctrl-C). `crosshead train --out "
        "DIR --resume` continues from the last one and ends with the same bits as a run without "
        "interruption. log.jsonl in --out has a line for every step.",
    .examples =
        "crosshead train configs/tiny-gqa.json --data story.txt --out model\n"
        "crosshead train configs/small-mqa.json --data a.txt,b.txt --out model --tokens 50M --lr 6e-4\n"
        "crosshead train configs/tiny-vit.json --images cifar-10-batches-bin --out vit --epochs 20\n"
        "crosshead train --out model --resume\n"
        "crosshead train --init-from small --recover --control Qwen3-0.6B --data notes.txt --out recovered\n"
        "crosshead train --init-from Qwen3-0.6B --data notes.txt --out tuned --schedule constant",
    .over_ranks = true,
    CH_RUNS(ch_training_option_table, ch_training_arguments, run),
};
