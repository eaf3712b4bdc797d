/* crosshead serve: serves a model over HTTP with OpenAI's API. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <crosshead/generation.h>

#include "cli/cache_types.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/parse.h"
#include "cli/precision.h"
#include "serve/serve.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *host, *alias, *chat_template, *api_key_file, *tokenizer, *cache_dtype, *compute;
  ch_words cors, allow_host;
  int64_t port, context, parallel, queue, prefill_chunk, max_body, threads;
  double drain;
  bool no_web, keep_dictionary, precompute_gates;
} arguments;

static ch_status choose_cache(const char *dtype, unsigned roles, ch_session_settings *session,
                              ch_error *error) {
  ch_cache_choice cache;
  CH_TRY(ch_cache_choice_read(dtype, CH_PRECISION_F32, roles, &cache, error));
  session->cache_keys = cache.keys;
  session->cache_values = cache.values;
  session->cache_latents = cache.latents;
  return CH_OK;
}

/* Ends the program after a signal. Before the server listens there is nothing to complete. */
static void leave(void *user) {
  (void)user;
  fprintf(stderr, "crosshead serve: interrupted\n");
  _exit(128 + ch_interrupt_number());
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_serve_settings settings = {
      .directory = a->positional[0],
      .name = a->alias,
      .host = a->host,
      .port = (int)a->port,
      .model = {.tokenizer = a->tokenizer, .keep_dictionary = a->keep_dictionary, .preload = true},
      .cache_dtype = a->cache_dtype,
      .cache = choose_cache,
      .queue = (int)a->queue,
      .prefill_chunk = (int)a->prefill_chunk,
      .max_body = a->max_body,
      .chat_template = a->chat_template,
      .key_file = a->api_key_file,
      .key = getenv("CROSSHEAD_API_KEY"),
      .origins = a->cors.list,
      .hosts = a->allow_host.list,
      .drain = a->drain,
      .page = !a->no_web,
      .stop = ch_stop_wanted,
      .leave = leave};
  ch_session_defaults(&settings.session);
  settings.session.max_tokens = a->context;
  settings.session.sequences = (int32_t)a->parallel;
  settings.session.compute = ch_precision_of(a->compute);
  settings.session.precompute_gates = a->precompute_gates;
  ch_interrupt_watch(CH_SAVES_WORK);
  ch_status status = ch_serve(&settings, error);
  ch_interrupt_release();
  return status;
}

#define AT(member) offsetof(arguments, member)
static const ch_option options[] = {
    CH_HEADING("Address"),
    CH_TEXT_OPTION("host", AT(host), "ADDRESS",
                   "The address to listen on; 0.0.0.0 is reachable from other machines.",
                   .default_value = "127.0.0.1"),
    CH_COUNT_OPTION("port", AT(port), "N", 0, 65535, "The port to listen on; 0 picks a free one.",
                    .default_value = "8080"),
    CH_TEXT_OPTION("alias", AT(alias), "NAME",
                   "The model's id in answers (default: the last part of its path)."),
    CH_FLAG_OPTION("no-web", AT(no_web), "Leave out the page at /."),
    CH_HEADING("Capacity"),
    CH_COUNT_OPTION("context", AT(context), "COUNT", 1, -1,
                    "Tokens of a sequence, prompt included (default: the model's context, at most 4096)."),
    CH_COUNT_OPTION(
        "parallel", AT(parallel), "N", 1, CH_BATCH_MOST,
        "Largest number of sequences decoded together. Their whole cache is allocated at the start.",
        .default_value = "8"),
    CH_COUNT_OPTION("queue", AT(queue), "N", 1, 1 << 20,
                    "Largest number of waiting sequences; further requests are refused with status 429.",
                    .default_value = "64"),
    CH_COUNT_OPTION("prefill-chunk", AT(prefill_chunk), "N", 33, 1024,
                    "Largest number of prompt tokens processed between two decoding steps.",
                    .default_value = "128"),
    CH_COUNT_OPTION("max-body", AT(max_body), "BYTES", 1, 1 << 30,
                    "Largest request body; larger ones are refused with status 413.",
                    .default_value = "8MiB"),
    CH_NUMBER_OPTION(
        "drain", AT(drain), "SECONDS", 0, -1,
        "Time that running requests have to finish after SIGTERM or SIGINT; the rest are aborted.",
        .default_value = "30"),
    CH_THREADS_OPTION(AT(threads)),
    CH_HEADING("Access"),
    CH_PATH_OPTION(
        "api-key-file", AT(api_key_file), "FILE",
        "File with API keys, one per line. Requests need one of them, or the key in CROSSHEAD_API_KEY."),
    CH_WORDS_OPTION(
        "cors", AT(cors), "ORIGIN",
        "Pages of this origin, such as https://app.example, may read answers; * means all. May be repeated."),
    CH_WORDS_OPTION("allow-host", AT(allow_host), "NAME",
                    "On loopback, also accept requests with this Host header, as proxies send it; * means "
                    "all. May be repeated."),
    CH_HEADING("Model"),
    CH_PATH_OPTION("chat-template", AT(chat_template), "FILE",
                   "A Jinja chat template to use instead of the model's."),
    CH_PATH_OPTION("tokenizer", AT(tokenizer), "FILE",
                   "A tokenizer.json, tokenizer.bin or a directory with one (default: the model's)."),
    CH_TEXT_OPTION("cache-dtype", AT(cache_dtype), CH_CACHE_TYPES_METAVAR, CH_CACHE_TYPES_HELP,
                   .default_value = "f32"),
    CH_COMPUTE_OPTION(arguments, compute, "dtype"),
    CH_FLAG_OPTION(
        "precompute-gates", AT(precompute_gates),
        "Compute the embedding gates of an egmla model for the whole vocabulary first (EG-MLA-A)."),
    CH_FLAG_OPTION("keep-dictionary", AT(keep_dictionary),
                   "Keep the shared atoms of a masa model instead of a matrix for every layer: less memory, "
                   "more time per token."),
    {0}};

const ch_command ch_cmd_serve = {
    .name = "serve",
    .positional = "MODEL",
    .summary = "Serve a model over HTTP with OpenAI's API.",
    .description = "Answers /v1/chat/completions, /v1/completions, /v1/models and llama.cpp's /completion, "
                   "/tokenize and "
                   "/detokenize; /metrics for Prometheus; a page for trying the model at /. Requests are "
                   "decoded together, and each gets the tokens that it would get alone.\n\n"
                   "Prints the address once it listens, and a line on standard error for each request. "
                   "SIGTERM and SIGINT let "
                   "running requests end; a second one ends the server at once.",
    .examples = "crosshead serve models/stories\n"
                "crosshead serve models/stories --port 9000 --parallel 16 --compute bf16\n"
                "crosshead serve models/stories --host 0.0.0.0 --api-key-file keys.txt\n"
                "crosshead serve models/stories --cors https://app.example --alias stories",
    CH_RUNS(options, arguments, run),
};
