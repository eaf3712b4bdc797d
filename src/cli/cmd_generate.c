/* crosshead generate: text from a model, streamed, with the rates of prefill and decoding and the cache's size. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "eval/dictionary_cost.h"
#include "cli/cache_types.h"
#include "cli/element_types.h"
#include "cli/output.h"
#include "cli/interrupt.h"
#include "cli/parse.h"
#include "eval/trace.h"
#include "infer/end_tokens.h"
#include "infer/generate.h"
#include "infer/model.h"

enum { MOST_PROMPT_BYTES = 256 << 20 };

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *prompt, *prompt_file, *tokenizer, *cache_dtype, *compute, *trace;
  int64_t max_tokens, top_k, seed, context;
  double temperature, top_p;
  bool ignore_eos, precompute_gates, keep_dictionary, echo, json;
} arguments;

/* Everything one run holds. */
typedef struct writer {
  const arguments *arguments;
  ch_tokenizer *tokenizer;
  ch_model *model;
  ch_timeline *timeline;
  char *prompt;
  size_t prompt_size;
  ch_ids prompt_ids, ids;
  ch_text text;
  double open_seconds;
  ch_dictionary_cost dictionary; /* with --keep-dictionary */
} writer;

/* --- the prompt ---------------------------------------------------------------------------------------------- */

static ch_status read_stream(FILE *stream, writer *w, ch_error *error) {
  ch_text text = {0};
  char block[1 << 14];
  for (size_t got; (got = fread(block, 1, sizeof block, stream)) > 0 && text.size <= MOST_PROMPT_BYTES;)
    ch_text_put(&text, block, got);
  if (text.failed || text.size > MOST_PROMPT_BYTES || ferror(stream)) {
    ch_text_free(&text);
    return ch_fail(error, CH_ERROR_IO, "cannot read a prompt of at most %d MiB from standard input",
                   MOST_PROMPT_BYTES >> 20);
  }
  w->prompt = text.data;
  w->prompt_size = text.size;
  return CH_OK;
}

static ch_status read_prompt(const arguments *a, writer *w, ch_error *error) {
  if (a->prompt && a->prompt_file)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--prompt and --prompt-file exclude each other; give one");
  if (a->prompt) {
    w->prompt = strdup(a->prompt);
    if (!w->prompt) return ch_fail(error, CH_ERROR_MEMORY, "no memory for the prompt");
    w->prompt_size = strlen(a->prompt);
    return CH_OK;
  }
  if (!a->prompt_file) return CH_OK;
  CH_TRY(strcmp(a->prompt_file, "-") == 0
             ? read_stream(stdin, w, error)
             : ch_read_file(a->prompt_file, MOST_PROMPT_BYTES, &w->prompt, &w->prompt_size, error));
  if (w->prompt_size > 0 && w->prompt[w->prompt_size - 1] == '\n') w->prompt_size--; /* editors add it */
  return CH_OK;
}

static ch_status encode_prompt(writer *w, ch_error *error) {
  CH_TRY(ch_tokenizer_encode(w->tokenizer, w->prompt ? w->prompt : "", w->prompt_size,
                             CH_ENCODE_SPECIAL | CH_ENCODE_TEMPLATE, &w->prompt_ids, error));
  if (w->prompt_ids.size > 0) return CH_OK;
  int32_t start = ch_tokenizer_bos(w->tokenizer);
  if (start < 0) start = ch_tokenizer_eos(w->tokenizer); /* what follows an end is a beginning */
  if (start < 0)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "the prompt is empty and the tokenizer has no token that a text begins with; give --prompt TEXT");
  if (!ch_ids_reserve(&w->prompt_ids, 1)) return ch_fail(error, CH_ERROR_MEMORY, "no memory for the prompt");
  w->prompt_ids.data[w->prompt_ids.size++] = start;
  return CH_OK;
}

/* --- opening ------------------------------------------------------------------------------------------------- */

/* Tokens a sequence may hold: what was asked for, else what prompt and text can need within the model's context. */
static ch_status choose_context(const writer *w, int64_t *context, ch_error *error) {
  const arguments *a = w->arguments;
  const ch_config *config = &w->model->config;
  int64_t most = config->max_position_embeddings, prompt = (int64_t)w->prompt_ids.size;
  if (a->context > most && config->position == CH_POSITION_ROPE)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--context %lld is more than the %lld positions the model was made for",
                   (long long)a->context, (long long)most);
  *context = a->context > 0 ? a->context : most;
  if (a->context == 0 && a->max_tokens > 0 && prompt + a->max_tokens < most)
    *context = prompt + a->max_tokens;
  if (prompt > *context)
    return ch_fail(error, CH_ERROR_FULL, "the prompt has %lld tokens and the context holds %lld",
                   (long long)prompt, (long long)*context);
  return CH_OK;
}

/* All matrices but the lookup tables of embedding gates: of those only rows of tokens in use are to take memory. */
static ch_status open_model(writer *w, ch_error *error) {
  const arguments *a = w->arguments;
  CH_TRY(ch_model_load(a->positional[0], CH_WEIGHTS_MAPPED, &w->model, error));
  w->model->compute = ch_compute_type(a->compute);
  CH_TRY(ch_config_needs_text(&w->model->config, "generate", error));
  if (a->keep_dictionary && w->model->config.sharing.type != CH_SHARING_MASA)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "%s has no dictionary to keep: its \"sharing.type\" is not \"masa\"; leave --keep-dictionary out",
        a->positional[0]);
  CH_TRY(ch_model_restate(w->model, a->keep_dictionary ? CH_FORM_INFERENCE : CH_FORM_SERVING, error));
  for (int i = 0; i < w->model->params.count; i++) {
    const ch_param *row = &w->model->params.rows[i];
    const ch_tensor *tensor = &w->model->weights.tensors[i];
    if (row->kind != CH_PARAM_GATE_EMBEDDING && !row->always_real)
      ch_map_touch(tensor->data, ch_tensor_bytes(tensor));
  }
  return CH_OK;
}

/* Reading a large vocabulary and mapping a large file take about the same time: together they take half of it. */
static ch_status open_files(writer *w, ch_error *error) {
  const arguments *a = w->arguments;
  ch_status model = CH_OK, tokenizer = CH_OK;
  ch_error model_error = {0}, tokenizer_error = {0};
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    model = open_model(w, &model_error);
#pragma omp section
    tokenizer =
        ch_tokenizer_open(a->tokenizer ? a->tokenizer : a->positional[0], &w->tokenizer, &tokenizer_error);
  }
  *error = model != CH_OK ? model_error : tokenizer_error;
  return model != CH_OK ? model : tokenizer;
}

static ch_status open_all(writer *w, ch_error *error) {
  const arguments *a = w->arguments;
  CH_TRY(read_prompt(a, w, error));
  CH_TRY(open_files(w, error));
  CH_TRY(encode_prompt(w, error));
  ch_timeline_options options;
  ch_timeline_options_default(&w->model->config, &options);
  CH_TRY(ch_cache_types_read(a->cache_dtype, CH_F32, &w->model->config, &options.cache, error));
  options.compute = w->model->compute;
  options.precompute_gates = a->precompute_gates;
  CH_TRY(choose_context(w, &options.context, error));
  return ch_timeline_create(&w->model->config, &w->model->params, w->model->weights.tensors, &options,
                            &w->timeline, error);
}

static void close_all(writer *w) {
  ch_timeline_free(w->timeline);
  ch_tokenizer_free(w->tokenizer);
  ch_model_unload(w->model);
  ch_ids_free(&w->prompt_ids);
  ch_ids_free(&w->ids);
  ch_text_free(&w->text);
  free(w->prompt);
}

/* --- the text ------------------------------------------------------------------------------------------------ */

static void show(writer *w, const char *text, size_t size) {
  ch_text_put(&w->text, text, size);
  if (w->arguments->json || size == 0) return;
  fwrite(text, 1, size, stdout);
  fflush(stdout);
}

static bool take(void *context, int32_t id, const char *text, size_t size) {
  writer *w = context;
  show(w, text, size);
  if (id >= 0) {
    if (!ch_ids_reserve(&w->ids, 1)) return false;
    w->ids.data[w->ids.size++] = id;
  }
  return !ch_interrupted() && ch_output_alive();
}

static ch_status write_text(writer *w, ch_generation_result *result, ch_error *error) {
  const arguments *a = w->arguments;
  int32_t ends[CH_MAX_END_TOKENS];
  ch_generation_options options = {.sampling = {a->temperature, a->top_k, a->top_p},
                                   .max_tokens = a->max_tokens,
                                   .end_tokens = ends,
                                   .sink = take,
                                   .context = w};
  ch_random_seed(&options.random, (uint64_t)a->seed, 0);
  if (!a->ignore_eos)
    CH_TRY(ch_end_tokens(a->positional[0], &w->model->config, w->tokenizer, ends, &options.end_token_count,
                         error));
  if (a->echo && w->prompt) show(w, w->prompt, w->prompt_size);
  ch_profile profile = {.keep_events = true};
  if (a->trace) ch_timeline_profile(w->timeline, &profile);
  ch_status status = ch_generate_tokens(w->timeline, w->tokenizer, w->prompt_ids.data,
                                        (int64_t)w->prompt_ids.size, &options, result, error);
  if (a->trace && status == CH_OK)
    status = ch_trace_write(a->trace, 1, &(ch_traced){"generate", &profile}, NULL, error);
  ch_timeline_profile(w->timeline, NULL);
  ch_profile_free(&profile);
  if (w->text.failed && status == CH_OK) status = ch_fail(error, CH_ERROR_MEMORY, "no memory for the text");
  return status;
}

/* --- figures ------------------------------------------------------------------------------------------------- */

static double rate(int64_t tokens, double seconds) {
  return seconds > 0 ? (double)tokens / seconds : 0;
}

static const char *end_name(ch_generation_end end) {
  static const char *const names[] = {"end", "length", "context", "stopped"};
  return names[end];
}

/* Why the text is over, where that is not what was asked for. */
static void print_end(const writer *w, const ch_generation_result *result) {
  if (result->end == CH_GENERATION_FULL)
    fprintf(stderr, "stopped: the context of %lld tokens is full\n",
            (long long)ch_timeline_cache(w->timeline)->capacity);
  if (result->end == CH_GENERATION_STOPPED)
    fprintf(stderr, "stopped: %s\n", ch_interrupted() ? "interrupted" : "nobody reads the text");
  if (result->end == CH_GENERATION_ENDED) fprintf(stderr, "the model ended its text\n");
}

static void print_figures(const writer *w, const ch_generation_result *result) {
  const ch_cache *cache = ch_timeline_cache(w->timeline);
  if (w->text.size == 0 || w->text.data[w->text.size - 1] != '\n') putchar('\n');
  fflush(stdout);
  print_end(w, result);
  fprintf(stderr, "prefill: %lld tokens in %.1f ms, %.1f tokens/s\n", (long long)result->prompt_tokens,
          1e3 * result->prefill_seconds, rate(result->prompt_tokens, result->prefill_seconds));
  fprintf(stderr, "decode:  %lld tokens in %.1f ms, %.1f tokens/s\n", (long long)result->tokens,
          1e3 * result->decode_seconds, rate(result->tokens, result->decode_seconds));
  fprintf(stderr, "cache:   %lld bytes a token (%s), %lld of %lld tokens, %zu bytes allocated\n",
          (long long)cache->token_bytes, w->arguments->cache_dtype,
          (long long)ch_timeline_length(w->timeline), (long long)cache->capacity, cache->bytes);
  if (w->arguments->keep_dictionary)
    fprintf(stderr,
            "dictionary: attention's weights take %.1f MiB instead of %.1f; a token takes %.2f times as long "
            "as with matrices written out\n",
            w->dictionary.bytes / (1 << 20), w->dictionary.written_bytes / (1 << 20), w->dictionary.slowdown);
}

static json_t *json_rate(int64_t tokens, double seconds) {
  return json_pack("{s:I, s:f, s:f}", "tokens", (json_int_t)tokens, "milliseconds", 1e3 * seconds,
                   "tokens_per_second", rate(tokens, seconds));
}

static json_t *json_ids(const ch_ids *ids) {
  json_t *list = json_array();
  for (size_t i = 0; i < ids->size; i++) json_array_append_new(list, json_integer(ids->data[i]));
  return list;
}

static ch_status print_json(const writer *w, const ch_generation_result *result, ch_error *error) {
  const ch_cache *cache = ch_timeline_cache(w->timeline);
  json_t *figures =
      json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "dtype", w->arguments->cache_dtype, "elements_per_token",
                (json_int_t)cache->token_elements, "bytes_per_token", (json_int_t)cache->token_bytes,
                "bytes_allocated", (json_int_t)cache->bytes, "tokens",
                (json_int_t)ch_timeline_length(w->timeline), "capacity", (json_int_t)cache->capacity);
  json_t *object =
      json_pack("{s:s%, s:o, s:o, s:s, s:I, s:f, s:o, s:o, s:o}", "text", w->text.data ? w->text.data : "",
                w->text.size, "ids", json_ids(&w->ids), "prompt_ids", json_ids(&w->prompt_ids), "end",
                end_name(result->end), "seed", (json_int_t)w->arguments->seed, "open_milliseconds",
                1e3 * w->open_seconds, "prefill", json_rate(result->prompt_tokens, result->prefill_seconds),
                "decode", json_rate(result->tokens, result->decode_seconds), "cache", figures);
  if (w->arguments->keep_dictionary)
    json_object_set_new(object, "dictionary",
                        json_pack("{s:f, s:f, s:f}", "attention_bytes", w->dictionary.bytes,
                                  "attention_bytes_written_out", w->dictionary.written_bytes, "slowdown",
                                  w->dictionary.slowdown));
  return ch_print_json(object, JSON_REAL_PRECISION(6), error);
}

/* --- the command --------------------------------------------------------------------------------------------- */

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  writer w = {.arguments = a};
  ch_generation_result result = {0};
  ch_status status;
  double start = ch_clock();
  CH_TRY_GOTO(open_all(&w, error));
  w.open_seconds = ch_clock() - start;
  ch_interrupt_watch();
  status = write_text(&w, &result, error);
  ch_interrupt_release();
  if (status == CH_OK && a->keep_dictionary)
    status = ch_dictionary_cost_measure(w.model, &w.dictionary, error);
  if (status == CH_OK && a->json)
    status = print_json(&w, &result, error);
  else if (status == CH_OK)
    print_figures(&w, &result);
  else if (!a->json && w.text.size > 0)
    putchar('\n');
done:
  close_all(&w);
  return status;
}

#define AT(member) .offset = offsetof(arguments, member)
static const ch_option options[] = {
    {.name = "", .help = "Prompt"},
    {.name = "prompt",
     .type = CH_OPTION_TEXT,
     AT(prompt),
     .metavar = "TEXT",
     .help = "The text to go on from; without one the model begins a text of its own."},
    {.name = "prompt-file",
     .type = CH_OPTION_PATH,
     AT(prompt_file),
     .metavar = "FILE",
     .help =
         "Read the prompt from a file, or from standard input with -; one newline at its end is dropped."},
    {.name = "tokenizer",
     .type = CH_OPTION_PATH,
     AT(tokenizer),
     .metavar = "PATH",
     .help = "A tokenizer.json, tokenizer.bin or directory to use instead of the model's own."},
    {.name = "echo", .type = CH_OPTION_FLAG, AT(echo), .help = "Print the prompt before the text."},
    {.name = "", .help = "Sampling"},
    {.name = "max-tokens",
     .type = CH_OPTION_COUNT,
     AT(max_tokens),
     .metavar = "COUNT",
     .default_value = "256",
     .help = "Most tokens to write; 0 = until the context is full."},
    {.name = "temperature",
     .type = CH_OPTION_NUMBER,
     AT(temperature),
     .metavar = "NUMBER",
     .default_value = "0.8",
     .min = 0,
     .max = -1,
     .help = "Logits are divided by it; 0 = greedy, always the likeliest token."},
    {.name = "top-k",
     .type = CH_OPTION_COUNT,
     AT(top_k),
     .metavar = "COUNT",
     .default_value = "40",
     .help = "Draw among the k likeliest tokens; 0 = all."},
    {.name = "top-p",
     .type = CH_OPTION_NUMBER,
     AT(top_p),
     .metavar = "NUMBER",
     .default_value = "0.95",
     .min = 0,
     .max = 1,
     .help = "Then among the fewest whose probabilities sum to p; 1 = all."},
    {.name = "seed",
     .type = CH_OPTION_COUNT,
     AT(seed),
     .metavar = "N",
     .default_value = "0",
     .help = "The same seed gives the same text."},
    {.name = "precompute-gates",
     .type = CH_OPTION_FLAG,
     AT(precompute_gates),
     .help = "Tabulate a gated model's embedding gates for the whole vocabulary first (EG-MLA-A)."},
    {.name = "keep-dictionary",
     .type = CH_OPTION_FLAG,
     AT(keep_dictionary),
     .help = "Keep the atoms that a masa model's layers share instead of writing their matrices out: less "
             "memory, more time a token; both are measured and printed."},
    {.name = "ignore-eos",
     .type = CH_OPTION_FLAG,
     AT(ignore_eos),
     .help = "Write on when the model ends its text."},
    {.name = "", .help = "Cache"},
    {.name = "cache-dtype",
     .type = CH_OPTION_TEXT,
     AT(cache_dtype),
     .metavar = CH_CACHE_TYPES_METAVAR,
     .default_value = "f32",
     .help = CH_CACHE_TYPES_HELP},
    CH_COMPUTE_OPTION(arguments, compute),
    {.name = "context",
     .type = CH_OPTION_COUNT,
     AT(context),
     .metavar = "COUNT",
     .help = "Tokens to make room for; by default what the prompt and --max-tokens need, at most the model's "
             "context."},
    {.name = "", .help = "Output"},
    {.name = "trace",
     .type = CH_OPTION_PATH,
     AT(trace),
     .metavar = "FILE",
     .help = "Write every operation of every pass to FILE, for chrome://tracing or Perfetto."},
    {.name = "json",
     .type = CH_OPTION_FLAG,
     AT(json),
     .help = "Print one JSON object with the text, its ids, the rates and the cache's figures."},
    {0}};

const ch_command ch_cmd_generate = {
    .name = "generate",
    .positional = "MODEL",
    .summary = "Write text with a model.",
    .description = "Feeds the prompt through the model, then writes one token at a time from its cache, on "
                   "standard output as "
                   "soon as whole characters are known. The rates of both parts and the cache's size follow "
                   "on standard error. "
                   "Interrupting (Ctrl-C) ends the text and still prints them.",
    .examples =
        "crosshead generate models/stories --prompt \"Once upon a time\"\n"
        "crosshead generate models/stories --prompt-file letter.txt --temperature 0 --max-tokens 500\n"
        "crosshead generate models/stories --prompt \"The moon\" --cache-dtype bf16 --seed 7 --json",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};
