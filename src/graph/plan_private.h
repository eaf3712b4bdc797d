/* Declarations that plan.c, run_plan.c and profile.c share. Other files use plan.h. */
#ifndef CH_GRAPH_PLAN_PRIVATE_H
#define CH_GRAPH_PLAN_PRIVATE_H

#include "graph/plan.h"

/* The three buffers a node may have. */
enum { VALUE, GRADIENT, SAVED, BUFFERS };

typedef enum ch_plan_step_kind { CH_STEP_FORWARD, CH_STEP_BACKWARD } ch_plan_step_kind;

typedef struct ch_plan_step {
  ch_plan_step_kind kind;
  ch_node *node;
  /* steps from this one on that are run by one call: 1, or several of an operation that joins them */
  int together;
  ch_expected_time expected; /* belongs to the governor of the engine that runs the plan */
  /* Backward steps only, [inputs]: */
  bool *accumulate;  /* whether the gradient of input i already holds something */
  bool *makes_final; /* whether input i is a parameter whose gradient no later step writes */
  /* 1 + the sum that this step is the first, or the last, of a micro-batch to write; 0: none */
  int *begins, *ends;
} ch_plan_step;

/* Adds a step that took `seconds` to run->profile. Steps that ran together share the time in proportion to
   their products. */
void ch_profile_steps(ch_run *run, const ch_plan_step *step, double start, double seconds);

struct ch_plan {
  ch_graph *graph;
  ch_node *root;
  ch_plan_options options;
  int threads; /* what scratch is sized for */
  ch_plan_step *steps;
  int step_count;
  bool *accumulate, *makes_final; /* [inputs of all nodes] the arrays that the steps point into */
  int *begins, *ends;             /* [inputs of all nodes] */
  ch_gradient_sum *sums;
  int sum_count;
  bool *dropped; /* [nodes] computed again for the backward pass */
  /* [nodes] depends on parameters alone, or is a parameter that only such nodes use. All false unless the
     plan is for gradient accumulation. */
  bool *parameter_only;
  size_t *offsets; /* [nodes][BUFFERS] bytes from the workspace's start */
  size_t scratch_offset, bytes, parameter_only_bytes;
};

#endif
