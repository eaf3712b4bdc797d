/* Trains a model on a text for a while and says how it goes: train CONFIG TEXT OUT_DIRECTORY STEPS SECONDS
 *
 * When the seconds are over it stops with a checkpoint; the same command goes on from there. */
#include <crosshead/making.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* After every step: false stops the run. */
static bool after_step(const ch_train_step *step, void *user) {
  const time_t *end = user;
  if (step->step % 10 == 0 || step->step == step->steps)
    printf("step %lld of %lld: loss %.3f, %.0f tokens/s\n", (long long)step->step, (long long)step->steps,
           step->loss, step->tokens_per_second);
  return time(NULL) < *end;
}

static bool after_evaluation(const ch_train_evaluation *evaluation, void *user) {
  (void)user;
  printf("step %lld: validation loss %.3f\n", (long long)evaluation->step, evaluation->loss);
  return true;
}

int main(int argc, char **argv) {
  ch_error error = {CH_ERROR_ARGUMENT, "usage: train CONFIG TEXT OUT_DIRECTORY STEPS SECONDS"};
  ch_status status = CH_ERROR_ARGUMENT;
  if (argc == 6) {
    time_t end = time(NULL) + atoll(argv[5]);
    ch_train_settings settings;
    ch_train_defaults(&settings);
    settings.config = argv[1];
    settings.data = argv[2];
    settings.steps = atoll(argv[4]);
    settings.batch = 4;
    settings.sequence = 64;
    settings.eval_every = 0; /* once, at the end */
    settings.eval_tokens = 4096;
    settings.resume = true;
    settings.step = after_step;
    settings.evaluation = after_evaluation;
    settings.user = &end;
    status = ch_train(argv[3], &settings, NULL, &error);
  }
  if (status != CH_OK) fprintf(stderr, "%s\n", error.message);
  return status == CH_OK ? 0 : 1;
}
