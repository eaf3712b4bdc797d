/* Bytes and seconds of a model from its parameter table and the states that its mechanism declares: no weight is read
 * or allocated. Times are the bytes read and the FLOPs done over a machine's limits. */
#include "planner/model_sizes.h"

#include <math.h>
#include <stdlib.h>

#include "attention/registry.h"
#include "base/file.h"
#include "bench/speed_limits.h"
#include "compress/quantise.h"
#include "infer/session.h"
#include "model/transformer.h"

/* --- weights ---------------------------------------------------------------------------------------------------- */

static bool has_weights(const char *path) {
  return path && (ch_directory_has(path, "model.safetensors") ||
                  ch_directory_has(path, "model.safetensors.index.json"));
}

/* Returns the type of a tensor if matrices are requested as `asked`. Vectors and tensors marked always_real
 * are F32. */
static ch_dtype weight_type(const ch_param *row, ch_dtype asked) {
  ch_quantised_sizes counted = {0};
  if (row->rank < 2 || row->always_real) return CH_F32;
  return ch_dtype_is_block_quantised(asked) ? ch_quantised_type(row, CH_BF16, asked, false, &counted) : asked;
}

/* Returns the type of a tensor in the files. For a tensor that the files do not have, returns the type that it gets if
 * matrices have the most frequent type. */
static ch_dtype stored_type(const ch_param *row, const ch_model *stored) {
  int index = ch_params_find(&stored->params, row->name);
  if (index >= 0) return stored->weights.tensors[index].dtype;
  return weight_type(row, ch_matrix_type(stored));
}

static void place_tensors(const ch_capacity_question *question, const ch_model *stored, ch_model *model) {
  for (int i = 0; i < model->params.count; i++) {
    const ch_param *row = &model->params.rows[i];
    ch_tensor *tensor = &model->weights.tensors[i];
    *tensor = (ch_tensor){.rank = row->rank};
    for (int d = 0; d < row->rank; d++) tensor->shape[d] = row->shape[d];
    if (question->typed)
      tensor->dtype = weight_type(row, question->weights);
    else
      tensor->dtype = stored ? stored_type(row, stored) : weight_type(row, CH_BF16);
  }
}

/* Declares the model as it is served, with tensors that have no data. */
static ch_status make_hollow(const ch_config *config, const char *path, const ch_capacity_question *question,
                             ch_model *model, ch_error *error) {
  ch_model *stored = NULL;
  bool written = config->sharing.type != CH_SHARING_NONE && config->sharing.type != CH_SHARING_LOW_RANK;
  *model = (ch_model){.config = *config};
  if (written) model->config.sharing = (ch_sharing){0};
  if (path && !written)
    CH_TRY(ch_model_declare_stored(path, &model->config, &model->params, error));
  else
    CH_TRY(ch_model_declare(&model->config, &model->params, error));
  model->weights.tensors = calloc((size_t)model->params.count + 1, sizeof *model->weights.tensors);
  if (!model->weights.tensors) return ch_no_memory(error);
  if (!question->typed && has_weights(path)) CH_TRY(ch_model_load(path, CH_WEIGHTS_MAPPED, &stored, error));
  place_tensors(question, stored, model);
  ch_model_unload(stored);
  return CH_OK;
}

/* --- cache and work memory --------------------------------------------------------------------------------------- */

/* Computes the bytes of states. A token adds its elements, its scalars and, with rows by id, its id. */
static ch_status size_states(const ch_config *config, const ch_capacity_question *question,
                             ch_capacity_sizes *sizes, ch_error *error) {
  ch_layer_parts *parts = calloc((size_t)config->num_hidden_layers, sizeof *parts);
  if (!parts) return ch_no_memory(error);
  ch_state_parts(config, parts);
  sizes->token = (double)ch_state_bytes(config, &question->cache);
  sizes->fixed = (double)ch_fixed_state_bytes(config);
  sizes->window = (double)ch_window_and_sinks(config);
  /* A token beyond the window adds only the parts that are not in a ring. */
  sizes->ring =
      sizes->token - (double)(ch_state_bytes_at(config, &question->cache, ch_window_and_sinks(config) + 1) -
                              ch_state_bytes_at(config, &question->cache, ch_window_and_sinks(config)));
  sizes->vocabulary = config->vocab_size;
  for (int64_t l = 0; l < config->num_hidden_layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      const ch_state_part *part = &parts[l].part[p];
      if (part->kind == CH_PART_SCALARS) sizes->token += (double)part->width * sizeof(float);
      if (part->kind == CH_PART_BY_ID) sizes->gate_row += (double)part->width * sizeof(float);
    }
  if (sizes->gate_row > 0) sizes->token += sizeof(int32_t);
  free(parts);
  return CH_OK;
}

/* Computes the work memory, which grows linearly with the sequences of a step. */
static ch_status size_work(const ch_model *model, const ch_capacity_question *question, int64_t pass_tokens,
                           ch_capacity_sizes *sizes, ch_error *error) {
  enum { MANY = 65 };
  ch_session_options options;
  size_t prompt = 0, one = 0, many = 0;
  ch_session_options_default(&model->config, &options);
  options.cache = question->cache;
  CH_TRY(ch_session_pass_bytes(&model->config, &model->params, &options, pass_tokens, &prompt, error));
  CH_TRY(ch_session_pass_bytes(&model->config, &model->params, &options, 1, &one, error));
  options.sequences = MANY;
  CH_TRY(ch_session_pass_bytes(&model->config, &model->params, &options, 1, &many, error));
  sizes->prompt_work = (double)prompt;
  sizes->step_work = (double)one;
  sizes->user_work = many > one ? (double)(many - one) / (MANY - 1) : 0;
  return CH_OK;
}

double ch_capacity_cache(const ch_capacity_sizes *sizes, double users, double context) {
  return users *
         (context * (sizes->token - sizes->ring) + fmin(context, sizes->window) * sizes->ring + sizes->fixed);
}

double ch_capacity_gates(const ch_capacity_sizes *sizes, double users, double context) {
  return fmin((double)sizes->vocabulary, users * context) * sizes->gate_row;
}

double ch_capacity_work(const ch_capacity_sizes *sizes, double users) {
  return fmax(sizes->prompt_work, sizes->step_work + (users - 1) * sizes->user_work);
}

double ch_capacity_needed(const ch_capacity_sizes *sizes, double users, double context) {
  return sizes->weights + ch_capacity_cache(sizes, users, context) +
         ch_capacity_gates(sizes, users, context) + ch_capacity_work(sizes, users);
}

/* Returns the largest whole number for which `fits` is true, or 0 if there is none. `fits` is true up to some number
 * and false above it. */
static int64_t largest(bool (*fits)(const ch_capacity_sizes *, double, double, double),
                       const ch_capacity_sizes *sizes, double other, double memory) {
  int64_t low = 0, high = INT64_C(1) << 52;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (fits(sizes, (double)middle, other, memory))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static bool users_fit(const ch_capacity_sizes *sizes, double users, double context, double memory) {
  return ch_capacity_needed(sizes, users, context) <= memory;
}

static bool context_fits(const ch_capacity_sizes *sizes, double context, double users, double memory) {
  return ch_capacity_needed(sizes, users, context) <= memory;
}

int64_t ch_capacity_users(const ch_capacity_sizes *sizes, int64_t context, double memory) {
  return largest(users_fit, sizes, (double)context, memory);
}

int64_t ch_capacity_context(const ch_capacity_sizes *sizes, int64_t users, double memory) {
  return largest(context_fits, sizes, (double)users, memory);
}

/* --- arithmetic -------------------------------------------------------------------------------------------------- */

/* Counts the FLOPs of a prompt. A token attends to (T + 1) / 2 tokens on average. Only the last token has
 * logits. */
static ch_status count_prompt(const ch_config *config, const ch_params *params,
                              const ch_capacity_question *question, ch_capacity_sizes *sizes,
                              ch_error *error) {
  ch_account account;
  double tokens = (double)question->context;
  CH_TRY(ch_account_model(config, params, (question->context + 1) / 2, question->cache, &account, error));
  sizes->prompt_attention_flops = tokens * account.prefill.attention_context;
  sizes->prompt_flops = tokens * (account.prefill.total - account.prefill.lm_head) + account.decode.lm_head;
  return CH_OK;
}

static ch_status count_all(const ch_config *config, const char *path, const ch_capacity_question *question,
                           ch_capacity_sizes *sizes, ch_error *error) {
  ch_params params = {0};
  ch_status status =
      path ? ch_model_declare_stored(path, config, &params, error) : ch_model_declare(config, &params, error);
  if (status == CH_OK)
    status = ch_account_model(config, &params, question->context, question->cache, &sizes->account, error);
  if (status == CH_OK) status = count_prompt(config, &params, question, sizes, error);
  ch_params_free(&params);
  return status;
}

ch_status ch_capacity_sizes_of(const ch_config *config, const char *path,
                               const ch_capacity_question *question, ch_capacity_sizes *sizes,
                               ch_error *error) {
  ch_model model;
  int64_t longest = ch_prefill_tokens(config),
          pass_tokens = question->context < longest ? question->context : longest;
  *sizes = (ch_capacity_sizes){.layers = config->num_hidden_layers,
                               .passes = (question->context + pass_tokens - 1) / pass_tokens};
  ch_status status = make_hollow(config, path, question, &model, error);
  if (status == CH_OK) {
    for (int i = 0; i < model.params.count; i++)
      sizes->weights += (double)ch_tensor_bytes(&model.weights.tensors[i]);
    sizes->step_weights = ch_speed_matrix_bytes(&model, question->users);
    sizes->pass_weights = ch_speed_matrix_bytes(&model, pass_tokens);
    sizes->type = ch_matrix_type(&model);
    status = size_states(&model.config, question, sizes, error);
  }
  if (status == CH_OK) status = size_work(&model, question, pass_tokens, sizes, error);
  if (status == CH_OK) status = count_all(config, path, question, sizes, error);
  ch_params_free(&model.params);
  free(model.weights.tensors);
  return status;
}

/* --- times ------------------------------------------------------------------------------------------------------- */

/* Returns the bandwidth of reading so many bytes repeatedly. */
static double device_rate(const ch_device *device, double bytes) {
  const ch_read_rate *rates = device->rates;
  int count = device->rate_count;
  if (count < 1 || bytes >= rates[count - 1].bytes) return device->read_bandwidth;
  if (bytes <= rates[0].bytes) return rates[0].rate;
  int above = 1;
  while (rates[above].bytes < bytes) above++;
  double part = log(bytes / rates[above - 1].bytes) / log(rates[above].bytes / rates[above - 1].bytes);
  return rates[above - 1].rate + part * (rates[above].rate - rates[above - 1].rate);
}

/* Returns the FLOP/s of products with matrices of a type. share: the part of the peak that types without
 * integer products reach. */
static double product_rate(const ch_device *device, ch_dtype type, double share) {
  bool integers = ch_dtype_is_block_quantised(type) && device->flops_quantised > 0;
  return integers ? device->flops_quantised * device->computing_quantised : device->flops * share;
}

/* Returns the time of reading and arithmetic together. They overlap almost fully if one lasts much longer than the
 * other, and less the closer their times are. */
static double together(double reading, double computing) {
  return hypot(reading, computing);
}

static const char *largest_part(double weights, double cache, double arithmetic, double layers) {
  double most = fmax(fmax(weights, cache), fmax(arithmetic, layers));
  return most == weights ? "weights" : most == cache ? "cache" : most == arithmetic ? "arithmetic" : "layers";
}

/* Estimates a step of all users with full contexts. */
static void expect_step(const ch_capacity_sizes *sizes, const ch_capacity_question *question,
                        const ch_device *device, ch_capacity_estimate *expected) {
  double users = (double)question->users;
  const ch_flops *decode = &sizes->account.decode;
  const ch_account *account = &sizes->account;
  double element = account->cache_elements_per_token
                       ? (double)account->cache_bytes_per_token / (double)account->cache_elements_per_token
                       : 0;
  /* States of constant size are read and written. */
  double cache = users * (element * (double)account->cache_elements_at_depth + 2 * sizes->fixed);
  double rate = device->reading * device_rate(device, sizes->step_weights + cache);
  double products = product_rate(device, sizes->type, device->computing_step),
         attention = device->flops * device->computing_step;
  double reading = sizes->step_weights / rate, attending = cache / rate,
         multiplying = users * (decode->total - decode->attention_context) / products,
         scoring = users * decode->attention_context / attention,
         layers = (double)sizes->layers * device->layer_seconds;
  expected->step_seconds = together(reading, multiplying) + together(attending, scoring) + layers;
  expected->tokens_per_second = users / expected->step_seconds;
  expected->user_tokens_per_second = 1 / expected->step_seconds;
  expected->bound = largest_part(reading, attending, multiplying + scoring, layers);
}

/* Estimates a prompt of the context's length, pass by pass. */
static void expect_prompt(const ch_capacity_sizes *sizes, const ch_device *device,
                          ch_capacity_estimate *expected) {
  double passes = (double)sizes->passes, attention = sizes->prompt_attention_flops;
  double rate = device->reading * device_rate(device, sizes->pass_weights);
  double computing =
      (sizes->prompt_flops - attention) / product_rate(device, sizes->type, device->computing) +
      attention / (device->flops * device->computing);
  expected->prompt_seconds = together(passes * sizes->pass_weights / rate, computing) +
                             passes * (double)sizes->layers * device->layer_seconds;
}

void ch_capacity_speed(const ch_capacity_sizes *sizes, const ch_capacity_question *question,
                       const ch_device *device, ch_capacity_estimate *expected) {
  expect_step(sizes, question, device, expected);
  expect_prompt(sizes, device, expected);
}
