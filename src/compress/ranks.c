/* Greedy allocation; values fall, so the greedy choice is the best for the parameters spent. */
#include "compress/ranks.h"

static double gain(const ch_ranked *m, int64_t budget) {
  if (m->rank >= m->most || m->cost > budget) return 0;
  return m->weight * m->values[m->rank] / (double)m->cost;
}

int64_t ch_allocate_ranks(ch_ranked *matrices, int count, int64_t budget) {
  for (;;) {
    int best = -1;
    double most = 0;
    for (int i = 0; i < count; i++) {
      double here = gain(&matrices[i], budget);
      if (here <= most) continue;
      most = here;
      best = i;
    }
    if (best < 0) return budget;
    matrices[best].rank++;
    budget -= matrices[best].cost;
  }
}

double ch_error_left(const ch_ranked *matrices, int count) {
  double error = 0;
  for (int i = 0; i < count; i++)
    for (int64_t r = matrices[i].rank; r < matrices[i].most; r++)
      error += matrices[i].weight * matrices[i].values[r];
  return error;
}
