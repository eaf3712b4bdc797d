/* The forms of a law of size and tokens, as ln L over numbers that a fit may move freely.
 *
 * x = ln N and y = ln D, both less their means over the models, and
 *
 *    a ratio:  ln L = d ln(e^u + e^v),   u = (A - n x) / d,   v = (B - d y) / d,   n = alpha_N, d = alpha_D
 *    a sum:    ln L = ln(e^(A - n x) + e^(B - d y) + e^E)
 *
 * with the numbers A, ln n, B, ln d, and of a sum E. A and B are the logarithms of the losses that either term alone
 * gives in the middle of the models. */
#ifndef CH_LAWS_SIZE_FORMS_H
#define CH_LAWS_SIZE_FORMS_H

#include <crosshead/fit.h>

enum { CH_SIZE_NUMBERS = 5 };

/* Quantities that stay fixed while the others are fitted. */
typedef enum ch_size_held {
  CH_HELD_NOTHING,
  CH_HELD_ALPHA_SIZE,
  CH_HELD_ALPHA_TOKENS,
  CH_HELD_SIZE,
  CH_HELD_TOKENS,
  CH_HELD_FLOOR,
  CH_HELD_LOSS
} ch_size_held;

typedef struct ch_size_constraint {
  ch_size_held what;
  /* CH_HELD_LOSS: ln N and ln D of the loss, less their means. CH_HELD_SIZE: x is the mean of ln N. CH_HELD_TOKENS: y
   * is the mean of ln D */
  double x, y;
} ch_size_constraint;

typedef struct ch_size_shape {
  int numbers; /* numbers of the law: 4 or 5 */
  /* Returns ln L and sets `slope` to its derivatives by the numbers. */
  double (*loss)(const double at[CH_SIZE_NUMBERS], double x, double y, double slope[CH_SIZE_NUMBERS]);
  /* Computes the law's numbers `at` from coordinates, and the derivatives of the numbers (rows) by the coordinates. */
  void (*unfold)(const ch_size_constraint *held, const double from[CH_SIZE_NUMBERS],
                 double at[CH_SIZE_NUMBERS], double slopes[CH_SIZE_NUMBERS][CH_SIZE_NUMBERS]);
  /* Computes the coordinates of a law; the inverse of `unfold`. */
  void (*fold)(const ch_size_constraint *held, const double at[CH_SIZE_NUMBERS], double to[CH_SIZE_NUMBERS]);
} ch_size_shape;

const ch_size_shape *ch_size_shape_of(ch_size_form form);

/* Returns the coordinate that a constraint fixes; -1: none. CH_HELD_SIZE is ln N_c less the mean of ln N, or ln A of
 * a sum; CH_HELD_TOKENS is ln D_c less the mean of ln D, or ln B of a sum; CH_HELD_LOSS is ln L at its place. */
int ch_size_coordinate(ch_size_held what);

#endif
