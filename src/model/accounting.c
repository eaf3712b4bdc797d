/* Counts parameters in the table, the cache by the states, and FLOPs in the graphs of passes. */
#include "model/accounting.h"

#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "graph/ops/append.h"
#include "model/transformer.h"

void ch_account_parameters(const ch_config *config, const ch_params *params, ch_account *account) {
  *account = (ch_account){0};
  int64_t experts = 0, *const figures[] = {[CH_PARAM_ATTENTION] = &account->parameters_attention,
                                           [CH_PARAM_EMBEDDING] = &account->parameters_embedding,
                                           [CH_PARAM_GATE_EMBEDDING] = &account->parameters_gate_embedding,
                                           [CH_PARAM_FFN] = &account->parameters_feed_forward,
                                           [CH_PARAM_EXPERT] = &account->parameters_feed_forward,
                                           [CH_PARAM_NORM] = &account->parameters_norm,
                                           [CH_PARAM_PATCH] = &account->parameters_patch,
                                           [CH_PARAM_POSITION] = &account->parameters_position,
                                           [CH_PARAM_CLASSIFIER] = &account->parameters_head};
  for (int i = 0; i < params->count; i++) {
    const ch_param *row = &params->rows[i];
    int64_t n = ch_param_figure(row);
    account->parameters_total += n;
    *figures[row->kind] += n;
    if (row->kind == CH_PARAM_EXPERT) experts += n;
  }
  account->parameters_embedding +=
      account->parameters_patch + account->parameters_position + account->parameters_head;
  account->parameters_active = account->parameters_total - account->parameters_gate_embedding;
  if (experts) /* all experts have one size */
    account->parameters_active -= experts / config->moe.experts * (config->moe.experts - config->moe.active);
}

/* Returns the name of the node's weight: a parameter among its inputs, or among the inputs of an input that does not
   depend on tokens. */
static const char *weight_name(const ch_node *node, const bool *moves) {
  for (int i = 0; i < node->inputs; i++) {
    const ch_node *in = node->in[i];
    if (moves[in->id]) continue;
    if (in->label) return in->label;
    const char *name = weight_name(in, moves);
    if (name) return name;
  }
  return NULL;
}

/* Returns the figure to which an operation's FLOPs are added. Operations without a weight work on attention
   heads. */
static double *term_of(const ch_node *node, const bool *moves, ch_flops *flops) {
  const char *name = weight_name(node, moves);
  if (!name || strstr(name, ".self_attn.") || strstr(name, ".linear_attn.") ||
      strstr(name, "model.dictionary."))
    return &flops->attention_projections;
  if (strstr(name, ".patch_embed.")) return &flops->patches;
  return strstr(name, ".mlp.") ? &flops->feed_forward : &flops->lm_head;
}

/* Returns the FLOPs of a node per unit (token or image) of the graph, if a query attends to `context` tokens. A
   streamed value is computed once per run for each of these tokens. */
static double arithmetic(ch_graph *graph, const ch_node *node, double context, double units) {
  graph->context = context;
  double flops = node->op->flops(node) / units;
  const ch_append *states = node->streamed ? ch_append_behind(node) : NULL;
  if (states && states->seen > 0 && (double)states->seen < context) context = (double)states->seen;
  return node->streamed ? flops * context / (double)(graph->sequences * graph->length) : flops;
}

/* Marks the nodes that the root depends on. A graph may have other nodes, which no plan computes. Inputs come before
   their users. */
static void mark_needed(const ch_graph *graph, const ch_node *root, bool *needed) {
  needed[root->id] = true;
  for (int i = graph->count - 1; i >= 0; i--)
    for (int k = 0; needed[i] && k < graph->nodes[i]->inputs; k++) needed[graph->nodes[i]->in[k]->id] = true;
}

/* Counts FLOPs per unit of the graph, if a query attends to `context` tokens. Terms that grow with the context count
   as attention_context, the others by their weight. moves: true for values that depend on the tokens. Other values
   are computed once, when a model is loaded. */
static void count_graph(ch_graph *graph, const bool *needed, double context, double units, bool *moves,
                        ch_flops *flops) {
  for (int i = 0; i < graph->count; i++) {
    const ch_node *node = graph->nodes[i];
    moves[i] = node->kind == CH_NODE_INPUT || node->streamed;
    for (int k = 0; k < node->inputs; k++) moves[i] = moves[i] || moves[node->in[k]->id];
    if (!needed[i] || !moves[i] || node->kind != CH_NODE_OP || !node->op->flops) continue;
    double alone = 2 * arithmetic(graph, node, 0.5, units) - arithmetic(graph, node, 1, units);
    *term_of(node, moves, flops) += alone;
    if (context > 0) flops->attention_context += arithmetic(graph, node, context, units) - alone;
  }
  flops->total = flops->attention_projections + flops->attention_context + flops->feed_forward +
                 flops->lm_head + flops->patches;
}

static ch_status count_flops(const ch_config *config, const ch_params *params, bool cached, int64_t length,
                             int64_t context, ch_flops *flops, ch_error *error) {
  const ch_model_graph shape = {.sequences = 1,
                                .length = length,
                                .dtype = CH_F32,
                                .head = length > 1 ? CH_HEAD_LAST_LOGITS : CH_HEAD_LOGITS,
                                .cached = cached};
  ch_graph *graph = NULL;
  ch_node *root = NULL;
  ch_model_build(config, params, &shape, &graph, &root);
  size_t count = graph ? (size_t)graph->count + 1 : 1;
  bool *moves = calloc(2 * count, sizeof *moves); /* two arrays: `moves`, then the needed nodes */
  ch_status status = CH_OK;
  if (!graph || !moves)
    status = ch_no_memory(error);
  else if (!root)
    status = ch_fail_as(error, graph->error.status, &graph->error);
  else {
    mark_needed(graph, root, moves + count);
    double units = ch_config_is_vision(config) ? 1 : (double)length;
    count_graph(graph, moves + count, (double)context, units, moves, flops);
  }
  free(moves);
  ch_graph_free(graph);
  return status;
}

/* Counts prefill and decoding, with matrices that were materialised when the model was opened (materialise.h,
   CH_MATERIALISE_SERVING). */
static ch_status count_serving(const ch_config *config, const ch_params *params, int64_t depth,
                               ch_account *account, ch_error *error) {
  ch_params written = {0};
  ch_config dense = *config;
  ch_status status = CH_OK;
  if (config->sharing.type != CH_SHARING_NONE && config->sharing.type != CH_SHARING_LOW_RANK) {
    dense.sharing = (ch_sharing){0};
    status = ch_model_declare(&dense, &written, error);
    params = &written;
  }
  if (status == CH_OK)
    status = count_flops(&dense, params, true, ch_prefill_tokens(config), depth, &account->prefill, error);
  if (status == CH_OK) status = count_flops(&dense, params, true, 1, depth, &account->decode, error);
  ch_params_free(&written);
  return status;
}

ch_status ch_account_model(const ch_config *config, const ch_params *params, int64_t depth,
                           ch_cache_types cache, ch_account *account, ch_error *error) {
  const ch_mechanism *mechanism = ch_mechanism_of(config);
  *account = (ch_account){0};
  ch_account_parameters(config, params, account);
  if (ch_config_is_vision(config)) /* every token attends to its whole image, and nothing is cached */
    depth = ch_config_image_tokens(config);
  else {
    account->cache_elements_per_token = ch_state_elements(config);
    account->cache_elements_at_depth = ch_state_elements_at(config, depth);
    account->state_elements_per_sequence = ch_fixed_state_elements(config);
    account->cache_bytes_per_token = ch_state_bytes(config, &cache);
  }
  if (ch_linear_layers(config) < config->num_hidden_layers) {
    account->total_effective_rank = mechanism->total_effective_rank(config);
    account->shared_latent_dim = mechanism->shared_latent_dim(config);
  }
  CH_TRY(count_flops(config, params, false, 1, depth, &account->flops, error));
  if (ch_config_is_vision(config)) return CH_OK;
  return count_serving(config, params, depth, account, error);
}
