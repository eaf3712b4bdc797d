/* crosshead generate: text from a model, streamed, with the rates of prefill and decoding and the cache's size. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/progress.h"
#include "cli/cache_types.h"
#include "cli/element_types.h"
#include "cli/generate_many.h"
#include "cli/generate_one.h"
#include "cli/parse.h"
#include "infer/end_tokens.h"
#include "infer/generate.h"
#include "infer/model.h"
#include "tensor/gemm.h"

enum { MOST_TEXTS = 1 << 20 };

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *prompt, *prompt_file, *prompts, *tokenizer, *cache_dtype, *compute, *trace;
  int64_t max_tokens, top_k, seed, context, samples, batch;
  double temperature, top_p;
  bool ignore_eos, precompute_gates, keep_dictionary, echo, json;
} arguments;

/* Everything one run holds. */
typedef struct writer {
  const arguments *arguments;
  ch_tokenizer *tokenizer;
  ch_model *model;
  ch_timeline *timeline;
  ch_prompts prompts;
  double open_seconds;
} writer;

/* --- the prompt ---------------------------------------------------------------------------------------------- */

/* Whether there is more than one text to write: the figures then are of all of them. */
static bool is_many(const arguments *a) {
  return a->prompts || a->samples > 1;
}

static ch_status read_prompts(const arguments *a, writer *w, ch_error *error) {
  if (a->trace && is_many(a))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--trace is of one text; give neither --prompts nor --samples");
  if ((a->prompt != NULL) + (a->prompt_file != NULL) + (a->prompts != NULL) > 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--prompt, --prompt-file and --prompts exclude each other; give one");
  if (a->samples < 1 || a->samples > MOST_TEXTS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--samples %lld: 1 to %d texts of a prompt are possible",
                   (long long)a->samples, MOST_TEXTS);
  if (a->batch < 1 || a->batch > CH_FEW_ROWS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--batch %lld: 1 to %d texts can be written in step",
                   (long long)a->batch, CH_FEW_ROWS);
  if (a->keep_dictionary && is_many(a))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--keep-dictionary is measured with one text; give neither --prompts nor --samples");
  if (!a->prompts) return ch_prompts_read_one(a->prompt, a->prompt_file, &w->prompts, error);
  CH_TRY(ch_prompts_read_lines(a->prompts, &w->prompts, error));
  if (w->prompts.count * a->samples > MOST_TEXTS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%lld prompts of %lld samples are more than %d texts",
                   (long long)w->prompts.count, (long long)a->samples, MOST_TEXTS);
  return CH_OK;
}

/* --- opening ------------------------------------------------------------------------------------------------- */

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
  CH_TRY(read_prompts(a, w, error));
  CH_TRY(open_files(w, error));
  CH_TRY(ch_prompts_encode(&w->prompts, w->tokenizer, error));
  ch_timeline_options options;
  ch_timeline_options_default(&w->model->config, &options);
  CH_TRY(ch_cache_types_read(a->cache_dtype, CH_F32, &w->model->config, &options.cache, error));
  options.compute = w->model->compute;
  options.precompute_gates = a->precompute_gates;
  CH_TRY(
      ch_prompts_context(&w->prompts, &w->model->config, a->context, a->max_tokens, &options.context, error));
  int64_t texts = w->prompts.count * a->samples;
  options.sequences = texts < a->batch ? texts : a->batch;
  return ch_timeline_create(&w->model->config, &w->model->params, w->model->weights.tensors, &options,
                            &w->timeline, error);
}

static void close_all(writer *w) {
  ch_timeline_free(w->timeline);
  ch_tokenizer_free(w->tokenizer);
  ch_model_unload(w->model);
  ch_prompts_free(&w->prompts);
}

/* --- writing ------------------------------------------------------------------------------------------------- */

/* What all texts have in common. */
static ch_status common_options(const writer *w, int32_t ends[CH_MAX_END_TOKENS],
                                ch_generation_options *options, ch_error *error) {
  const arguments *a = w->arguments;
  *options = (ch_generation_options){
      .sampling = {a->temperature, a->top_k, a->top_p}, .max_tokens = a->max_tokens, .end_tokens = ends};
  if (a->ignore_eos) return CH_OK;
  return ch_end_tokens(a->positional[0], &w->model->config, w->tokenizer, ends, &options->end_token_count,
                       error);
}

static ch_status write_one(const writer *w, ch_error *error) {
  const arguments *a = w->arguments;
  int32_t ends[CH_MAX_END_TOKENS];
  ch_generation_options options;
  CH_TRY(common_options(w, ends, &options, error));
  const ch_one_text one = {.timeline = w->timeline,
                           .tokenizer = w->tokenizer,
                           .model = w->model,
                           .prompt = &w->prompts.list[0],
                           .common = &options,
                           .seed = (uint64_t)a->seed,
                           .cache_dtype = a->cache_dtype,
                           .trace = a->trace,
                           .open_seconds = w->open_seconds,
                           .keep_dictionary = a->keep_dictionary,
                           .echo = a->echo,
                           .json = a->json};
  return ch_generate_one(&one, error);
}

static ch_status write_many(const writer *w, ch_error *error) {
  const arguments *a = w->arguments;
  int32_t ends[CH_MAX_END_TOKENS];
  ch_generation_options options;
  CH_TRY(common_options(w, ends, &options, error));
  const ch_many_texts many = {.timeline = w->timeline,
                              .tokenizer = w->tokenizer,
                              .prompts = &w->prompts,
                              .samples = a->samples,
                              .seed = (uint64_t)a->seed,
                              .common = &options,
                              .cache_dtype = a->cache_dtype,
                              .echo = a->echo,
                              .json = a->json};
  return ch_generate_many(&many, error);
}

/* --- the command --------------------------------------------------------------------------------------------- */

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  writer w = {.arguments = a};
  ch_status status;
  double start = ch_clock();
  CH_TRY_GOTO(open_all(&w, error));
  w.open_seconds = ch_clock() - start;
  status = is_many(a) ? write_many(&w, error) : write_one(&w, error);
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
    {.name = "prompts",
     .type = CH_OPTION_PATH,
     AT(prompts),
     .metavar = "FILE",
     .help = "Write a text for every line of a file, several in step; in a .jsonl file a line is a JSON "
             "string or "
             "{\"prompt\": TEXT}."},
    {.name = "samples",
     .type = CH_OPTION_COUNT,
     AT(samples),
     .metavar = "COUNT",
     .default_value = "1",
     .help = "Texts of every prompt; the first has --seed, the next one more, and so on."},
    {.name = "batch",
     .type = CH_OPTION_COUNT,
     AT(batch),
     .metavar = "COUNT",
     .default_value = "16",
     .help = "Most texts that are written in step; when one ends the next takes its place."},
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
        "crosshead generate models/stories --prompts prompts.txt --samples 4 --batch 16 --json\n"
        "crosshead generate models/stories --prompt \"The moon\" --cache-dtype bf16 --seed 7 --json",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};
