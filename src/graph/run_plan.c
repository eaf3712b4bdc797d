/* Runs a plan step by step, and gives operations the addresses of their values, gradients and scratch memory. A
 * run allocates nothing. */
#include <string.h>

#include "base/progress.h"
#include "graph/plan_private.h"
#include "tensor/watch.h"

ch_status ch_workspace_reserve(ch_workspace *workspace, const ch_value_memory *memory, size_t bytes,
                               ch_error *error) {
  if (bytes <= workspace->bytes) return CH_OK;
  ch_workspace_free(workspace);
  void *data = memory->allocate(bytes);
  if (!data)
    return ch_fail(error, CH_ERROR_MEMORY,
                   "no memory for the %zu MiB that a pass needs; use fewer tokens at once or a smaller cache "
                   "({cache_dtype})",
                   bytes >> 20);
  *workspace = (ch_workspace){.data = data, .bytes = bytes, .memory = memory};
  return CH_OK;
}

void ch_workspace_free(ch_workspace *workspace) {
  if (workspace->data) workspace->memory->release(workspace->data, workspace->bytes);
  *workspace = (ch_workspace){0};
}

static void *place(const ch_run *run, const ch_node *node, int kind) {
  return (char *)run->workspace->data + run->plan->offsets[BUFFERS * node->id + kind];
}

const void *ch_run_value(const ch_run *run, const ch_node *node) {
  if (node->kind == CH_NODE_INPUT) return run->inputs[node->index];
  if (node->kind == CH_NODE_PARAM) return run->params[node->index].data;
  return place(run, node, VALUE);
}

void *ch_run_output(const ch_run *run, const ch_node *node) {
  return place(run, node, VALUE);
}

void *ch_run_saved(const ch_run *run, const ch_node *node) {
  return run->plan->options.backward && node->needs_gradient ? place(run, node, SAVED) : NULL;
}

void *ch_run_gradient_sum(const ch_plan *plan, const ch_workspace *workspace, void *const *gradients,
                          int sum) {
  const ch_gradient_sum *asked = &plan->sums[sum];
  if (asked->parameter >= 0) return gradients[asked->parameter];
  return (char *)workspace->data + plan->offsets[BUFFERS * asked->node->id + GRADIENT];
}

void *ch_run_scratch(const ch_run *run) {
  return (char *)run->workspace->data + run->plan->scratch_offset;
}

const void *ch_run_output_gradient(const ch_run *run, const ch_node *node) {
  return place(run, node, GRADIENT);
}

void *ch_run_gradient(const ch_run *run, const ch_node *node, int i, bool *accumulate) {
  const ch_node *input = node->in[i];
  bool parameter_only = run->plan->parameter_only[input->id];
  *accumulate = run->step->accumulate[i];
  if (!input->needs_gradient) return NULL;
  if (input->kind == CH_NODE_OP) {
    *accumulate |= parameter_only && !run->plan->parameter_only[node->id] && run->follows_micro_batch;
    return place(run, input, GRADIENT);
  }
  /* If only parameter-only nodes use the parameter, no earlier micro-batch wrote its gradient. */
  *accumulate |= run->accumulate && !(parameter_only && run->follows_micro_batch);
  return run->gradients[input->index];
}

const ch_tensor *ch_run_param(const ch_run *run, const ch_node *node) {
  return node->kind == CH_NODE_PARAM ? &run->params[node->index] : NULL;
}

ch_dtype ch_run_dtype(const ch_run *run, const ch_node *node) {
  return node->kind == CH_NODE_PARAM ? run->params[node->index].dtype : node->dtype;
}

static ch_status run_step(ch_run *run, const ch_plan_step *step) {
  const ch_node *node = step->node;
  run->step = step;
  if (step->together > 1) {
    const ch_node *nodes[CH_MOST_TOGETHER];
    for (int i = 0; i < step->together; i++) nodes[i] = step[i].node;
    return node->op->forward_together(run, step->together, nodes);
  }
  if (step->kind == CH_STEP_FORWARD) return node->op->forward(run, node);
  if (node == run->plan->root)
    run->kernels->fill(run->team, ch_node_count(node), run->seed, place(run, node, GRADIENT));
  return node->op->backward(run, node);
}

static ch_status announce_gradients(const ch_run *run, const ch_plan_step *step) {
  const ch_gradient_listener *listener = run->listener;
  if (!listener || !listener->wanted || step->kind != CH_STEP_BACKWARD) return CH_OK;
  for (int i = 0; i < step->node->inputs; i++)
    if (step->begins[i]) CH_TRY(listener->wanted(listener->context, step->begins[i] - 1, run->error));
  return CH_OK;
}

static void report_gradients(const ch_run *run, const ch_plan_step *step) {
  const ch_gradient_listener *listener = run->listener;
  if (!listener) return;
  if (step->kind == CH_STEP_BACKWARD)
    for (int i = 0; i < step->node->inputs; i++) {
      if (run->more_micro_batches && step->ends[i] && listener->written)
        listener->written(listener->context, step->ends[i] - 1);
      if (!run->more_micro_batches && step->makes_final[i] && listener->final)
        listener->final(listener->context, step->node->in[i]->index);
    }
  if (listener->moved) listener->moved(listener->context);
}

/* Returns true if this micro-batch skips the step. Nodes that depend only on parameters have their forward steps
   in the first micro-batch on this machine and their backward steps in the last of the optimizer step. */
static bool is_left_out(const ch_run *run, const ch_plan_step *step) {
  if (!run->plan->parameter_only[step->node->id]) return false;
  return step->kind == CH_STEP_FORWARD ? run->follows_micro_batch && !run->elsewhere
                                       : run->more_micro_batches;
}

double ch_run_share(const ch_run *run) {
  return (double)(run->step - run->plan->steps + 1) / (double)(run->plan->step_count + 1);
}

/* Sets the number of workers for a step. The GEMM library reads it from OpenMP. */
static void set_workers(ch_run *run, const ch_plan_step *step) {
  int workers = ch_governor_workers(run->governor, step->expected);
  if (workers == run->team->workers) return;
  run->team->workers = workers;
  ch_team_enter(run->team);
}

static ch_status attend_watch(const ch_run *run) {
  if (ch_watch_stops(run->team->watch)) return ch_fail(run->error, CH_ERROR_INTERRUPTED, "interrupted");
  ch_watch_tell(run->team->watch, ch_run_share(run));
  return CH_OK;
}

static ch_status run_steps(const ch_plan *plan, ch_run *run) {
  bool timed = run->profile || run->governor;
  double start = timed ? ch_clock() : 0;
  for (int t = 0; t < plan->step_count; t += plan->steps[t].together) {
    ch_plan_step *step = &plan->steps[t];
    if (is_left_out(run, step)) continue;
    CH_TRY(announce_gradients(run, step));
    if (run->governor) set_workers(run, step);
    CH_TRY(run_step(run, step));
    if (run->team->watch) CH_TRY(attend_watch(run));
    double end = timed ? ch_clock() : 0;
    if (run->governor) ch_governor_observe(run->governor, &step->expected, end - start, end);
    if (run->profile) ch_profile_steps(run, step, start, end - start);
    start = end;
    report_gradients(run, step);
    for (int i = 0; run->observer && step->kind == CH_STEP_FORWARD && i < step->together; i++) {
      run->step = &step[i];
      CH_TRY(run->observer->seen(run->observer->context, run, step[i].node));
    }
  }
  return CH_OK;
}

ch_status ch_plan_run(const ch_plan *plan, ch_run *run) {
  run->plan = plan;
  if (run->workspace->bytes < plan->bytes)
    return ch_fail(run->error, CH_ERROR_ARGUMENT, "the workspace has %zu bytes where the plan needs %zu",
                   run->workspace->bytes, plan->bytes);
  if (run->team->threads != plan->threads)
    return ch_fail(run->error, CH_ERROR_ARGUMENT, "a plan for %d threads cannot run on a team of %d",
                   plan->threads, run->team->threads);
  if (run->kernels->memory->host) memcpy(run->host_inputs, run->inputs, sizeof run->inputs);
  ch_team_before before = ch_team_enter(run->team);
  ch_status status = run_steps(plan, run);
  ch_team_leave(before);
  return status;
}
