/* Times training steps of a configuration. The trained weights are discarded, and no file is written. */
#include "experiment/speed/step_timing.h"

#include "base/median.h"
#include "base/memory.h"
#include "base/progress.h"
#include "train/schedule.h"

enum { LEAST_STEPS = 3, MOST_STEPS = 64 };
static const double most_seconds = 4;

static ch_status time_trainer(ch_trainer *trainer, int64_t steps, double enough_seconds, ch_stop_test stop,
                              void *stop_context, ch_step_timing *timing, ch_error *error) {
  double seconds[MOST_STEPS], began = ch_clock();
  int taken = 0, most = steps < MOST_STEPS ? (int)steps : MOST_STEPS;
  if (most < LEAST_STEPS) most = LEAST_STEPS;
  for (;;) {
    ch_step_report report;
    CH_TRY(ch_trainer_step(trainer, stop, stop_context, &report, error));
    double passed = ch_clock() - began;
    /* The first step is slow because it touches new memory. It counts only if there is no time for another. */
    if (report.step > 1 || passed > most_seconds) seconds[taken++] = report.seconds;
    bool enough = taken >= LEAST_STEPS && passed >= enough_seconds;
    if (taken == most || enough || (taken > 0 && passed > most_seconds)) break;
  }
  ch_quartiles middle = ch_quartiles_of(seconds, taken);
  timing->seconds = middle.median;
  timing->quick = middle.low;
  timing->slow = middle.high;
  return CH_OK;
}

ch_status ch_time_steps(const ch_config *config, const ch_train_options *training,
                        const ch_batch_source *source, double enough_seconds, ch_stop_test stop,
                        void *stop_context, ch_step_timing *timing, ch_error *error) {
  ch_train_options options = *training;
  ch_trainer *trainer = NULL;
  *timing = (ch_step_timing){0};
  ch_forget_peak();
  options.warmup = ch_schedule_warmup(&options);
  if (options.steps <= MOST_STEPS) options.steps = MOST_STEPS + 1;
  CH_TRY(ch_trainer_create(config, &options, source, &trainer, error));
  const ch_params *params = ch_trainer_params(trainer);
  for (int p = 0; p < params->count; p++)
    timing->weight_bytes += ch_tensor_bytes(&ch_trainer_weights(trainer)[p]);
  ch_status status =
      time_trainer(trainer, training->steps, enough_seconds, stop, stop_context, timing, error);
  timing->memory_bytes = ch_peak_resident_bytes();
  if (timing->memory_bytes < ch_trainer_bytes(trainer)) timing->memory_bytes = ch_trainer_bytes(trainer);
  ch_trainer_free(trainer);
  return status;
}
