/* Linear warm-up, then half a cosine to a tenth of the peak or to zero, or a constant rate. */
#include "train/schedule.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

int64_t ch_schedule_warmup(const ch_train_options *options) {
  enum { MOST = 1000, SHARE = 20 };
  if (options->warmup >= 0) return options->warmup;
  int64_t warmup = options->steps / SHARE;
  return warmup < MOST ? warmup : MOST;
}

double ch_schedule_lr(const ch_train_options *options, int64_t step) {
  int64_t warmup = ch_schedule_warmup(options), peak_step = warmup + 1;
  if (step < peak_step) return options->lr * (double)step / (double)peak_step;
  if (options->schedule == CH_TRAIN_CONSTANT || options->steps <= peak_step) return options->lr;
  /* A step with a rate of zero would be wasted, so the rate reaches zero one step after the last. */
  bool to_zero = options->schedule == CH_TRAIN_COSINE_TO_ZERO;
  double final_share = to_zero ? 0 : 0.1;
  double done = (double)(step - peak_step) / (double)(options->steps - peak_step + to_zero);
  return options->lr * (final_share + (1 - final_share) * 0.5 * (1 + cos(pi * done)));
}
