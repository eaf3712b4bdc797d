/* Trains a model on a text for some seconds and prints its losses: train CONFIG TEXT OUT_DIRECTORY STEPS SECONDS
 *
 * After SECONDS it saves a checkpoint and stops. The same command continues from there. */
#include <crosshead/crosshead_train.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Returning false stops the run. */
static bool on_event(const ch_train_event *event, void *user) {
  const time_t *end = user;
  if (event->kind == CH_TRAIN_EVENT_STEP) {
    const ch_train_step *step = event->as.step.step;
    if (step->step % 10 == 0 || step->step == step->steps)
      printf("step %lld of %lld: loss %.3f, %.0f tokens/s\n", (long long)step->step, (long long)step->steps,
             step->loss, step->tokens_per_second);
    return time(NULL) < *end;
  }
  if (event->kind == CH_TRAIN_EVENT_EVALUATION) {
    const ch_train_evaluation *evaluation = event->as.evaluation.evaluation;
    printf("step %lld: validation loss %.3f\n", (long long)evaluation->step, evaluation->loss);
  }
  return true;
}

int main(int argc, char **argv) {
  ch_error error = {CH_ERROR_ARGUMENT, "usage: train CONFIG TEXT OUT_DIRECTORY STEPS SECONDS"};
  ch_status status = CH_ERROR_ARGUMENT;
  if (argc == 6) {
    time_t end = time(NULL) + atoll(argv[5]);
    ch_train_settings settings;
    ch_train_defaults(&settings);
    settings.model.config = argv[1];
    settings.text.data = argv[2];
    settings.training.steps = atoll(argv[4]);
    settings.training.batch = 4;
    settings.training.sequence = 64;
    settings.report.eval_every = 0; /* once, at the end */
    settings.report.eval_tokens = 4096;
    settings.model.resume = true;
    settings.event = on_event;
    settings.user = &end;
    status = ch_train(argv[3], &settings, NULL, &error);
  }
  if (status != CH_OK) fprintf(stderr, "%s\n", error.message);
  return status == CH_OK ? 0 : 1;
}
