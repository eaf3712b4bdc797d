/* A point of a loss curve. */
#ifndef CROSSHEAD_CURVE_H
#define CROSSHEAD_CURVE_H

#include <stdint.h>

/* A loss after training on so many tokens (or images). */
typedef struct ch_curve_point {
  int64_t tokens;
  double loss; /* mean cross entropy, in nats; NaN where it was not finite */
} ch_curve_point;

#endif
