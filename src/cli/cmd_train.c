/* crosshead train: one model from a text or from images, to a directory that every other command opens. */
#include <stdlib.h>

#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/keep.h"
#include "cli/training.h"
#include "cli/typed.h"

static ch_status make_trainer(ch_training *run, ch_error *error) {
  const char *from = run->args->init_from;
  char *checkpoint = run->resumed ? ch_path_join(run->args->out, CH_RUN_CHECKPOINT) : NULL;
  if (run->resumed && !checkpoint) return ch_fail(error, CH_ERROR_MEMORY, "no memory to train");
  ch_status status = ch_trainer_create_like(run->resumed ? checkpoint : from, &run->config, &run->options,
                                            ch_training_source(run), &run->trainer, error);
  free(checkpoint);
  if (status != CH_OK || run->resumed || !from) return status;
  return ch_trainer_load_weights(run->trainer, run->args->init_from, error);
}

static ch_status train(ch_training *run, ch_error *error) {
  CH_TRY(ch_training_decide(run, error));
  ch_interrupt_watch();
  CH_TRY(ch_training_open_data(run, error));
  CH_TRY(make_trainer(run, error));
  ch_run_events events = {.context = run,
                          .started = ch_training_show_start,
                          .step = ch_training_show_step,
                          .evaluated = ch_training_show_evaluation,
                          .interrupted = ch_stop_wanted};
  CH_TRY(ch_train_run(run->trainer, run->args->out, run->args->resume, &events, error));
  return ch_config_is_vision(&run->config) ? CH_OK
                                           : ch_data_give_tokenizer(&run->data, run->args->out, error);
}

/* Whatever became of it: finished, interrupted or failed. */
static void keep(ch_training *run, ch_keeper *keeper) {
  const ch_training_arguments *args = run->args;
  ch_text command = {0};
  ch_put_typed("train", ch_training_option_table, args, &command);
  keeper->labels = (ch_run_labels){
      .kind = "train", .dataset = args->data ? args->data : args->images, .command = command.data};
  ch_keeper_keep(keeper, args->out, NULL, &run->line);
  ch_text_free(&command);
}

static ch_status run(const void *given, ch_error *error) {
  ch_training t = {.args = given};
  ch_keeper keeper;
  CH_TRY(ch_keeper_begin(&keeper, t.args->runs, t.args->out, error));
  ch_progress_begin(&t.line, stderr);
  ch_status status = train(&t, error);
  if (t.began) keep(&t, &keeper);
  ch_keeper_end(&keeper);
  ch_progress_end(&t.line);
  ch_interrupt_release();
  if (status == CH_OK) status = ch_training_show_result(&t, error);
  if (status == CH_OK && t.traced != CH_OK) status = ch_fail(error, t.traced, "%s", t.trace_error.message);
  ch_trainer_free(t.trainer);
  ch_profile_free(&t.profile);
  ch_data_close(&t.data);
  ch_image_data_close(&t.images);
  return status;
}

const ch_command ch_cmd_train = {
    .name = "train",
    .positional = "[CONFIG]",
    .summary = "Train one model on a text, or on images.",
    .description =
        "CONFIG is a config.json (configs/ has some). The tokenizer is trained on the text that is "
        "not kept for validation unless one is given; the result in --out is a model directory for every "
        "other command.\n\n"
        "A checkpoint is saved as training goes, and when it is interrupted (Ctrl-C); killing the "
        "program loses nothing saved. `crosshead train --out DIR --resume` goes on and ends with "
        "the same bits as an unbroken run. log.jsonl in --out has a line for every step.",
    .examples =
        "crosshead train configs/tiny-gqa.json --data story.txt --out model\n"
        "crosshead train configs/small-mqa.json --data a.txt,b.txt --out model --tokens 50M --lr 6e-4\n"
        "crosshead train configs/tiny-vit.json --images cifar-10-batches-bin --out vit --epochs 20\n"
        "crosshead train --out model --resume\n"
        "crosshead train --init-from Qwen3-0.6B --data notes.txt --out tuned --schedule constant",
    .options = ch_training_option_table,
    .arguments_size = sizeof(ch_training_arguments),
    .run = run,
};
