/* Logits, loss and gradients of given tokens or images, in one pass or through the cache token by token. */
#include "infer/api_forward.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"
#include "infer/api.h"
#include "infer/log_probability.h"

/* The private part of a result. */
typedef struct result_memory {
  ch_workspace workspace; /* memory of the logits, unless the result owns them */
  void *gradient_data;
} result_memory;

/* Returns CH_F64 if the weights are F64 (either all are or none), else CH_F32. */
static ch_dtype arithmetic_of(const ch_model *model) {
  bool wide = model->params.count > 0 && model->weights.tensors[0].dtype == CH_F64;
  return wide ? CH_F64 : CH_F32;
}

/* Returns true if the weights are those of the files, in the type of the arithmetic. */
static bool can_differentiate(const ch_model *model) {
  ch_dtype dtype = arithmetic_of(model);
  for (int i = 0; i < model->params.count; i++)
    if (model->weights.tensors[i].dtype != dtype) return false;
  return !model->materialised;
}

/* --- loss ----------------------------------------------------------------------------------------------- */

static double cross_entropy(const float *logits, int64_t vocabulary, int32_t target) {
  return ch_log_sum_exp(logits, vocabulary) - logits[target];
}

/* Writes the target of each row of logits to targets [sequences, length]: the next token, or the label; -1 if
   unknown. Returns the number of known targets. */
static int64_t fill_targets(const ch_forward_request *r, int32_t *targets) {
  int64_t known = 0;
  for (int64_t i = 0; i < r->sequences * r->length; i++) {
    if (r->pixels)
      targets[i] = r->labels ? r->labels[i] : -1;
    else
      targets[i] = (i + 1) % r->length ? r->tokens[i + 1] : -1;
    known += targets[i] >= 0;
  }
  return known;
}

static void loss_of_logits(const int32_t *targets, int64_t rows, int64_t known, ch_forward_result *result) {
  double sum = 0;
  result->has_loss = known > 0;
  for (int64_t row = 0; row < rows; row++)
    if (targets[row] >= 0)
      sum += cross_entropy(result->logits + row * result->classes, result->classes, targets[row]);
  if (known > 0) result->loss = sum / (double)known;
}

static bool ends_early(ch_precision type) {
  return type == CH_PRECISION_F16 || type == CH_PRECISION_Q8_0 || type == CH_PRECISION_Q4_0;
}

static ch_status not_finite(const ch_forward_request *r, int64_t row, ch_error *error) {
  bool narrow = r->cached && (ends_early(r->cache) || ends_early(r->cache_keys) ||
                              ends_early(r->cache_values) || ends_early(r->cache_latents));
  return ch_fail(error, CH_ERROR_NUMERIC,
                 "the logits of %s %lld, token %lld are not finite; a weight is damaged or too large%s",
                 r->pixels ? "image" : "sequence", (long long)(row / r->length), (long long)(row % r->length),
                 narrow ? ", or the cache's type cannot hold a key or value, as bf16 and f32 can" : "");
}

/* Fails unless the logits [rows, vocabulary] are finite. Their row 0 is row `first` of the request's
   [sequences, length]. */
static ch_status check_finite(const ch_forward_request *r, int64_t first, int64_t rows, int64_t vocabulary,
                              const float *logits, ch_error *error) {
  for (int64_t i = 0; i < rows * vocabulary; i++)
    if (!isfinite(logits[i])) return not_finite(r, first + i / vocabulary, error);
  return CH_OK;
}

static ch_status allocate_logits(const ch_forward_request *r, ch_forward_result *result, ch_error *error) {
  int64_t rows = r->sequences * r->length;
  result->logits = malloc((size_t)rows * (size_t)result->classes * sizeof *result->logits);
  if (result->logits) return CH_OK;
  return ch_no_memory(error);
}

static double wide(ch_dtype dtype, const void *values, int64_t i) {
  return dtype == CH_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* --- plain passes --------------------------------------------------------------------------------------- */

static ch_status plain_logits(const ch_model *model, const ch_forward_request *r, ch_engine *engine,
                              ch_forward_result *result, ch_error *error) {
  ch_model_graph shape = {
      .sequences = r->sequences, .length = r->length, .dtype = arithmetic_of(model), .head = CH_HEAD_LOGITS};
  ch_runner *runner;
  CH_TRY(ch_runner_create(engine, &model->config, &model->params, &shape, false, &runner, error));
  ch_runner_call call = {.weights = model->weights.tensors, .tokens = r->tokens, .pixels = r->pixels};
  const void *value = NULL;
  ch_status status = ch_runner_run(runner, &call, &value, error);
  ch_runner_free(runner);
  CH_TRY(status);
  if (arithmetic_of(model) == CH_F32 && engine->kernels->memory->host) {
    /* the logits stay in the workspace */
    result->logits = (float *)(uintptr_t)value;
    ((result_memory *)result->own)->workspace = engine->workspace;
    engine->workspace = (ch_workspace){0};
    return CH_OK;
  }
  CH_TRY(allocate_logits(r, result, error));
  for (int64_t i = 0; i < r->sequences * r->length * result->classes; i++)
    result->logits[i] = (float)wide(arithmetic_of(model), value, i);
  return CH_OK;
}

/* Computes the loss of all tokens in one pass. Logits exist for only a few hundred tokens at a time. The last tokens
   are computed too, although they predict nothing. */
static ch_status plain_loss(const ch_model *model, const ch_forward_request *r, ch_engine *engine,
                            const int32_t *targets, int64_t known, ch_forward_result *result,
                            ch_error *error) {
  ch_model_graph shape = {
      .sequences = r->sequences, .length = r->length, .dtype = arithmetic_of(model), .head = CH_HEAD_LOSS};
  int64_t rows = r->sequences * r->length;
  int32_t *all = malloc((size_t)rows * sizeof *all);
  if (!all) return ch_no_memory(error);
  for (int64_t i = 0; i < rows; i++) all[i] = targets[i] < 0 ? 0 : targets[i];
  ch_runner *runner = NULL;
  ch_runner_call call = {.weights = model->weights.tensors, .tokens = r->tokens, .targets = all};
  const void *losses = NULL;
  double sum = 0;
  ch_status status = ch_runner_create(engine, &model->config, &model->params, &shape, false, &runner, error);
  if (status == CH_OK) status = ch_runner_run(runner, &call, &losses, error);
  for (int64_t i = 0; status == CH_OK && i < rows; i++) {
    double loss = wide(arithmetic_of(model), losses, i);
    if (!isfinite(loss)) status = not_finite(r, i, error);
    if (targets[i] >= 0) sum += loss;
  }
  result->has_loss = known > 0;
  if (known > 0) result->loss = sum / (double)known;
  ch_runner_free(runner);
  free(all);
  return status;
}

/* Allocates memory for the gradients on the host; *bytes is its size. */
static ch_status allocate_gradients(const ch_model *model, ch_dtype dtype, ch_forward_result *result,
                                    size_t *bytes, ch_error *error) {
  size_t total = 0, element = ch_dtype_size(dtype), count = (size_t)model->params.count;
  for (size_t i = 0; i < count; i++) total += (size_t)ch_param_count(&model->params.rows[i]);
  result_memory *own = result->own;
  result->gradients = calloc(count, sizeof *result->gradients);
  own->gradient_data = calloc(total, element);
  *bytes = total * element;
  if (!result->gradients || !own->gradient_data) return ch_no_memory(error);
  char *next = own->gradient_data;
  for (size_t i = 0; i < count; i++) {
    const ch_param *param = &model->params.rows[i];
    if (!param->frozen) {
      ch_gradient *gradient = &result->gradients[result->gradient_count++];
      *gradient = (ch_gradient){.name = param->name,
                                .rank = param->rank,
                                .type = dtype == CH_F64 ? CH_PRECISION_F64 : CH_PRECISION_F32,
                                .data = next};
      memcpy(gradient->shape, param->shape, sizeof gradient->shape);
    }
    next += (size_t)ch_param_count(param) * element;
  }
  return CH_OK;
}

static ch_status gradient_pass(const ch_model *model, const ch_forward_request *r, ch_engine *engine,
                               void **pointers, const int32_t *targets, int64_t known, ch_error *error) {
  ch_model_graph shape = {.sequences = r->sequences,
                          .length = r->length,
                          .dtype = arithmetic_of(model),
                          .head = CH_HEAD_LOSS,
                          .trainable = true};
  ch_runner *runner;
  CH_TRY(ch_runner_create(engine, &model->config, &model->params, &shape, false, &runner, error));
  ch_runner_call call = {.weights = model->weights.tensors,
                         .tokens = r->tokens,
                         .pixels = r->pixels,
                         .targets = targets,
                         .gradients = pointers,
                         .seed = 1 / (double)known};
  const void *value = NULL;
  ch_status status = ch_runner_run(runner, &call, &value, error);
  ch_runner_free(runner);
  return status;
}

static ch_status gradients(const ch_model *model, const ch_forward_request *r, ch_engine *engine,
                           const int32_t *targets, int64_t known, ch_forward_result *result,
                           ch_error *error) {
  if (known < 1 && r->pixels)
    return ch_fail(error, CH_ERROR_ARGUMENT, "without labels there is no loss to differentiate; give some");
  if (known < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "one token predicts nothing, so there is no loss to differentiate; give two or more");
  const ch_value_memory *memory = engine->kernels->memory;
  result_memory *own = result->own;
  size_t bytes = 0;
  CH_TRY(allocate_gradients(model, arithmetic_of(model), result, &bytes, error));
  char *block = memory->host ? own->gradient_data : memory->allocate(bytes), *next = block;
  void **pointers = calloc((size_t)model->params.count, sizeof *pointers);
  ch_status status = block && pointers ? CH_OK : ch_no_memory(error);
  for (int i = 0; status == CH_OK && i < model->params.count; i++) {
    pointers[i] = next;
    next += (size_t)ch_param_count(&model->params.rows[i]) * ch_dtype_size(arithmetic_of(model));
  }
  if (status == CH_OK) status = gradient_pass(model, r, engine, pointers, targets, known, error);
  if (status == CH_OK && !memory->host) memory->read(own->gradient_data, block, bytes);
  if (block && !memory->host) memory->release(block, bytes);
  free(pointers);
  return status;
}

static ch_status plain(const ch_model *model, const ch_forward_request *r, const int32_t *targets,
                       int64_t known, ch_forward_result *result, ch_error *error) {
  ch_engine engine;
  CH_TRY(ch_engine_init(&engine, arithmetic_of(model), error));
  engine.compute = model->compute;
  ch_status status = r->loss_alone ? plain_loss(model, r, &engine, targets, known, result, error)
                                   : plain_logits(model, r, &engine, result, error);
  if (status == CH_OK && r->gradients) status = gradients(model, r, &engine, targets, known, result, error);
  ch_engine_free(&engine);
  if (r->pixels) return status;
  result->cache_elements_per_token = ch_state_elements(&model->config);
  result->cache_bytes_allocated =
      (size_t)((ch_state_elements_at(&model->config, r->length) + ch_fixed_state_elements(&model->config)) *
               r->sequences) *
      sizeof(float);
  return status;
}

/* --- through the cache ---------------------------------------------------------------------------------- */

enum { CACHED_PASS = 512 }; /* tokens whose logits exist at once */

/* The state that the passes of one request share. */
typedef struct passes {
  const ch_forward_request *request;
  ch_session *session;
  const int32_t *targets;
  int32_t *chunk; /* [sequences, CACHED_PASS] tokens of one pass */
  ch_forward_result *result;
  double sum; /* sum of losses, if logits are not saved */
} passes;

/* Stores the logits [count, V] of `count` tokens from row `first` on, or adds their losses. */
static ch_status take_logits(passes *p, int64_t first, int64_t count, const float *logits, ch_error *error) {
  int64_t vocabulary = p->result->classes;
  if (p->result->logits) {
    memcpy(p->result->logits + first * vocabulary, logits, (size_t)(count * vocabulary) * sizeof *logits);
    return CH_OK;
  }
  CH_TRY(check_finite(p->request, first, count, vocabulary, logits, error));
  for (int64_t i = 0; i < count; i++)
    if (p->targets[first + i] >= 0)
      p->sum += cross_entropy(logits + i * vocabulary, vocabulary, p->targets[first + i]);
  return CH_OK;
}

/* Feeds tokens [first, first + count) of every sequence. */
static ch_status feed(passes *p, int64_t first, int64_t count, ch_error *error) {
  const ch_forward_request *r = p->request;
  for (int64_t s = 0; s < r->sequences; s++)
    memcpy(p->chunk + s * count, r->tokens + s * r->length + first, (size_t)count * sizeof *p->chunk);
  const float *logits = NULL;
  CH_TRY(ch_session_feed_all(p->session, p->chunk, (size_t)count, &logits, error));
  for (int64_t s = 0; s < r->sequences; s++)
    CH_TRY(take_logits(p, s * r->length + first, count, logits + s * count * p->result->classes, error));
  return CH_OK;
}

static ch_status feed_all(passes *p, ch_error *error) {
  const ch_forward_request *r = p->request;
  for (int64_t t = 0, count; t < r->length; t += count) {
    count = t < r->cached ? r->cached - t : 1;
    if (count > CACHED_PASS) count = CACHED_PASS;
    CH_TRY(feed(p, t, count, error));
  }
  return CH_OK;
}

static ch_status through_cache(const ch_model *model, const ch_forward_request *r, const int32_t *targets,
                               int64_t known, ch_forward_result *result, ch_error *error) {
  if (r->cached > r->length)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "cannot prefill %lld tokens of a text of %lld; give at most that many",
                   (long long)r->cached, (long long)r->length);
  if (r->gradients)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "a pass through the cache has no gradients; leave out {gradients} or {cached}");
  ch_session_options options = {
      .sequences = r->sequences, .context = r->length, .chunk = CACHED_PASS, .compute = model->compute};
  passes p = {.request = r, .targets = targets, .result = result};
  ch_status status = CH_OK;
  const ch_precision asked[] = {r->cache, r->cache_keys, r->cache_values, r->cache_latents};
  CH_TRY(ch_api_cache_types(asked, &options.cache, error));
  if (!r->loss_alone) CH_TRY(allocate_logits(r, result, error));
  p.chunk = malloc((size_t)(r->sequences * CACHED_PASS) * sizeof *p.chunk);
  if (!p.chunk) return ch_no_memory(error);
  CH_TRY_GOTO(
      ch_session_new(&model->config, &model->params, model->weights.tensors, &options, &p.session, error));
  CH_TRY_GOTO(feed_all(&p, error));
  const ch_cache *cache = ch_session_cache(p.session);
  result->cache_bytes_allocated = cache->bytes;
  result->cache_elements_per_token = cache->token_elements;
  result->has_loss = known > 0;
  if (known > 0) result->loss = p.sum / (double)known;
done:
  ch_session_free(p.session);
  free(p.chunk);
  return status;
}

/* --- requests ------------------------------------------------------------------------------------------- */

static ch_status check_request(const ch_model *model, const ch_forward_request *r, ch_error *error) {
  if (ch_config_is_vision(&model->config)) {
    if (r->loss_alone)
      return ch_fail(error, CH_ERROR_ARGUMENT, "loss_alone is for text; leave it out for images");
    if (!r->pixels) return ch_fail(error, CH_ERROR_ARGUMENT, "this model is for images and has no tokens");
    if (r->cached)
      return ch_fail(error, CH_ERROR_ARGUMENT, "a model of images has no cache to decode through");
    for (int64_t i = 0; r->labels && i < r->sequences; i++)
      if (r->labels[i] < -1 || r->labels[i] >= model->config.num_classes)
        return ch_fail(error, CH_ERROR_ARGUMENT, "label %d of image %lld is outside the classes of 0 to %lld",
                       r->labels[i], (long long)i, (long long)model->config.num_classes - 1);
  } else if (r->pixels)
    return ch_fail(error, CH_ERROR_ARGUMENT, "this model is for text and cannot read images");
  else if (!r->tokens)
    return ch_refuse_null(error, "the list of tokens");
  if (r->gradients && !can_differentiate(model))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "this model was not opened for gradients; ch_model_open_exact opens one that is");
  if (r->sequences < 1 || r->length < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT, "no %s are given; at least one is needed",
                   r->pixels ? "images" : "tokens");
  return CH_OK;
}

ch_status ch_forward(const ch_model *model, const ch_forward_request *request, ch_forward_result *result,
                     ch_error *error) {
  if (!model || !request || !result) return ch_refuse_null(error, "the model, the request or the result");
  const ch_config *config = &model->config;
  CH_TRY(check_request(model, request, error));
  int64_t rows = request->sequences * request->length;
  int32_t *targets = malloc((size_t)rows * sizeof *targets);
  *result = (ch_forward_result){.sequences = request->sequences,
                                .length = request->length,
                                .images = request->pixels != NULL,
                                .cache_tokens = request->pixels ? 0 : rows,
                                .classes = request->pixels ? config->num_classes : config->vocab_size,
                                .own = calloc(1, sizeof(result_memory))};
  if (!targets || !result->own) {
    free(targets);
    ch_forward_result_free(result);
    return ch_no_memory(error);
  }
  int64_t known = fill_targets(request, targets);
  ch_status status = request->cached > 0 ? through_cache(model, request, targets, known, result, error)
                                         : plain(model, request, targets, known, result, error);
  if (status == CH_OK && result->logits) {
    status = check_finite(request, 0, rows, result->classes, result->logits, error);
    if (status == CH_OK) loss_of_logits(targets, rows, known, result);
  }
  if (status != CH_OK) ch_forward_result_free(result);
  free(targets);
  return status;
}

void ch_forward_result_free(ch_forward_result *result) {
  if (!result) return;
  result_memory *own = result->own;
  if (!own || !own->workspace.data) free(result->logits);
  if (own) {
    ch_workspace_free(&own->workspace);
    free(own->gradient_data);
  }
  free(own);
  free(result->gradients);
  *result = (ch_forward_result){0};
}

/* --- opening -------------------------------------------------------------------------------------------- */

/* Returns the form to compute with. The form for serving rounds sums of 16-bit matrices to 16 bits again. It is not
   used for such models, because the results are compared with other implementations. */
static ch_materialise_for form_of(const ch_model *model) {
  for (int i = 0; i < model->params.count; i++) {
    ch_dtype dtype = model->weights.tensors[i].dtype;
    if (dtype == CH_F16 || dtype == CH_BF16) return CH_MATERIALISE_INFERENCE;
  }
  return CH_MATERIALISE_SERVING;
}

ch_status ch_model_open_exact(const char *directory, ch_precision compute, bool gradients, ch_model **model,
                              ch_error *error) {
  bool wide = compute == CH_PRECISION_F64;
  ch_dtype dtype = CH_F32;
  if (!directory || !model) return ch_refuse_null(error, "the directory's name or the model pointer");
  *model = NULL;
  if (!wide) CH_TRY(ch_api_compute_type(compute, CH_F32, &dtype, error));
  if (gradients && dtype == CH_BF16)
    return ch_fail(error, CH_ERROR_ARGUMENT, "gradients are computed in F32 or F64, not in BF16");
  ch_weights_mode mode = wide ? CH_WEIGHTS_F64 : gradients ? CH_WEIGHTS_F32 : CH_WEIGHTS_MAPPED;
  ch_model *opened = NULL;
  CH_TRY(ch_model_load(directory, mode, &opened, error));
  opened->compute = dtype;
  ch_status status = gradients ? CH_OK : ch_model_materialise(opened, form_of(opened), error);
  if (status == CH_OK)
    *model = opened;
  else
    ch_model_unload(opened);
  return status;
}
