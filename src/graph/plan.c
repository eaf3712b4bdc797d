/* Plans a run: the order of steps, the values that are recomputed, and the lifetimes of buffers. layout.c places
 * the buffers; run_plan.c runs the plan. */
#include "graph/plan.h"

#include <stdlib.h>

#include "graph/layout.h"
#include "graph/plan_private.h"

/* --- schedule ------------------------------------------------------------------------------------------- */

/* Marks the nodes that the root's value depends on. */
static void mark_needed(const ch_plan *plan, bool *needed) {
  needed[plan->root->id] = true;
  for (int id = plan->root->id; id >= 0; id--) {
    const ch_node *node = plan->graph->nodes[id];
    for (int i = 0; needed[id] && i < node->inputs; i++) needed[node->in[i]->id] = true;
  }
}

static ch_plan_step *add_step(ch_plan *plan, ch_plan_step_kind kind, ch_node *node) {
  ch_plan_step *step = &plan->steps[plan->step_count++];
  *step = (ch_plan_step){.kind = kind, .node = node, .together = 1};
  return step;
}

/* Returns true if a node has a forward step of its own. */
static bool has_step(const ch_plan *plan, const bool *needed, const ch_node *node) {
  if (!needed[node->id] || node->kind != CH_NODE_OP || node->op->late) return false;
  bool deferred = plan->options.backward && node == plan->root && node->op->fused;
  bool in_passing = node->streamed && !node->op->stateful; /* true if the node that reads it computes it */
  return !deferred && !in_passing;
}

/* Schedules later nodes that can run together with this step's node, right after it. */
static void schedule_together(ch_plan *plan, const bool *needed, ch_plan_step *step, bool *scheduled) {
  const ch_node *node = step->node;
  if (plan->options.backward || plan->parameter_only[node->id] || !node->op->joins || !node->op->joins(node))
    return;
  for (int id = node->id + 1; id <= plan->root->id && step->together < CH_MOST_TOGETHER; id++) {
    ch_node *other = plan->graph->nodes[id];
    if (other->op != node->op || other->in[0] != node->in[0] || !has_step(plan, needed, other)) continue;
    if (!node->op->joins(other)) continue;
    add_step(plan, CH_STEP_FORWARD, other);
    scheduled[id] = true;
    step->together++;
  }
}

static bool reads_input(const ch_node *node, int i) {
  return node->op->backward_reads & CH_READS_INPUT(i);
}

/* Schedules the recomputation of a dropped value, after its inputs. */
static void bring_back(ch_plan *plan, ch_node *value, bool *back) {
  if (!plan->dropped[value->id] || back[value->id]) return;
  back[value->id] = true;
  for (int i = 0; i < value->inputs; i++) bring_back(plan, value->in[i], back);
  add_step(plan, CH_STEP_FORWARD, value);
}

/* Schedules the backward steps of the nodes that depend only on parameters, or of all others, starting at the
   root. Steps use the entries from `accumulate` on; the first unused one is returned. */
static bool *schedule_part(ch_plan *plan, const bool *needed, bool *reached, bool *back, bool parameter_only,
                           bool *accumulate) {
  for (int id = plan->root->id; id >= 0; id--) {
    ch_node *node = plan->graph->nodes[id];
    if (!needed[id] || !reached[id] || node->kind != CH_NODE_OP || plan->parameter_only[id] != parameter_only)
      continue;
    /* An input is recomputed just before the first backward step that reads it. */
    for (int i = 0; i < node->inputs; i++)
      if (reads_input(node, i)) bring_back(plan, node->in[i], back);
    ch_plan_step *step = add_step(plan, CH_STEP_BACKWARD, node);
    step->accumulate = accumulate;
    step->makes_final = plan->makes_final + (accumulate - plan->accumulate);
    step->begins = plan->begins + (accumulate - plan->accumulate);
    step->ends = plan->ends + (accumulate - plan->accumulate);
    for (int i = 0; i < node->inputs; i++) {
      ch_node *input = node->in[i];
      if (!input->needs_gradient) continue;
      accumulate[i] = reached[input->id];
      reached[input->id] = true;
    }
    accumulate += node->inputs;
  }
  return accumulate;
}

/* Marks the last backward step that writes each parameter's gradient: the gradient is final after it. */
static void mark_final_gradients(const ch_plan *plan, bool *seen) {
  for (int t = plan->step_count - 1; t >= 0; t--) {
    const ch_plan_step *step = &plan->steps[t];
    if (step->kind != CH_STEP_BACKWARD) continue;
    for (int i = step->node->inputs - 1; i >= 0; i--) {
      const ch_node *input = step->node->in[i];
      if (input->kind != CH_NODE_PARAM || !input->needs_gradient || seen[input->id]) continue;
      seen[input->id] = true;
      step->makes_final[i] = true;
    }
  }
}

/* Returns true if every micro-batch adds to the gradient of this input of a node. */
static bool is_sum(const ch_plan *plan, const ch_node *node, const ch_node *input) {
  if (!input->needs_gradient || plan->parameter_only[node->id]) return false;
  return input->kind == CH_NODE_PARAM || (input->kind == CH_NODE_OP && plan->parameter_only[input->id]);
}

/* Numbers the sums of gradients. numbers [nodes] receives 1 + the index of the sum of a node's gradient. */
static void number_sums(ch_plan *plan, int *numbers) {
  for (int t = 0; t < plan->step_count; t++) {
    const ch_plan_step *step = &plan->steps[t];
    if (step->kind != CH_STEP_BACKWARD) continue;
    for (int i = 0; i < step->node->inputs; i++) {
      const ch_node *input = step->node->in[i];
      if (!is_sum(plan, step->node, input) || numbers[input->id]) continue;
      plan->sums[plan->sum_count] =
          (ch_gradient_sum){.parameter = input->kind == CH_NODE_PARAM ? input->index : -1,
                            .node = input,
                            .bytes = (size_t)ch_node_count(input) * ch_dtype_size(plan->graph->dtype)};
      numbers[input->id] = ++plan->sum_count;
      step->begins[i] = plan->sum_count;
    }
  }
  for (int t = plan->step_count - 1; t >= 0; t--) {
    const ch_plan_step *step = &plan->steps[t];
    if (step->kind != CH_STEP_BACKWARD) continue;
    for (int i = step->node->inputs - 1; i >= 0; i--) {
      const ch_node *input = step->node->in[i];
      if (!is_sum(plan, step->node, input) || numbers[input->id] == 0) continue;
      step->ends[i] = numbers[input->id];
      numbers[input->id] = 0;
    }
  }
}

/* Schedules the backward pass. Nodes that depend only on parameters come last: their own gradients are sums over
   all micro-batches. */
static void schedule_backward(ch_plan *plan, const bool *needed, bool *reached, bool *back) {
  reached[plan->root->id] = plan->root->needs_gradient;
  bool *accumulate = schedule_part(plan, needed, reached, back, false, plan->accumulate);
  schedule_part(plan, needed, reached, back, true, accumulate);
}

/* Marks nodes that depend only on parameters, and parameters that only such nodes use. Marks nothing without
   gradient accumulation. */
static void mark_parameter_only(const ch_plan *plan, const bool *needed) {
  bool *parameter_only = plan->parameter_only;
  for (int id = 0; plan->options.accumulation && id <= plan->root->id; id++) {
    const ch_node *node = plan->graph->nodes[id];
    parameter_only[id] =
        node->kind == CH_NODE_PARAM || (node->kind == CH_NODE_OP && node->inputs > 0 && !node->op->stateful);
    for (int i = 0; i < node->inputs; i++)
      parameter_only[id] = parameter_only[id] && parameter_only[node->in[i]->id];
  }
  parameter_only[plan->root->id] = false;
  for (int id = 0; plan->options.accumulation && id <= plan->root->id; id++) {
    const ch_node *node = plan->graph->nodes[id];
    for (int i = 0; needed[id] && !parameter_only[id] && i < node->inputs; i++)
      if (node->in[i]->kind == CH_NODE_PARAM) parameter_only[node->in[i]->id] = false;
  }
}

/* Chooses the values that are recomputed: cheap ones whose inputs stay in memory for the backward pass anyway
   (their own backward reads them). Dropping such a value saves its memory and costs one more pass over its
   inputs. A value without a gradient, such as a rounded one, is also dropped if its input is. Late values are
   always marked, because only the backward pass computes them. */
static void choose_dropped(ch_plan *plan, const bool *needed) {
  for (int id = 0; id <= plan->root->id; id++) {
    const ch_node *node = plan->graph->nodes[id];
    plan->dropped[id] = node->kind == CH_NODE_OP && node->op->late;
  }
  if (!plan->options.backward || !plan->options.recompute) return;
  for (int id = 0; id <= plan->root->id; id++) {
    const ch_node *node = plan->graph->nodes[id];
    if (!needed[id] || node->kind != CH_NODE_OP || !node->op->cheap) continue;
    if (plan->parameter_only[id]) continue;
    bool inputs_stay = true;
    for (int i = 0; i < node->inputs; i++) {
      bool kept = reads_input(node, i) && !plan->dropped[node->in[i]->id];
      bool comes_back = !node->needs_gradient && plan->dropped[node->in[i]->id];
      inputs_stay &= node->in[i]->kind != CH_NODE_OP || kept || comes_back;
    }
    plan->dropped[id] = inputs_stay && !(node->op->backward_reads & CH_READS_OUTPUT);
  }
}

/* --- lifetimes ------------------------------------------------------------------------------------------ */

static bool has_value_buffer(const ch_node *node) {
  return node->kind == CH_NODE_OP && (!node->streamed || node->op->staged);
}

static ch_buffer *buffer_of(ch_buffer *buffers, int kind, const ch_node *node) {
  return &buffers[BUFFERS * node->id + kind];
}

static void use_or_define(ch_buffer *buffer, int t, int64_t elements, const ch_plan *plan) {
  if (buffer->intervals)
    ch_buffer_use(buffer, t);
  else
    ch_buffer_define(buffer, t, (size_t)elements * ch_dtype_size(plan->graph->dtype));
}

/* Marks the buffers that a step reads: its inputs, and all values from which streamed inputs are computed, up to
   the cache. */
static void use_inputs(ch_buffer *buffers, const ch_node *node, int t) {
  for (int i = 0; i < node->inputs; i++) {
    const ch_node *input = node->in[i];
    if (has_value_buffer(input)) ch_buffer_use(buffer_of(buffers, VALUE, input), t);
    if (input->streamed && !input->op->stateful) use_inputs(buffers, input, t);
  }
}

static void live_backward(const ch_plan *plan, ch_buffer *buffers, const ch_node *node, int t) {
  for (int i = 0; i < node->inputs; i++) {
    const ch_node *input = node->in[i];
    if (has_value_buffer(input) && reads_input(node, i)) ch_buffer_use(buffer_of(buffers, VALUE, input), t);
    if (input->needs_gradient && input->kind == CH_NODE_OP)
      use_or_define(buffer_of(buffers, GRADIENT, input), t, ch_node_count(input), plan);
  }
  use_or_define(buffer_of(buffers, GRADIENT, node), t, ch_node_count(node), plan);
  if (node->op->backward_reads & CH_READS_OUTPUT) ch_buffer_use(buffer_of(buffers, VALUE, node), t);
  if (node == plan->root) use_or_define(buffer_of(buffers, VALUE, node), t, ch_node_count(node), plan);
}

static void find_lifetimes(const ch_plan *plan, ch_buffer *buffers) {
  for (int t = 0; t < plan->step_count; t++) {
    const ch_node *node = plan->steps[t].node;
    if (plan->steps[t].kind == CH_STEP_FORWARD) {
      use_inputs(buffers, node, t);
      size_t bytes = node->op->staged ? node->op->staged(node)
                                      : (size_t)ch_node_count(node) * ch_dtype_size(node->dtype);
      if (has_value_buffer(node)) ch_buffer_define(buffer_of(buffers, VALUE, node), t, bytes);
    } else {
      live_backward(plan, buffers, node, t);
    }
    if (plan->options.backward && node->op->saved && node->needs_gradient)
      use_or_define(buffer_of(buffers, SAVED, node), t, node->op->saved(node), plan);
  }
  if (has_value_buffer(plan->root)) ch_buffer_use(buffer_of(buffers, VALUE, plan->root), plan->step_count);
}

/* Extends the lifetimes of values that depend only on parameters, and of their gradients, to the whole plan, so that
   they persist from the first micro-batch to the last. */
static void keep_parameter_only(ch_plan *plan, ch_buffer *buffers) {
  for (int id = 0; id < plan->graph->count; id++)
    for (int kind = 0; plan->parameter_only[id] && kind < BUFFERS; kind++) {
      ch_buffer *buffer = buffer_of(buffers, kind, plan->graph->nodes[id]);
      if (!buffer->intervals) continue;
      buffer->intervals = 1;
      buffer->first[0] = 0;
      buffer->last[0] = plan->step_count;
      plan->parameter_only_bytes += buffer->bytes;
    }
}

static size_t scratch_bytes(const ch_plan *plan, const ch_kernels *kernels, const ch_team *team) {
  ch_team planned = *team;
  ch_run probe = {.kernels = kernels, .team = &planned, .plan = plan};
  size_t most = 0;
  for (int t = 0; t < plan->step_count; t++) {
    const ch_plan_step *step = &plan->steps[t];
    if (!step->node->op->scratch) continue; /* streamed operations use their reader's scratch */
    size_t bytes = step->node->op->scratch(&probe, step->node, step->kind == CH_STEP_BACKWARD);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* --- the plan ------------------------------------------------------------------------------------------- */

static size_t all_inputs(const ch_graph *graph) {
  size_t inputs = 0;
  for (int id = 0; id < graph->count; id++) inputs += (size_t)graph->nodes[id]->inputs;
  return inputs;
}

static ch_status make_plan(ch_plan *plan, const ch_kernels *kernels, const ch_team *team, ch_error *error) {
  ch_status status = CH_OK;
  size_t n = (size_t)plan->graph->count;
  plan->steps = calloc(3 * n, sizeof *plan->steps);
  plan->accumulate = calloc(all_inputs(plan->graph) + 1, sizeof *plan->accumulate);
  plan->makes_final = calloc(all_inputs(plan->graph) + 1, sizeof *plan->makes_final);
  plan->begins = calloc(all_inputs(plan->graph) + 1, sizeof *plan->begins);
  plan->ends = calloc(all_inputs(plan->graph) + 1, sizeof *plan->ends);
  plan->sums = calloc(n, sizeof *plan->sums);
  int *numbers = calloc(n, sizeof *numbers);
  plan->dropped = calloc(n, sizeof *plan->dropped);
  plan->parameter_only = calloc(n, sizeof *plan->parameter_only);
  plan->offsets = calloc(BUFFERS * n, sizeof *plan->offsets);
  bool *marks = calloc(5 * n, sizeof *marks);
  ch_buffer *buffers = calloc(BUFFERS * n, sizeof *buffers);
  if (!plan->steps || !plan->accumulate || !plan->makes_final || !plan->dropped || !plan->parameter_only ||
      !plan->offsets || !plan->begins || !plan->ends || !plan->sums || !numbers || !marks || !buffers) {
    status = ch_no_memory(error);
    goto done;
  }
  bool *needed = marks, *reached = marks + n, *back = marks + 2 * n, *scheduled = marks + 3 * n,
       *final = marks + 4 * n;
  mark_needed(plan, needed);
  mark_parameter_only(plan, needed);
  choose_dropped(plan, needed);
  for (int id = 0; id <= plan->root->id; id++) {
    ch_node *node = plan->graph->nodes[id];
    if (!scheduled[id] && has_step(plan, needed, node))
      schedule_together(plan, needed, add_step(plan, CH_STEP_FORWARD, node), scheduled);
  }
  if (plan->options.backward) schedule_backward(plan, needed, reached, back);
  mark_final_gradients(plan, final);
  number_sums(plan, numbers);
  find_lifetimes(plan, buffers);
  keep_parameter_only(plan, buffers);
  size_t end = 0;
  CH_TRY_GOTO(ch_layout(buffers, (int)(BUFFERS * n), &end, error));
  for (size_t i = 0; i < BUFFERS * n; i++) plan->offsets[i] = buffers[i].offset;
  plan->scratch_offset = end;
  plan->bytes = end + scratch_bytes(plan, kernels, team);
done:
  free(numbers);
  free(marks);
  free(buffers);
  return status;
}

ch_status ch_plan_create(ch_graph *graph, ch_node *root, const ch_kernels *kernels, const ch_team *team,
                         const ch_plan_options *options, ch_plan **result, ch_error *error) {
  *result = NULL;
  if (!graph) return ch_no_memory(error);
  if (graph->error.status != CH_OK || !root) {
    ch_status status = ch_fail_as(error, CH_ERROR_CONFIG, &graph->error);
    ch_graph_free(graph);
    return status;
  }
  ch_plan *plan = calloc(1, sizeof *plan);
  if (!plan) {
    ch_graph_free(graph);
    return ch_no_memory(error);
  }
  plan->graph = graph;
  plan->root = root;
  plan->options = *options;
  plan->threads = team->threads;
  ch_status status = make_plan(plan, kernels, team, error);
  if (status != CH_OK) {
    ch_plan_free(plan);
    return status;
  }
  *result = plan;
  return CH_OK;
}

void ch_plan_free(ch_plan *plan) {
  if (!plan) return;
  ch_graph_free(plan->graph);
  free(plan->steps);
  free(plan->accumulate);
  free(plan->makes_final);
  free(plan->begins);
  free(plan->ends);
  free(plan->sums);
  free(plan->dropped);
  free(plan->parameter_only);
  free(plan->offsets);
  free(plan);
}

size_t ch_plan_bytes(const ch_plan *plan) {
  return plan->bytes;
}

size_t ch_plan_parameter_only_bytes(const ch_plan *plan) {
  return plan->parameter_only_bytes;
}

double ch_plan_flops(const ch_plan *plan) {
  double flops = 0;
  for (int id = 0; id < plan->graph->count; id++) {
    const ch_node *node = plan->graph->nodes[id];
    if (node->kind == CH_NODE_OP && node->op->flops) flops += node->op->flops(node);
  }
  return flops;
}

const ch_gradient_sum *ch_plan_gradient_sums(const ch_plan *plan, int *count) {
  *count = plan->sum_count;
  return plan->sums;
}

const ch_node *ch_plan_root(const ch_plan *plan) {
  return plan->root;
}
