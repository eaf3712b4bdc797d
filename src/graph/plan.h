/* Plans and runs a graph: the order of steps, and a place in the workspace for every buffer while it
   is needed. */
#ifndef CH_GRAPH_PLAN_H
#define CH_GRAPH_PLAN_H

#include "graph/cache.h"
#include "graph/graph.h"
#include "graph/profile.h"
#include "tensor/gemm.h"
#include "tensor/governor.h"

typedef struct ch_plan ch_plan;

/* Memory that plans share; it grows when a larger plan is created, never while one runs. */
typedef struct ch_workspace {
  void *data;
  size_t bytes;
  const ch_value_memory *memory; /* holds `data`; NULL before the first reservation */
} ch_workspace;

/* Reserves `bytes` in `memory`. The contents are lost if the workspace must grow. */
ch_status ch_workspace_reserve(ch_workspace *workspace, const ch_value_memory *memory, size_t bytes,
                               ch_error *error);
void ch_workspace_free(ch_workspace *workspace);

typedef struct ch_plan_options {
  bool backward;  /* also compute gradients of the trainable parameters */
  bool recompute; /* drop cheap values after the forward pass and compute them again: less memory */
  /* The runs are the micro-batches of an optimizer step, so parameters stay the same from the first to the
     last: nodes that depend on parameters alone are computed in the first run, and their gradients reach the
     parameters in the last (ch_run.follows_micro_batch, ch_run.more_micro_batches). */
  bool accumulation;
} ch_plan_options;

/* Plans `graph` (owned by the plan from here on, also on failure) for the value of `root`. */
/* Runs of the plan compute with `kernels` and a team of team->threads threads. */
ch_status ch_plan_create(ch_graph *graph, ch_node *root, const ch_kernels *kernels, const ch_team *team,
                         const ch_plan_options *options, ch_plan **plan, ch_error *error);
void ch_plan_free(ch_plan *plan);
/* Returns the bytes of workspace that a run needs. */
size_t ch_plan_bytes(const ch_plan *plan);
/* Returns the bytes of it for nodes that depend on parameters alone. Their values persist from micro-batch to
   micro-batch. 0 without `accumulation`. */
size_t ch_plan_parameter_only_bytes(const ch_plan *plan);
/* Returns the FLOPs (2 x multiply-adds) of one forward pass. */
double ch_plan_flops(const ch_plan *plan);
const ch_node *ch_plan_root(const ch_plan *plan);

/* The load counts and the balance loss of experts in training. */
typedef struct ch_routing {
  /* [sequences of the run] tokens of each sequence that count; the others fill it up. NULL: all */
  const int64_t *text;
  int64_t *load;       /* [layers with experts, experts]: tokens sent to each are added; or NULL */
  double balance_seed; /* gradient of the balance loss of every sequence; 0: there is no balance loss */
  double balance_loss; /* balance losses are added, each times balance_seed */
  /* [nodes that choose experts] the balance loss of each, in the order in which they are added; or NULL */
  double *terms;
  int64_t term_count;
} ch_routing;

/* Observes values during a run: called after each forward step with its node, whose inputs and value are
   still valid (ch_run_value; in the kernels' memory). A status other than CH_OK ends the run with that
   status. */
typedef struct ch_observer {
  ch_status (*seen)(void *context, const ch_run *run, const ch_node *node);
  void *context;
} ch_observer;

/* A gradient that every micro-batch of a step adds to: of a parameter, or with ch_plan_options.accumulation
   of a node that depends on parameters alone, whose gradient reaches the parameters after the last one. */
typedef struct ch_gradient_sum {
  int parameter; /* its index, or -1: of a node */
  const ch_node *node;
  size_t bytes;
} ch_gradient_sum;

/* Learns while a backward pass still runs which gradients it has written, so that they can travel between
   machines meanwhile. Called by the thread that runs the plan; every member may be NULL. */
typedef struct ch_gradient_listener {
  /* The gradient of the parameter with this index has received its last contribution of the optimizer step.
     Called once for each trainable parameter that the root depends on, in the last micro-batch. */
  void (*final)(void *context, int parameter);
  /* Called before the pass writes the sum with this index for the first time. On return the sum must hold the
     total of earlier micro-batches. A status other than CH_OK ends the run. */
  ch_status (*wanted)(void *context, int sum, ch_error *error);
  /* The pass has written it for the last time, and other micro-batches follow. */
  void (*written)(void *context, int sum);
  /* After every step. */
  void (*moved)(void *context);
  void *context;
} ch_gradient_listener;

/* Returns the sums of a plan for a backward pass, in the order in which a pass computes them. */
const ch_gradient_sum *ch_plan_gradient_sums(const ch_plan *plan, int *count);

/* Everything a run reads and writes. The caller binds the first group; the rest is the plan's. */
struct ch_run {
  const ch_kernels *kernels;
  ch_team *team;         /* as many threads as the plan was created for */
  ch_governor *governor; /* sets team->workers before each step; NULL: they do not change */
  ch_gemm *gemm;
  ch_workspace *workspace;
  const ch_tensor *params; /* [parameters] values */
  void *const *gradients;  /* [parameters] where gradients go; NULL when no backward. An entry may be NULL. */
  bool accumulate;         /* add to parameter gradients instead of overwriting */
  /* With ch_plan_options.accumulation: this run is not the first micro-batch of its step; it is not the last.
     Nothing else may use the workspace between the micro-batches of a step. */
  bool follows_micro_batch, more_micro_batches;
  /* all earlier micro-batches of the step ran on other machines: only their gradients are here */
  bool elsewhere;
  double seed; /* gradient of every element of the root */
  /* int32_t; CH_INPUT_PIXELS: float; CH_INPUT_STATES: the graph's type; in the kernels' memory */
  const void *inputs[CH_INPUT_COUNT];
  /* Copies of them in the host's memory: operations that decide by ids read them. The plan sets them where
     the kernels' memory is the host's. */
  const void *host_inputs[CH_INPUT_COUNT];
  ch_cache *cache; /* for graphs with a cache, else NULL */
  /* of the cache's tokens, including this run's; for graphs that need them */
  const struct ch_token_groups *groups;
  ch_profile *profile;                  /* or NULL */
  const ch_observer *observer;          /* or NULL */
  const ch_gradient_listener *listener; /* or NULL */
  ch_routing *routing;                  /* or NULL: loads are not counted, balance losses left out */
  ch_error *error;
  /* set by the plan */
  const ch_plan *plan;
  const struct ch_plan_step *step;
};

/* Returns the share of a run that is done when an observer sees a node. It grows with every node and is
   between 0 and 1. */
double ch_run_share(const ch_run *run);

/* Runs every step; afterwards the root's value is at ch_run_value(run, root). */
ch_status ch_plan_run(const ch_plan *plan, ch_run *run);

/* Returns the address of a sum of gradients in a run of the plan. */
void *ch_run_gradient_sum(const ch_plan *plan, const ch_workspace *workspace, void *const *gradients,
                          int sum);

/* Operations call the functions from here on. */
const void *ch_run_value(const ch_run *run, const ch_node *node);
void *ch_run_output(const ch_run *run, const ch_node *node);
/* Returns the node's saved elements, or NULL if no backward pass will read them. */
void *ch_run_saved(const ch_run *run, const ch_node *node);
void *ch_run_scratch(const ch_run *run);
/* Returns the gradient of the node itself (backward). */
const void *ch_run_output_gradient(const ch_run *run, const ch_node *node);
/* Returns the address for the gradient of input i, or NULL if it is not wanted. *accumulate: add to it. */
void *ch_run_gradient(const ch_run *run, const ch_node *node, int i, bool *accumulate);
/* Returns the tensor of a PARAM node (its dtype may be 16 bit), or NULL for other nodes. */
const ch_tensor *ch_run_param(const ch_run *run, const ch_node *node);
/* Returns the element type of a node's value: the stored one of a parameter, else the node's. */
ch_dtype ch_run_dtype(const ch_run *run, const ch_node *node);

#endif
