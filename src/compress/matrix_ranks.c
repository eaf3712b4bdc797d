/* Divides a budget of parameters among matrices, in one of three ways. Greedy: each unit of rank goes to the matrix
 * whose error it lowers most per parameter. Singular values fall, so the greedy choice is the best for the parameters
 * spent. Proportional: ranks are in proportion to given numbers. Priced: one price per parameter decides on a choice
 * for each family of matrices, then ranks are assigned greedily. */
#include "compress/matrix_ranks.h"

#include <math.h>
#include <stdbool.h>

static double gain(const ch_ranked_matrix *m, int64_t budget) {
  if (m->rank >= m->most || m->cost > budget) return 0;
  return m->weight * m->values[m->rank] / (double)m->cost;
}

int64_t ch_allocate_ranks(ch_ranked_matrix *matrices, int count, int64_t budget) {
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

double ch_error_left(const ch_ranked_matrix *matrices, int count) {
  double error = 0;
  for (int i = 0; i < count; i++)
    for (int64_t r = matrices[i].rank; r < matrices[i].most; r++)
      error += matrices[i].weight * matrices[i].values[r];
  return error;
}

/* --- proportions -------------------------------------------------------------------------------------------------- */

/* Returns a matrix's fractional rank in proportion to its part, at least `least` and at most the full rank. */
static double exact_rank(const ch_ranked_matrix *m, double part, double scale, int64_t least) {
  return fmin(fmax(scale * part, (double)least), (double)m->most);
}

static double spent_at(const ch_ranked_matrix *matrices, const double *parts, int count, int64_t least,
                       double scale) {
  double sum = 0;
  for (int i = 0; i < count; i++)
    sum += (double)matrices[i].cost * exact_rank(&matrices[i], parts[i], scale, least);
  return sum;
}

/* Finds the largest scale within the budget, by bisection. */
static double settle_scale(const ch_ranked_matrix *matrices, const double *parts, int count, int64_t least,
                           int64_t budget) {
  double low = 0, high = 0;
  for (int i = 0; i < count; i++)
    if (parts[i] > 0) high = fmax(high, (double)matrices[i].most / parts[i]);
  if (spent_at(matrices, parts, count, least, high) <= (double)budget) return high;
  for (int i = 0; i < 200; i++) {
    double middle = (low + high) / 2;
    if (spent_at(matrices, parts, count, least, middle) <= (double)budget)
      low = middle;
    else
      high = middle;
  }
  return low;
}

double ch_rank_part(ch_ranks rule, int64_t out, int64_t in) {
  if (rule == CH_RANKS_PROJECTION) return (double)(out < in ? out : in);
  return (double)out * (double)in / (double)(out + in);
}

int64_t ch_proportional_ranks(ch_ranked_matrix *matrices, const double *parts, int count, int64_t least,
                              int64_t budget) {
  double scale = settle_scale(matrices, parts, count, least, budget);
  for (int i = 0; i < count; i++) {
    matrices[i].rank = (int64_t)exact_rank(&matrices[i], parts[i], scale, least);
    budget -= matrices[i].rank * matrices[i].cost;
  }
  for (int best = 0; best >= 0;) {
    double most = -INFINITY;
    best = -1;
    for (int i = 0; i < count; i++) {
      const ch_ranked_matrix *m = &matrices[i];
      double missing = exact_rank(m, parts[i], scale, least) - (double)m->rank;
      if (m->rank >= m->most || m->cost > budget || missing <= most) continue;
      most = missing;
      best = i;
    }
    if (best < 0) return budget;
    matrices[best].rank++;
    budget -= matrices[best].cost;
  }
  return budget;
}

/* --- choices ------------------------------------------------------------------------------------------------------ */

/* Returns the error that remains, and sets *cost, if a choice takes every unit of rank that is worth its price per
   parameter. */
static double priced(const ch_ranked_choice *choice, int members, double price, int64_t *cost) {
  double error = 0;
  *cost = choice->cost;
  for (int i = 0; i < members; i++) {
    const ch_ranked_matrix *m = &choice->members[i];
    for (int64_t r = 0; r < m->most; r++) {
      double value = m->weight * m->values[r];
      if (value > price * (double)m->cost)
        *cost += m->cost;
      else
        error += value;
    }
  }
  return error;
}

/* Chooses for every family the choice with the least error plus price times cost. Returns the total cost. */
static int64_t choose_at(ch_ranked_family *families, int count, double price) {
  int64_t sum = 0;
  for (int f = 0; f < count; f++) {
    double least = INFINITY;
    int64_t spent = 0;
    for (int c = 0; c < families[f].choice_count; c++) {
      int64_t cost;
      double here = priced(&families[f].choices[c], families[f].members, price, &cost);
      here += price * (double)cost;
      if (here >= least) continue;
      least = here;
      spent = cost;
      families[f].chosen = c;
    }
    sum += spent;
  }
  return sum;
}

static void choose_cheapest(ch_ranked_family *families, int count) {
  for (int f = 0; f < count; f++) {
    families[f].chosen = 0;
    for (int c = 1; c < families[f].choice_count; c++)
      if (families[f].choices[c].cost < families[f].choices[families[f].chosen].cost) families[f].chosen = c;
  }
}

/* Assigns ranks to the members of the current choices. Returns the remaining error, or -1 if the budget is too
   small. */
static double rank(const ch_ranked_family *families, int count, int64_t budget, ch_ranked_matrix *members) {
  int all = 0;
  for (int f = 0; f < count; f++) {
    const ch_ranked_choice *choice = &families[f].choices[families[f].chosen];
    budget -= choice->cost;
    for (int i = 0; i < families[f].members; i++) {
      members[all] = choice->members[i];
      members[all++].rank = 0;
    }
  }
  if (budget < 0) return -1;
  ch_allocate_ranks(members, all, budget);
  return ch_error_left(members, all);
}

/* Finds the lowest price at which the budget suffices, and makes the choices at it. Returns false if there is none. */
static bool settle_price(ch_ranked_family *families, int count, int64_t budget) {
  double low = 0, high = 0;
  for (int f = 0; f < count; f++)
    for (int c = 0; c < families[f].choice_count; c++)
      for (int i = 0; i < families[f].members; i++) {
        const ch_ranked_matrix *m = &families[f].choices[c].members[i];
        for (int64_t r = 0; r < m->most; r++) high += m->weight * m->values[r];
      }
  if (!(high > 0) || choose_at(families, count, high) > budget) return false;
  /* Bisects the logarithm of the price once there is a lower end. */
  for (int i = 0; i < 200 && high - low > 1e-9 * high; i++) {
    double price = low > 0 ? sqrt(low * high) : high / 1024;
    if (choose_at(families, count, price) > budget)
      low = price;
    else
      high = price;
    if (low == 0 && high < 1e-300) break; /* the budget suffices for everything */
  }
  return choose_at(families, count, high) <= budget;
}

double ch_choose_and_rank(ch_ranked_family *families, int count, int64_t budget, ch_ranked_matrix *members) {
  if (!settle_price(families, count, budget)) choose_cheapest(families, count);
  double least = rank(families, count, budget, members);
  bool better = least > 0;
  for (int sweep = 0; better && sweep < 4; sweep++) {
    better = false;
    for (int f = 0; f < count; f++)
      for (int c = 0; c < families[f].choice_count; c++) {
        int before = families[f].chosen;
        if (c == before) continue;
        families[f].chosen = c;
        double here = rank(families, count, budget, members);
        if (here >= 0 && here < least) {
          least = here;
          better = true;
        } else {
          families[f].chosen = before;
        }
      }
  }
  return rank(families, count, budget, members);
}
