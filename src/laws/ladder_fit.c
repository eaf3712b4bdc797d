/* Least squares of L = E + A C^-alpha by profiles: for a floor E the best alpha of each mechanism, for an alpha the
 * best amplitudes. ladder_laws.c says what follows from the laws. */
#include "laws/ladder_fit.h"

#include <math.h>
#include <stdlib.h>

enum { ALPHAS = 120, STRIDE = 8, FLOORS = 40, COARSE_STEPS = 18, FINE_STEPS = 60, CROSSING_STEPS = 240 };
static const double least_alpha = CH_LADDER_LEAST_ALPHA, most_alpha = CH_LADDER_MOST_ALPHA,
                    nearest_floor = 1e-3, golden = 0.6180339887498949;

struct ch_ladder_tables {
  int count;
  struct powers {
    double origin;
    /* C^-alpha of each rung, C in units of the rungs' geometric mean */
    double of[ALPHAS][CH_LADDER_MOST_RUNGS];
    double squares[ALPHAS];
  } mechanisms[];
};

static double alpha_at(double place) {
  return least_alpha * pow(most_alpha / least_alpha, place / (ALPHAS - 1));
}

ch_ladder_tables *ch_ladder_tables_new(const ch_rung_losses *data, int count) {
  ch_ladder_tables *tables = calloc(1, sizeof *tables + (size_t)count * sizeof *tables->mechanisms);
  if (!tables) return NULL;
  tables->count = count;
  for (int m = 0; m < count; m++) {
    struct powers *p = &tables->mechanisms[m];
    for (int i = 0; i < data[m].rungs; i++) p->origin += data[m].log_flops[i] / data[m].rungs;
    for (int a = 0; a < ALPHAS; a++)
      for (int i = 0; i < data[m].rungs; i++) {
        p->of[a][i] = exp(-alpha_at(a) * (data[m].log_flops[i] - p->origin));
        p->squares[a] += p->of[a][i] * p->of[a][i];
      }
  }
  return tables;
}

/* Returns the remaining squared residuals with `powers`. amplitude [shares], unless NULL, receives the best
 * amplitudes. */
static double remaining(const ch_rung_losses *d, double floor, const double *powers, double squares,
                        double *amplitude) {
  double left = 0;
  for (int k = 0; k < d->shares; k++) {
    double own = 0, product = 0;
    for (int i = 0; i < d->rungs; i++) {
      double above = d->losses[k][i] - floor;
      own += above * above;
      product += above * powers[i];
    }
    double best = fmax(product / squares, 0);
    if (amplitude) amplitude[k] = best;
    left += own - best * (2 * product - best * squares);
  }
  return fmax(left, 0);
}

/* Returns the remaining squared residuals at an alpha between those of the table. */
static double remaining_at(const ch_rung_losses *d, double floor, double origin, double alpha,
                           double *amplitude) {
  double powers[CH_LADDER_MOST_RUNGS], squares = 0;
  for (int i = 0; i < d->rungs; i++) {
    powers[i] = exp(-alpha * (d->log_flops[i] - origin));
    squares += powers[i] * powers[i];
  }
  return remaining(d, floor, powers, squares, amplitude);
}

/* Returns where a parabola through three equally spaced values has its vertex, from -1 to 1. */
static double vertex(double before, double here, double behind) {
  double curvature = before - 2 * here + behind;
  double place = curvature > 0 ? 0.5 * (before - behind) / curvature : 0;
  return fmin(fmax(place, -1), 1);
}

/* Finds the best alpha with this floor and returns the remaining squared residuals. law may be NULL. */
static double fit_mechanism(const struct powers *p, const ch_rung_losses *d, double floor, bool fine,
                            ch_compute_law *law) {
  double left[ALPHAS];
  int best = 0;
  for (int a = 0; a < ALPHAS; a += STRIDE) {
    left[a] = remaining(d, floor, p->of[a], p->squares[a], NULL);
    if (left[a] < left[best]) best = a;
  }
  int first = best < STRIDE ? 0 : best - STRIDE + 1, end = best + STRIDE < ALPHAS ? best + STRIDE : ALPHAS;
  for (int a = first; a < end; a++) {
    left[a] = remaining(d, floor, p->of[a], p->squares[a], NULL);
    if (left[a] < left[best]) best = a;
  }
  double place = best;
  if (best > first && best + 1 < end) place += vertex(left[best - 1], left[best], left[best + 1]);
  double low = fmax(best - 1, 0), high = fmin(best + 1, ALPHAS - 1);
  for (int i = 0; fine && i < FINE_STEPS; i++) {
    double a = high - golden * (high - low), b = low + golden * (high - low);
    if (remaining_at(d, floor, p->origin, alpha_at(a), NULL) <
        remaining_at(d, floor, p->origin, alpha_at(b), NULL))
      high = b;
    else
      low = a;
    place = (low + high) / 2;
  }
  double alpha = alpha_at(place), amplitude[CH_LADDER_ALL_SHARES] = {0};
  double value = remaining_at(d, floor, p->origin, alpha, amplitude);
  if (law) {
    *law = (ch_compute_law){.floor = floor, .alpha = alpha, .origin = p->origin};
    for (int k = 0; k < d->shares; k++) law->amplitude[k] = amplitude[k];
  }
  return value;
}

/* Fits mechanisms `first` ... `end` - 1 with one floor and returns the remaining squared residuals. laws may be
 * NULL. */
static double with_floor(const ch_ladder_tables *t, const ch_rung_losses *data, int first, int end,
                         double floor, bool fine, ch_compute_law *laws) {
  double left = 0;
  for (int m = first; m < end; m++)
    left += fit_mechanism(&t->mechanisms[m], &data[m], floor, fine, laws ? &laws[m - first] : NULL);
  return left;
}

double ch_ladder_fit_at_floor(const ch_ladder_tables *tables, const ch_rung_losses *data, int first, int end,
                              double floor, ch_compute_law *laws) {
  return with_floor(tables, data, first, end, floor, true, laws);
}

/* Returns the floor at a place of the grid. Its distance below the lowest loss, as a share of that loss, falls from 1
 * (a floor of 0) to nearest_floor. */
static double floor_at(double place, double lowest) {
  return lowest * (1 - pow(nearest_floor, place / (FLOORS - 1)));
}

static double fit_group(const ch_ladder_tables *t, const ch_rung_losses *data, int first, int end, bool fine,
                        ch_compute_law *laws) {
  double lowest = INFINITY, best_left = INFINITY;
  int best = 0;
  for (int m = first; m < end; m++)
    for (int k = 0; k < data[m].shares; k++)
      for (int i = 0; i < data[m].rungs; i++) lowest = fmin(lowest, data[m].losses[k][i]);
  lowest = fmax(lowest, 1e-9);
  for (int f = 0; f < FLOORS; f++) {
    double left = with_floor(t, data, first, end, floor_at(f, lowest), false, NULL);
    if (!(left < best_left)) continue;
    best_left = left;
    best = f;
  }
  double low = fmax(best - 1, 0), high = fmin(best + 1, FLOORS - 1), place = best;
  for (int i = 0; i < (fine ? FINE_STEPS : COARSE_STEPS); i++) {
    double a = high - golden * (high - low), b = low + golden * (high - low);
    if (with_floor(t, data, first, end, floor_at(a, lowest), fine, NULL) <
        with_floor(t, data, first, end, floor_at(b, lowest), fine, NULL))
      high = b;
    else
      low = a;
    place = (low + high) / 2;
  }
  return with_floor(t, data, first, end, floor_at(place, lowest), fine, laws);
}

ch_law_fit ch_ladder_fit_laws(const ch_ladder_tables *tables, const ch_rung_losses *data, int count,
                              bool one_floor, bool fine, ch_compute_law *laws) {
  ch_law_fit fit = {.one_floor = one_floor};
  int rungs = 0;
  for (int m = 0; m < count; m++) rungs += data[m].rungs;
  fit.degrees = rungs - 2 * count - (one_floor ? 1 : count);
  if (one_floor) {
    fit.squares = fit_group(tables, data, 0, count, fine, laws);
    return fit;
  }
  for (int m = 0; m < count; m++) fit.squares += fit_group(tables, data, m, m + 1, fine, &laws[m]);
  return fit;
}

double ch_compute_law_loss(const ch_compute_law *law, double log_flops) {
  return law->floor + law->amplitude[0] * exp(-law->alpha * (log_flops - law->origin));
}

double ch_compute_law_inverse(const ch_compute_law *law, double loss) {
  if (!(loss > law->floor) || !(law->amplitude[0] > 0)) return INFINITY;
  return law->origin - log((loss - law->floor) / law->amplitude[0]) / law->alpha;
}

double ch_compute_law_crossing(const ch_compute_law *a, const ch_compute_law *b, double low, double high) {
  double before = 0, width = (high - low) / CROSSING_STEPS;
  for (int i = 0; i <= CROSSING_STEPS; i++) {
    double x = low + width * i, lead = ch_compute_law_loss(b, x) - ch_compute_law_loss(a, x);
    if (i > 0 && before > 0 && lead <= 0) return x - width * lead / (lead - before);
    before = lead;
  }
  return NAN;
}
