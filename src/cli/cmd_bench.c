/* crosshead bench: prefill, decoding and training rates beside the machine's limits. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/bench_text.h"
#include "cli/cache_types.h"
#include "cli/element_types.h"
#include "cli/output.h"
#include "cli/interrupt.h"
#include "cli/parse.h"
#include "cli/profile_text.h"
#include "eval/random_model.h"
#include "eval/speed.h"
#include "eval/trace.h"

enum { MOST_VALUES = 16, MOST_ID_BYTES = 1 << 28 };
static const char SPACES[] = " \t\r\n";

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *prompt, *depth, *batch, *cache_dtype, *dtype, *compute, *context_ids, *trace;
  int64_t tokens, seq, repeat;
  bool train, precompute_gates, expand_gates, keep_dictionary, profile, json;
} arguments;

typedef struct values {
  int64_t value[MOST_VALUES];
  int count;
} values;

/* What was profiled of a row. */
typedef struct profiled {
  char title[96];
  ch_profile *profile;
  double steps; /* in it: of prompts, tokens, training steps */
} profiled;

typedef struct bench {
  const arguments *arguments;
  values prompts, depths, batches;
  ch_model *model; /* NULL once training is measured: its memory is not to count */
  ch_config config;
  ch_cache_types cache;
  double matrix_bytes;
  ch_speed_limits limits;
  profiled *profiled; /* a row each, with --profile or --trace */
  int profiled_count;
  ch_progress_line progress;
  json_t *rows; /* {"prefill": [...], ...} */
  int32_t *ids; /* of --context-ids */
  int64_t id_count;
} bench;

/* --- arguments ----------------------------------------------------------------------------------------------- */

/* "128,512" */
static ch_status parse_values(const char *option, const char *text, int64_t least, int64_t most, values *list,
                              ch_error *error) {
  list->count = 0;
  for (const char *p = text;;) {
    char word[32];
    size_t length = strcspn(p, ",");
    int64_t value = 0;
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), p);
    if (!ch_parse_count(word, &value) || value < least || value > most)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "--%s needs counts from %lld to %lld with commas between, not '%s'", option,
                     (long long)least, (long long)most, word);
    if (list->count == MOST_VALUES)
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s takes at most %d values", option, MOST_VALUES);
    list->value[list->count++] = value;
    if (p[length] == 0) return CH_OK;
    p += length + 1;
  }
}

static ch_status parse_arguments(bench *b, ch_error *error) {
  const arguments *a = b->arguments;
  CH_TRY(parse_values("prompt", a->prompt, 1, 1 << 20, &b->prompts, error));
  CH_TRY(parse_values("depth", a->depth, 0, 1 << 24, &b->depths, error));
  return parse_values("batch", a->batch, 1, 4096, &b->batches, error);
}

static bool holds(const char *directory, const char *name) {
  char *path = ch_path_join(directory, name);
  bool there = path && ch_is_file(path);
  free(path);
  return there;
}

/* A directory with weights is measured with them, a configuration alone with random ones. */
static ch_status open_model(bench *b, ch_error *error) {
  const char *path = b->arguments->positional[0];
  if (holds(path, "model.safetensors") || holds(path, "model.safetensors.index.json"))
    return ch_model_load(path, CH_WEIGHTS_MAPPED, &b->model, error);
  return ch_model_random(path, *ch_element_type(b->arguments->dtype), 1, &b->model, error);
}

/* --- output -------------------------------------------------------------------------------------------------- */

static void find_share(const bench *b, ch_dtype dtype, ch_bench_row *r) {
  double peak = ch_speed_peak(&b->limits, dtype, &r->limit);
  r->share = r->speed.flops / r->speed.seconds / peak;
}

static void keep_row(bench *b, const ch_bench_row *r) {
  json_t *object = ch_bench_row_json(r);
  if (b->arguments->profile)
    json_object_set_new(
        object, "profile",
        ch_profile_json(r->options.profile, b->profiled[b->profiled_count - 1].steps, &b->limits));
  json_array_append_new(json_object_get(b->rows, r->what), object);
}

static void report(bench *b, const ch_bench_row *r) {
  ch_progress_end(&b->progress);
  if (!b->arguments->json) ch_bench_print_row(r);
  keep_row(b, r);
}

static void print_profiles(const bench *b) {
  for (int i = 0; i < b->profiled_count; i++) {
    const profiled *p = &b->profiled[i];
    ch_profile_print(p->title, p->profile, p->steps, &b->limits);
  }
}

static ch_status write_trace(const bench *b, ch_error *error) {
  if (!b->arguments->trace) return CH_OK;
  ch_traced *parts = calloc((size_t)b->profiled_count + 1, sizeof *parts);
  if (!parts) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a trace");
  for (int i = 0; i < b->profiled_count; i++)
    parts[i] = (ch_traced){.title = b->profiled[i].title, .profile = b->profiled[i].profile};
  ch_status status = ch_trace_write(b->arguments->trace, b->profiled_count, parts, &b->limits, error);
  free(parts);
  return status;
}

static ch_status print_json(bench *b, ch_error *error) {
  json_t *object = b->rows;
  json_object_set_new(object, "machine", ch_bench_machine_json(&b->limits));
  json_object_set_new(object, "matrix_bytes_per_token", json_real(b->matrix_bytes));
  json_object_set_new(object, "cache_dtype", json_string(b->arguments->cache_dtype));
  return ch_print_json(json_incref(object), JSON_REAL_PRECISION(7), error);
}

/* --- measuring ----------------------------------------------------------------------------------------------- */

static ch_speed_options options_of(bench *b, int64_t batch, int64_t tokens, int64_t depth) {
  return (ch_speed_options){.batch = batch,
                            .tokens = tokens,
                            .depth = depth,
                            .cache = b->cache,
                            .repeat = (int)b->arguments->repeat,
                            .precompute_gates = b->arguments->precompute_gates,
                            .expand_gates = b->arguments->expand_gates,
                            .ids = b->ids,
                            .id_count = b->id_count,
                            .limits = &b->limits};
}

/* A profile for the row, where one is asked for. */
static ch_status open_profile(bench *b, ch_bench_row *r, const char *title, ch_error *error) {
  const arguments *a = b->arguments;
  if (!a->profile && !a->trace) return CH_OK;
  profiled *more = realloc(b->profiled, (size_t)(b->profiled_count + 1) * sizeof *more);
  if (more) b->profiled = more;
  r->options.profile = more ? calloc(1, sizeof *r->options.profile) : NULL;
  if (!r->options.profile) return ch_fail(error, CH_ERROR_MEMORY, "no memory for a profile");
  profiled *p = &b->profiled[b->profiled_count++];
  *p = (profiled){.profile = r->options.profile, .steps = (double)a->repeat * ch_bench_steps(r)};
  snprintf(p->title, sizeof p->title, "%s", title);
  p->profile->keep_events = a->trace != NULL;
  return CH_OK;
}

static ch_status begin_row(bench *b, ch_bench_row *r, ch_error *error) {
  char title[96];
  if (ch_interrupted() || !ch_output_alive()) return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
  snprintf(title, sizeof title, "%s: batch %lld, %lld tokens, depth %lld", r->what,
           (long long)r->options.batch, (long long)r->options.tokens, (long long)r->options.depth);
  ch_progress_show(&b->progress, false, "%s", title);
  return open_profile(b, r, title, error);
}

static void free_profiles(bench *b) {
  for (int i = 0; i < b->profiled_count; i++) {
    ch_profile_free(b->profiled[i].profile);
    free(b->profiled[i].profile);
  }
  free(b->profiled);
}

static ch_status measure_prefill(bench *b, int64_t batch, ch_error *error) {
  for (int i = 0; i < b->prompts.count; i++) {
    ch_bench_row r = {.what = "prefill", .options = options_of(b, batch, b->prompts.value[i], 0)};
    CH_TRY(begin_row(b, &r, error));
    CH_TRY(ch_speed_prefill(b->model, &r.options, &r.speed, error));
    find_share(b, ch_speed_matrix_type(b->model), &r);
    report(b, &r);
  }
  return CH_OK;
}

static ch_status measure_decode(bench *b, int64_t batch, ch_error *error) {
  for (int i = 0; i < b->depths.count; i++) {
    ch_bench_row r = {.what = "decode",
                      .options = options_of(b, batch, b->arguments->tokens, b->depths.value[i])};
    CH_TRY(begin_row(b, &r, error));
    CH_TRY(ch_speed_decode(b->model, &r.options, &r.speed, error));
    r.share = r.speed.share;
    r.limit = "memory and arithmetic";
    report(b, &r);
  }
  return CH_OK;
}

static ch_status measure_training(bench *b, int64_t batch, ch_error *error) {
  ch_bench_row r = {.what = "train", .options = options_of(b, batch, b->arguments->seq, 0)};
  CH_TRY(begin_row(b, &r, error));
  r.options.compute = ch_compute_type(b->arguments->compute);
  CH_TRY(ch_speed_train(&b->config, &r.options, &r.speed, error));
  find_share(b, r.options.compute, &r);
  report(b, &r);
  return CH_OK;
}

static ch_status measure_all(bench *b, ch_error *error) {
  for (int i = 0; i < b->batches.count; i++) CH_TRY(measure_prefill(b, b->batches.value[i], error));
  for (int i = 0; i < b->batches.count; i++) CH_TRY(measure_decode(b, b->batches.value[i], error));
  if (!b->arguments->train) return CH_OK;
  ch_model_unload(b->model);
  b->model = NULL;
  for (int i = 0; i < b->batches.count; i++) CH_TRY(measure_training(b, b->batches.value[i], error));
  return CH_OK;
}

/* Whole numbers, as tokenize prints them. */
static ch_status read_ids(bench *b, ch_error *error) {
  const char *path = b->arguments->context_ids;
  char *text = NULL, *end;
  size_t size = 0;
  if (!path) return CH_OK;
  CH_TRY(ch_read_file(path, MOST_ID_BYTES, &text, &size, error));
  b->ids = malloc((size / 2 + 1) * sizeof *b->ids);
  ch_status status = b->ids ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory for the ids of %s", path);
  for (const char *at = text + strspn(text, SPACES); status == CH_OK && *at; at = end + strspn(end, SPACES)) {
    long long id = strtoll(at, &end, 10);
    if (end == at || id < 0 || id >= b->config.vocab_size)
      status = ch_fail(error, CH_ERROR_ARGUMENT, "%s: '%.20s' is no token id from 0 to %lld", path, at,
                       (long long)b->config.vocab_size - 1);
    else
      b->ids[b->id_count++] = (int32_t)id;
  }
  free(text);
  return status;
}

static ch_status measure_and_print(bench *b, ch_error *error) {
  CH_TRY(read_ids(b, error));
  ch_progress_begin(&b->progress, isatty(STDERR_FILENO) ? stderr : NULL); /* elsewhere the rows tell enough */
  ch_progress_show(&b->progress, false, "measuring the machine's limits");
  ch_speed_limits_measure(&b->limits);
  ch_progress_end(&b->progress);
  if (!b->arguments->json) ch_bench_print_head(b->model, &b->limits, b->matrix_bytes);
  ch_interrupt_watch();
  ch_status status = measure_all(b, error);
  ch_interrupt_release();
  ch_progress_end(&b->progress);
  CH_TRY(status);
  CH_TRY(write_trace(b, error));
  if (b->arguments->json) return print_json(b, error);
  if (b->arguments->profile) print_profiles(b);
  return CH_OK;
}

static ch_status run(const void *given, ch_error *error) {
  bench *b = calloc(1, sizeof *b);
  if (!b) return ch_fail(error, CH_ERROR_MEMORY, "no memory to measure");
  b->arguments = given;
  ch_status status;
  CH_TRY_GOTO(parse_arguments(b, error));
  CH_TRY_GOTO(open_model(b, error));
  CH_TRY_GOTO(ch_config_needs_text(&b->model->config, "bench", error));
  b->model->compute = ch_compute_type(b->arguments->compute);
  b->config = b->model->config; /* of training: as it is, not as it is served */
  CH_TRY_GOTO(ch_cache_types_read(b->arguments->cache_dtype, CH_F32, &b->config, &b->cache, error));
  CH_TRY_GOTO(
      ch_model_restate(b->model, b->arguments->keep_dictionary ? CH_FORM_INFERENCE : CH_FORM_SERVING, error));
  b->matrix_bytes = ch_speed_matrix_bytes(b->model, 1);
  b->rows = json_pack("{s:[], s:[], s:[]}", "prefill", "decode", "train");
  status = b->rows ? measure_and_print(b, error) : ch_fail(error, CH_ERROR_MEMORY, "no memory to measure");
done:
  json_decref(b->rows);
  ch_model_unload(b->model);
  free_profiles(b);
  free(b->ids);
  free(b);
  return status;
}

#define AT(member) .offset = offsetof(arguments, member)
static const ch_option options[] = {
    {.name = "prompt",
     .type = CH_OPTION_TEXT,
     AT(prompt),
     .metavar = "LIST",
     .default_value = "128,512",
     .help = "Prompt lengths to prefill."},
    {.name = "depth",
     .type = CH_OPTION_TEXT,
     AT(depth),
     .metavar = "LIST",
     .default_value = "0,4096",
     .help = "Tokens in the cache when decoding begins; the cache is filled with random states."},
    {.name = "batch",
     .type = CH_OPTION_TEXT,
     AT(batch),
     .metavar = "LIST",
     .default_value = "1",
     .help = "Sequences that run in step."},
    {.name = "tokens",
     .type = CH_OPTION_COUNT,
     AT(tokens),
     .metavar = "COUNT",
     .default_value = "32",
     .min = 1,
     .max = 1 << 20,
     .help = "Tokens to decode in one repetition."},
    {.name = "cache-dtype",
     .type = CH_OPTION_TEXT,
     AT(cache_dtype),
     .metavar = CH_CACHE_TYPES_METAVAR,
     .default_value = "f32",
     .help = CH_CACHE_TYPES_HELP},
    {.name = "dtype",
     .type = CH_OPTION_CHOICE,
     AT(dtype),
     .metavar = "TYPE",
     .default_value = "f32",
     .choices = ch_element_type_names,
     .help = "Type of random matrices, where CONFIG has no weights beside it."},
    CH_COMPUTE_OPTION(arguments, compute),
    {.name = "train",
     .type = CH_OPTION_FLAG,
     AT(train),
     .help = "Also time training steps: forward, backward, AdamW."},
    {.name = "seq",
     .type = CH_OPTION_COUNT,
     AT(seq),
     .metavar = "COUNT",
     .default_value = "256",
     .min = 1,
     .max = 1 << 20,
     .help = "Tokens of a training sequence."},
    {.name = "repeat",
     .type = CH_OPTION_COUNT,
     AT(repeat),
     .metavar = "COUNT",
     .default_value = "5",
     .min = 1,
     .max = 1000,
     .help = "Repetitions of each row; the median is printed."},
    {.name = "context-ids",
     .type = CH_OPTION_PATH,
     AT(context_ids),
     .metavar = "FILE",
     .help = "Token ids, as tokenize prints them, of what the cache is filled with (behind embedding gates "
             "speed depends on them; default: made up, as frequent as words are)."},
    {.name = "keep-dictionary",
     .type = CH_OPTION_FLAG,
     AT(keep_dictionary),
     .help = "Prefill and decode with a masa model's atoms, not with matrices written out."},
    {.name = "precompute-gates",
     .type = CH_OPTION_FLAG,
     AT(precompute_gates),
     .help = "Tabulate embedding gates for the whole vocabulary first (EG-MLA-A)."},
    {.name = "expand-gates",
     .type = CH_OPTION_FLAG,
     AT(expand_gates),
     .help = "Decode by expanding every gated latent, to compare with taking ids together."},
    {.name = "profile",
     .type = CH_OPTION_FLAG,
     AT(profile),
     .help = "Also print where the time of a step or a token goes: every operation's time, arithmetic, bytes "
             "and share of "
             "the limit."},
    {.name = "trace",
     .type = CH_OPTION_PATH,
     AT(trace),
     .metavar = "FILE",
     .help =
         "Write every operation of each row's last repetition to FILE, for chrome://tracing or Perfetto."},
    {.name = "json", .type = CH_OPTION_FLAG, AT(json), .help = "Print one JSON object."},
    {0}};

const ch_command ch_cmd_bench = {
    .name = "bench",
    .positional = "MODEL",
    .summary = "Measure prefill, decoding and training rates.",
    .description =
        "MODEL is a model directory, or a config.json whose matrices are then random. Each row also says how "
        "much of "
        "the machine's limit it reaches, measured in the same run: prefill and training of the arithmetic "
        "peak "
        "for "
        "the weights' type (F32 multiply-adds, BF16 or INT8 dot instructions), decoding of what the slower "
        "of "
        "reading every matrix and multiplying by it, and then the slower of reading the cache and "
        "attention's "
        "products, would take at that peak and the read bandwidth measured before and after each repetition.",
    .examples =
        "crosshead bench models/stories\n"
        "crosshead bench config.json --prompt 512 --depth 0,4096,16384 --batch 1,4 --cache-dtype bf16\n"
        "crosshead bench config.json --train --batch 16 --seq 256 --profile --trace step.json",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};
