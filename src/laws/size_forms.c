/* The two forms of a law of size and tokens: their losses, and the coordinates in which one quantity is a number of
 * its own. */
#include "laws/size_forms.h"

#include <math.h>

enum { NUMBERS = CH_SIZE_NUMBERS };

int ch_size_coordinate(ch_size_held what) {
  static const int places[] = {
      [CH_HELD_NOTHING] = -1, [CH_HELD_ALPHA_SIZE] = 1, [CH_HELD_ALPHA_TOKENS] = 3, [CH_HELD_SIZE] = 0,
      [CH_HELD_TOKENS] = 2,   [CH_HELD_FLOOR] = 4,      [CH_HELD_LOSS] = 0};
  return places[what];
}

static void start(const double from[NUMBERS], double at[NUMBERS], double slopes[NUMBERS][NUMBERS]) {
  for (int i = 0; i < NUMBERS; i++) {
    at[i] = from[i];
    for (int j = 0; j < NUMBERS; j++) slopes[i][j] = i == j;
  }
}

static void set_row(double row[NUMBERS], double a, double b, double c, double d, double e) {
  const double values[NUMBERS] = {a, b, c, d, e};
  for (int j = 0; j < NUMBERS; j++) row[j] = values[j];
}

/* --- a ratio ----------------------------------------------------------------------------------------------------- */

static double ratio_loss(const double at[NUMBERS], double x, double y, double slope[NUMBERS]) {
  double n = exp(at[1]), d = exp(at[3]), u = (at[0] - n * x) / d, v = at[2] / d - y;
  double most = fmax(u, v), share = 1 / (1 + exp(v - u)), sum = most + log(exp(u - most) + exp(v - most));
  slope[0] = share;
  slope[1] = -share * n * x;
  slope[2] = 1 - share;
  slope[3] = d * (sum - share * u - (1 - share) * at[2] / d);
  return d * sum;
}

/* Converts coordinates to A and B. With CH_HELD_SIZE the coordinate in place of A is ln N_c, with CH_HELD_TOKENS the
 * one in place of B is ln D_c. With CH_HELD_LOSS they are ln L at the constraint's place, and the logit of the size's
 * share in that loss. */
static void ratio_unfold(const ch_size_constraint *held, const double from[NUMBERS], double at[NUMBERS],
                         double slopes[NUMBERS][NUMBERS]) {
  double n = exp(from[1]), d = exp(from[3]);
  start(from, at, slopes);
  if (held->what == CH_HELD_SIZE) {
    at[0] = slopes[0][1] = from[0] * n;
    slopes[0][0] = n;
  } else if (held->what == CH_HELD_TOKENS) {
    at[2] = slopes[2][3] = from[2] * d;
    slopes[2][2] = d;
  } else if (held->what == CH_HELD_LOSS) {
    double share = 1 / (1 + exp(-from[2])), of_size = -log1p(exp(-from[2])), of_tokens = -log1p(exp(from[2]));
    at[0] = from[0] + d * of_size + n * held->x;
    at[2] = from[0] + d * (of_tokens + held->y);
    set_row(slopes[0], 1, n * held->x, d * (1 - share), d * of_size, 0);
    set_row(slopes[2], 1, 0, -d * share, d * (of_tokens + held->y), 0);
  }
}

static void ratio_fold(const ch_size_constraint *held, const double at[NUMBERS], double to[NUMBERS]) {
  double slope[NUMBERS];
  for (int i = 0; i < NUMBERS; i++) to[i] = at[i];
  if (held->what == CH_HELD_SIZE) to[0] = at[0] * exp(-at[1]);
  if (held->what == CH_HELD_TOKENS) to[2] = at[2] * exp(-at[3]);
  if (held->what == CH_HELD_LOSS) {
    to[0] = ratio_loss(at, held->x, held->y, slope);
    to[2] = fmin(fmax(log(slope[0] / slope[2]), -30), 30);
  }
}

/* --- a sum ------------------------------------------------------------------------------------------------------- */

/* Returns ln of the sum of three exponentials, and the share of each. */
static double sum_terms(const double terms[3], double shares[3]) {
  double most = fmax(terms[0], fmax(terms[1], terms[2])), sum = 0;
  for (int i = 0; i < 3; i++) sum += exp(terms[i] - most);
  for (int i = 0; i < 3; i++) shares[i] = exp(terms[i] - most) / sum;
  return most + log(sum);
}

static double sum_loss(const double at[NUMBERS], double x, double y, double slope[NUMBERS]) {
  double n = exp(at[1]), d = exp(at[3]), shares[3];
  double loss = sum_terms((double[]){at[0] - n * x, at[2] - d * y, at[4]}, shares);
  slope[0] = shares[0];
  slope[1] = -shares[0] * n * x;
  slope[2] = shares[1];
  slope[3] = -shares[1] * d * y;
  slope[4] = shares[2];
  return loss;
}

/* Converts coordinates to A, B and E. With CH_HELD_SIZE the coordinate in place of A is ln A of the formula, with
 * CH_HELD_TOKENS the one in place of B is ln B. With CH_HELD_LOSS the three are ln L at the constraint's place, and the
 * log ratios of the shares of tokens and of the floor in that loss to the size's share. */
static void sum_unfold(const ch_size_constraint *held, const double from[NUMBERS], double at[NUMBERS],
                       double slopes[NUMBERS][NUMBERS]) {
  double n = exp(from[1]), d = exp(from[3]), s[3];
  start(from, at, slopes);
  if (held->what == CH_HELD_SIZE) at[0] += slopes[0][1] = -n * held->x;
  if (held->what == CH_HELD_TOKENS) at[2] += slopes[2][3] = -d * held->y;
  if (held->what != CH_HELD_LOSS) return;
  double all = sum_terms((double[]){0, from[2], from[4]}, s);
  at[0] = from[0] - all + n * held->x;
  at[2] = from[0] + from[2] - all + d * held->y;
  at[4] = from[0] + from[4] - all;
  set_row(slopes[0], 1, n * held->x, -s[1], 0, -s[2]);
  set_row(slopes[2], 1, 0, 1 - s[1], d * held->y, -s[2]);
  set_row(slopes[4], 1, 0, -s[1], 0, 1 - s[2]);
}

static void sum_fold(const ch_size_constraint *held, const double at[NUMBERS], double to[NUMBERS]) {
  double slope[NUMBERS];
  for (int i = 0; i < NUMBERS; i++) to[i] = at[i];
  if (held->what == CH_HELD_SIZE) to[0] += exp(at[1]) * held->x;
  if (held->what == CH_HELD_TOKENS) to[2] += exp(at[3]) * held->y;
  if (held->what != CH_HELD_LOSS) return;
  to[0] = sum_loss(at, held->x, held->y, slope);
  to[2] = fmin(fmax(log(slope[2] / slope[0]), -30), 30);
  to[4] = fmin(fmax(log(slope[4] / slope[0]), -30), 30);
}

/* ----------------------------------------------------------------------------------------------------------------- */

const ch_size_shape *ch_size_shape_of(ch_size_form form) {
  static const ch_size_shape shapes[] = {{4, ratio_loss, ratio_unfold, ratio_fold},
                                         {5, sum_loss, sum_unfold, sum_fold}};
  return &shapes[form];
}
