/* Compares a loss with the median and the spread of the losses before it. It receives losses one at a time,
 * so a sweep can end a hopeless run early. */
#include "laws/loss_spikes.h"

#include <math.h>
#include <string.h>

#include "base/median.h"

enum { LEAST_WINDOW = 16, WINDOWS_IN_A_RUN = 20, LEAST_HOPELESS = 50, HOPELESS_PART = 5 };
static const double spreads = 6, least_rise = 0.1; /* nats */

static double median_of(const double *values, int64_t n) {
  double copy[CH_STABILITY_WINDOW];
  memcpy(copy, values, (size_t)n * sizeof *copy);
  return ch_median(copy, n);
}

/* Returns how far above the level a loss must be to be a spike: six standard deviations, estimated from the
 * median deviation, and at least 0.1. */
static double tolerance(const double *values, int64_t n, double level) {
  double sizes[CH_STABILITY_WINDOW];
  for (int64_t i = 0; i < n; i++) sizes[i] = fabs(values[i] - level);
  return fmax(spreads * 1.4826 * ch_median(sizes, n), least_rise);
}

void ch_stability_begin(ch_stability_watch *watch, int64_t steps) {
  int64_t window = steps / WINDOWS_IN_A_RUN;
  if (window < LEAST_WINDOW) window = LEAST_WINDOW;
  if (window > CH_STABILITY_WINDOW) window = CH_STABILITY_WINDOW;
  *watch = (ch_stability_watch){.steps = steps, .window = window, .lowest = INFINITY};
}

static void keep_spike(ch_stability *found, const ch_spike *spike) {
  if (found->kept < CH_SPIKES_KEPT) found->list[found->kept++] = *spike;
  found->spikes++;
}

/* Adds a loss outside of spikes to the losses that later ones are compared with. */
static void accept(ch_stability_watch *w, double loss) {
  w->ring[w->pushed++ % w->window] = loss;
  if (w->pushed < w->window) return;
  double level = median_of(w->ring, w->window);
  if (level >= w->lowest) return;
  w->lowest = level;
  w->lowest_limit = level + tolerance(w->ring, w->window, level);
}

static void begin_spike(ch_stability_watch *w, double level, double limit) {
  w->inside = true;
  w->level = level;
  w->limit = limit;
  w->spike = (ch_spike){.first = w->step, .last = w->step};
}

bool ch_stability_loss(ch_stability_watch *w, double loss) {
  w->step++;
  w->recent[w->seen++ % CH_SPIKE_RECENT] = loss;
  if (!w->inside && w->pushed >= w->window) {
    double level = median_of(w->ring, w->window);
    double limit = level + tolerance(w->ring, w->window, level);
    if (loss > limit) begin_spike(w, level, limit);
  }
  if (!w->inside) {
    accept(w, loss);
    return false;
  }
  int64_t recent = w->seen < CH_SPIKE_RECENT ? w->seen : CH_SPIKE_RECENT;
  if (loss <= w->limit && median_of(w->recent, recent) <= w->limit) {
    w->inside = false;
    w->spike.recovered = true;
    keep_spike(&w->found, &w->spike);
    accept(w, loss);
    return false;
  }
  if (loss > w->limit) w->spike.last = w->step;
  w->spike.height = fmax(w->spike.height, loss - w->level);
  int64_t patience = w->steps / HOPELESS_PART > LEAST_HOPELESS ? w->steps / HOPELESS_PART : LEAST_HOPELESS;
  return w->step - w->spike.first >= patience;
}

ch_stability ch_stability_end(const ch_stability_watch *w, bool finite) {
  ch_stability found = w->found;
  bool lasting = w->inside && w->step - w->spike.first + 1 >= CH_SPIKE_RECENT;
  if (w->inside) {
    ch_spike open = w->spike;
    open.recovered = !lasting; /* a spike that began just before the end counts as recovered */
    keep_spike(&found, &open);
  }
  if (!finite) {
    found.verdict = CH_NOT_FINITE;
    found.step = w->step + 1;
  } else if (lasting) {
    found.verdict = CH_UNRECOVERED;
    found.step = w->spike.first;
  } else if (w->pushed >= w->window && median_of(w->ring, w->window) > w->lowest_limit) {
    found.verdict = CH_RISING;
  }
  return found;
}

const char *const ch_stability_names[] = {"stable", "not_finite", "unrecovered_spike", "rising", "stuck"};

ch_stability ch_judge_stability(const double *losses, int64_t n) {
  ch_stability_watch watch;
  int64_t steps = 0;
  ch_stability_begin(&watch, n);
  while (steps < n && isfinite(losses[steps])) ch_stability_loss(&watch, losses[steps++]);
  return ch_stability_end(&watch, steps == n);
}
