/* Machines with their limits: published figures, figures from the caller's text, and measurements of this machine. Only
 * this file has data sheets. */
#include <crosshead/plan.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "bench/limits.h"
#include "bench/machine.h"
#include "bench/random_model.h"
#include "bench/speed_limits.h"
#include "config_file/config_json.h"
#include "infer/api.h"
#include "model/transformer.h"

/* --- published figures ------------------------------------------------------------------------------------------ */

/* Assumed shares of a data sheet's figures that inference reaches. docs/plan.md explains how to replace them. */
static const double usual_reading = 0.80, usual_computing = 0.50;

typedef struct data_sheet {
  const char *name, *title, *source;
  double gigabytes_per_second, teraflops, gigabytes;
} data_sheet;

/* `teraflops` counts dense products of BF16 with sums in F32, or of F32 if `source` says so. If a sheet has only
   figures with sparsity, they are halved. */
static const data_sheet known[] = {
    {"h100-sxm", "NVIDIA H100 SXM, 80 GB", "NVIDIA H100 Tensor Core GPU data sheet", 3350, 989.5, 80},
    {"h200-sxm", "NVIDIA H200 SXM, 141 GB", "NVIDIA H200 Tensor Core GPU data sheet", 4800, 989.5, 141},
    {"a100-80gb", "NVIDIA A100 SXM, 80 GB", "NVIDIA A100 Tensor Core GPU data sheet", 2039, 312, 80},
    {"l4", "NVIDIA L4, 24 GB", "NVIDIA L4 Tensor Core GPU data sheet", 300, 121, 24},
    {"rtx-4090", "NVIDIA GeForce RTX 4090, 24 GB", "NVIDIA Ada GPU Architecture, white paper, appendix A",
     1008, 165.2, 24},
    {"m2-ultra", "Apple M2 Ultra, 76 GPU cores, 192 GB",
     "Apple introduces M2 Ultra, press release of June 2023 (GB/s, memory); FLOP/s: not published, 76 x 128 "
     "F32 lanes at 1.4 "
     "GHz",
     800, 27.2, 192},
    {"epyc-9654", "AMD EPYC 9654, 96 cores, 12 channels of DDR5-4800, 768 GB",
     "AMD EPYC 9004 Series Processors data sheet (GB/s of a socket); FLOP/s: 96 cores at 2.4 GHz, 32 of F32 "
     "a cycle; "
     "memory: 12 modules of 64 GB",
     460.8, 7.37, 768},
    {"xeon-8592", "Intel Xeon Platinum 8592+, 64 cores, 8 channels of DDR5-5600, 512 GB",
     "Intel Xeon Platinum 8592+ product specifications (cores, clock, memory); FLOP/s: 64 cores at 1.9 GHz, "
     "1024 of BF16 "
     "a cycle with AMX; memory: 8 modules of 64 GB",
     358.4, 124.5, 512},
};

enum { KNOWN = sizeof known / sizeof *known };

bool ch_device_at(int32_t index, ch_device *device) {
  if (index < 0 || index >= KNOWN) return false;
  const data_sheet *p = &known[index];
  *device = (ch_device){.read_bandwidth = 1e9 * p->gigabytes_per_second,
                        .flops = 1e12 * p->teraflops,
                        .memory = (int64_t)(1e9 * p->gigabytes),
                        .reading = usual_reading,
                        .computing = usual_computing,
                        .computing_step = usual_computing};
  snprintf(device->name, sizeof device->name, "%s", p->name);
  snprintf(device->title, sizeof device->title, "%s", p->title);
  snprintf(device->source, sizeof device->source, "%s", p->source);
  return true;
}

/* Returns a name that begins with the word, else the nearest name, or NULL if none is near. */
static const char *nearest(const char *word, const char *const *names) {
  for (const char *const *name = names; *word && *name; name++)
    if (strncmp(*name, word, strlen(word)) == 0) return *name;
  return ch_nearest_name(word, names);
}

static ch_status unknown_device(const char *name, ch_error *error) {
  const char *names[KNOWN + 2] = {0};
  char list[256] = "here";
  names[0] = "here";
  for (int i = 0; i < KNOWN; i++) {
    names[i + 1] = known[i].name;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, ", %s", known[i].name);
  }
  const char *near = nearest(name, names);
  if (near)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{devices}: unknown device '%.64s'; did you mean %s?", name,
                   near);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "{devices}: unknown device '%.64s'; use %s, or a line name=X,gb/s=N,flop/s=N,memory=N", name,
                 list);
}

/* --- figures from the caller's text ----------------------------------------------------------------------------- */

enum { WORD_SIZE = 96 };

/* Reads a positive number: "120T", "989e12" or "0.5". */
static bool read_positive(const char *text, double *number) {
  int64_t count;
  if (!ch_parse_number(text, number)) {
    if (!ch_parse_count(text, &count)) return false;
    *number = (double)count;
  }
  return *number > 0;
}

static bool read_share(const char *text, double *share) {
  if (!ch_parse_number(text, share) || !(*share > 0) || *share > 100) return false;
  *share /= 100;
  return true;
}

/* Reads one "key=value". */
static ch_status read_figure(const char *key, const char *value, ch_device *device, ch_error *error) {
  static const char *const keys[] = {"name", "gb/s", "flop/s", "memory", "reading", "computing", NULL};
  const char *right = NULL;
  double number = 0;
  if (strcmp(key, "name") == 0) {
    if (!*value || strlen(value) >= sizeof device->name) right = "a name of 1 to 31 characters";
    snprintf(device->name, sizeof device->name, "%.31s", value);
  } else if (strcmp(key, "gb/s") == 0) {
    if (!read_positive(value, &number)) right = "a positive number, as in 900";
    device->read_bandwidth = 1e9 * number;
  } else if (strcmp(key, "flop/s") == 0) {
    if (!read_positive(value, &device->flops)) right = "a positive number, as in 120T or 120e12";
  } else if (strcmp(key, "memory") == 0) {
    if (!ch_parse_bytes(value, &device->memory) || device->memory < 1)
      right = "a size, as in 48GB (10^9 bytes) or 48GiB (2^30)";
  } else if (strcmp(key, "reading") == 0) {
    if (!read_share(value, &device->reading)) right = "a percentage above 0, as in 80";
  } else if (strcmp(key, "computing") == 0) {
    if (!read_share(value, &device->computing)) right = "a percentage above 0, as in 50";
    device->computing_step = device->computing;
  } else {
    const char *near = nearest(key, keys);
    if (near)
      return ch_fail(error, CH_ERROR_ARGUMENT, "{devices}: unknown key '%.40s'; did you mean %s?", key, near);
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{devices}: unknown key '%.40s'; use name, gb/s, flop/s, memory, reading or computing",
                   key);
  }
  if (right)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{devices}: %s is '%.60s'; it must be %s", key, value, right);
  return CH_OK;
}

static ch_status check_figures(const ch_device *device, ch_error *error) {
  const char *missing = !device->name[0]                ? "name"
                        : !(device->read_bandwidth > 0) ? "gb/s"
                        : !(device->flops > 0)          ? "flop/s"
                        : device->memory < 1            ? "memory"
                                                        : NULL;
  if (!missing) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "{devices}: the line has no %s; write all of name=X,gb/s=N,flop/s=N,memory=N", missing);
}

static ch_status read_line(const char *line, ch_device *device, ch_error *error) {
  *device =
      (ch_device){.reading = usual_reading, .computing = usual_computing, .computing_step = usual_computing};
  for (const char *at = line;; at++) {
    char word[WORD_SIZE];
    size_t length = strcspn(at, ",");
    if (length >= sizeof word)
      return ch_fail(error, CH_ERROR_ARGUMENT, "{devices}: '%.60s' is too long; write KEY=VALUE", at);
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    char *equals = strchr(word, '=');
    if (!equals)
      return ch_fail(
          error, CH_ERROR_ARGUMENT,
          "{devices}: '%s' has no '='; write name=X,gb/s=N,flop/s=N,memory=N, and a semicolon between "
          "devices",
          word);
    *equals = 0;
    CH_TRY(read_figure(word, equals + 1, device, error));
    at += length;
    if (!*at) break;
  }
  snprintf(device->title, sizeof device->title, "%s", device->name);
  snprintf(device->source, sizeof device->source, "given");
  return check_figures(device, error);
}

ch_status ch_device_read(const char *text, ch_device *device, ch_error *error) {
  if (!text || !device) return ch_refuse_null(error, text ? "the device pointer" : "the device's name");
  if (strchr(text, '=')) return read_line(text, device, error);
  for (int i = 0; i < KNOWN; i++)
    if (strcmp(known[i].name, text) == 0) return ch_device_at(i, device) ? CH_OK : CH_ERROR_ARGUMENT;
  return unknown_device(text, error);
}

/* --- this machine ----------------------------------------------------------------------------------------------- */

/* Shares of the limits measured by `bench` that Crosshead's decoding reaches on the machines of
 * bench/measurements.md. The share of prompts differs more between machines and is measured. */
static const double own_reading = 0.90, own_computing_step = 0.45, own_computing_quantised = 0.35;

enum {
  SMALL_WIDTH = 128,
  FEW_LAYERS = 2,
  MANY_LAYERS = 10,
  SMALL_TOKENS = 32,
  USUAL_WIDTH = 768,
  USUAL_LAYERS = 2,
  PROMPT = 512,
  HEAD = 32,
  MADE_VOCABULARY = 64,
  REPEATS = 5
};

typedef ch_status speed_of(const ch_model *model, const ch_speed_settings *settings, ch_speed *speed,
                           ch_error *error);

/* Measures a model with random weights, and a vocabulary so small that the cost of its LM head is negligible. */
static ch_status measure_made(int64_t width, int layers, ch_dtype dtype, speed_of *measure,
                              const ch_speed_settings *settings, ch_speed *speed, ch_error *error) {
  ch_config config;
  ch_config_defaults(&config);
  config.vocab_size = MADE_VOCABULARY;
  config.hidden_size = width;
  config.intermediate_size = 2 * width;
  config.num_hidden_layers = layers;
  config.num_attention_heads = config.num_key_value_heads = width / HEAD;
  config.head_dim = HEAD;
  config.max_position_embeddings = PROMPT;
  config.tie_word_embeddings = true;
  snprintf(config.attention.type, sizeof config.attention.type, "gqa");
  ch_model *model;
  CH_TRY(ch_model_random_of(&config, dtype, 1, &model, error));
  ch_status status = measure(model, settings, speed, error);
  ch_model_unload(model);
  return status;
}

/* Times a decoding step. The model is so small that reading and arithmetic cost almost nothing, but large enough for
 * all threads to work. */
static ch_status small_step(int layers, double *seconds, ch_error *error) {
  ch_speed_settings settings;
  ch_speed speed;
  ch_speed_defaults(&settings);
  settings.tokens = SMALL_TOKENS;
  settings.repeat = REPEATS;
  CH_TRY(measure_made(SMALL_WIDTH, layers, CH_F32, ch_speed_decode, &settings, &speed, error));
  *seconds = speed.seconds / SMALL_TOKENS;
  return CH_OK;
}

/* Measures the share of the arithmetic limit that prefill reaches in a model of typical width. */
static ch_status prompt_share(ch_precision compute, ch_dtype dtype, const ch_speed_limits *limits,
                              double *share, ch_error *error) {
  ch_speed_settings settings;
  ch_speed speed;
  ch_speed_defaults(&settings);
  settings.tokens = PROMPT;
  settings.repeat = REPEATS;
  settings.compute = compute;
  settings.limits = limits;
  CH_TRY(measure_made(USUAL_WIDTH, USUAL_LAYERS, dtype, ch_speed_prefill, &settings, &speed, error));
  /* a share above 1 means that the machine was slower while the limit was measured */
  *share = fmin(speed.share, 1);
  return CH_OK;
}

ch_status ch_device_measure(ch_precision compute, ch_device *device, ch_error *error) {
  ch_dtype dtype;
  double few, many;
  if (!device) return ch_refuse_null(error, "the device pointer");
  CH_TRY(ch_api_compute_type(compute, CH_F32, &dtype, error));
  CH_TRY(small_step(FEW_LAYERS, &few, error));
  CH_TRY(small_step(MANY_LAYERS, &many, error));
  const ch_machine machine = ch_machine_here();
  double integers = ch_measure_dot_peak_int8(CH_LIMIT_USUAL);
  ch_speed_limits limits = {.fma_peak = ch_measure_fma_peak_f32(CH_LIMIT_USUAL),
                            .bf16_peak = ch_measure_dot_peak_bf16(CH_LIMIT_USUAL)};
  double computing;
  CH_TRY(prompt_share(compute, dtype, &limits, &computing, error));
  *device = (ch_device){.name = "here",
                        .source = "measured",
                        .read_bandwidth = ch_measure_read_bandwidth(CH_LIMIT_USUAL),
                        .flops = ch_speed_peak(&limits, dtype, NULL),
                        .flops_quantised = integers,
                        .memory = machine.memory_bytes,
                        .reading = own_reading,
                        .computing = computing,
                        .computing_step = own_computing_step,
                        .computing_quantised = own_computing_quantised,
                        .layer_seconds = many > few ? (many - few) / (MANY_LAYERS - FEW_LAYERS) : 0};
  snprintf(device->title, sizeof device->title, "%.60s, %lld %s",
           machine.processor[0] ? machine.processor : "this machine", (long long)machine.threads,
           ch_plural(machine.threads, "thread", "threads"));
  /* working sets begin at 1 MiB and double up to 512 MiB, which only memory can hold */
  int64_t bytes = 1 << 20;
  for (device->rate_count = 0; device->rate_count < CH_DEVICE_RATES; device->rate_count++, bytes *= 2)
    device->rates[device->rate_count] =
        (ch_read_rate){.bytes = (double)bytes, .rate = ch_measure_read_bandwidth_of(bytes, CH_LIMIT_USUAL)};
  return CH_OK;
}
