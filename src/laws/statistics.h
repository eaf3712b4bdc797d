/* Means, spreads, Student's t and Fisher's F. */
#ifndef CH_LAWS_STATISTICS_H
#define CH_LAWS_STATISTICS_H

typedef struct ch_spread {
  double mean, deviation; /* deviation: sample standard deviation (n - 1); 0 for one value */
  int count;
} ch_spread;
ch_spread ch_spread_of(const double *values, int count);

/* Returns the value that |t| of Student's t exceeds with this probability: 0.05 for a 95 % interval. Returns INFINITY
 * without degrees of freedom. */
double ch_student_t(double outside, double degrees);

/* Returns the probability that Fisher's F is larger than f. `upper` and `lower` are the degrees of freedom of its
 * numerator and denominator. */
double ch_f_outside(double f, double upper, double lower);

#endif
