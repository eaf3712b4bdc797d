/* What planning hands to running. */
#ifndef CH_GRAPH_PLAN_PRIVATE_H
#define CH_GRAPH_PLAN_PRIVATE_H

#include "graph/plan.h"

/* The three buffers a node may have. */
enum { VALUE, GRADIENT, SAVED, BUFFERS };

typedef enum ch_step_kind { CH_STEP_FORWARD, CH_STEP_BACKWARD } ch_step_kind;

typedef struct ch_step {
  ch_step_kind kind;
  ch_node *node;
  int together; /* steps from this one on that are run by one call: 1, or several of an operation that joins them */
  bool
      *accumulate; /* [inputs] whether the gradient of input i already holds something; backward steps only */
} ch_step;

/* Adds a step that took `seconds` to run->profile; of steps run together each gets the share that its products have. */
void ch_profile_steps(ch_run *run, const ch_step *step, double start, double seconds);

struct ch_plan {
  ch_graph *graph;
  ch_node *root;
  ch_plan_options options;
  ch_step *steps;
  int step_count;
  bool *accumulate; /* what the steps' lie in */
  bool *dropped;    /* [nodes] computed again for the backward pass */
  bool
      *settled; /* [nodes] made of parameters alone, or a parameter that only such nodes use; all false unless
                       runs come in series */
  size_t *offsets; /* [nodes][BUFFERS] bytes from the workspace's start */
  size_t scratch_offset, bytes, settled_bytes;
};

#endif
