/* Tests the search for choices and ranks within one budget against trying all of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/random.h"
#include "compress/matrix_ranks.h"

enum { FAMILIES = 3, CHOICES = 3, MEMBERS = 2, MOST = 4 };

typedef struct problem {
  double values[FAMILIES][CHOICES][MEMBERS][MOST];
  ch_ranked_matrix members[FAMILIES][CHOICES][MEMBERS];
  ch_ranked_choice choices[FAMILIES][CHOICES];
  ch_ranked_family families[FAMILIES];
} problem;

/* Creates members whose more expensive choices have smaller errors; the most expensive choice has none. */
static void make(problem *p, uint64_t stream) {
  ch_random random;
  ch_random_seed(&random, 5, stream);
  for (int f = 0; f < FAMILIES; f++) {
    for (int c = 0; c < CHOICES; c++) {
      for (int i = 0; i < MEMBERS; i++) {
        double value = 4 * ch_random_uniform(&random) / (1 + 3 * c);
        for (int r = 0; r < MOST; r++) {
          p->values[f][c][i][r] = value;
          value *= ch_random_uniform(&random);
        }
        p->members[f][c][i] = (ch_ranked_matrix){.cost = 2 + f,
                                                 .most = c == CHOICES - 1 ? 0 : MOST,
                                                 .values = p->values[f][c][i],
                                                 .weight = 1 + (double)f};
      }
      p->choices[f][c] = (ch_ranked_choice){2 + 7 * c + f, p->members[f][c]};
    }
    p->families[f] =
        (ch_ranked_family){.choices = p->choices[f], .choice_count = CHOICES, .members = MEMBERS};
  }
}

/* Returns the least error over all ranks for the given choices, by depth-first search over members. */
static double best_ranks(const problem *p, const int *chosen, int at, int64_t left) {
  if (left < 0) return INFINITY;
  if (at == FAMILIES * MEMBERS) return 0;
  const ch_ranked_matrix *m = &p->members[at / MEMBERS][chosen[at / MEMBERS]][at % MEMBERS];
  double least = INFINITY;
  for (int64_t rank = 0; rank <= m->most; rank++) {
    double here = 0;
    for (int64_t r = rank; r < m->most; r++) here += m->weight * m->values[r];
    here += best_ranks(p, chosen, at + 1, left - rank * m->cost);
    least = fmin(least, here);
  }
  return least;
}

static double best_of_all(const problem *p, int64_t budget) {
  double least = INFINITY;
  for (int k = 0; k < CHOICES * CHOICES * CHOICES; k++) {
    int chosen[FAMILIES] = {k % CHOICES, k / CHOICES % CHOICES, k / CHOICES / CHOICES};
    int64_t left = budget;
    for (int f = 0; f < FAMILIES; f++) left -= p->choices[f][chosen[f]].cost;
    if (left >= 0) least = fmin(least, best_ranks(p, chosen, 0, left));
  }
  return least;
}

static void choices_and_ranks_are_nearly_the_best_there_are(void **state) {
  (void)state;
  int best = 0, tries = 0;
  for (uint64_t stream = 0; stream < 12; stream++) {
    problem p;
    ch_ranked_matrix members[FAMILIES * MEMBERS];
    make(&p, stream);
    for (int64_t budget = 9; budget < 60; budget += 6, tries++) {
      double least = best_of_all(&p, budget), got = ch_choose_and_rank(p.families, FAMILIES, budget, members);
      int64_t spent = 0;
      for (int f = 0; f < FAMILIES; f++) spent += p.choices[f][p.families[f].chosen].cost;
      for (int i = 0; i < FAMILIES * MEMBERS; i++) spent += members[i].rank * members[i].cost;
      assert_true(spent <= budget);
      assert_true(fabs(got - ch_error_left(members, FAMILIES * MEMBERS)) < 1e-12);
      assert_true(got >= least - 1e-12);
      best += got <= least + 1e-9;
      if (got > 1.25 * least + 0.3)
        fail_msg("%d, budget %d: %g is left where %g is possible", (int)stream, (int)budget, got, least);
    }
  }
  if (best < tries * 6 / 10) fail_msg("the best %d times of %d", best, tries);
}

static void a_budget_below_the_cheapest_choices_is_told(void **state) {
  (void)state;
  problem p;
  ch_ranked_matrix members[FAMILIES * MEMBERS];
  make(&p, 1);
  assert_true(ch_choose_and_rank(p.families, FAMILIES, 8, members) == -1);
  assert_true(ch_choose_and_rank(p.families, FAMILIES, 9, members) > 0); /* 9 pays for the cheapest choices */
  assert_true(ch_choose_and_rank(p.families, FAMILIES, 1000, members) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(choices_and_ranks_are_nearly_the_best_there_are),
                                     cmocka_unit_test(a_budget_below_the_cheapest_choices_is_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
