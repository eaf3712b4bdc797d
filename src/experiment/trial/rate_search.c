/* Chooses the next learning rate to try, and the best one from a parabola through losses over the logarithm of the
 * rate. train_run.c trains at the rates. */
#include "experiment/trial/rate_search.h"

#include <math.h>

const double ch_tune_flat = 0.0025;

/* The ratio of neighbouring rates. */
static const double ratio = 2;
/* A run is hopeless if its loss exceeds that of the best run by more than hopeless_share. A run is judged only after
   the share judged_from of its tokens. hopeless_share is large because, with a falling rate, runs at higher rates catch
   up at the end. */
static const double hopeless_share = 0.08, judged_from = 0.5;

static bool counts(const ch_tried_rate *rate) {
  return !rate->stopped && isfinite(rate->loss);
}

/* Returns the index of the tried rate with the lowest loss; -1 if no rate was trained to its end. */
static int best_of(const ch_tune *tune) {
  int best = -1;
  for (int i = 0; i < tune->count; i++)
    if (counts(&tune->tried[i]) && (best < 0 || tune->tried[i].loss < tune->tried[best].loss)) best = i;
  return best;
}

/* Returns the index of the tried rate that is `steps` ratios above (or, if negative, below) another; -1 if there is
 * none. */
static int neighbour(const ch_tune *tune, int of, int steps) {
  double rate = tune->tried[of].lr * pow(ratio, steps);
  for (int i = 0; i < tune->count; i++)
    if (fabs(log(tune->tried[i].lr / rate)) < 0.01) return i;
  return -1;
}

/* Tries the neighbours of the best rate, the higher one first. If no rate was trained to its end yet, lower rates are
 * tried. */
double ch_tune_next(const ch_tune *tune, double usual) {
  if (tune->count == 0) return usual;
  if (tune->count >= tune->most) return 0;
  int best = best_of(tune);
  if (best < 0) return usual * pow(ratio, -tune->count);
  if (neighbour(tune, best, 1) < 0) return tune->tried[best].lr * ratio;
  if (neighbour(tune, best, -1) < 0) return tune->tried[best].lr / ratio;
  return 0;
}

ch_tune_result ch_tune_conclude(const ch_tune *tune) {
  int best = best_of(tune), above = neighbour(tune, best, 1), below = neighbour(tune, best, -1);
  double loss = tune->tried[best].loss;
  ch_tune_result result = {.lr = tune->tried[best].lr, .at_edge = above < 0 || below < 0};
  if (counts(&tune->tried[0])) result.usual_cost = (tune->tried[0].loss - loss) / loss;
  if (result.at_edge || !counts(&tune->tried[above]) || !counts(&tune->tried[below])) return result;
  /* The parabola is loss + slope x + curvature x^2. x counts ratios from the best rate; -1, 0 and 1 were tried. */
  double up = tune->tried[above].loss - loss, down = tune->tried[below].loss - loss;
  double curvature = (up + down) / 2, slope = (up - down) / 2;
  if (!(curvature > 0)) return result;
  double vertex = -slope / (2 * curvature), width = sqrt(ch_tune_flat * loss / curvature);
  result.lr *= pow(ratio, vertex);
  result.low = result.lr * pow(ratio, -width);
  result.high = result.lr * pow(ratio, width);
  return result;
}

bool ch_tune_is_hopeless(const ch_model_result *best, int64_t tokens, int64_t tokens_of_run, double loss) {
  if ((double)tokens < judged_from * (double)tokens_of_run || tokens >= tokens_of_run) return false;
  for (int i = 0; i < best->validation_points; i++)
    if (best->validation_curve[i].tokens == tokens)
      return loss > best->validation_curve[i].loss * (1 + hopeless_share);
  return false;
}
