/* Running a plan, and what operations see of the run. */
#include "base/memory.h"
#include "base/progress.h"
#include "graph/plan_private.h"

ch_status ch_workspace_reserve(ch_workspace *workspace, size_t bytes, ch_error *error) {
  if (bytes <= workspace->bytes) return CH_OK;
  ch_workspace_free(workspace);
  void *data = ch_pages_alloc(bytes);
  if (!data)
    return ch_fail(error, CH_ERROR_MEMORY,
                   "no memory for the %zu MiB that a pass works in; fewer tokens at once, or a smaller "
                   "cache, leave room",
                   bytes >> 20);
  *workspace = (ch_workspace){.data = data, .bytes = bytes};
  return CH_OK;
}

void ch_workspace_free(ch_workspace *workspace) {
  ch_pages_free(workspace->data, workspace->bytes);
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

void *ch_run_scratch(const ch_run *run) {
  return (char *)run->workspace->data + run->plan->scratch_offset;
}

const void *ch_run_output_gradient(const ch_run *run, const ch_node *node) {
  return place(run, node, GRADIENT);
}

void *ch_run_gradient(const ch_run *run, const ch_node *node, int i, bool *accumulate) {
  const ch_node *input = node->in[i];
  bool settled = run->plan->settled[input->id];
  *accumulate = run->step->accumulate[i];
  if (!input->needs_gradient) return NULL;
  if (input->kind == CH_NODE_OP) {
    *accumulate |= settled && !run->plan->settled[node->id] && run->continues;
    return place(run, input, GRADIENT);
  }
  *accumulate |=
      run->accumulate && !(settled && run->continues); /* the first of the series to write it is this run */
  return run->gradients[input->index];
}

const ch_tensor *ch_run_param(const ch_run *run, const ch_node *node) {
  return node->kind == CH_NODE_PARAM ? &run->params[node->index] : NULL;
}

ch_dtype ch_run_dtype(const ch_run *run, const ch_node *node) {
  return node->kind == CH_NODE_PARAM ? run->params[node->index].dtype : node->dtype;
}

static ch_status run_step(ch_run *run, const ch_step *step) {
  const ch_node *node = step->node;
  run->step = step;
  if (step->together > 1) {
    const ch_node *nodes[CH_MOST_TOGETHER];
    for (int i = 0; i < step->together; i++) nodes[i] = step[i].node;
    return node->op->forward_together(run, step->together, nodes);
  }
  if (step->kind == CH_STEP_FORWARD) return node->op->forward(run, node);
  if (node == run->plan->root) run->kernels->fill(ch_node_count(node), run->seed, place(run, node, GRADIENT));
  return node->op->backward(run, node);
}

double ch_run_share(const ch_run *run) {
  return (double)(run->step - run->plan->steps + 1) / (double)(run->plan->step_count + 1);
}

ch_status ch_plan_run(const ch_plan *plan, ch_run *run) {
  run->plan = plan;
  if (run->workspace->bytes < plan->bytes)
    return ch_fail(run->error, CH_ERROR_ARGUMENT, "the workspace has %zu bytes where the plan needs %zu",
                   run->workspace->bytes, plan->bytes);
  for (int t = 0; t < plan->step_count; t += plan->steps[t].together) {
    const ch_step *step = &plan->steps[t];
    if (plan->settled[step->node->id] && (step->kind == CH_STEP_FORWARD ? run->continues : run->more))
      continue;
    double start = run->profile ? ch_clock() : 0;
    CH_TRY(run_step(run, step));
    if (run->profile) ch_profile_steps(run, step, start, ch_clock() - start);
    for (int i = 0; run->observer && step->kind == CH_STEP_FORWARD && i < step->together; i++) {
      run->step = &step[i];
      CH_TRY(run->observer->seen(run->observer->context, run, step[i].node));
    }
  }
  return CH_OK;
}
