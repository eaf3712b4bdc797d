/* Adds up the time of every operation, and the bytes and FLOPs of each call. Without a profile, nothing is
 * measured. */
#include "graph/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "graph/plan_private.h"
#include "graph/stream.h"

/* --- recording ------------------------------------------------------------------------------------------ */

void ch_profile_clear(ch_profile *profile) {
  profile->rows = 0;
  profile->seconds = 0;
  profile->event_count = 0;
  profile->full = false;
}

void ch_profile_release(ch_profile *profile) {
  free(profile->events);
  *profile = (ch_profile){0};
}

ch_status ch_profile_new(bool keep_events, ch_profile **profile, ch_error *error) {
  if (!profile) return ch_fail(error, CH_ERROR_ARGUMENT, "the profile pointer is NULL");
  *profile = calloc(1, sizeof **profile);
  if (!*profile) return ch_no_memory(error);
  (*profile)->keep_events = keep_events;
  return CH_OK;
}

void ch_profile_free(ch_profile *profile) {
  if (!profile) return;
  ch_profile_release(profile);
  free(profile);
}

static void keep_event(ch_profile *profile, const ch_profile_event *event) {
  if (!profile->keep_events || profile->full) return;
  if (profile->event_count == profile->event_capacity) {
    int64_t capacity = profile->event_capacity ? 2 * profile->event_capacity : 1024;
    ch_profile_event *events = realloc(profile->events, (size_t)capacity * sizeof *events);
    if (!events) {
      profile->full = true;
      return;
    }
    profile->events = events;
    profile->event_capacity = capacity;
  }
  profile->events[profile->event_count++] = *event;
}

static void add(ch_profile *profile, const ch_profile_event *event) {
  int i = 0, limit = (int)(sizeof profile->row / sizeof *profile->row);
  while (i < profile->rows && (strcmp(profile->row[i].name, event->name) != 0 ||
                               strcmp(profile->row[i].matrix, event->matrix) != 0))
    i++;
  if (i < limit) {
    ch_profile_row *row = &profile->row[i];
    if (i == profile->rows) {
      profile->rows++;
      *row = (ch_profile_row){.name = event->name, .dtype = event->dtype};
      memcpy(row->matrix, event->matrix, sizeof row->matrix);
    }
    *(event->kind == CH_PROFILE_FORWARD ? &row->forward : &row->backward) += event->seconds;
    row->flops += event->flops;
    row->bytes += event->bytes;
    row->calls++;
  }
  keep_event(profile, event);
}

void ch_profile_note(ch_profile *profile, const char *name, double start, double flops, double bytes) {
  if (!profile) return;
  const ch_profile_event event = {.kind = CH_PROFILE_FORWARD,
                                  .name = name,
                                  .layer = -1,
                                  .dtype = CH_F32,
                                  .start = start,
                                  .seconds = ch_clock() - start,
                                  .flops = flops,
                                  .bytes = bytes};
  add(profile, &event);
}

void ch_profile_span(ch_profile *profile, const char *name, double start) {
  if (!profile) return;
  const ch_profile_event event = {
      .kind = CH_PROFILE_SPAN, .name = name, .layer = -1, .start = start, .seconds = ch_clock() - start};
  keep_event(profile, &event);
}

/* --- describing a step ---------------------------------------------------------------------------------- */

/* Returns the layer of the node's parameters. For a node without parameters, returns the last layer of its
   inputs; -1: none. */
static int layer_of(const ch_node *node) {
  int layer = -1;
  for (int i = 0; i < node->inputs; i++)
    if (node->in[i]->label) { /* a parameter's name: "model.layers.3.mlp.up_proj.weight" */
      const char *at = strstr(node->in[i]->label, "layers.");
      return at && sscanf(at, "layers.%d", &layer) == 1 ? layer : -1;
    }
  for (int i = 0; i < node->inputs; i++) {
    int other = layer_of(node->in[i]);
    if (other > layer) layer = other;
  }
  return layer;
}

/* Names the first matrix among the inputs: "q_proj" of "model.layers.3.self_attn.q_proj.weight". */
static void name_matrix(const ch_node *node, char *matrix, size_t size) {
  for (int i = 0; i < node->inputs; i++) {
    const char *label = node->in[i]->label;
    if (!label || node->in[i]->rank < 2) continue;
    const char *end = strrchr(label, '.'), *begin;
    if (!end || strcmp(end, ".weight") != 0) end = label + strlen(label);
    for (begin = end; begin > label && begin[-1] != '.'; begin--) continue;
    snprintf(matrix, size, "%.*s", (int)(end - begin), begin);
    return;
  }
}

/* Returns the number of tokens that attention reads in all sequences: those of the cache, including this run's. */
static double tokens_held(const ch_run *run, const ch_graph *graph) {
  double held = 0;
  for (int64_t s = 0; s < graph->sequences; s++) held += (double)(run->cache->length[s] + graph->length);
  return held;
}

/* The streamed values counted so far. Keys and values may be computed from one value. */
typedef struct node_set {
  const ch_node *node[CH_MAX_STREAM_NODES];
  int count;
} node_set;

static bool count_once(node_set *c, const ch_node *node) {
  for (int i = 0; i < c->count; i++)
    if (c->node[i] == node) return false;
  if (c->count < CH_MAX_STREAM_NODES) c->node[c->count++] = node;
  return true;
}

/* Returns the FLOPs of the streamed inputs of the node, computed once for every token that it reads. */
static double streamed_flops(const ch_run *run, const ch_node *node, node_set *c) {
  double flops = 0;
  for (int i = 0; i < node->inputs; i++) {
    const ch_node *in = node->in[i];
    if (!in->streamed || in->kind != CH_NODE_OP || in->op->stateful || !count_once(c, in)) continue;
    double rows = (double)(in->graph->sequences * in->graph->length);
    if (in->op->flops) flops += in->op->flops(in) * tokens_held(run, in->graph) / rows;
    flops += streamed_flops(run, in, c);
  }
  return flops;
}

static double flops_of(const ch_run *run, const ch_plan_step *step) {
  const ch_node *node = step->node;
  ch_graph *graph = run->plan->graph;
  if (run->cache) /* set only while counting: the tokens that a query of this run sees on average */
    graph->context = tokens_held(run, graph) / (double)graph->sequences - ((double)graph->length - 1) / 2;
  double flops = node->op->flops ? node->op->flops(node) : 0;
  if (node->op->reads_states && run->cache) flops += streamed_flops(run, node, &(node_set){.count = 0});
  graph->context = 0;
  if (step->kind == CH_STEP_FORWARD) return flops;
  return flops * (node->op->fused ? 3 : 2); /* gradients of both factors, and the value if it is fused */
}

enum { MOST_STATES = 16 };

typedef struct states {
  const ch_node *node[MOST_STATES];
  int count;
  ch_dtype dtype;
  double bytes;
} states;

/* Finds the states in the cache from which a streamed value is computed, each once. */
static void find_states(const ch_run *run, const ch_node *node, states *found) {
  for (int i = 0; i < node->inputs; i++) {
    const ch_node *in = node->in[i];
    if (!in->streamed || in->kind != CH_NODE_OP) continue;
    if (!in->op->stateful) {
      find_states(run, in, found);
      continue;
    }
    bool known = found->count == MOST_STATES;
    for (int k = 0; k < found->count && !known; k++) known = found->node[k] == in;
    if (known) continue;
    found->node[found->count++] = in;
    found->dtype = in->op->state_type(in);
    found->bytes += (double)ch_dtype_bytes(found->dtype, ch_node_columns(in)) * tokens_held(run, in->graph);
  }
}

/* Returns the tensor of a parameter, or NULL for other nodes. */
static const ch_tensor *stored_param(const ch_run *run, const ch_node *node) {
  return node->kind == CH_NODE_PARAM ? &run->params[node->index] : NULL;
}

static double value_bytes(const ch_run *run, const ch_node *node) {
  const ch_tensor *stored = stored_param(run, node);
  if (stored) return (double)ch_tensor_bytes(stored);
  return (double)(ch_node_count(node) * (int64_t)ch_dtype_size(node->dtype));
}

/* Returns the bytes that a step reads or writes at least once, without scratch memory. */
static double bytes_of(const ch_run *run, const ch_plan_step *step) {
  const ch_node *node = step->node;
  bool backward = step->kind == CH_STEP_BACKWARD;
  double share = node->op->parameters_read ? node->op->parameters_read(node) : 1;
  double bytes = value_bytes(run, node);
  for (int i = 0; i < node->inputs; i++) {
    const ch_node *in = node->in[i];
    double whole = in->streamed ? 0 : value_bytes(run, in) * (in->kind == CH_NODE_PARAM ? share : 1);
    if (!backward || node->op->backward_reads & CH_READS_INPUT(i)) bytes += whole;
    if (backward && in->needs_gradient) bytes += whole;
  }
  return bytes;
}

static void add_one(ch_run *run, const ch_plan_step *step, double start, double seconds) {
  const ch_node *node = step->node;
  ch_profile_event event = {.kind = step->kind == CH_STEP_FORWARD ? CH_PROFILE_FORWARD : CH_PROFILE_BACKWARD,
                            .name = node->op->name,
                            .layer = -1,
                            .dtype = node->dtype,
                            .start = start,
                            .seconds = seconds,
                            .flops = flops_of(run, step),
                            .bytes = bytes_of(run, step)};
  if (node->op->flops) name_matrix(node, event.matrix, sizeof event.matrix);
  for (int i = 0; i < node->inputs && node->op->flops; i++) {
    const ch_tensor *stored = stored_param(run, node->in[i]);
    if (stored && stored->rank >= 2) event.dtype = stored->dtype;
  }
  /* Rounded factors determine the kind of product. */
  for (int i = 0; i < node->inputs && node->op->flops; i++) {
    if (node->in[i]->kind == CH_NODE_OP && node->in[i]->dtype == CH_BF16 &&
        !ch_dtype_is_block_quantised(event.dtype))
      event.dtype = CH_BF16;
  }
  bool rounded = node->op->flops && node->in[0]->dtype == CH_BF16;
  if (rounded && !ch_dtype_is_block_quantised(event.dtype)) event.dtype = CH_BF16;
  if (node->op->reads_states && run->cache) {
    states found = {.dtype = event.dtype};
    find_states(run, node, &found);
    event.bytes += found.bytes;
    event.dtype = found.dtype;
  }
  if (run->profile->keep_events) event.layer = layer_of(node);
  add(run->profile, &event);
}

void ch_profile_steps(ch_run *run, const ch_plan_step *step, double start, double seconds) {
  double all = 0;
  for (int i = 0; i < step->together; i++) all += flops_of(run, &step[i]);
  for (int i = 0; i < step->together; i++) {
    double share = step->together > 1 ? seconds * flops_of(run, &step[i]) / all : seconds;
    add_one(run, &step[i], start, share);
    start += share;
  }
}
