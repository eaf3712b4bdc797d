/* Plans and runs a graph: the order of steps, and a place in the workspace for every buffer while it is
 * needed. */
#ifndef CH_GRAPH_PLAN_H
#define CH_GRAPH_PLAN_H

#include "graph/cache.h"
#include "graph/graph.h"
#include "graph/profile.h"
#include "tensor/gemm.h"
#include "tensor/governor.h"

typedef struct ch_plan ch_plan;

/* Memory that plans share. ch_workspace_reserve grows it; a run never does. */
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
  bool backward;  /* true if runs also compute gradients of the trainable parameters */
  bool recompute; /* true if cheap values are dropped and computed again for the backward pass: less memory */
  /* true if the runs are the micro-batches of an optimizer step. Parameters are then constant from the first to
     the last run: nodes that depend only on parameters are computed in the first run, and their gradients reach
     the parameters in the last (ch_run.follows_micro_batch, ch_run.more_micro_batches). */
  bool accumulation;
} ch_plan_options;

/* Plans `graph` for the value of `root`. The plan owns `graph` from here on, also on failure. Runs of the plan
   compute with `kernels` and a team of team->threads threads. */
ch_status ch_plan_create(ch_graph *graph, ch_node *root, const ch_kernels *kernels, const ch_team *team,
                         const ch_plan_options *options, ch_plan **plan, ch_error *error);
void ch_plan_free(ch_plan *plan);
/* Returns the bytes of workspace that a run needs. */
size_t ch_plan_bytes(const ch_plan *plan);
/* Returns the bytes of workspace for nodes that depend only on parameters. Their values persist from micro-batch
   to micro-batch. Returns 0 without `accumulation`. */
size_t ch_plan_parameter_only_bytes(const ch_plan *plan);
/* Returns the FLOPs (2 x multiply-adds) of one forward pass. */
double ch_plan_flops(const ch_plan *plan);
const ch_node *ch_plan_root(const ch_plan *plan);

/* The load counts and the balance loss of experts in training. */
typedef struct ch_routing {
  const int64_t *text; /* [sequences of the run] tokens of each that are not padding; NULL: all */
  int64_t *load;       /* [layers with experts, experts] counts, to which chosen experts are added; or NULL */
  double balance_seed; /* gradient of the balance loss of every sequence; 0: there is no balance loss */
  double balance_loss; /* sum to which balance losses are added, each times balance_seed */
  double *terms; /* [nodes that choose experts] terms of balance_loss, in the order of their sum; or NULL */
  int64_t term_count; /* number of `terms` so far */
} ch_routing;

/* Observes values during a run. */
typedef struct ch_observer {
  /* Called after each forward step with its node. The node's inputs and value are still valid (ch_run_value; in
     the kernels' memory). A status other than CH_OK ends the run with that status. */
  ch_status (*seen)(void *context, const ch_run *run, const ch_node *node);
  void *context;
} ch_observer;

/* A gradient to which every micro-batch of a step adds: a parameter's, or with ch_plan_options.accumulation that
   of a node that depends only on parameters. Such a node's gradient reaches the parameters after the last
   micro-batch. */
typedef struct ch_gradient_sum {
  int parameter; /* index of the parameter, or -1 for a node */
  const ch_node *node;
  size_t bytes;
} ch_gradient_sum;

/* Callbacks of a backward pass about the gradients that it writes, so that they can travel between machines while
   it runs. The thread that runs the plan calls them. Every member may be NULL. */
typedef struct ch_gradient_listener {
  /* Called after a parameter's gradient has received its last contribution of the optimizer step: once for each
     trainable parameter that the root depends on, in the last micro-batch. */
  void (*final)(void *context, int parameter);
  /* Called before the pass writes the sum with this index for the first time. On return the sum must hold the
     total of earlier micro-batches. A status other than CH_OK ends the run. */
  ch_status (*wanted)(void *context, int sum, ch_error *error);
  /* Called after the pass has written the sum for the last time, if other micro-batches follow. */
  void (*written)(void *context, int sum);
  /* Called after every step that the pass runs. Steps that run together count as one. */
  void (*moved)(void *context);
  void *context;
} ch_gradient_listener;

/* Returns the gradient sums of a plan with a backward pass, in the order in which a pass computes them. */
const ch_gradient_sum *ch_plan_gradient_sums(const ch_plan *plan, int *count);

/* Everything that a run reads and writes. The caller sets all members except the last two, which the plan
   sets. */
struct ch_run {
  const ch_kernels *kernels;
  ch_team *team;         /* team with the number of threads that the plan was created for */
  ch_governor *governor; /* sets team->workers before each step; NULL: workers do not change */
  ch_gemm *gemm;
  ch_workspace *workspace;
  const ch_tensor *params; /* [parameters] values */
  void *const *gradients;  /* [parameters] addresses for gradients, or NULL; NULL without a backward pass */
  bool accumulate; /* true if the run adds to the parameters' gradients, false if it overwrites them */
  /* With ch_plan_options.accumulation. follows_micro_batch: true if the step has earlier micro-batches;
     more_micro_batches: true if the step has later micro-batches. Nothing else may use the workspace between the
     micro-batches of a step. */
  bool follows_micro_batch, more_micro_batches;
  /* true if all earlier micro-batches of the step ran on other machines; only their gradients are here */
  bool elsewhere;
  double seed; /* gradient of every element of the root */
  /* Inputs in the kernels' memory: int32_t, but float for CH_INPUT_PIXELS and the graph's type for
     CH_INPUT_STATES. */
  const void *inputs[CH_INPUT_COUNT];
  /* Copies of the inputs in the host's memory, for operations that branch on ids. ch_plan_run sets them if the
     kernels' memory is the host's. */
  const void *host_inputs[CH_INPUT_COUNT];
  ch_cache *cache; /* cache of the graph, or NULL if it has none */
  /* groups of the cache's tokens, including this run's; only for graphs that need them */
  const struct ch_token_groups *groups;
  ch_profile *profile;                  /* profile to fill, or NULL */
  const ch_observer *observer;          /* observer of values, or NULL */
  const ch_gradient_listener *listener; /* callbacks about gradients, or NULL */
  ch_routing *routing;                  /* loads and balance losses of experts; NULL: not computed */
  ch_error *error;
  const ch_plan *plan;             /* plan of the run; set by the plan */
  const struct ch_plan_step *step; /* current step; set by the plan */
};

/* Returns the share of the plan's steps up to the current one. It grows with every step and is between 0 and 1. */
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
/* Returns the address for the gradient of input i, or NULL if it is not needed. *accumulate receives true if the
   operation must add to it. */
void *ch_run_gradient(const ch_run *run, const ch_node *node, int i, bool *accumulate);
/* Returns the tensor of a parameter's node, whose type may have 16 bits, or NULL for other nodes. */
const ch_tensor *ch_run_param(const ch_run *run, const ch_node *node);
/* Returns the element type of a node's value: a parameter's stored type, else the node's. */
ch_dtype ch_run_dtype(const ch_run *run, const ch_node *node);

#endif
