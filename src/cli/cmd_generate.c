/* crosshead generate: generates text and prints the rates of prefill and decoding and the cache's size. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <crosshead/chat.h>
#include <crosshead/generate.h>

#include "base/progress.h"
#include "cli/cache_types.h"
#include "cli/command.h"
#include "cli/generate_many.h"
#include "cli/generate_one.h"
#include "cli/parse.h"
#include "cli/precision.h"

enum { MOST_TEXTS = 1 << 20 };

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *prompt, *prompt_file, *prompts, *system, *tokenizer, *cache_dtype, *compute, *trace;
  int64_t max_tokens, top_k, seed, context, samples, batch, threads;
  double temperature, top_p;
  bool chat, ignore_eos, precompute_gates, keep_dictionary, echo, json, force;
} arguments;

/* The objects of the command. */
typedef struct writer {
  const arguments *arguments;
  ch_model *model;
  ch_session *session;
  ch_prompts prompts;
  int64_t sequences; /* number of sequences of the session */
  double open_seconds;
} writer;

/* --- the prompt --------------------------------------------------------------------------------------------- */

/* Returns true if several texts are generated in a batch. The figures are then those of all texts. */
static bool is_many(const arguments *a) {
  return a->prompts || a->samples > 1;
}

/* Returns true if standard input is a pipe or a file. A terminal would wait for typing. */
static bool is_piped_to(void) {
  struct stat input;
  return fstat(STDIN_FILENO, &input) == 0 &&
         (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode) || S_ISSOCK(input.st_mode));
}

static ch_status read_prompt(const arguments *a, writer *w, ch_error *error) {
  bool asked = a->prompt && strcmp(a->prompt, "-") == 0;
  bool piped = !a->prompt && !a->prompt_file && is_piped_to();
  if (!asked && !piped) return ch_prompts_read_one(a->prompt, a->prompt_file, &w->prompts, error);
  CH_TRY(ch_prompts_read_one(NULL, "-", &w->prompts, error));
  if (w->prompts.list[0].size > 0) return CH_OK;
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "standard input is empty where the prompt should come from; give --prompt TEXT (\"\" for none)");
}

static ch_status read_prompts(const arguments *a, writer *w, ch_error *error) {
  if (a->trace && is_many(a))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--trace records one text; leave out --prompts and --samples");
  if ((a->prompt != NULL) + (a->prompt_file != NULL) + (a->prompts != NULL) > 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--prompt, --prompt-file and --prompts exclude each other; give one");
  if (a->system && !a->chat) return ch_fail(error, CH_ERROR_ARGUMENT, "--system needs --chat");
  if (a->samples < 1 || a->samples > MOST_TEXTS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--samples %lld is out of range; it must be from 1 to %d",
                   (long long)a->samples, MOST_TEXTS);
  if (a->batch < 1 || a->batch > CH_BATCH_MOST)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--batch %lld is out of range; it must be from 1 to %d",
                   (long long)a->batch, CH_BATCH_MOST);
  if (a->keep_dictionary && is_many(a))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--keep-dictionary is measured with one text; leave out --prompts and --samples");
  if (!a->prompts) return read_prompt(a, w, error);
  CH_TRY(ch_prompts_read_lines(a->prompts, &w->prompts, error));
  if (w->prompts.count * a->samples > MOST_TEXTS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%lld prompts with %lld samples each are more than %d texts",
                   (long long)w->prompts.count, (long long)a->samples, MOST_TEXTS);
  return CH_OK;
}

/* --- opening ------------------------------------------------------------------------------------------------ */

static ch_status open_model(writer *w, ch_error *error) {
  const arguments *a = w->arguments;
  const char *directory = a->positional[0];
  const ch_model_settings settings = {
      .tokenizer = a->tokenizer, .keep_dictionary = a->keep_dictionary, .preload = true};
  ch_error why;
  ch_status status = ch_model_open_with(directory, &settings, &w->model, &why);
  if (status == CH_ERROR_ARGUMENT && a->keep_dictionary)
    return ch_fail(error, status, "%s; leave --keep-dictionary out", why.message);
  if (status != CH_OK) {
    *error = why;
    return status;
  }
  if (ch_model_takes_images(w->model))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "generate is for models of text; this one, a \"%s\", is for images",
                   ch_model_type(w->model));
  if (!ch_model_has_tokenizer(w->model))
    return ch_fail(error, CH_ERROR_IO, "%s holds neither tokenizer.json nor tokenizer.bin", directory);
  return CH_OK;
}

static ch_status open_session(writer *w, ch_error *error) {
  const arguments *a = w->arguments;
  ch_session_settings settings;
  ch_cache_choice cache;
  unsigned held = 0;
  ch_session_defaults(&settings);
  CH_TRY(ch_model_cache_roles(w->model, &held, error));
  CH_TRY(ch_cache_choice_read(a->cache_dtype, CH_PRECISION_F32, held, &cache, error));
  settings.cache_keys = cache.keys;
  settings.cache_values = cache.values;
  settings.cache_latents = cache.latents;
  settings.compute = ch_precision_of(a->compute);
  settings.precompute_gates = a->precompute_gates;
  CH_TRY(ch_prompts_context(&w->prompts, w->model, a->context, a->max_tokens, &settings.max_tokens, error));
  int64_t texts = w->prompts.count * a->samples;
  w->sequences = texts < a->batch ? texts : a->batch;
  settings.sequences = (int32_t)w->sequences;
  CH_TRY(ch_session_create(w->model, &settings, &w->session, error));
  return a->ignore_eos ? ch_session_set_end_tokens(w->session, NULL, 0, error) : CH_OK;
}

static ch_status encode_prompts(writer *w, ch_error *error) {
  const arguments *a = w->arguments;
  const char *directory = a->positional[0];
  const ch_tokenizer *tokenizer = ch_model_tokenizer(w->model);
  if (!a->chat) return ch_prompts_encode(&w->prompts, tokenizer, error);
  ch_chat *chat = NULL;
  CH_TRY(ch_chat_open(directory, tokenizer, &chat, error));
  ch_status status =
      chat ? ch_prompts_encode_chat(&w->prompts, chat, a->system, error)
           : ch_fail(error, CH_ERROR_CONFIG,
                     "%s has no chat template, neither chat_template.jinja nor \"chat_template\" in "
                     "tokenizer_config.json; leave --chat out",
                     directory);
  ch_chat_free(chat);
  return status;
}

/* --- writing ------------------------------------------------------------------------------------------------ */

static ch_sampler sampler_of(const arguments *a) {
  ch_sampler sampler;
  ch_sampler_defaults(&sampler, (uint64_t)a->seed);
  sampler.temperature = a->temperature;
  sampler.top_k = a->top_k < INT32_MAX ? (int32_t)a->top_k : INT32_MAX;
  sampler.top_p = a->top_p;
  return sampler;
}

static ch_status write_one(const writer *w, ch_error *error) {
  const arguments *a = w->arguments;
  ch_sampler sampler = sampler_of(a);
  const ch_one_text one = {.session = w->session,
                           .model = w->model,
                           .prompt = &w->prompts.list[0],
                           .sampler = &sampler,
                           .max_tokens = a->max_tokens,
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
  const ch_sampler sampler = sampler_of(a);
  const ch_many_texts many = {.session = w->session,
                              .sequences = w->sequences,
                              .prompts = &w->prompts,
                              .samples = a->samples,
                              .seed = (uint64_t)a->seed,
                              .sampler = &sampler,
                              .max_tokens = a->max_tokens,
                              .cache_dtype = a->cache_dtype,
                              .echo = a->echo,
                              .json = a->json};
  return ch_generate_many(&many, error);
}

/* --- the command -------------------------------------------------------------------------------------------- */

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  writer w = {.arguments = a};
  ch_status status;
  double start = ch_clock();
  CH_TRY_GOTO(read_prompts(w.arguments, &w, error));
  CH_TRY_GOTO(open_model(&w, error));
  CH_TRY_GOTO(encode_prompts(&w, error));
  CH_TRY_GOTO(open_session(&w, error));
  w.open_seconds = ch_clock() - start;
  status = is_many(a) ? write_many(&w, error) : write_one(&w, error);
done:
  ch_session_free(w.session);
  ch_model_close(w.model);
  ch_prompts_free(&w.prompts);
  return status;
}

#define AT(member) offsetof(arguments, member)
static const ch_option options[] = {
    CH_HEADING("Prompt"),
    CH_TEXT_OPTION("prompt", AT(prompt), "TEXT",
                   "The text to continue; - reads it from standard input, as does a pipe without this "
                   "option. Without a prompt the model begins a text of its own."),
    CH_PATH_OPTION("prompt-file", AT(prompt_file), "FILE",
                   "Read the prompt from a file; - is standard input. One newline at its end is dropped."),
    CH_PATH_OPTION("prompts", AT(prompts), "FILE",
                   "Write a text for every line of a file, several in one batch. In a .jsonl file each line "
                   "is a JSON string or {\"prompt\": TEXT}."),
    CH_FLAG_OPTION("chat", AT(chat),
                   "Treat each prompt as a user's message and format it with the model's chat template. "
                   "Control tokens in the message stay plain text."),
    CH_TEXT_OPTION("system", AT(system), "TEXT", "With --chat: a system message before the user's."),
    CH_COUNT_OPTION("samples", AT(samples), "COUNT", 0, 0,
                    "Number of texts for every prompt, with the seeds --seed, --seed + 1 and so on.",
                    .default_value = "1"),
    CH_COUNT_OPTION(
        "batch", AT(batch), "COUNT", 0, 0,
        "Largest number of texts that are decoded in one batch. When one ends, the next takes its place.",
        .default_value = "16"),
    CH_PATH_OPTION("tokenizer", AT(tokenizer), "PATH",
                   "A tokenizer.json, a tokenizer.bin or a directory (default: the model's own tokenizer)."),
    CH_FLAG_OPTION("echo", AT(echo), "Print the prompt before the text."),
    CH_HEADING("Sampling"),
    CH_COUNT_OPTION("max-tokens", AT(max_tokens), "COUNT", 0, 0,
                    "Largest number of tokens to write; 0 writes until the context is full.",
                    .alias = "tokens", .default_value = "256"),
    CH_NUMBER_OPTION("temperature", AT(temperature), "NUMBER", 0, -1,
                     "Sampling temperature; 0 is greedy: always the most likely token.",
                     .default_value = "0.8"),
    CH_COUNT_OPTION("top-k", AT(top_k), "COUNT", 0, 0, "Sample from the k most likely tokens; 0 means all.",
                    .default_value = "40"),
    CH_NUMBER_OPTION("top-p", AT(top_p), "NUMBER", 0, 1,
                     "Of these, sample from the fewest tokens whose probabilities sum to p; 1 means all.",
                     .default_value = "0.95"),
    CH_COUNT_OPTION("seed", AT(seed), "N", 0, 0, "Random seed: the same seed gives the same text.",
                    .default_value = "1"),
    CH_FLAG_OPTION(
        "precompute-gates", AT(precompute_gates),
        "Compute the embedding gates of an egmla model for the whole vocabulary first (EG-MLA-A)."),
    CH_FLAG_OPTION("keep-dictionary", AT(keep_dictionary),
                   "Keep the shared atoms of a masa model instead of a matrix for every layer: less memory, "
                   "more time per token. Both are measured and printed."),
    CH_FLAG_OPTION("ignore-eos", AT(ignore_eos), "Continue when the model ends its text."),
    CH_HEADING("Cache"),
    CH_TEXT_OPTION("cache-dtype", AT(cache_dtype), CH_CACHE_TYPES_METAVAR, CH_CACHE_TYPES_HELP,
                   .default_value = "f32"),
    CH_COMPUTE_OPTION(arguments, compute, "dtype"),
    CH_COUNT_OPTION("context", AT(context), "COUNT", 0, 0,
                    "Size of the cache in tokens (default: what the prompt and --max-tokens need, at most "
                    "the model's context)."),
    CH_THREADS_OPTION(AT(threads)),
    CH_HEADING("Output"),
    CH_PATH_OPTION("trace", AT(trace), "FILE",
                   "Write every operation of every pass to FILE, for chrome://tracing or Perfetto.",
                   .writes = CH_WRITES_FILE),
    CH_FLAG_OPTION("json", AT(json),
                   "Print one JSON object with the text, its ids, the rates and the cache's figures."),
    CH_FORCE_OPTION(AT(force)),
    {0}};

const ch_command ch_cmd_generate = {
    .name = "generate",
    .positional = "MODEL",
    .meant = "prompt",
    .summary = "Write text with a model.",
    .description = "Runs the prompt through the model, then decodes one token at a time and writes the text "
                   "to standard output as it comes. The rates of prefill and decoding and the cache size "
                   "follow on standard error, also after an interruption (Ctrl-C).",
    .examples =
        "crosshead generate models/stories --prompt \"Once upon a time\"\n"
        "crosshead generate models/stories --prompt-file letter.txt --temperature 0 --max-tokens 500\n"
        "crosshead generate models/stories --prompts prompts.txt --samples 4 --batch 16 --json\n"
        "crosshead generate models/stories --prompt \"The moon\" --cache-dtype bf16 --seed 7 --json",
    CH_RUNS(options, arguments, run),
};
