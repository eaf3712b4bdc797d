/* Assigns ranks to matrices that share one budget of parameters. */
#ifndef CH_COMPRESS_MATRIX_RANKS_H
#define CH_COMPRESS_MATRIX_RANKS_H

#include <stdint.h>

#include "compress/compress.h"

typedef struct ch_ranked_matrix {
  int64_t cost;         /* parameters of a unit of rank: out + in */
  int64_t most;         /* full rank */
  const double *values; /* [most], falling: squared singular values, the error that a unit of rank removes */
  double weight;        /* weight of the matrix's error relative to the errors of other matrices */
  int64_t rank;         /* assigned rank, which functions raise */
} ch_ranked_matrix;

/* Spends `budget` parameters unit by unit, each on the affordable unit that lowers the error most per parameter; ties
   go to the first matrix. Returns the rest of the budget, which is less than any unit that would lower an error. */
int64_t ch_allocate_ranks(ch_ranked_matrix *matrices, int count, int64_t budget);
/* Spends `budget` parameters so that ranks are in proportion to parts [count], each at least `least` and at most the
 * full rank. Ranks are rounded down; the remaining budget goes, unit by unit, to the largest fractions. Values and
 * weights are not read. Returns the rest of the budget. */
int64_t ch_proportional_ranks(ch_ranked_matrix *matrices, const double *parts, int count, int64_t least,
                              int64_t budget);
/* Returns the number to which the rank of a matrix [out, in] is proportional: with CH_RANKS_PROJECTION its full rank,
 * otherwise the rank at which its factors have as many parameters as the matrix. */
double ch_rank_part(ch_ranks rule, int64_t out, int64_t in);
/* One of the ways to write a family of matrices, such as a number of atoms. */
typedef struct ch_ranked_choice {
  int64_t cost;                    /* parameters before any unit of rank */
  const ch_ranked_matrix *members; /* [members]: matrices with this choice; assigned ranks are not read */
} ch_ranked_choice;

typedef struct ch_ranked_family {
  const ch_ranked_choice *choices;   /* [choice_count] */
  int choice_count, members, chosen; /* members: number of matrices; chosen: index into `choices` */
} ch_ranked_family;

/* Makes one choice for every family and assigns ranks to all members, so that the remaining error is small. One price
 * per parameter gives the first choices; exchanges of single choices then improve them. `members` receives all
 * families' members with their ranks, family by family. Returns the remaining error, or -1 when even the cheapest
 * choices cost more than the budget. */
double ch_choose_and_rank(ch_ranked_family *families, int count, int64_t budget, ch_ranked_matrix *members);
/* Returns the remaining error: the sum over matrices of weight times the values beyond the rank. */
double ch_error_left(const ch_ranked_matrix *matrices, int count);

#endif
