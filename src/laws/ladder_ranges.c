/* A quantity's interval is its range over all laws whose sum of squares is at most t^2 s^2 above the least: the
 * interval of its profile, by an F test with one degree of freedom in the numerator. The laws are most curved in the
 * floor, so it is held at many values. The rest of the rise belongs to amplitude and alpha, in which the laws are then
 * nearly linear.
 *
 * One floor for all that the losses do not refute may still be wrong, and multipliers depend on it: then the laws
 * with a floor of their own are allowed as well, with their own least sum of squares. */
#include "laws/ladder_ranges.h"

#include <math.h>
#include <stdlib.h>

#include "laws/robust.h"
#include "laws/statistics.h"

enum { HELD = 48 };
static const double outside = 0.05; /* probability outside an interval */
static const double nearest = 1e-3; /* least distance of a floor from the lowest loss, as a share of it */

/* Laws that share their floor, held at values that the losses allow; the first is the best one. */
typedef struct group {
  int first, end, held;
  double least;      /* least sum of squares of the group's laws */
  double left[HELD]; /* [held]: rise of the sum of squares above the least, divided by the shares of a run */
  ch_compute_law *laws; /* [HELD * (end - first)] */
} group;

struct ch_ladder_ranges {
  ch_ladder_solution fitted;
  double room, critical; /* the allowed rise t^2 s^2 of the sum of squares, and t */
  int groups;
  group *group;             /* [groups] */
  ch_compute_law *all;      /* memory of the groups' laws */
  ch_compute_law *own_laws; /* [count]: laws with separate floors; NULL unless several laws share one floor */
  ch_ladder_ranges *own;    /* ranges of own_laws; NULL if those leave no degree of freedom */
};

/* --- floors ------------------------------------------------------------------------------------------------------ */

typedef struct search {
  const ch_ladder_ranges *ranges;
  group *group;
  ch_compute_law *laws; /* [end - first] */
} search;

/* Returns how much the sum of squares rises if the laws of a group have this floor. A run's losses at all
 * shares count once. */
static double rise(const ch_ladder_solution *f, const group *g, double floor, ch_compute_law *laws) {
  double squares = ch_ladder_fit_at_floor(f->tables, f->data, g->first, g->end, floor, laws);
  return fmax(0, squares - g->least) / f->data[0].shares;
}

static bool is_allowed(void *context, double floor) {
  const search *s = context;
  return rise(&s->ranges->fitted, s->group, floor, s->laws) <= s->ranges->room;
}

static double lowest_loss(const ch_ladder_solution *f, const group *g) {
  double lowest = INFINITY;
  for (int m = g->first; m < g->end; m++)
    for (int k = 0; k < f->data[m].shares; k++)
      for (int i = 0; i < f->data[m].rungs; i++) lowest = fmin(lowest, f->data[m].losses[k][i]);
  return lowest;
}

static void hold_floors(const ch_ladder_ranges *r, group *g) {
  const ch_ladder_solution *f = &r->fitted;
  int count = g->end - g->first;
  double best = f->laws[g->first].floor, lowest = lowest_loss(f, g), highest = lowest * (1 - nearest);
  search s = {r, g, &g->laws[count]};
  g->least = rise(f, &(group){.first = g->first, .end = g->end}, best, g->laws) * f->data[0].shares;
  g->held = 1;
  if (!(highest > best)) return;
  double step = 0.02 * (highest - best);
  double low = best > 0 ? ch_robust_reach(is_allowed, &s, best, 0, step) : 0;
  double high = ch_robust_reach(is_allowed, &s, best, highest, step);
  /* floors at even steps of the logarithm of their distance below the lowest loss */
  for (int i = 1; i < HELD; i++) {
    double share = (double)(i - 1) / (HELD - 2);
    double floor = lowest - (lowest - low) * pow((lowest - high) / (lowest - low), share);
    g->left[i] = rise(f, g, floor, &g->laws[i * count]);
  }
  g->held = HELD;
}

/* If the laws share one floor, prepares the ranges of laws with separate floors. Returns false when out of memory. */
static bool allow_own_floors(ch_ladder_ranges *r) {
  ch_ladder_solution own = r->fitted;
  if (!own.fit.one_floor || own.count == 1) return true;
  own.laws = r->own_laws = calloc((size_t)own.count, sizeof *r->own_laws);
  if (!r->own_laws) return false;
  own.fit = ch_ladder_fit_laws(own.tables, own.data, own.count, false, true, r->own_laws);
  if (!(own.fit.degrees > 0)) return true;
  r->own = ch_ladder_ranges_new(&own);
  return r->own != NULL;
}

ch_ladder_ranges *ch_ladder_ranges_new(const ch_ladder_solution *fitted) {
  int count = fitted->count, groups = fitted->fit.one_floor ? 1 : count;
  ch_ladder_ranges *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->fitted = *fitted;
  r->group = calloc((size_t)groups, sizeof *r->group);
  r->all = calloc((size_t)count * HELD, sizeof *r->all);
  if (!r->group || !r->all || !allow_own_floors(r)) {
    ch_ladder_ranges_free(r);
    return NULL;
  }
  r->groups = groups;
  r->critical = ch_student_t(outside, fitted->fit.degrees);
  r->room = r->critical * r->critical * fitted->fit.squares / fitted->data[0].shares / fitted->fit.degrees;
  for (int i = 0; i < groups; i++) {
    group *g = &r->group[i];
    g->first = groups == 1 ? 0 : i;
    g->end = groups == 1 ? count : i + 1;
    g->laws = &r->all[HELD * g->first];
    hold_floors(r, g);
  }
  return r;
}

void ch_ladder_ranges_free(ch_ladder_ranges *ranges) {
  if (!ranges) return;
  ch_ladder_ranges_free(ranges->own);
  free(ranges->own_laws);
  free(ranges->group);
  free(ranges->all);
  free(ranges);
}

/* --- noise of a law whose floor is held -------------------------------------------------------------------------- */

/* With C^-alpha = p, x = log C: to first order a shift s of each run changes alpha by -kappa t.s / t.t, where t is p
 * x without its part along p and kappa = sum A / sum A^2 over the shares; and A by p.s / p.p + d alpha A slope. The
 * parts are independent. Variances are in units of the noise's. */
typedef struct fit_variance {
  /* slope: p.px / p.p; amplitude: variance of the first part of A; alpha: variance of alpha */
  double slope, amplitude, alpha;
} fit_variance;

static fit_variance fit_variance_of(const ch_rung_losses *data, const ch_compute_law *law) {
  double pp = 0, px = 0, tt = 0, sum = 0, squares = 0;
  double powers[CH_LADDER_MOST_RUNGS];
  for (int i = 0; i < data->rungs; i++) {
    double x = data->log_flops[i] - law->origin;
    powers[i] = exp(-law->alpha * x);
    pp += powers[i] * powers[i];
    px += powers[i] * powers[i] * x;
  }
  for (int i = 0; i < data->rungs; i++) {
    double t = powers[i] * (data->log_flops[i] - law->origin - px / pp);
    tt += t * t;
  }
  for (int k = 0; k < data->shares; k++) {
    sum += law->amplitude[k];
    squares += law->amplitude[k] * law->amplitude[k];
  }
  double kappa = squares > 0 ? sum / squares : 0;
  return (fit_variance){px / pp, 1 / pp, squares > 0 ? kappa * kappa / tt : INFINITY};
}

/* Returns the variance of the loss with so much compute. */
static double loss_variance(const ch_compute_law *law, const fit_variance *s, double log_flops) {
  double x = log_flops - law->origin, turn = law->amplitude[0] * (s->slope - x);
  return exp(-2 * law->alpha * x) * (s->amplitude + (turn != 0 ? turn * turn * s->alpha : 0));
}

/* --- quantities -------------------------------------------------------------------------------------------------- */

/* Two laws (or one law twice), and either a value of log C or the ends of a range of it. */
typedef struct view {
  const ch_rung_losses *data_a, *data_b;
  const ch_compute_law *a, *b;
  double place, end;
} view;

/* A quantity and its variance in units of the noise's variance. The value is NaN if these laws do not have it. */
typedef struct value_and_variance {
  double value, variance;
} value_and_variance;
typedef value_and_variance measure(const view *v);

static value_and_variance floor_of(const view *v) {
  return (value_and_variance){v->a->floor, 0};
}

static value_and_variance alpha_of(const view *v) {
  return (value_and_variance){v->a->alpha, fit_variance_of(v->data_a, v->a).alpha};
}

/* Returns the logarithm of A and its variance. */
static value_and_variance amplitude_of(const view *v) {
  fit_variance s = fit_variance_of(v->data_a, v->a);
  double a = v->a->amplitude[0], turn = s.slope + v->a->origin;
  return (value_and_variance){log(a) + v->a->alpha * v->a->origin,
                              s.amplitude / (a * a) + turn * turn * s.alpha};
}

static value_and_variance measured_loss(const view *v) {
  fit_variance s = fit_variance_of(v->data_a, v->a);
  return (value_and_variance){ch_compute_law_loss(v->a, v->place), loss_variance(v->a, &s, v->place) + 1};
}

/* Returns the logarithm of the compute that law b needs relative to law a. */
static value_and_variance multiplier_of(const view *v) {
  fit_variance a = fit_variance_of(v->data_a, v->a), b = fit_variance_of(v->data_b, v->b);
  double loss = ch_compute_law_loss(v->a, v->place), needed = ch_compute_law_inverse(v->b, loss);
  double variance = loss_variance(v->a, &a, v->place) + loss_variance(v->b, &b, needed);
  double fall = v->b->alpha * (loss - v->b->floor); /* fall of b's loss per unit of log C */
  return (value_and_variance){needed - v->place, variance / (fall * fall)};
}

static value_and_variance crossing_of(const view *v) {
  double at = ch_compute_law_crossing(v->a, v->b, v->place, v->end);
  fit_variance a = fit_variance_of(v->data_a, v->a), b = fit_variance_of(v->data_b, v->b);
  double closing = v->b->alpha * (ch_compute_law_loss(v->b, at) - v->b->floor) -
                   v->a->alpha * (ch_compute_law_loss(v->a, at) - v->a->floor);
  return (value_and_variance){at, (loss_variance(v->a, &a, at) + loss_variance(v->b, &b, at)) /
                                      (closing * closing)};
}

/* --- ranges ------------------------------------------------------------------------------------------------------ */

static const group *mechanism_group(const ch_ladder_ranges *r, int m) {
  return &r->group[r->groups == 1 ? 0 : m];
}

/* Widens a range by laws whose sum of squares already uses `left` of the room. `own_error`: the relative standard
 * error of a factor that does not come from the losses. */
static void widen_range(const ch_ladder_ranges *r, double left, value_and_variance m, double own_error,
                        ch_estimate *range) {
  double room = r->room - left, share = r->room > 0 ? room / r->room : 1;
  if (isnan(m.value) || room < 0) return;
  double half = sqrt(room * m.variance + share * pow(r->critical * own_error, 2));
  if (!(half >= 0)) half = room > 0 ? INFINITY : 0;
  range->high = fmax(range->high, isinf(m.value) ? m.value : m.value + half);
  range->low = fmin(range->low, isinf(m.value) ? m.value : m.value - half);
}

static ch_estimate range_of(const ch_ladder_ranges *r, measure *quantity, int a, int b, double place,
                            double end, double own_error) {
  const ch_ladder_solution *f = &r->fitted;
  const group *ga = mechanism_group(r, a), *gb = mechanism_group(r, b);
  view v = {&f->data[a], &f->data[b], &f->laws[a], &f->laws[b], place, end};
  value_and_variance best = quantity(&v);
  ch_estimate range = {best.value, INFINITY, -INFINITY};
  widen_range(r, 0, best, own_error, &range);
  for (int i = 0; i < ga->held; i++)
    for (int k = ga == gb ? i : 0; k < (ga == gb ? i + 1 : gb->held); k++) {
      v.a = &ga->laws[i * (ga->end - ga->first) + a - ga->first];
      v.b = &gb->laws[k * (gb->end - gb->first) + b - gb->first];
      widen_range(r, ga->left[i] + (ga == gb ? 0 : gb->left[k]), quantity(&v), own_error, &range);
    }
  if (!r->own) return range;
  ch_estimate own = range_of(r->own, quantity, a, b, place, end, own_error);
  return (ch_estimate){range.value, fmin(range.low, own.low), fmax(range.high, own.high)};
}

static ch_estimate cut(ch_estimate e, double least, double most) {
  return (ch_estimate){e.value, fmax(e.low, least), fmin(e.high, most)};
}

static ch_estimate exponential(ch_estimate e) {
  return (ch_estimate){exp(e.value), exp(e.low), exp(e.high)};
}

ch_estimate ch_ladder_range_floor(const ch_ladder_ranges *ranges, int m) {
  return range_of(ranges, floor_of, m, m, 0, 0, 0);
}

ch_estimate ch_ladder_range_alpha(const ch_ladder_ranges *ranges, int m) {
  return cut(range_of(ranges, alpha_of, m, m, 0, 0, 0), CH_LADDER_LEAST_ALPHA, CH_LADDER_MOST_ALPHA);
}

ch_estimate ch_ladder_range_amplitude(const ch_ladder_ranges *ranges, int m) {
  return exponential(range_of(ranges, amplitude_of, m, m, 0, 0, 0));
}

ch_estimate ch_ladder_range_loss(const ch_ladder_ranges *ranges, int m, double log_flops) {
  return cut(range_of(ranges, measured_loss, m, m, log_flops, 0, 0), 0, INFINITY);
}

ch_estimate ch_ladder_range_multiplier(const ch_ladder_ranges *ranges, int m, int baseline, double log_flops,
                                       double slower, double own_error) {
  ch_estimate times = exponential(range_of(ranges, multiplier_of, m, baseline, log_flops, 0, own_error));
  return (ch_estimate){times.value / slower, times.low / slower, times.high / slower};
}

ch_estimate ch_ladder_range_crossing(const ch_ladder_ranges *ranges, int a, int b, double low, double high) {
  return range_of(ranges, crossing_of, a, b, low, high, 0);
}
