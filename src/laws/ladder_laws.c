/* Computes predictions, multipliers of compute and crossings from the laws of a ladder, and decides if all
 * laws share one floor. ladder_fit.c fits them; ladder_ranges.c finds the intervals. */
#include "laws/ladder_laws.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/random.h"
#include "laws/ladder_ranges.h"
#include "laws/statistics.h"

enum { DRAWS = 200 };
/* Separate floors are chosen more readily than a test at 5 % would choose them. One floor for laws that differ makes
 * multipliers wrong; separate floors for laws that share one only widen the intervals. */
static const double of_floors = 0.25, of_shares = 0.05, farther = 10;

/* A fit with its intervals and, if laws cross, resampled fits. */
typedef struct ladder {
  int count, baseline;
  const ch_ladder_curve *curves;
  ch_rung_losses *data; /* [count] losses of each curve */
  ch_ladder_tables *tables;
  ch_law_fit fit;
  ch_compute_law *laws;     /* [count] */
  double noise;             /* standard deviation of a loss; NaN without a degree of freedom */
  ch_ladder_ranges *ranges; /* NULL without a degree of freedom */
  ch_compute_law *draws;    /* [DRAWS * count]; NULL if no laws cross or without a degree of freedom */
} ladder;

static void ladder_free(ladder *l) {
  free(l->tables);
  free(l->data);
  free(l->laws);
  free(l->draws);
  ch_ladder_ranges_free(l->ranges);
}

/* Reads each curve without its last `left_out` rungs: the end of the runs and `shares` earlier shares. */
static void read_curves(ladder *l, int left_out, int shares) {
  for (int m = 0; m < l->count; m++) {
    const ch_ladder_curve *c = &l->curves[m];
    ch_rung_losses *d = &l->data[m];
    *d = (ch_rung_losses){.rungs = c->rungs - left_out, .shares = 1 + shares};
    for (int i = 0; i < d->rungs; i++) {
      d->log_flops[i] = log(c->flops[i]);
      d->losses[0][i] = c->losses[i];
      for (int k = 0; k < shares; k++) d->losses[k + 1][i] = c->earlier[k * c->rungs + i];
    }
  }
}

/* Returns the variance of a loss. A run's losses at all shares count as one. */
static double variance_of(const ch_law_fit *fit, int shares) {
  return fit->degrees > 0 ? fit->squares / (1 + shares) / fit->degrees : NAN;
}

/* Fits one E for all laws unless separate values fit significantly better (F test). The choice favours small
 * residuals, so the noise is raised: with one E it is at least what separate values leave; with separate
 * values it includes more of what one E leaves, the closer the choice was. */
static ch_law_fit choose_floor(const ladder *l, ch_compute_law *laws) {
  ch_law_fit one = ch_ladder_fit_laws(l->tables, l->data, l->count, true, true, laws);
  if (l->count == 1) return one;
  ch_law_fit own = ch_ladder_fit_laws(l->tables, l->data, l->count, false, true, laws);
  double upper = one.degrees - own.degrees;
  if (own.degrees > 0) {
    double f = (one.squares - own.squares) / upper / (own.squares / own.degrees);
    double chance = ch_f_outside(fmax(f, 0), upper, own.degrees) / of_floors;
    if (chance < 1) {
      own.squares += sqrt(chance) * fmax(0, one.squares / one.degrees * own.degrees - own.squares);
      return own;
    }
  }
  one = ch_ladder_fit_laws(l->tables, l->data, l->count, true, true, laws);
  if (own.degrees > 0) one.squares = fmax(one.squares, own.squares / own.degrees * one.degrees);
  return one;
}

static int shares_of(const ch_ladder_curve *curves, int count) {
  int shares = curves[0].shares;
  for (int m = 0; m < count; m++)
    if (!curves[m].earlier || curves[m].shares < shares) shares = curves[m].earlier ? curves[m].shares : 0;
  return shares;
}

/* Fits the ends of the runs, together with the earlier shares if the laws fit those as well. Returns the number of
 * earlier shares used. */
static int fit_all(ladder *l, int left_out) {
  int shares = shares_of(l->curves, l->count);
  read_curves(l, left_out, 0);
  l->fit = choose_floor(l, l->laws);
  const ch_law_fit chosen = l->fit;
  double ends = variance_of(&chosen, 0);
  if (shares > 0) {
    read_curves(l, left_out, shares);
    ch_law_fit all = ch_ladder_fit_laws(l->tables, l->data, l->count, l->fit.one_floor, true, l->laws);
    double f = variance_of(&all, shares) / ends;
    if (!(l->fit.degrees > 0) || ch_f_outside(f, all.degrees, all.degrees) > of_shares) {
      l->fit = all;
    } else {
      shares = 0;
      read_curves(l, left_out, 0);
      ch_ladder_fit_laws(l->tables, l->data, l->count, chosen.one_floor, true, l->laws);
    }
  }
  l->noise = sqrt(variance_of(&l->fit, shares));
  return shares;
}

/* --- resampling -------------------------------------------------------------------------------------------------- */

static double chi_square(ch_random *random, int degrees) {
  double sum = 0;
  for (int i = 0; i < degrees; i++) {
    double z = ch_random_normal(random);
    sum += z * z;
  }
  return sum;
}

/* Draws laws: fits the losses that the laws predict plus noise. All of a run's losses get the same noise,
 * because those of shares of one run are hardly independent. */
static void draw_laws(const ladder *l, ch_random *random, double noise, ch_rung_losses *made,
                      ch_compute_law *drawn) {
  for (int m = 0; m < l->count; m++) {
    const ch_compute_law *law = &l->laws[m];
    made[m] = l->data[m];
    for (int i = 0; i < made[m].rungs; i++) {
      double shift = noise * ch_random_normal(random);
      for (int k = 0; k < made[m].shares; k++) {
        double above = law->amplitude[k] * exp(-law->alpha * (made[m].log_flops[i] - law->origin));
        made[m].losses[k][i] = fmax(law->floor + above + shift, 1e-6);
      }
    }
  }
  ch_ladder_fit_laws(l->tables, made, l->count, l->fit.one_floor, false, drawn);
}

static ch_status draw_all(ladder *l, ch_error *error) {
  ch_random random;
  if (l->draws || !(l->fit.degrees > 0)) return CH_OK;
  ch_rung_losses *made = malloc((size_t)l->count * sizeof *made);
  l->draws = calloc((size_t)l->count * DRAWS, sizeof *l->draws);
  if (!made || !l->draws) {
    free(made);
    return ch_no_memory(error);
  }
  ch_random_seed(&random, 1, ch_random_stream_of("ladder"));
  for (int b = 0; b < DRAWS; b++) {
    int degrees = (int)l->fit.degrees;
    double noise = l->noise * sqrt(degrees / chi_square(&random, degrees));
    draw_laws(l, &random, noise, made, &l->draws[b * l->count]);
  }
  free(made);
  return CH_OK;
}

/* --- predictions ------------------------------------------------------------------------------------------------- */

/* Returns A of L = E + A C^-alpha, in nats at one FLOP. */
static double amplitude_of(const ch_compute_law *law) {
  return law->amplitude[0] * exp(law->alpha * law->origin);
}

/* Returns an estimate without an interval. */
static ch_estimate alone(double value) {
  return (ch_estimate){value, NAN, NAN};
}

/* Predicts the loss of a run of so much compute, with its own noise. */
static ch_estimate predict(const ladder *l, int m, double log_flops) {
  return l->ranges ? ch_ladder_range_loss(l->ranges, m, log_flops)
                   : alone(ch_compute_law_loss(&l->laws[m], log_flops));
}

/* Compares a law with the baseline at so much compute. `slower`: the time of a FLOP relative to the
 * baseline's; `spread`: the relative standard error of `slower`. */
static ch_estimate multiplier(const ladder *l, int m, double log_flops, double slower, double spread) {
  double loss = ch_compute_law_loss(&l->laws[m], log_flops);
  return l->ranges ? ch_ladder_range_multiplier(l->ranges, m, l->baseline, log_flops, slower, spread)
                   : alone(exp(ch_compute_law_inverse(&l->laws[l->baseline], loss) - log_flops) / slower);
}

static ch_estimate time_multiplier(const ladder *l, int m, double log_flops) {
  const ch_ladder_curve *own = &l->curves[m], *base = &l->curves[l->baseline];
  if (m == l->baseline) return (ch_estimate){1, 1, 1};
  if (!(own->seconds_per_flop > 0) || !(base->seconds_per_flop > 0)) return alone(NAN);
  return multiplier(l, m, log_flops, own->seconds_per_flop / base->seconds_per_flop,
                    hypot(own->seconds_error, base->seconds_error));
}

static ch_status describe_law(const ladder *l, int m, ch_ladder_laws *made, ch_error *error) {
  const ch_ladder_curve *c = &l->curves[m];
  double place = log(c->target_flops > 0 ? c->target_flops : c->flops[c->rungs - 1]);
  double *multipliers = ch_arena_alloc(&made->arena, (size_t)c->rungs * sizeof *multipliers);
  ch_ladder_law *law = &made->laws[m];
  const ch_compute_law *fitted = &l->laws[m];
  *law = (ch_ladder_law){.name = ch_arena_strdup(&made->arena, c->name),
                         .floor = l->ranges ? ch_ladder_range_floor(l->ranges, m) : alone(fitted->floor),
                         .amplitude = l->ranges ? ch_ladder_range_amplitude(l->ranges, m)
                                                : alone(amplitude_of(fitted)),
                         .alpha = l->ranges ? ch_ladder_range_alpha(l->ranges, m) : alone(fitted->alpha),
                         .target = c->target_flops > 0 ? predict(l, m, place) : alone(NAN),
                         .target_flops = c->target_flops,
                         .top = alone(NAN),
                         .top_loss = c->losses[c->rungs - 1],
                         .multiplier = {1, 1, 1},
                         .time_multiplier = time_multiplier(l, m, place),
                         .rung_multipliers = multipliers,
                         .rungs = c->rungs};
  if (!law->name || !multipliers) return ch_no_memory(error);
  if (m != l->baseline) law->multiplier = multiplier(l, m, place, 1, 0);
  for (int i = 0; i < c->rungs; i++)
    multipliers[i] =
        m == l->baseline
            ? 1
            : exp(ch_compute_law_inverse(&l->laws[l->baseline], c->losses[i]) - log(c->flops[i]));
  law->says_nothing = !(fitted->amplitude[0] > 0) || !(law->alpha.low > 1.2 * CH_LADDER_LEAST_ALPHA) ||
                      !(law->alpha.high < 0.95 * CH_LADDER_MOST_ALPHA);
  return CH_OK;
}

/* --- crossings --------------------------------------------------------------------------------------------------- */

/* Returns the share of resampled fits in which law `b` overtakes law `a`. */
static double share_that_cross(const ladder *l, int a, int b, double low, double high) {
  int crossing = 0;
  if (!l->draws) return NAN;
  for (int d = 0; d < DRAWS; d++) {
    const ch_compute_law *laws = &l->draws[d * l->count];
    crossing += !isnan(ch_compute_law_crossing(&laws[a], &laws[b], low, high));
  }
  return (double)crossing / DRAWS;
}

/* Finds where law `b` overtakes law `a`, the leader at first. Possible laws may cross outside of the range
 * by half its width; farther away, an end of the interval is open. */
static ch_status find_crossing(ladder *l, int a, int b, double low, double high, ch_ladder_laws *made,
                               ch_error *error) {
  double place = ch_compute_law_crossing(&l->laws[a], &l->laws[b], low, high), around = (high - low) / 2;
  if (isnan(place)) return CH_OK;
  CH_TRY(draw_all(l, error));
  low -= around;
  high += around;
  ch_estimate logs = l->ranges ? ch_ladder_range_crossing(l->ranges, a, b, low, high) : alone(place);
  made->crossings[made->crossing_count++] = (ch_ladder_crossing){
      .below = a,
      .above = b,
      .flops = {exp(place), logs.low < low ? 0 : exp(logs.low), logs.high > high ? INFINITY : exp(logs.high)},
      .share = share_that_cross(l, a, b, low, high)};
  return CH_OK;
}

static ch_status find_crossings(ladder *l, ch_ladder_laws *made, ch_error *error) {
  double low = INFINITY, high = 0, target = 0;
  for (int m = 0; m < l->count; m++) {
    low = fmin(low, log(l->curves[m].flops[0]));
    high = fmax(high, log(l->curves[m].flops[l->curves[m].rungs - 1]));
    target = fmax(target, l->curves[m].target_flops);
  }
  high = target > 0 ? fmax(high, log(target)) : high + log(farther);
  made->crossings = ch_arena_alloc(&made->arena, (size_t)(l->count * l->count) * sizeof *made->crossings);
  if (!made->crossings) return ch_no_memory(error);
  for (int a = 0; a < l->count; a++)
    for (int b = 0; b < l->count; b++)
      if (a != b) CH_TRY(find_crossing(l, a, b, low, high, made, error));
  return CH_OK;
}

/* --- the fit ----------------------------------------------------------------------------------------------------- */

static ch_status prepare_points(const ch_ladder_curve *curves, int count, int baseline, int left_out,
                                ladder *l, int *shares, ch_error *error) {
  size_t n = (size_t)count;
  *l = (ladder){.count = count,
                .baseline = baseline,
                .curves = curves,
                .data = calloc(n, sizeof *l->data),
                .laws = calloc(n, sizeof *l->laws)};
  if (l->data) {
    read_curves(l, left_out, 0);
    l->tables = ch_ladder_tables_new(l->data, count);
  }
  if (!l->tables || !l->laws) return ch_no_memory(error);
  *shares = fit_all(l, left_out);
  if (!(l->fit.degrees > 0)) return CH_OK;
  l->ranges = ch_ladder_ranges_new(&(ch_ladder_solution){count, l->data, l->tables, l->laws, l->fit});
  return l->ranges ? CH_OK : ch_no_memory(error);
}

/* Predicts the largest models from the smaller ones. */
static ch_status predict_top(const ch_ladder_curve *curves, int count, ch_ladder_laws *made,
                             ch_error *error) {
  ladder l;
  int shares = 0;
  ch_status status = prepare_points(curves, count, 0, 1, &l, &shares, error);
  for (int m = 0; status == CH_OK && m < count; m++)
    made->laws[m].top = predict(&l, m, log(curves[m].flops[curves[m].rungs - 1]));
  ladder_free(&l);
  return status;
}

static ch_status make_laws(const ch_ladder_curve *curves, int count, int baseline, ch_ladder_laws *made,
                           ch_error *error) {
  ladder l;
  int shares = 0;
  size_t n = (size_t)count;
  ch_status status = prepare_points(curves, count, baseline, 0, &l, &shares, error);
  made->laws = ch_arena_alloc(&made->arena, n * sizeof *made->laws);
  made->fitted = ch_arena_alloc(&made->arena, n * sizeof *made->fitted);
  if (status == CH_OK && (!made->laws || !made->fitted)) status = ch_no_memory(error);
  if (status == CH_OK) {
    made->count = count;
    made->basis = (ch_ladder_basis){.baseline = baseline,
                                    .one_floor = l.fit.one_floor,
                                    .shares = shares,
                                    .noise = l.noise,
                                    .degrees = (int32_t)fmax(l.fit.degrees, 0)};
  }
  for (int m = 0; status == CH_OK && m < count; m++) {
    made->fitted[m] = l.laws[m];
    status = describe_law(&l, m, made, error);
  }
  if (status == CH_OK) status = find_crossings(&l, made, error);
  ladder_free(&l);
  return status == CH_OK ? predict_top(curves, count, made, error) : status;
}

static ch_status check_curve(const ch_ladder_curve *c, ch_error *error) {
  if (c->rungs < CH_LADDER_LEAST_RUNGS || c->rungs > CH_LADDER_MOST_RUNGS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s has %d sizes; a law needs %d to %d", c->name, (int)c->rungs,
                   CH_LADDER_LEAST_RUNGS, CH_LADDER_MOST_RUNGS);
  if (c->earlier && (c->shares < 0 || c->shares > CH_LADDER_MOST_SHARES))
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s has losses at %d shares of its runs; at most %d can be used",
                   c->name, (int)c->shares, CH_LADDER_MOST_SHARES);
  for (int i = 0; i < c->rungs; i++) {
    if (!(c->flops[i] > 0) || !isfinite(c->flops[i]) || (i > 0 && !(c->flops[i] > c->flops[i - 1])))
      return ch_fail(error, CH_ERROR_ARGUMENT, "size %d of %s has %g FLOPs; they must rise from size to size",
                     i + 1, c->name, c->flops[i]);
    for (int k = 0; k <= (c->earlier ? c->shares : 0); k++) {
      double loss = k == 0 ? c->losses[i] : c->earlier[(k - 1) * c->rungs + i];
      if (!(loss > 0) || !isfinite(loss))
        return ch_fail(error, CH_ERROR_ARGUMENT, "size %d of %s has a loss of %g; losses are positive", i + 1,
                       c->name, loss);
    }
  }
  return CH_OK;
}

ch_status ch_ladder_fit(const ch_ladder_curve *curves, int count, int baseline, ch_ladder_laws **laws,
                        ch_error *error) {
  *laws = NULL;
  if (count < 1 || count > CH_LADDER_MOST_CURVES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "there are %d curves; laws are fitted to 1 to %d", count,
                   CH_LADDER_MOST_CURVES);
  if (baseline < 0 || baseline >= count)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the baseline is curve %d; it is one from 0 to %d", baseline,
                   count - 1);
  for (int m = 0; m < count; m++) CH_TRY(check_curve(&curves[m], error));
  ch_ladder_laws *made = calloc(1, sizeof *made);
  if (!made) return ch_no_memory(error);
  ch_status status = make_laws(curves, count, baseline, made, error);
  if (status == CH_OK)
    *laws = made;
  else
    ch_ladder_laws_free(made);
  return status;
}

void ch_ladder_laws_free(ch_ladder_laws *laws) {
  if (!laws) return;
  ch_arena_free(&laws->arena);
  free(laws);
}

double ch_ladder_loss(const ch_ladder_laws *laws, int index, double flops) {
  return ch_compute_law_loss(&laws->fitted[index], log(flops));
}
