/* Measures how often the statements of a comparison are right on simulated losses. Usage: bench_coverage [DRAWS
 * [MECHANISMS]], with 2000 draws by default. MECHANISMS selects the rows with that number of mechanisms.
 *
 * All columns but the last are percentages of the draws. "intervals" and "worst": the interval of a mechanism's
 * distance to the best contains the truth, on average and for the worst mechanism. "bounds": all upper bounds are
 * right. "front": all intervals along the front are right. "tied": two equal mechanisms are called a tie. The last
 * column, "length", is the length of the intervals divided by that from Bonferroni's correction over all pairs. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/laws/coverage.h"

typedef struct layout {
  const char *name;
  double step; /* difference between the means of neighbours, in standard deviations */
  /* true: the noisy mechanism is the last one, the worst; false: it is the first one, the best */
  bool last;
} layout;

int main(int count, char **arguments) {
  static const char *const noises[] = {"equal", "unequal", "skewed"};
  static const layout layouts[] = {
      {"alike", 0, false}, {"close", 1, false}, {"apart", 3, false}, {"apart, worst noisy", 3, true}};
  static const int groups[] = {2, 3, 5, 9}, seeds[] = {2, 3, 5, 10};
  int draws = count > 1 ? atoi(arguments[1]) : 2000, only = count > 2 ? atoi(arguments[2]) : 0;
  printf("mechanisms seeds noise    means               intervals  worst  bounds  front   tied  length\n");
  for (int g = 0; g < 4; g++)
    for (int noise = NOISE_EQUAL; noise <= NOISE_SKEWED; noise++)
      for (int s = 0; s < 4; s++)
        for (int l = 0; l < 4; l++) {
          coverage_truth t = {.groups = groups[g], .seeds = seeds[s], .noise = (coverage_noise)noise};
          coverage c;
          if ((layouts[l].last && noise != NOISE_UNEQUAL) || (only && only != groups[g])) continue;
          for (int i = 0; i < t.groups; i++) t.means[i] = layouts[l].step * i;
          t.noisy = layouts[l].last ? t.groups - 1 : 0;
          if (draws < 1 || !coverage_measure(&t, draws, 1, &c)) return 1;
          printf("%10d %5d %-8s %-19s %9.1f %6.1f %7.1f %6.1f", t.groups, t.seeds, noises[noise],
                 layouts[l].name, 100 * c.statements, 100 * c.least, 100 * c.bounds, 100 * c.front);
          if (layouts[l].step == 0)
            printf(" %6.1f", 100 * c.pairs);
          else
            printf("      -");
          printf(" %7.2f\n", c.length / c.earlier);
          fflush(stdout);
        }
  return 0;
}
