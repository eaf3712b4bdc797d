/* The public functions that measure speed: the machine and its limits, and decoding, prefill and training of a model,
 * in timed repetitions on arbitrary tokens and states. Traces, profiles and dictionaries of atoms have their own
 * files. */
#define _GNU_SOURCE
#include <crosshead/bench.h>

#include <stdlib.h>

#include "base/median.h"
#include "base/memory.h"
#include "base/random.h"
#include "bench/limits.h"
#include "bench/machine.h"
#include "bench/random_model.h"
#include "bench/speed_limits.h"
#include "bench/timing.h"
#include "io/model_files.h"
#include "infer/api.h"
#include "infer/session.h"
#include "model/accounting.h"
#include "train/trainer.h"

enum { MOST_REPEAT = 1000, SEED = 1 };

void ch_machine_describe(ch_machine *machine) {
  *machine = ch_machine_here();
}

void ch_speed_limits_measure(ch_speed_limits *limits) {
  *limits = (ch_speed_limits){.fma_peak = ch_measure_fma_peak_f32(CH_LIMIT_BEST),
                              .bf16_peak = ch_measure_dot_peak_bf16(CH_LIMIT_BEST),
                              .int8_peak = ch_measure_dot_peak_int8(CH_LIMIT_BEST),
                              .read_bandwidth = ch_measure_read_bandwidth(CH_LIMIT_BEST),
                              .l3_bandwidth = ch_measure_read_bandwidth_l3(),
                              .l2_bandwidth = ch_measure_read_bandwidth_l2()};
}

void ch_speed_defaults(ch_speed_settings *settings) {
  *settings = (ch_speed_settings){.batch = 1, .tokens = 32, .repeat = 5};
}

/* --- repetitions ---------------------------------------------------------------------------------------- */

typedef ch_status (*repetition)(void *context, ch_error *error);

/* Timed work, and the settings of its measurement. */
typedef struct repetition_work {
  repetition once;
  void *context;
  const ch_speed_settings *options;
  const ch_read_probe *probe; /* measures the read bandwidth; or NULL */
  int begun;                  /* number of started repetitions, including the untimed first one */
  bool keep_events;           /* true if the caller's profile records events */
  /* with a probe: read bandwidth in bytes/s before each repetition and after the last */
  double rate[MOST_REPEAT + 2];
} repetition_work;

/* Restricts the profile to the timed repetitions, and its events to the last one. */
static void begin_profile(repetition_work *r) {
  ch_profile *profile = r->options->profile;
  if (!profile) return;
  if (r->begun == 0) r->keep_events = profile->keep_events;
  if (r->begun == 1) ch_profile_clear(profile);
  profile->keep_events = r->keep_events && r->begun == r->options->repeat;
}

static ch_status prepare(void *context, ch_error *error) {
  repetition_work *r = context;
  (void)error;
  begin_profile(r);
  if (r->probe) r->rate[r->begun] = ch_read_probe_rate(r->probe);
  r->begun++;
  return CH_OK;
}

static ch_status run_once(void *context, ch_error *error) {
  const repetition_work *r = context;
  return r->once(r->context, error);
}

/* Times the repetitions. seconds [repeat] receives their times and, with a probe, bandwidth [repeat] the bytes/s read
   around each. */
static ch_status repeat_it(repetition_work *r, double seconds[], double bandwidth[], ch_error *error) {
  int repeat = r->options->repeat;
  if (repeat < 1 || repeat > MOST_REPEAT)
    return ch_fail(error, CH_ERROR_ARGUMENT, "repetitions is %d; it must be from 1 to %d", repeat,
                   MOST_REPEAT);
  ch_timed_work work = {.context = r, .once = run_once, .prepare = prepare, .seconds = seconds};
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
  repetition_work r = {.once = once, .context = context, .options = options};
  CH_TRY(repeat_it(&r, seconds, NULL, error));
  *middle = ch_median(seconds, options->repeat);
  return CH_OK;
}

/* --- inference ------------------------------------------------------------------------------------------ */

typedef struct inference {
  ch_session *session;
  int32_t *tokens; /* [batch, tokens] arbitrary ids */
  const ch_speed_settings *options;
  ch_cache_types cache;
} inference;

ch_status ch_model_open_random(const char *path, ch_precision type, uint64_t seed,
                               const ch_model_settings *settings, ch_model **model, ch_error *error) {
  static const ch_dtype types[] = {CH_F32, CH_F32, CH_F16, CH_BF16};
  if (!path || !model) return ch_refuse_null(error, path ? "the model pointer" : "the configuration's name");
  *model = NULL;
  if ((unsigned)type >= sizeof types / sizeof *types)
    return ch_fail(error, CH_ERROR_ARGUMENT, "type is %d; random matrices are F32, F16 or BF16", (int)type);
  ch_model *made = NULL;
  CH_TRY(ch_model_random(path, types[type], seed, &made, error));
  ch_status status = ch_api_choose_form(made, settings && settings->keep_dictionary, error);
  if (status == CH_OK)
    *model = made;
  else
    ch_model_unload(made);
  return status;
}

void ch_speed_matrices_of(const ch_model *model, ch_speed_matrices *matrices) {
  *matrices = (ch_speed_matrices){.type = ch_dtype_name(ch_matrix_type(model)),
                                  .bytes_decoded = ch_speed_matrix_bytes(model, 1)};
  for (int i = 0; i < model->params.count; i++)
    matrices->parameters += (double)ch_param_count(&model->params.rows[i]);
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
  const ch_precision asked[] = {options->cache, options->cache_keys, options->cache_values,
                                options->cache_latents};
  CH_TRY(ch_api_cache_types(asked, &run->cache, error));
  CH_TRY(ch_api_compute_type(options->compute, CH_F32, &settings.compute, error));
  settings.cache = run->cache;
  settings.precompute_gates = options->precompute_gates;
  settings.expand_gates = options->expand_gates;
  CH_TRY(ch_session_new(&model->config, &model->params, model->weights.tensors, &settings, &run->session,
                        error));
  run->tokens = malloc((size_t)count * sizeof *run->tokens);
  if (!run->tokens) return ch_no_memory(error);
  ch_random random;
  ch_random_seed(&random, SEED, 0);
  for (int64_t i = 0; i < count; i++)
    run->tokens[i] = (int32_t)ch_random_below(&random, (uint64_t)model->config.vocab_size);
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

/* With limits, sets speed->share, the share of a type's arithmetic peak, and speed->limit. */
static void find_share(const ch_speed_settings *options, ch_dtype dtype, ch_speed *speed) {
  if (!options->limits) return;
  double peak = ch_speed_peak(options->limits, dtype, &speed->limit);
  speed->share = speed->flops / speed->seconds / peak;
}

static void finish(const ch_speed_settings *options, ch_speed *speed) {
  speed->tokens_per_second = (double)(options->batch * options->tokens) / speed->seconds;
}

/* Counts the FLOPs of the prefill of all prompts, of T tokens each. The token at position t attends to t + 1 tokens,
 * (T + 1) / 2 on average. Only the last token has logits. */
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
    find_share(options, ch_matrix_type(model), speed);
  }
  end(&run);
  return status;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

/* Returns the type of attention's products: BF16 if all states are BF16, else F32. */
static ch_dtype attention_type(const ch_cache_types *cache) {
  for (int role = 0; role < CH_STATE_ROLES; role++)
    if (cache->of[role] != CH_BF16) return CH_F32;
  return CH_BF16;
}

/* Sets speed->share, the shortest time that the limits allow for a repetition divided by the measured time, and
   speed->bandwidth. Both are medians over repetitions. */
static void find_decoding_share(const ch_model *model, const inference *run, double seconds[],
                                double bandwidth[], ch_speed *speed) {
  const ch_speed_settings *options = run->options;
  double share[MOST_REPEAT], matrix_bytes = speed->bytes - speed->cache_bytes;
  double attending =
      speed->attention_flops / ch_speed_peak(options->limits, attention_type(&run->cache), NULL);
  double multiplying =
      (speed->flops - speed->attention_flops) / ch_speed_peak(options->limits, ch_matrix_type(model), NULL);
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
  double held = (double)options->depth + (passes + 1) / 2; /* average number of tokens in the cache */
  CH_TRY(ch_session_pretend(run->session, options->depth, SEED, options->ids, options->id_count, error));
  ch_account account;
  CH_TRY(ch_account_model(&model->config, &model->params, (int64_t)held, run->cache, &account, error));
  speed->flops = (double)(options->batch * options->tokens) * account.decode.total;
  speed->attention_flops = (double)(options->batch * options->tokens) * account.decode.attention_context;
  ch_read_probe probe = {0};
  if (options->limits) probe = ch_read_probe_open();
  repetition_work r = {
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

static ch_status train(const ch_config *config, const ch_speed_settings *options, ch_speed *speed,
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
  return train(&config, settings, speed, error);
}
