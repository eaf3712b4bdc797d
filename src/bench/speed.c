/* Measures decoding, prefill and training: timed repetitions on arbitrary tokens and states. */
#define _GNU_SOURCE
#include "bench/speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "base/memory.h"
#include "base/random.h"
#include "bench/limits.h"
#include "bench/timing.h"
#include "io/model_files.h"
#include "infer/api.h"
#include "infer/session.h"
#include "model/accounting.h"
#include "train/trainer.h"

enum { MOST_REPEAT = 1000, SEED = 1 };

void ch_speed_limits_measure(ch_speed_limits *limits) {
  *limits = (ch_speed_limits){.fma_peak = ch_measure_fma_peak_f32(CH_LIMIT_BEST),
                              .bf16_peak = ch_measure_dot_peak_bf16(CH_LIMIT_BEST),
                              .int8_peak = ch_measure_dot_peak_int8(CH_LIMIT_BEST),
                              .read_bandwidth = ch_measure_read_bandwidth(CH_LIMIT_BEST),
                              .l3_bandwidth = ch_measure_read_bandwidth_l3(),
                              .l2_bandwidth = ch_measure_read_bandwidth_l2()};
}

double ch_speed_peak(const ch_speed_limits *limits, ch_dtype dtype, const char **name) {
  bool bf16 = dtype == CH_BF16 && limits->bf16_peak > limits->fma_peak,
       int8 = ch_dtype_is_block_quantised(dtype) && limits->int8_peak > 0;
  if (name) *name = bf16 ? "BF16" : int8 ? "INT8" : "F32";
  return bf16 ? limits->bf16_peak : int8 ? limits->int8_peak : limits->fma_peak;
}

double ch_speed_least_seconds(const ch_speed_limits *limits, ch_dtype dtype, double flops, double bytes) {
  double computing = flops / ch_speed_peak(limits, dtype, NULL), reading = bytes / limits->read_bandwidth;
  return computing > reading ? computing : reading;
}

void ch_speed_defaults(ch_speed_settings *settings) {
  *settings = (ch_speed_settings){.batch = 1, .tokens = 32, .repeat = 5};
}

/* --- repetitions ---------------------------------------------------------------------------------------- */

typedef ch_status (*repetition)(void *context, ch_error *error);

/* A timed work, and what is measured besides its time. */
typedef struct repeated {
  repetition once;
  void *context;
  const ch_speed_settings *options;
  const ch_read_probe *probe;   /* or NULL */
  int begun;                    /* repetitions, the untimed first one included */
  bool keep_events;             /* the caller's profile records events */
  double rate[MOST_REPEAT + 2]; /* read bandwidth before each repetition and after the last, with a probe */
} repeated;

/* A profile holds timed repetitions only, and the events of the last. */
static void begin_profile(repeated *r) {
  ch_profile *profile = r->options->profile;
  if (!profile) return;
  if (r->begun == 0) r->keep_events = profile->keep_events;
  if (r->begun == 1) ch_profile_clear(profile);
  profile->keep_events = r->keep_events && r->begun == r->options->repeat;
}

static ch_status prepare(void *context, ch_error *error) {
  repeated *r = context;
  (void)error;
  begin_profile(r);
  if (r->probe) r->rate[r->begun] = ch_read_probe_rate(r->probe);
  r->begun++;
  return CH_OK;
}

static ch_status run_once(void *context, ch_error *error) {
  const repeated *r = context;
  return r->once(r->context, error);
}

/* seconds [repeat], and where there is a probe the bandwidth around each repetition. */
static ch_status repeat_it(repeated *r, double seconds[], double bandwidth[], ch_error *error) {
  int repeat = r->options->repeat;
  if (repeat < 1 || repeat > MOST_REPEAT)
    return ch_fail(error, CH_ERROR_ARGUMENT, "repetitions is %d; it must be from 1 to %d", repeat,
                   MOST_REPEAT);
  ch_timed work = {.context = r, .once = run_once, .prepare = prepare, .seconds = seconds};
  CH_TRY(ch_time(&(ch_timing){.least = repeat, .most = repeat}, 1, &work, error));
  if (r->probe) r->rate[r->begun] = ch_read_probe_rate(r->probe);
  for (int i = 0; i < repeat; i++) {
    if (r->options->profile) r->options->profile->seconds += seconds[i];
    if (r->probe) bandwidth[i] = (r->rate[i + 1] + r->rate[i + 2]) / 2;
  }
  return CH_OK;
}

static ch_status median_of(repetition once, void *context, const ch_speed_settings *options, double *middle,
                           ch_error *error) {
  double seconds[MOST_REPEAT];
  repeated r = {.once = once, .context = context, .options = options};
  CH_TRY(repeat_it(&r, seconds, NULL, error));
  *middle = ch_median(seconds, options->repeat);
  return CH_OK;
}

/* --- inference ------------------------------------------------------------------------------------------ */

typedef struct inference {
  ch_session *session;
  int32_t *tokens; /* [batch, tokens] */
  const ch_speed_settings *options;
  ch_cache_types cache;
} inference;

/* The share of experts that at least one of the sequences chooses. */
static double experts_read(const ch_config *config, int64_t sequences) {
  if (config->moe.experts == 0) return 0;
  return 1 - pow(1 - (double)config->moe.active / (double)config->moe.experts, (double)sequences);
}

double ch_speed_matrix_bytes(const ch_model *model, int64_t sequences) {
  double bytes = 0, share = experts_read(&model->config, sequences);
  for (int i = 0; i < model->params.count; i++) {
    const ch_param *row = &model->params.rows[i];
    bool looked_up =
        row->kind == CH_PARAM_GATE_EMBEDDING ||
        (!model->config.tie_word_embeddings && strcmp(row->name, "model.embed_tokens.weight") == 0);
    if (row->rank < 2 || looked_up) continue;
    bytes += (double)ch_tensor_bytes(&model->weights.tensors[i]) * (row->kind == CH_PARAM_EXPERT ? share : 1);
  }
  return bytes;
}

static ch_dtype matrix_type(const ch_model *model) {
  int64_t elements[CH_DTYPE_COUNT] = {0};
  int most = CH_F32;
  for (int i = 0; i < model->params.count; i++) {
    const ch_tensor *tensor = &model->weights.tensors[i];
    if (tensor->rank >= 2) elements[tensor->dtype] += ch_tensor_count(tensor);
  }
  for (int type = 0; type < CH_DTYPE_COUNT; type++)
    if (elements[type] > elements[most]) most = type;
  return (ch_dtype)most;
}

void ch_speed_matrices_of(const ch_model *model, ch_speed_matrices *matrices) {
  *matrices = (ch_speed_matrices){.type = ch_dtype_name(matrix_type(model)),
                                  .bytes_decoded = ch_speed_matrix_bytes(model, 1)};
  for (int i = 0; i < model->params.count; i++)
    matrices->parameters += (double)ch_param_count(&model->params.rows[i]);
}

static void random_tokens(int64_t count, int64_t vocabulary, int32_t *tokens) {
  ch_random random;
  ch_random_seed(&random, SEED, 0);
  for (int64_t i = 0; i < count; i++) tokens[i] = (int32_t)ch_random_below(&random, (uint64_t)vocabulary);
}

/* The types that the caller names, of the cache and of large products. */
static ch_status resolve_types(const ch_speed_settings *options, ch_cache_types *cache, ch_dtype *compute,
                               ch_error *error) {
  const ch_precision asked[] = {options->cache, options->cache_keys, options->cache_values,
                                options->cache_latents};
  CH_TRY(ch_api_cache_types(asked, cache, error));
  return ch_api_compute_type(options->compute, CH_F32, compute, error);
}

static ch_status check_settings(const void *model, const ch_speed_settings *options, const ch_speed *speed,
                                ch_error *error) {
  if (!model || !options || !speed) return ch_refuse_null(error, "the model, the settings or the result");
  if (options->batch < 1 || options->tokens < 1 || options->depth < 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "batch is %lld, tokens is %lld and depth is %lld; they must be at least 1, 1 and 0",
                   (long long)options->batch, (long long)options->tokens, (long long)options->depth);
  return CH_OK;
}

static ch_status begin(const ch_model *model, const ch_speed_settings *options, inference *run,
                       ch_error *error) {
  int64_t count = options->batch * options->tokens;
  ch_session_options settings;
  ch_session_options_default(&model->config, &settings);
  settings.sequences = options->batch;
  settings.context = options->depth + options->tokens;
  *run = (inference){.options = options};
  CH_TRY(resolve_types(options, &run->cache, &settings.compute, error));
  settings.cache = run->cache;
  settings.precompute_gates = options->precompute_gates;
  settings.expand_gates = options->expand_gates;
  CH_TRY(ch_session_new(&model->config, &model->params, model->weights.tensors, &settings, &run->session,
                        error));
  run->tokens = malloc((size_t)count * sizeof *run->tokens);
  if (!run->tokens) return ch_no_memory(error);
  random_tokens(count, model->config.vocab_size, run->tokens);
  ch_session_profile(run->session, options->profile);
  return CH_OK;
}

static void end(inference *run) {
  ch_session_free(run->session);
  free(run->tokens);
}

static ch_status prefill_once(void *context, ch_error *error) {
  inference *run = context;
  const float *logits;
  ch_session_reset(run->session);
  return ch_session_feed(run->session, run->tokens, run->options->tokens, &logits, error);
}

static ch_status decode_once(void *context, ch_error *error) {
  inference *run = context;
  const float *logits;
  ch_session_pretend_length(run->session, run->options->depth);
  for (int64_t t = 0; t < run->options->tokens; t++)
    CH_TRY(ch_session_feed(run->session, run->tokens + t * run->options->batch, 1, &logits, error));
  return CH_OK;
}

/* The share of the arithmetic peak for a type. */
static void find_share(const ch_speed_settings *options, ch_dtype dtype, ch_speed *speed) {
  if (!options->limits) return;
  double peak = ch_speed_peak(options->limits, dtype, &speed->limit);
  speed->share = speed->flops / speed->seconds / peak;
}

static void finish(const ch_speed_settings *options, ch_speed *speed) {
  speed->tokens_per_second = (double)(options->batch * options->tokens) / speed->seconds;
}

/* A token at position t looks back at t + 1 tokens, (T + 1) / 2 on average; logits are computed for the last
   one alone. */
static ch_status prefill_flops(const ch_model *model, const inference *run, double *flops, ch_error *error) {
  ch_account account;
  const ch_speed_settings *options = run->options;
  CH_TRY(ch_account_model(&model->config, &model->params, (options->tokens + 1) / 2, run->cache, &account,
                          error));
  double tokens = (double)options->tokens;
  *flops = (double)options->batch *
           (tokens * (account.prefill.total - account.prefill.lm_head) + account.decode.lm_head);
  return CH_OK;
}

ch_status ch_speed_prefill(const ch_model *model, const ch_speed_settings *options, ch_speed *speed,
                           ch_error *error) {
  CH_TRY(check_settings(model, options, speed, error));
  *speed = (ch_speed){.limit = ""};
  ch_speed_settings empty = *options;
  empty.depth = 0;
  inference run;
  ch_status status = begin(model, &empty, &run, error);
  if (status == CH_OK) status = median_of(prefill_once, &run, options, &speed->seconds, error);
  if (status == CH_OK) {
    finish(options, speed);
    status = prefill_flops(model, &run, &speed->flops, error);
    speed->bytes = ch_speed_matrix_bytes(model, options->tokens);
    find_share(options, matrix_type(model), speed);
  }
  end(&run);
  return status;
}

/* FLOPs of one repetition, whose passes find `held` tokens in the cache on average. */
static ch_status decode_flops(const ch_model *model, const inference *run, double held, ch_speed *speed,
                              ch_error *error) {
  ch_account account;
  const ch_speed_settings *options = run->options;
  CH_TRY(ch_account_model(&model->config, &model->params, (int64_t)held, run->cache, &account, error));
  speed->flops = (double)(options->batch * options->tokens) * account.decode.total;
  speed->attention_flops = (double)(options->batch * options->tokens) * account.decode.attention_context;
  return CH_OK;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

/* The type that attention could multiply in: BF16 where all states are BF16. */
static ch_dtype attention_type(const ch_cache_types *cache) {
  for (int role = 0; role < CH_STATE_ROLES; role++)
    if (cache->of[role] != CH_BF16) return CH_F32;
  return CH_BF16;
}

/* The time that the limits allow for a repetition, relative to the time that it took. */
static void find_decoding_share(const ch_model *model, const inference *run, double seconds[],
                                double bandwidth[], ch_speed *speed) {
  const ch_speed_settings *options = run->options;
  double share[MOST_REPEAT], matrix_bytes = speed->bytes - speed->cache_bytes;
  double attending =
      speed->attention_flops / ch_speed_peak(options->limits, attention_type(&run->cache), NULL);
  double multiplying =
      (speed->flops - speed->attention_flops) / ch_speed_peak(options->limits, matrix_type(model), NULL);
  for (int i = 0; i < options->repeat; i++) {
    double rate = bandwidth[i] > 0 ? bandwidth[i] : options->limits->read_bandwidth;
    share[i] = (larger(matrix_bytes / rate, multiplying) + larger(speed->cache_bytes / rate, attending)) /
               seconds[i];
  }
  speed->share = ch_median(share, options->repeat);
  speed->bandwidth = ch_median(bandwidth, options->repeat);
}

static ch_status decode_often(const ch_model *model, const ch_speed_settings *options, inference *run,
                              ch_speed *speed, ch_error *error) {
  double seconds[MOST_REPEAT], bandwidth[MOST_REPEAT] = {0};
  double passes = (double)options->tokens, batch = (double)options->batch;
  double held = (double)options->depth + (passes + 1) / 2; /* tokens that a pass finds, on average */
  CH_TRY(ch_session_pretend(run->session, options->depth, SEED, options->ids, options->id_count, error));
  CH_TRY(decode_flops(model, run, held, speed, error));
  ch_read_probe probe = {0};
  if (options->limits) probe = ch_read_probe_open();
  repeated r = {
      .once = decode_once, .context = run, .options = options, .probe = options->limits ? &probe : NULL};
  ch_status status = repeat_it(&r, seconds, bandwidth, error);
  ch_read_probe_close(&probe);
  CH_TRY(status);
  const ch_cache *cache = ch_session_cache(run->session);
  speed->cache_bytes =
      passes * batch * held * ((double)cache->bytes / (double)(cache->sequences * cache->capacity));
  speed->bytes = passes * ch_speed_matrix_bytes(model, options->batch) + speed->cache_bytes;
  if (options->limits) find_decoding_share(model, run, seconds, bandwidth, speed);
  speed->seconds = ch_median(seconds, options->repeat);
  finish(options, speed);
  return CH_OK;
}

ch_status ch_speed_decode(const ch_model *model, const ch_speed_settings *options, ch_speed *speed,
                          ch_error *error) {
  CH_TRY(check_settings(model, options, speed, error));
  *speed = (ch_speed){.limit = ""};
  inference run;
  ch_status status = begin(model, options, &run, error);
  if (status == CH_OK) status = decode_often(model, options, &run, speed, error);
  end(&run);
  return status;
}

/* --- training ------------------------------------------------------------------------------------------- */

static ch_status made_up_batch(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  (void)error;
  const ch_config *config = context;
  ch_random random;
  ch_random_seed(&random, SEED, (uint64_t)first);
  for (int64_t i = 0; i < batch->sequences * batch->length; i++) {
    batch->tokens[i] = (int32_t)ch_random_below(&random, (uint64_t)config->vocab_size);
    batch->targets[i] = (int32_t)ch_random_below(&random, (uint64_t)config->vocab_size);
  }
  return CH_OK;
}

static ch_status train_once(void *context, ch_error *error) {
  ch_step_report report;
  return ch_trainer_step(context, NULL, NULL, &report, error);
}

ch_status ch_speed_train_config(const ch_config *config, const ch_speed_settings *options, ch_speed *speed,
                                ch_error *error) {
  *speed = (ch_speed){.limit = ""};
  CH_TRY(ch_config_needs_text(config, "bench", error));
  ch_train_options settings;
  ch_train_options_default(config, &settings);
  settings.batch = options->batch;
  settings.sequence = options->tokens;
  settings.steps = options->repeat + 1;
  CH_TRY(ch_api_compute_type(options->compute, CH_F32, &settings.dtype, error));
  ch_batch_source source = {.context = (void *)config, .train = made_up_batch, .validate = made_up_batch};
  ch_trainer *trainer = NULL;
  ch_forget_peak();
  CH_TRY(ch_trainer_create(config, &settings, &source, &trainer, error));
  ch_trainer_engine(trainer)->profile = options->profile;
  ch_status status = median_of(train_once, trainer, options, &speed->seconds, error);
  if (status == CH_OK) {
    finish(options, speed);
    speed->flops = ch_trainer_step_flops(trainer);
    speed->memory = ch_peak_resident_bytes();
    find_share(options, settings.dtype, speed);
  }
  ch_trainer_free(trainer);
  return status;
}

ch_status ch_speed_train(const char *path, const ch_speed_settings *settings, ch_speed *speed,
                         ch_error *error) {
  ch_config config;
  CH_TRY(check_settings(path, settings, speed, error));
  CH_TRY(ch_config_read_stored(path, &config, error));
  return ch_speed_train_config(&config, settings, speed, error);
}
