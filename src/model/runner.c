/* Binds a plan's inputs and runs it, for training, evaluation, prefill and decoding. */
#include "model/runner.h"

#include "attention/registry.h"
#include "graph/token_groups.h"

#include <stdlib.h>
#include <string.h>

struct ch_runner {
  ch_engine *engine;
  ch_plan *plan;
  ch_model_graph shape;
  int64_t vocab_size; /* number of token ids, or of classes */
  bool vision, rings; /* rings: true if layers with a window store only its tokens */
  int64_t places;     /* number of learned positions; 0: positions are not learned */
  int32_t *positions; /* [sequences, length] positions of a pass's tokens */
  int parameters;
  size_t input_bytes[CH_INPUT_COUNT]; /* size of each input; 0: the model does not have it */
};

static ch_status init(ch_engine *engine, const ch_kernels *kernels, int threads, ch_error *error) {
  CH_TRY(ch_kernels_check(error));
  CH_TRY(ch_governor_check(error));
  *engine = (ch_engine){.kernels = kernels, .team = ch_team_of(threads), .compute = kernels->dtype};
  CH_TRY(ch_team_start(&engine->team, error));
  ch_governor_init(&engine->governor, engine->team.threads, ch_machine_is_busy());
  return ch_gemm_create(engine->kernels, &engine->team, &engine->gemm, error);
}

ch_status ch_engine_init_threads(ch_engine *engine, ch_dtype dtype, int threads, ch_error *error) {
  return init(engine, ch_kernels_of_engines(dtype), threads, error);
}

ch_status ch_engine_init_host(ch_engine *engine, ch_dtype dtype, ch_error *error) {
  return init(engine, ch_kernels_best(dtype), 0, error);
}

ch_status ch_engine_init(ch_engine *engine, ch_dtype dtype, ch_error *error) {
  return ch_engine_init_threads(engine, dtype, 0, error);
}

void ch_engine_watch(ch_engine *engine, ch_stop_test stop, void (*share)(void *context, double share),
                     void *context) {
  ch_watch_begin(&engine->watch, stop, share, context);
  engine->team.watch = stop || share ? &engine->watch : NULL;
}

void ch_engine_free(ch_engine *engine) {
  ch_gemm_free(engine->gemm);
  ch_workspace_free(&engine->workspace);
  ch_engine_copies_free(&engine->placed);
  ch_token_groups_free(engine->groups);
  *engine = (ch_engine){0};
}

static ch_status make_cache(const ch_engine *engine, const ch_config *config, int64_t sequences,
                            int64_t capacity, const ch_cache_types *types, bool whole, ch_cache **cache,
                            ch_error *error) {
  *cache = NULL;
  ch_layer_parts *parts = calloc((size_t)config->num_hidden_layers, sizeof *parts);
  if (!parts) return ch_no_memory(error);
  ch_state_parts(config, parts);
  for (int64_t layer = 0; whole && layer < config->num_hidden_layers; layer++) parts[layer].slides = false;
  ch_status status = ch_cache_create(&(ch_cache_shape){.layers = (int)config->num_hidden_layers,
                                                       .parts = parts,
                                                       .sequences = sequences,
                                                       .capacity = capacity,
                                                       .vocabulary = config->vocab_size,
                                                       .window = config->sliding_window,
                                                       .sinks = config->attention_sinks,
                                                       .types = *types,
                                                       .memory = engine->kernels->memory},
                                     cache, error);
  free(parts);
  return status;
}

ch_status ch_engine_cache(const ch_engine *engine, const ch_config *config, int64_t sequences,
                          int64_t capacity, const ch_cache_types *types, ch_cache **cache, ch_error *error) {
  return make_cache(engine, config, sequences, capacity, types, false, cache, error);
}

ch_status ch_engine_whole_cache(const ch_engine *engine, const ch_config *config, int64_t sequences,
                                int64_t capacity, const ch_cache_types *types, ch_cache **cache,
                                ch_error *error) {
  return make_cache(engine, config, sequences, capacity, types, true, cache, error);
}

static size_t input_bytes(const ch_node *input) {
  return input ? (size_t)ch_node_count(input) * ch_dtype_size(input->dtype) : 0;
}

ch_status ch_runner_create(ch_engine *engine, const ch_config *config, const ch_params *params,
                           const ch_model_graph *shape, bool recompute, ch_runner **result, ch_error *error) {
  *result = NULL;
  ch_runner *runner = calloc(1, sizeof *runner);
  if (!runner) return ch_no_memory(error);
  *runner =
      (ch_runner){.engine = engine,
                  .shape = *shape,
                  .vision = ch_config_is_vision(config),
                  .rings = ch_any_layer_slides(config) && ch_window_and_sinks(config) < shape->capacity,
                  .parameters = params->count,
                  .places = config->position == CH_POSITION_LEARNED ? config->max_position_embeddings : 0,
                  .vocab_size = ch_config_is_vision(config) ? config->num_classes : config->vocab_size};
  ch_graph *graph = NULL;
  ch_node *root = NULL;
  runner->shape.compute = engine->compute;
  ch_model_build(config, params, &runner->shape, &graph, &root);
  for (int i = 0; graph && i < CH_INPUT_COUNT; i++) runner->input_bytes[i] = input_bytes(graph->inputs[i]);
  ch_plan_options options = {
      .backward = shape->trainable, .recompute = recompute, .accumulation = shape->accumulation};
  ch_status status =
      ch_plan_create(graph, root, engine->kernels, &engine->team, &options, &runner->plan, error);
  if (status == CH_OK) {
    runner->positions = malloc((size_t)(shape->sequences * shape->length) * sizeof *runner->positions);
    if (!runner->positions) status = ch_no_memory(error);
  }
  if (status == CH_OK)
    status =
        ch_workspace_reserve(&engine->workspace, engine->kernels->memory, ch_plan_bytes(runner->plan), error);
  if (status != CH_OK) {
    ch_runner_free(runner);
    return status;
  }
  *result = runner;
  return CH_OK;
}

void ch_runner_free(ch_runner *runner) {
  if (!runner) return;
  ch_plan_free(runner->plan);
  free(runner->positions);
  free(runner);
}

static ch_status check_ids(const ch_runner *runner, const int32_t *ids, int32_t least, const char *what,
                           ch_error *error) {
  int64_t count = runner->shape.sequences * runner->shape.length;
  for (int64_t i = 0; i < count; i++)
    if (ids[i] < least || ids[i] >= runner->vocab_size)
      return ch_fail(error, CH_ERROR_ARGUMENT, "%s %d at index %lld is outside the %s of 0 to %lld", what,
                     ids[i], (long long)i, runner->vision ? "classes" : "vocabulary",
                     (long long)runner->vocab_size - 1);
  return CH_OK;
}

static ch_status check_cache(const ch_runner *runner, const ch_cache *cache, ch_error *error) {
  if (memcmp(&cache->types, &runner->shape.cache, sizeof cache->types) != 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the cache stores other types than the pass was planned for");
  if (cache->any_ring != runner->rings || (runner->rings && cache->capacity != runner->shape.capacity))
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "the cache has room for %lld tokens per sequence, but the pass was planned for rings of %lld",
        (long long)cache->capacity, (long long)runner->shape.capacity);
  for (int64_t s = 0; s < cache->sequences; s++)
    if (cache->length[s] + runner->shape.length > cache->capacity)
      return ch_fail(error, CH_ERROR_FULL, "the cache holds %d of %lld tokens and has no room for %lld more",
                     cache->length[s], (long long)cache->capacity, (long long)runner->shape.length);
  return CH_OK;
}

/* Sets the positions of tokens. Learned positions start at 0 in each document. For rotations only differences of
   positions matter. */
static ch_status set_positions(ch_runner *runner, const ch_runner_call *call, ch_error *error) {
  int64_t length = runner->shape.length;
  for (int64_t s = 0; s < runner->shape.sequences; s++) {
    const int32_t *start = runner->places && call->document_start ? call->document_start + s * length : NULL;
    int32_t before = call->cache ? call->cache->length[s] : 0;
    for (int64_t t = 0; t < length; t++)
      runner->positions[s * length + t] = (int32_t)t + before - (start ? start[t] : 0);
    if (runner->places && before + length > runner->places)
      return ch_fail(
          error, CH_ERROR_ARGUMENT,
          "the model has learned positions for %lld tokens (\"max_position_embeddings\"); the text is longer",
          (long long)runner->places);
  }
  return CH_OK;
}

/* Stores the ids of the tokens that the pass will write to the cache. */
static void note_tokens(const ch_runner *runner, const ch_runner_call *call) {
  int64_t length = runner->shape.length;
  for (int64_t s = 0; s < runner->shape.sequences; s++)
    memcpy(ch_cache_tokens(call->cache, s) + call->cache->length[s], call->tokens + s * length,
           (size_t)length * sizeof *call->tokens);
}

/* Copies weights and inputs to the kernels' memory, if that is not the host's. */
static ch_status place(ch_runner *runner, ch_run *run, ch_error *error) {
  ch_engine_copies *placed = &runner->engine->placed;
  const ch_value_memory *memory = run->kernels->memory;
  if (memory->host) return CH_OK;
  size_t bytes = 0, at = 0;
  for (int i = 0; i < CH_INPUT_COUNT; i++) bytes += (runner->input_bytes[i] + 63) & ~(size_t)63;
  CH_TRY(ch_engine_copies_tensors(placed, memory, runner->parameters, run->params, &run->params, error));
  CH_TRY(ch_engine_copies_reserve(placed, memory, bytes, 0, error));
  for (int i = 0; i < CH_INPUT_COUNT; i++) {
    run->host_inputs[i] = run->inputs[i];
    if (!run->inputs[i] || !runner->input_bytes[i]) continue;
    run->inputs[i] = (char *)placed->block + at;
    memory->write((char *)placed->block + at, run->host_inputs[i], runner->input_bytes[i]);
    at += (runner->input_bytes[i] + 63) & ~(size_t)63;
  }
  return CH_OK;
}

/* Copies the root's value to the host. */
static ch_status read_value(const ch_runner *runner, const ch_run *run, const void **value, ch_error *error) {
  ch_engine_copies *placed = &runner->engine->placed;
  const ch_value_memory *memory = run->kernels->memory;
  const ch_node *root = ch_plan_root(runner->plan);
  *value = ch_run_value(run, root);
  if (memory->host) return CH_OK;
  size_t bytes = (size_t)ch_node_count(root) * ch_dtype_size(root->dtype);
  CH_TRY(ch_engine_copies_reserve(placed, memory, 0, bytes, error));
  memory->read(placed->result, *value, bytes);
  *value = placed->result;
  return CH_OK;
}

ch_status ch_runner_run(ch_runner *runner, const ch_runner_call *call, const void **value, ch_error *error) {
  ch_engine *engine = runner->engine;
  if (!runner->vision && runner->shape.head != CH_HEAD_OF_STATES)
    CH_TRY(check_ids(runner, call->tokens, 0, "token id", error));
  if (runner->shape.head == CH_HEAD_LOSS || runner->shape.head == CH_HEAD_SCORES ||
      runner->shape.head == CH_HEAD_RANKS)
    CH_TRY(check_ids(runner, call->targets, -1, runner->vision ? "label" : "target id", error));
  if (runner->shape.cached) CH_TRY(check_cache(runner, call->cache, error));
  if (runner->shape.cached) ch_cache_begin(call->cache, runner->shape.length);
  if (runner->shape.cached && call->cache->tokens) {
    note_tokens(runner, call);
    if (runner->shape.length == 1) /* passes over several tokens expand the latents that they read */
      CH_TRY(ch_token_groups_find(&engine->groups, call->cache, 1, error));
  }
  CH_TRY(set_positions(runner, call, error));
  ch_run run = {.kernels = engine->kernels,
                .team = &engine->team,
                .governor = &engine->governor,
                .gemm = engine->gemm,
                .workspace = &engine->workspace,
                .params = call->weights,
                .gradients = call->gradients,
                .accumulate = call->accumulate,
                .follows_micro_batch = call->follows_micro_batch,
                .more_micro_batches = call->more_micro_batches,
                .elsewhere = call->elsewhere,
                .seed = call->seed,
                .routing = call->routing,
                .cache = call->cache,
                .groups = engine->groups,
                .profile = engine->profile,
                .observer = call->observer,
                .listener = call->listener,
                .error = error};
  run.inputs[CH_INPUT_TOKENS] = call->tokens;
  run.inputs[CH_INPUT_POSITIONS] = runner->positions;
  run.inputs[CH_INPUT_TARGETS] = call->targets;
  run.inputs[CH_INPUT_DOCUMENT_START] = call->document_start;
  run.inputs[CH_INPUT_LABELS] = call->targets;
  run.inputs[CH_INPUT_PIXELS] = call->pixels;
  run.inputs[CH_INPUT_STATES] = call->states;
  CH_TRY(place(runner, &run, error));
  CH_TRY(ch_plan_run(runner->plan, &run));
  for (int64_t s = 0; call->cache && s < runner->shape.sequences; s++)
    ch_cache_set_length(call->cache, s, call->cache->length[s] + (int32_t)runner->shape.length);
  return read_value(runner, &run, value, error);
}

const ch_gradient_sum *ch_runner_gradient_sums(const ch_runner *runner, int *count) {
  return ch_plan_gradient_sums(runner->plan, count);
}

void *ch_runner_gradient_sum(const ch_runner *runner, void *const *gradients, int sum) {
  return ch_run_gradient_sum(runner->plan, &runner->engine->workspace, gradients, sum);
}

int64_t ch_runner_columns(const ch_runner *runner) {
  return ch_node_columns(ch_plan_root(runner->plan));
}

double ch_runner_flops(const ch_runner *runner) {
  return ch_plan_flops(runner->plan);
}
