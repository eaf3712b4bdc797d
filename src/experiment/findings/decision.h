/* Chooses a mechanism for each size of the cache, and bounds how far it may be behind the best.
 *
 * The rule takes the models whose mean loss is within the tolerance of the lowest, and of these the one with the
 * smallest cache; among equal caches the lower loss wins. At each smaller cache it takes the lowest mean loss. A larger
 * cache is a choice only if its model is better beyond the noise. */
#ifndef CH_EXPERIMENT_FINDINGS_DECISION_H
#define CH_EXPERIMENT_FINDINGS_DECISION_H

#include <crosshead/compare.h>

#include "laws/best.h"

typedef struct ch_group ch_group;
typedef struct ch_summary ch_summary;

/* The standing of one group. */
typedef struct ch_standing {
  /* Ends of the interval of its distance behind the best, in nats or as a share of images. `high` is INFINITY if the
   * distance is not known. */
  double low, high;
  bool candidate; /* true if the rule may choose this group within the limits of chance */
} ch_standing;

typedef struct ch_decision {
  ch_verdict_kind kind;
  int pick;     /* the chosen group; -1: no model is trained, all diverged, or none fits the budget */
  double limit; /* the tolerance as a distance behind the best, in nats or as a share of images */
  ch_standing *standings; /* [groups] */
  int *choices;           /* [choice_count] groups, the largest cache first; with a budget the pick alone */
  int choice_count;
  int candidates; /* number of groups with standing.candidate */
  bool known;     /* true if there are enough seeds to measure the noise, and so the risk */
} ch_decision;

/* Returns the cost by which models of equal quality are compared: bytes of cache per token or, for images, parameters
 * of attention. */
double ch_group_cost(const ch_group *group);
/* Returns the mean training time of a group's runs in seconds. */
double ch_group_seconds(const ch_group *group);
/* Returns the difference of the means of `group` and `of`, positive if `group` is worse. */
double ch_group_behind(const ch_group *group, const ch_group *of);

/* Fills in summary->decision. The summary's differences must be filled in. */
ch_status ch_decide(const ch_comparison *comparison, ch_summary *summary, const ch_best *best,
                    ch_error *error);

/* Returns the largest distance that the pick may be behind the best, as a share of the best loss (on images, a
 * difference of accuracy); INFINITY if it is unknown. */
double ch_decision_risk(const ch_summary *summary);
/* Marks in needs [groups] the groups that should get one more seed: the groups for which a second of training lowers
 * the risk most. While the risk is unknown, all groups that did not diverge are marked. Returns the number of marked
 * groups. */
int ch_decision_next_seeds(const ch_summary *summary, bool *needs);

#endif
