/* crosshead bench: measures prefill, decoding and training rates and compares them with the machine's limits. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crosshead/bench.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/bench_text.h"
#include "cli/cache_types.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/precision.h"
#include "cli/work.h"

enum { MOST_VALUES = 16, MOST_ID_BYTES = 1 << 28 };
static const char SPACES[] = " \t\r\n";

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *prompt, *depth, *batch, *cache_dtype, *dtype, *compute, *context_ids, *trace;
  int64_t tokens, seq, repeat, threads;
  bool force, train, precompute_gates, expand_gates, keep_dictionary, profile, json;
} arguments;

typedef struct values {
  int64_t value[MOST_VALUES];
  int count;
} values;

/* The profile of a row. */
typedef struct row_profile {
  char title[96];
  ch_profile *profile;
  double steps; /* number of steps in the profile (ch_bench_steps) */
} row_profile;

typedef struct bench {
  const arguments *arguments;
  values prompts, depths, batches;
  ch_model *model; /* closed and NULL before training is measured, so that its memory is not counted */
  ch_cache_choice cache;
  ch_speed_matrices matrices;
  ch_speed_limits limits;
  row_profile *profiled; /* [profiled_count] profile of each row, with --profile or --trace */
  int profiled_count;
  ch_progress_line progress;
  json_t *rows; /* JSON of the rows: {"prefill": [...], ...} */
  int32_t *ids; /* [id_count] ids of --context-ids */
  int64_t id_count;
} bench;

/* --- arguments ---------------------------------------------------------------------------------------------- */

/* Parses a list such as "128,512". */
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
      return ch_fail(error, CH_ERROR_ARGUMENT, "--%s can have at most %d values", option, MOST_VALUES);
    list->value[list->count++] = value;
    if (p[length] == 0) return CH_OK;
    p += length + 1;
  }
}

/* Opens a model directory, or a configuration with random weights. */
static ch_status open_model(bench *b, ch_error *error) {
  const arguments *a = b->arguments;
  const char *path = a->positional[0];
  const ch_model_settings settings = {.keep_dictionary = a->keep_dictionary, .no_tokenizer = true};
  unsigned held = 0;
  if (ch_directory_has(path, "model.safetensors") || ch_directory_has(path, "model.safetensors.index.json"))
    CH_TRY(ch_model_open_with(path, &settings, &b->model, error));
  else
    CH_TRY(ch_model_open_random(path, ch_precision_of(a->dtype), 1, &settings, &b->model, error));
  if (ch_model_takes_images(b->model))
    return ch_fail(error, CH_ERROR_ARGUMENT, "bench is for models of text; this one, a \"%s\", is for images",
                   ch_model_type(b->model));
  CH_TRY(ch_model_cache_roles(b->model, &held, error));
  return ch_cache_choice_read(a->cache_dtype, CH_PRECISION_F32, held, &b->cache, error);
}

/* --- output ------------------------------------------------------------------------------------------------- */

static ch_status keep_row(bench *b, const ch_bench_row *r, ch_error *error) {
  json_t *object = ch_bench_row_json(r), *profile = NULL;
  if (b->arguments->profile) {
    char *json = NULL;
    ch_status status = ch_profile_json(r->settings.profile, b->profiled[b->profiled_count - 1].steps,
                                       &b->limits, &json, error);
    if (status == CH_OK) status = ch_report_read(json, &profile, error);
    if (status != CH_OK) return json_decref(object), status;
    json_object_set(object, "profile", json_object_get(profile, "operations"));
    json_decref(profile);
  }
  json_array_append_new(json_object_get(b->rows, r->what), object);
  return CH_OK;
}

static ch_status report(bench *b, const ch_bench_row *r, ch_error *error) {
  ch_progress_end(&b->progress);
  if (!b->arguments->json) ch_bench_print_row(r);
  return keep_row(b, r, error);
}

static ch_status print_profiles(const bench *b, ch_error *error) {
  for (int i = 0; i < b->profiled_count; i++) {
    const row_profile *p = &b->profiled[i];
    char *table = NULL;
    CH_TRY(ch_profile_table(p->profile, p->title, p->steps, &b->limits, &table, error));
    printf("\n%s", table);
    ch_free(table);
  }
  return CH_OK;
}

static ch_status write_trace(const bench *b, ch_error *error) {
  if (!b->arguments->trace) return CH_OK;
  ch_trace_part *parts = calloc((size_t)b->profiled_count + 1, sizeof *parts);
  if (!parts) return ch_no_memory(error);
  for (int i = 0; i < b->profiled_count; i++)
    parts[i] = (ch_trace_part){.title = b->profiled[i].title, .profile = b->profiled[i].profile};
  ch_status status = ch_trace_write(b->arguments->trace, b->profiled_count, parts, &b->limits, error);
  free(parts);
  return status;
}

static ch_status print_json(bench *b, ch_error *error) {
  json_t *object = b->rows;
  json_object_set_new(object, "machine", ch_bench_machine_json(&b->limits));
  json_object_set_new(object, "matrix_bytes_per_token", json_real(b->matrices.bytes_decoded));
  json_object_set_new(object, "cache_dtype", json_string(b->arguments->cache_dtype));
  return ch_print_json(json_incref(object), JSON_REAL_PRECISION(7), error);
}

/* --- measuring ---------------------------------------------------------------------------------------------- */

static ch_speed_settings settings_of(bench *b, int64_t batch, int64_t tokens, int64_t depth) {
  return (ch_speed_settings){.batch = batch,
                             .tokens = tokens,
                             .depth = depth,
                             .repeat = (int32_t)b->arguments->repeat,
                             .cache_keys = b->cache.keys,
                             .cache_values = b->cache.values,
                             .cache_latents = b->cache.latents,
                             .compute = ch_precision_of(b->arguments->compute),
                             .precompute_gates = b->arguments->precompute_gates,
                             .expand_gates = b->arguments->expand_gates,
                             .ids = b->ids,
                             .id_count = b->id_count,
                             .limits = &b->limits};
}

/* Starts a profile for the row, if requested. */
static ch_status open_profile(bench *b, ch_bench_row *r, const char *title, ch_error *error) {
  const arguments *a = b->arguments;
  if (!a->profile && !a->trace) return CH_OK;
  row_profile *more = realloc(b->profiled, (size_t)(b->profiled_count + 1) * sizeof *more);
  if (!more) return ch_no_memory(error);
  b->profiled = more;
  CH_TRY(ch_profile_new(a->trace != NULL, &r->settings.profile, error));
  row_profile *p = &b->profiled[b->profiled_count++];
  *p = (row_profile){.profile = r->settings.profile, .steps = (double)a->repeat * ch_bench_steps(r)};
  snprintf(p->title, sizeof p->title, "%s", title);
  return CH_OK;
}

static ch_status begin_row(bench *b, ch_bench_row *r, ch_error *error) {
  char title[96];
  if (ch_interrupted())
    return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted; the rows above are complete");
  snprintf(title, sizeof title, "%s: batch %lld, %lld tokens, depth %lld", r->what,
           (long long)r->settings.batch, (long long)r->settings.tokens, (long long)r->settings.depth);
  ch_progress_show(&b->progress, false, "%s", title);
  return open_profile(b, r, title, error);
}

/* Returns true if a write to standard output has failed. */
static bool is_over(void) {
  return !ch_output_alive();
}

static ch_status measure_prefill(bench *b, int64_t batch, ch_error *error) {
  for (int i = 0; i < b->prompts.count && !is_over(); i++) {
    ch_bench_row r = {.what = "prefill", .settings = settings_of(b, batch, b->prompts.value[i], 0)};
    CH_TRY(begin_row(b, &r, error));
    CH_TRY(ch_speed_prefill(b->model, &r.settings, &r.speed, error));
    CH_TRY(report(b, &r, error));
  }
  return CH_OK;
}

static ch_status measure_decode(bench *b, int64_t batch, ch_error *error) {
  for (int i = 0; i < b->depths.count && !is_over(); i++) {
    ch_bench_row r = {.what = "decode",
                      .settings = settings_of(b, batch, b->arguments->tokens, b->depths.value[i])};
    CH_TRY(begin_row(b, &r, error));
    CH_TRY(ch_speed_decode(b->model, &r.settings, &r.speed, error));
    CH_TRY(report(b, &r, error));
  }
  return CH_OK;
}

static ch_status measure_all(bench *b, ch_error *error) {
  for (int i = 0; i < b->batches.count; i++) CH_TRY(measure_prefill(b, b->batches.value[i], error));
  for (int i = 0; i < b->batches.count; i++) CH_TRY(measure_decode(b, b->batches.value[i], error));
  if (!b->arguments->train || is_over()) return CH_OK;
  ch_model_close(b->model);
  b->model = NULL;
  for (int i = 0; i < b->batches.count && !is_over(); i++) {
    ch_bench_row r = {.what = "train", .settings = settings_of(b, b->batches.value[i], b->arguments->seq, 0)};
    CH_TRY(begin_row(b, &r, error));
    CH_TRY(ch_speed_train(b->arguments->positional[0], &r.settings, &r.speed, error));
    CH_TRY(report(b, &r, error));
  }
  return CH_OK;
}

/* Reads token ids in the format of `crosshead tokenize`. */
static ch_status read_ids(bench *b, ch_error *error) {
  const char *path = b->arguments->context_ids;
  char *text = NULL, *end;
  size_t size = 0;
  int64_t vocabulary = ch_model_vocab_size(b->model);
  if (!path) return CH_OK;
  CH_TRY(ch_read_file(path, MOST_ID_BYTES, &text, &size, error));
  b->ids = malloc((size / 2 + 1) * sizeof *b->ids);
  ch_status status = b->ids ? CH_OK : ch_no_memory(error);
  for (const char *at = text + strspn(text, SPACES); status == CH_OK && *at; at = end + strspn(end, SPACES)) {
    long long id = strtoll(at, &end, 10);
    if (end == at || id < 0 || id >= vocabulary)
      status = ch_fail(error, CH_ERROR_ARGUMENT, "%s: '%.20s' is not a token id from 0 to %lld", path, at,
                       (long long)vocabulary - 1);
    else
      b->ids[b->id_count++] = (int32_t)id;
  }
  free(text);
  return status;
}

static ch_status measure_and_print(bench *b, ch_error *error) {
  CH_TRY(read_ids(b, error));
  /* without a terminal, only the printed rows show the progress */
  ch_progress_begin(&b->progress, isatty(STDERR_FILENO) ? stderr : NULL);
  ch_progress_show(&b->progress, false, "measuring the machine's limits");
  ch_speed_limits_measure(&b->limits);
  ch_progress_end(&b->progress);
  if (!b->arguments->json) ch_bench_print_head(&b->matrices, &b->limits);
  ch_interrupt_watch(CH_NOTHING_SAVED);
  ch_status status = measure_all(b, error);
  ch_interrupt_release();
  ch_progress_end(&b->progress);
  CH_TRY(status);
  if (is_over()) return ch_output_check(error);
  CH_TRY(write_trace(b, error));
  if (b->arguments->json) return print_json(b, error);
  return b->arguments->profile ? print_profiles(b, error) : CH_OK;
}

static ch_status run(const void *given, ch_error *error) {
  bench *b = calloc(1, sizeof *b);
  if (!b) return ch_no_memory(error);
  b->arguments = given;
  ch_status status;
  const arguments *a = b->arguments;
  CH_TRY_GOTO(parse_values("prompt", a->prompt, 1, 1 << 20, &b->prompts, error));
  CH_TRY_GOTO(parse_values("depth", a->depth, 0, 1 << 24, &b->depths, error));
  CH_TRY_GOTO(parse_values("batch", a->batch, 1, 4096, &b->batches, error));
  CH_TRY_GOTO(open_model(b, error));
  ch_speed_matrices_of(b->model, &b->matrices);
  b->rows = json_pack("{s:[], s:[], s:[]}", "prefill", "decode", "train");
  status = b->rows ? measure_and_print(b, error) : ch_no_memory(error);
done:
  json_decref(b->rows);
  ch_model_close(b->model);
  for (int i = 0; i < b->profiled_count; i++) ch_profile_free(b->profiled[i].profile);
  free(b->profiled);
  free(b->ids);
  free(b);
  return status;
}

#define AT(member) offsetof(arguments, member)
static const ch_option options[] = {
    CH_TEXT_OPTION("prompt", AT(prompt), "LIST", "Prompt lengths to prefill.", .default_value = "128,512"),
    CH_TEXT_OPTION("depth", AT(depth), "LIST",
                   "Tokens in the cache when decoding begins; the cache is filled with random states.",
                   .default_value = "0,4096"),
    CH_TEXT_OPTION("batch", AT(batch), "LIST", "Sequences per batch.", .default_value = "1"),
    CH_COUNT_OPTION("max-tokens", AT(tokens), "COUNT", 1, 1 << 20, "Tokens to decode per repetition.",
                    .alias = "tokens", .default_value = "32"),
    CH_TEXT_OPTION("cache-dtype", AT(cache_dtype), CH_CACHE_TYPES_METAVAR, CH_CACHE_TYPES_HELP,
                   .default_value = "f32"),
    CH_CHOICE_OPTION("dtype", AT(dtype), "TYPE", ch_element_type_names,
                     "Type of the random matrices if MODEL is a config.json.", .default_value = "f32"),
    CH_COMPUTE_OPTION(arguments, compute, NULL),
    CH_FLAG_OPTION("train", AT(train), "Also measure training steps: forward, backward, AdamW."),
    CH_COUNT_OPTION("seq", AT(seq), "COUNT", 1, 1 << 20, "Length of a training sequence in tokens.",
                    .setting = "sequence", .default_value = "256"),
    CH_COUNT_OPTION("repeat", AT(repeat), "COUNT", 1, 1000,
                    "Repetitions of each measurement; the median is printed.", .default_value = "5"),
    CH_PATH_OPTION("context-ids", AT(context_ids), "FILE",
                   "File of token ids, as tokenize prints them, that fill the cache. The speed of embedding "
                   "gates depends on them (default: random ids with the frequencies of words)."),
    CH_FLAG_OPTION(
        "keep-dictionary", AT(keep_dictionary),
        "Prefill and decode with the shared atoms of a masa model instead of a matrix for every layer."),
    CH_FLAG_OPTION("precompute-gates", AT(precompute_gates),
                   "Compute embedding gates for the whole vocabulary first (EG-MLA-A)."),
    CH_FLAG_OPTION("expand-gates", AT(expand_gates),
                   "Decode by expanding every gated latent, to compare with grouping equal token ids."),
    CH_FLAG_OPTION("profile", AT(profile),
                   "Also print the time of every operation, its arithmetic, its bytes and its share of the "
                   "machine's limit."),
    CH_PATH_OPTION(
        "trace", AT(trace), "FILE",
        "Write every operation of each row's last repetition to FILE, for chrome://tracing or Perfetto.",
        .writes = CH_WRITES_FILE),
    CH_JSON_OPTION(AT(json)),
    CH_THREADS_OPTION(AT(threads)),
    CH_FORCE_OPTION(AT(force)),
    {0}};

const ch_command ch_cmd_bench = {
    .name = "bench",
    .positional = "MODEL",
    .summary = "Measure prefill, decoding and training rates.",
    .description = "MODEL is a model directory, or a config.json, which gets random weights. Each row "
                   "also shows its share of the machine's limit, measured in the same run. For prefill "
                   "and training the limit is the arithmetic peak for the type of the weights (F32 "
                   "multiply-adds, BF16 or INT8 dot instructions). For decoding the limit is the "
                   "shortest possible time of the matrices plus that of attention. Each takes as long as "
                   "reading its bytes (the weights, or the cache) or computing its products, whichever "
                   "is longer. The read bandwidth is measured before and after each repetition.",
    .examples =
        "crosshead bench models/stories\n"
        "crosshead bench config.json --prompt 512 --depth 0,4096,16384 --batch 1,4 --cache-dtype bf16\n"
        "crosshead bench config.json --train --batch 16 --seq 256 --profile --trace step.json",
    CH_RUNS(options, arguments, run),
};
