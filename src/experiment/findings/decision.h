/* Chooses a mechanism for each size of the cache, and bounds how far it may be behind the best.
 *
 * The rule: of the models whose mean loss is within the tolerance of the lowest, the one with the smallest cache; of
 * equal caches the lower loss. Below that cache, the lowest mean loss that each size allows. A larger cache is a
 * choice only if its model is better beyond the noise. */
#ifndef CH_EXPERIMENT_FINDINGS_DECISION_H
#define CH_EXPERIMENT_FINDINGS_DECISION_H

#include <crosshead/compare.h>

#include "laws/best.h"

typedef struct ch_group ch_group;
typedef struct ch_summary ch_summary;

/* The standing of one group. */
typedef struct ch_standing {
  double low,
      high; /* the interval of how far it is behind the best: nats, or shares of images; high INFINITY: not known */
  bool candidate; /* the rule may choose this one if the means were not off by chance */
} ch_standing;

typedef struct ch_decision {
  ch_verdict_kind kind;
  int pick;               /* the rule's choice; -1: none, as no model is trained or none fits the budget */
  double limit;           /* how far behind the best is within the tolerance */
  ch_standing *standings; /* [groups] */
  int *choices;           /* [choice_count] groups, the largest cache first; with a budget the pick alone */
  int choice_count;
  int candidates;
  bool known; /* the seeds say how large the noise is, and so the risk */
} ch_decision;

/* Returns the cost that decides between models of equal quality: bytes of cache per token or, for images,
 * parameters of attention. */
double ch_group_cost(const ch_group *group);
/* Returns the mean training time of a group's runs in seconds. */
double ch_group_seconds(const ch_group *group);
/* Returns how far `group` is behind `of`: the difference of their means, positive if `group` is worse. */
double ch_group_behind(const ch_group *group, const ch_group *of);

/* Decides on a summary whose differences are filled in; summary->decision receives it. */
ch_status ch_decide(const ch_comparison *comparison, ch_summary *summary, const ch_best *best,
                    ch_error *error);

/* Returns the most that the pick may be behind the best, as a share of the best loss (on images, a difference
 * of accuracy); INFINITY if it is unknown. */
double ch_decision_risk(const ch_summary *summary);
/* Marks the groups that should get one more seed, [groups]: those with which a second of training lowers the risk
 * most. All, while the risk is not known. Returns how many. */
int ch_decision_next_seeds(const ch_summary *summary, bool *needs);

#endif
