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
  int together;              /* number of steps, from this one on, that one call computes (ch_op.joins) */
  ch_expected_time expected; /* expected time, for the governor of the engine that runs the plan */
  bool *accumulate;          /* [inputs] backward: true if an earlier step wrote the gradient of input i */
  bool *makes_final;         /* [inputs] backward: true for a parameter whose gradient no later step writes */
  /* [inputs] backward: 1 + index of a sum of gradients, or 0. begins: the sum that this step is the first of a
     micro-batch to write; ends: the sum that this step is the last to write */
  int *begins, *ends;
} ch_plan_step;

/* Adds a step, and the steps that ran together with it, to run->profile. They share `seconds` in proportion to
   their FLOPs. */
void ch_profile_steps(ch_run *run, const ch_plan_step *step, double start, double seconds);

struct ch_plan {
  ch_graph *graph;
  ch_node *root;
  ch_plan_options options;
  int threads; /* number of threads for which scratch is sized */
  ch_plan_step *steps;
  int step_count;
  bool *accumulate, *makes_final; /* [inputs of all nodes] arrays into which the steps point */
  int *begins, *ends;             /* [inputs of all nodes] arrays into which the steps point */
  ch_gradient_sum *sums;
  int sum_count;
  bool *dropped; /* [nodes] true if the value is computed (again) just before a backward step reads it */
  /* [nodes] true for a node that depends only on parameters, or a parameter that only such nodes use. All false
     without gradient accumulation. */
  bool *parameter_only;
  size_t *offsets; /* [nodes][BUFFERS] bytes from the workspace's start */
  size_t scratch_offset, bytes, parameter_only_bytes;
};

#endif
