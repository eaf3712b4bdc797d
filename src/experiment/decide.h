/* Which mechanism to take, as far as the noise between seeds lets one say. The rule: of the models whose loss is within the
   tolerance of the best, the one with the smallest cache; of equal caches the lower loss. A decision follows from the
   intervals of the differences alone, so if they are right, it is. */
#ifndef CH_EXPERIMENT_DECIDE_H
#define CH_EXPERIMENT_DECIDE_H

#include <crosshead/compare.h>

#include "base/error.h"

typedef struct ch_group ch_group;
typedef struct ch_summary ch_summary;

typedef enum ch_place {
  CH_WITHIN, /* the whole interval is within the tolerance */
  CH_OPEN,   /* the interval contains the limit of the tolerance */
  CH_OUT     /* it lies beyond */
} ch_place;

/* What is known of one group. */
typedef struct ch_standing {
  double low, high; /* the interval of how far it is behind the best: nats, or shares of images */
  ch_place place;
  bool candidate;  /* the rule may choose this one */
  bool active;     /* further seeds of it would help to decide */
  bool would_stay; /* after decision->more_seeds it would still be a candidate */
} ch_standing;

typedef struct ch_decision {
  ch_verdict_kind kind;
  int best, pick;         /* by the means: the best, and what the rule takes; -1 without models */
  double limit;           /* how far behind the best is within the tolerance */
  ch_standing *standings; /* [groups] */
  int candidates;
  bool surely_best; /* no other can be better than the pick */
  /* If means and noise stayed as they are: as few candidates as CH_COMPARE_MOST_SEEDS seeds would leave, and the fewest further
     seeds of every active group that leave no more; -1: they leave all that there are. */
  int would_stay, more_seeds;
  double more_seconds; /* seconds of training, for more_seeds */
  /* The seconds after which one candidate fewer would be left if differences were larger by their standard error of today:
     INFINITY where even that needs more than CH_COMPARE_MOST_SEEDS. */
  double hope_seconds;
} ch_decision;

/* The cost that decides between models of equal quality: elements of the cache or, for images, parameters of attention. */
double ch_group_cost(const ch_group *group);
/* The mean seconds of training of a group's runs. */
double ch_group_seconds(const ch_group *group);

/* Decides on a summary whose differences are filled in; summary->decision receives it. */
ch_status ch_decide(const ch_comparison *comparison, ch_summary *summary, ch_error *error);

#endif
