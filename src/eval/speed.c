/* Timed repetitions on made-up tokens and states. */
#define _GNU_SOURCE
#include "eval/speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/progress.h"
#include "base/random.h"
#include "infer/timeline.h"
#include "model/accounting.h"
#include "tensor/limits.h"
#include "train/trainer.h"

enum { MOST_REPEAT = 1000, SEED = 1 };

void ch_speed_limits_measure(ch_speed_limits *limits) {
  *limits = (ch_speed_limits){.fma_peak = ch_measure_fma_peak_f32(),
                              .bf16_peak = ch_measure_dot_peak_bf16(),
                              .int8_peak = ch_measure_dot_peak_int8(),
                              .read_bandwidth = ch_measure_read_bandwidth(),
                              .l3_bandwidth = ch_measure_read_bandwidth_l3(),
                              .l2_bandwidth = ch_measure_read_bandwidth_l2()};
}

double ch_speed_peak(const ch_speed_limits *limits, ch_dtype dtype, const char **name) {
  bool bf16 = dtype == CH_BF16 && limits->bf16_peak > limits->fma_peak,
       int8 = ch_dtype_in_blocks(dtype) && limits->int8_peak > 0;
  if (name) *name = bf16 ? "BF16" : int8 ? "INT8" : "F32";
  return bf16 ? limits->bf16_peak : int8 ? limits->int8_peak : limits->fma_peak;
}

double ch_speed_least_seconds(const ch_speed_limits *limits, ch_dtype dtype, double flops, double bytes) {
  double computing = flops / ch_speed_peak(limits, dtype, NULL), reading = bytes / limits->read_bandwidth;
  return computing > reading ? computing : reading;
}

/* --- repetitions --------------------------------------------------------------------------------------------- */

static int by_value(const void *pa, const void *pb) {
  double a = *(const double *)pa, b = *(const double *)pb;
  return (a > b) - (a < b);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* One repetition; adds nothing to what is measured but its own work. */
typedef ch_status (*repetition)(void *context, ch_error *error);

/* Of a profile only counted repetitions, and the last one's events. */
static void begin_profile(ch_profile *profile, int i, int repeat, bool *keep_events) {
  if (!profile) return;
  if (i == 0) {
    *keep_events = profile->keep_events;
    ch_profile_clear(profile);
  }
  profile->keep_events = *keep_events && i == repeat - 1;
}

/* seconds [repeat], and where there is a probe the bandwidth around each repetition. */
static ch_status repeat_it(repetition once, void *context, const ch_speed_options *options,
                           const ch_read_probe *probe, double seconds[], double bandwidth[],
                           ch_error *error) {
  int repeat = options->repeat;
  bool keep_events = false;
  if (repeat < 1 || repeat > MOST_REPEAT)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%d repetitions; 1 to %d are possible", repeat, MOST_REPEAT);
  CH_TRY(once(context, error)); /* plans are made, memory is touched */
  double before = probe ? ch_read_probe_rate(probe) : 0;
  for (int i = 0; i < repeat; i++) {
    begin_profile(options->profile, i, repeat, &keep_events);
    double start = ch_clock();
    CH_TRY(once(context, error));
    seconds[i] = ch_clock() - start;
    if (options->profile) options->profile->seconds += seconds[i];
    if (!probe) continue;
    double after = ch_read_probe_rate(probe);
    bandwidth[i] = (before + after) / 2;
    before = after;
  }
  return CH_OK;
}

static ch_status median_of(repetition once, void *context, const ch_speed_options *options, double *middle,
                           ch_error *error) {
  double seconds[MOST_REPEAT];
  CH_TRY(repeat_it(once, context, options, NULL, seconds, NULL, error));
  *middle = median(seconds, options->repeat);
  return CH_OK;
}

/* --- inference ----------------------------------------------------------------------------------------------- */

typedef struct inference {
  ch_timeline *timeline;
  int32_t *tokens; /* [batch, tokens] */
  const ch_speed_options *options;
} inference;

/* The share of experts that some sequence chose. */
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

ch_dtype ch_speed_matrix_type(const ch_model *model) {
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

static double cache_bytes_per_token(const ch_cache *cache) {
  return (double)cache->bytes / (double)(cache->sequences * cache->capacity);
}

static void random_tokens(int64_t count, int64_t vocabulary, int32_t *tokens) {
  ch_random random;
  ch_random_seed(&random, SEED, 0);
  for (int64_t i = 0; i < count; i++) tokens[i] = (int32_t)ch_random_below(&random, (uint64_t)vocabulary);
}

static ch_status begin(const ch_model *model, const ch_speed_options *options, inference *run,
                       ch_error *error) {
  int64_t count = options->batch * options->tokens;
  ch_timeline_options settings;
  ch_timeline_options_default(&model->config, &settings);
  settings.sequences = options->batch;
  settings.context = options->depth + options->tokens;
  settings.cache = options->cache;
  settings.compute = model->compute;
  settings.precompute_gates = options->precompute_gates;
  settings.expand_gates = options->expand_gates;
  *run = (inference){.options = options};
  CH_TRY(ch_timeline_create(&model->config, &model->params, model->weights.tensors, &settings, &run->timeline,
                            error));
  run->tokens = malloc((size_t)count * sizeof *run->tokens);
  if (!run->tokens) return ch_fail(error, CH_ERROR_MEMORY, "no memory for %lld tokens", (long long)count);
  random_tokens(count, model->config.vocab_size, run->tokens);
  ch_timeline_profile(run->timeline, options->profile);
  return CH_OK;
}

static void end(inference *run) {
  ch_timeline_free(run->timeline);
  free(run->tokens);
}

static ch_status prefill_once(void *context, ch_error *error) {
  inference *run = context;
  const float *logits;
  ch_timeline_rewind(run->timeline, 0);
  return ch_timeline_feed(run->timeline, run->tokens, run->options->tokens, &logits, error);
}

static ch_status decode_once(void *context, ch_error *error) {
  inference *run = context;
  const float *logits;
  ch_timeline_rewind(run->timeline, run->options->depth);
  for (int64_t t = 0; t < run->options->tokens; t++)
    CH_TRY(ch_timeline_feed(run->timeline, run->tokens + t * run->options->batch, 1, &logits, error));
  return CH_OK;
}

static void finish(const ch_speed_options *options, ch_speed *speed) {
  speed->tokens_per_second = (double)(options->batch * options->tokens) / speed->seconds;
}

/* A token at position t looks back at t + 1 tokens, (T + 1) / 2 on average; logits are made for the last one alone. */
static ch_status prefill_flops(const ch_model *model, const ch_speed_options *options, double *flops,
                               ch_error *error) {
  ch_account account;
  CH_TRY(ch_account_model(&model->config, &model->params, (options->tokens + 1) / 2, options->cache, &account,
                          error));
  double tokens = (double)options->tokens;
  *flops = (double)options->batch *
           (tokens * (account.prefill.total - account.prefill.lm_head) + account.decode.lm_head);
  return CH_OK;
}

ch_status ch_speed_prefill(const ch_model *model, const ch_speed_options *options, ch_speed *speed,
                           ch_error *error) {
  *speed = (ch_speed){0};
  ch_speed_options empty = *options;
  empty.depth = 0;
  inference run;
  ch_status status = begin(model, &empty, &run, error);
  if (status == CH_OK) status = median_of(prefill_once, &run, options, &speed->seconds, error);
  if (status == CH_OK) {
    finish(options, speed);
    status = prefill_flops(model, options, &speed->flops, error);
    speed->bytes = ch_speed_matrix_bytes(model, options->tokens);
  }
  end(&run);
  return status;
}

/* Products of one repetition, whose passes find `held` tokens on average. */
static ch_status decode_flops(const ch_model *model, const ch_speed_options *options, double held,
                              ch_speed *speed, ch_error *error) {
  ch_account account;
  CH_TRY(ch_account_model(&model->config, &model->params, (int64_t)held, options->cache, &account, error));
  speed->flops = (double)(options->batch * options->tokens) * account.decode.total;
  speed->attention_flops = (double)(options->batch * options->tokens) * account.decode.attention_context;
  return CH_OK;
}

static double larger(double a, double b) {
  return a > b ? a : b;
}

/* What attention could multiply: BF16 where all states are. */
static ch_dtype attention_type(const ch_cache_types *cache) {
  for (int role = 0; role < CH_STATE_ROLES; role++)
    if (cache->of[role] != CH_BF16) return CH_F32;
  return CH_BF16;
}

/* What a repetition should have taken, over what it took. */
static void find_share(const ch_model *model, const ch_speed_options *options, double seconds[],
                       double bandwidth[], ch_speed *speed) {
  double share[MOST_REPEAT], matrix_bytes = speed->bytes - speed->cache_bytes;
  double attending =
      speed->attention_flops / ch_speed_peak(options->limits, attention_type(&options->cache), NULL);
  double multiplying = (speed->flops - speed->attention_flops) /
                       ch_speed_peak(options->limits, ch_speed_matrix_type(model), NULL);
  for (int i = 0; i < options->repeat; i++) {
    double rate = bandwidth[i] > 0 ? bandwidth[i] : options->limits->read_bandwidth;
    share[i] = (larger(matrix_bytes / rate, multiplying) + larger(speed->cache_bytes / rate, attending)) /
               seconds[i];
  }
  speed->share = median(share, options->repeat);
  speed->bandwidth = median(bandwidth, options->repeat);
}

static ch_status decode_often(const ch_model *model, const ch_speed_options *options, inference *run,
                              ch_speed *speed, ch_error *error) {
  double seconds[MOST_REPEAT], bandwidth[MOST_REPEAT] = {0};
  double passes = (double)options->tokens, batch = (double)options->batch;
  double held = (double)options->depth + (passes + 1) / 2; /* tokens that a pass finds, on average */
  CH_TRY(ch_timeline_pretend(run->timeline, options->depth, SEED, options->ids, options->id_count, error));
  CH_TRY(decode_flops(model, options, held, speed, error));
  ch_read_probe probe = {0};
  if (options->limits) probe = ch_read_probe_open();
  ch_status status =
      repeat_it(decode_once, run, options, options->limits ? &probe : NULL, seconds, bandwidth, error);
  ch_read_probe_close(&probe);
  CH_TRY(status);
  speed->cache_bytes = passes * batch * held * cache_bytes_per_token(ch_timeline_cache(run->timeline));
  speed->bytes = passes * ch_speed_matrix_bytes(model, options->batch) + speed->cache_bytes;
  if (options->limits) find_share(model, options, seconds, bandwidth, speed);
  speed->seconds = median(seconds, options->repeat);
  finish(options, speed);
  return CH_OK;
}

ch_status ch_speed_decode(const ch_model *model, const ch_speed_options *options, ch_speed *speed,
                          ch_error *error) {
  *speed = (ch_speed){0};
  inference run;
  ch_status status = begin(model, options, &run, error);
  if (status == CH_OK) status = decode_often(model, options, &run, speed, error);
  end(&run);
  return status;
}

/* --- training ------------------------------------------------------------------------------------------------ */

/* The process's peak of resident memory can be forgotten on Linux; elsewhere it is that of its whole life. */
static void forget_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "we");
  if (!file) return;
  fputs("5", file);
  fclose(file);
}

static size_t peak_resident(void) {
  FILE *file = fopen("/proc/self/status", "re");
  unsigned long long kib = 0;
  char line[256];
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %llu kB", &kib) == 1) break;
  if (file) fclose(file);
  struct rusage usage;
  if (kib == 0 && getrusage(RUSAGE_SELF, &usage) == 0) kib = (unsigned long long)usage.ru_maxrss;
  return (size_t)kib << 10;
}

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

ch_status ch_speed_train(const ch_config *config, const ch_speed_options *options, ch_speed *speed,
                         ch_error *error) {
  *speed = (ch_speed){0};
  CH_TRY(ch_config_needs_text(config, "bench", error));
  ch_train_options settings;
  ch_train_options_default(config, &settings);
  settings.batch = options->batch;
  settings.sequence = options->tokens;
  settings.steps = options->repeat + 1;
  settings.dtype = options->compute;
  ch_source source = {.context = (void *)config, .train = made_up_batch, .validate = made_up_batch};
  ch_trainer *trainer = NULL;
  forget_peak();
  CH_TRY(ch_trainer_create(config, &settings, &source, &trainer, error));
  ch_trainer_engine(trainer)->profile = options->profile;
  ch_status status = median_of(train_once, trainer, options, &speed->seconds, error);
  if (status == CH_OK) {
    finish(options, speed);
    speed->flops = ch_trainer_step_flops(trainer);
    speed->memory = peak_resident();
  }
  ch_trainer_free(trainer);
  return status;
}
