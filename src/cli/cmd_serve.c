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

/* Ends the program after a signal: before the server listens there is nothing to complete. */
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

#define AT(member) .offset = offsetof(arguments, member)
static const ch_option options[] = {
    {.name = "", .help = "Address"},
    {.name = "host",
     .type = CH_OPTION_TEXT,
     AT(host),
     .metavar = "ADDRESS",
     .default_value = "127.0.0.1",
     .help = "The address to listen on; 0.0.0.0 is reachable from other machines."},
    {.name = "port",
     .type = CH_OPTION_COUNT,
     AT(port),
     .metavar = "N",
     .default_value = "8080",
     .min = 0,
     .max = 65535,
     .help = "The port to listen on; 0 picks a free one."},
    {.name = "alias",
     .type = CH_OPTION_TEXT,
     AT(alias),
     .metavar = "NAME",
     .help = "The model's id in answers (default: the last part of its path)."},
    {.name = "no-web", .type = CH_OPTION_FLAG, AT(no_web), .help = "Leave out the page at /."},
    {.name = "", .help = "Capacity"},
    {.name = "context",
     .type = CH_OPTION_COUNT,
     AT(context),
     .metavar = "COUNT",
     .min = 1,
     .max = -1,
     .help = "Tokens of a sequence, prompt included (default: the model's context, at most 4096)."},
    {.name = "parallel",
     .type = CH_OPTION_COUNT,
     AT(parallel),
     .metavar = "N",
     .default_value = "8",
     .min = 1,
     .max = CH_BATCH_MOST,
     .help = "Largest number of sequences decoded together. Their whole cache is allocated at the start."},
    {.name = "queue",
     .type = CH_OPTION_COUNT,
     AT(queue),
     .metavar = "N",
     .default_value = "64",
     .min = 1,
     .max = 1 << 20,
     .help = "Largest number of waiting sequences; further requests are refused with status 429."},
    {.name = "prefill-chunk",
     .type = CH_OPTION_COUNT,
     AT(prefill_chunk),
     .metavar = "N",
     .default_value = "128",
     .min = 33,
     .max = 1024,
     .help = "Largest number of prompt tokens processed between two decoding steps."},
    {.name = "max-body",
     .type = CH_OPTION_COUNT,
     AT(max_body),
     .metavar = "BYTES",
     .default_value = "8MiB",
     .min = 1,
     .max = 1 << 30,
     .help = "Largest request body; larger ones are refused with status 413."},
    {.name = "drain",
     .type = CH_OPTION_NUMBER,
     AT(drain),
     .metavar = "SECONDS",
     .default_value = "30",
     .min = 0,
     .max = -1,
     .help = "Time that running requests have to finish after SIGTERM or SIGINT; the rest are aborted."},
    CH_THREADS_OPTION(offsetof(arguments, threads)),
    {.name = "", .help = "Access"},
    {.name = "api-key-file",
     .type = CH_OPTION_PATH,
     AT(api_key_file),
     .metavar = "FILE",
     .help = "File with API keys, one per line. Requests need one of them, or the key in CROSSHEAD_API_KEY."},
    {.name = "cors",
     .type = CH_OPTION_WORDS,
     AT(cors),
     .metavar = "ORIGIN",
     .help = "Pages of this origin, such as https://app.example, may read answers; * means all. May be "
             "repeated."},
    {.name = "allow-host",
     .type = CH_OPTION_WORDS,
     AT(allow_host),
     .metavar = "NAME",
     .help = "On loopback, also accept requests with this Host header, as proxies send it; * means all. "
             "May be "
             "repeated."},
    {.name = "", .help = "Model"},
    {.name = "chat-template",
     .type = CH_OPTION_PATH,
     AT(chat_template),
     .metavar = "FILE",
     .help = "A Jinja chat template to use instead of the model's."},
    {.name = "tokenizer",
     .type = CH_OPTION_PATH,
     AT(tokenizer),
     .metavar = "FILE",
     .help = "A tokenizer.json, tokenizer.bin or a directory with one (default: the model's)."},
    {.name = "cache-dtype",
     .type = CH_OPTION_TEXT,
     AT(cache_dtype),
     .metavar = CH_CACHE_TYPES_METAVAR,
     .default_value = "f32",
     .help = CH_CACHE_TYPES_HELP},
    CH_COMPUTE_OPTION(arguments, compute, "dtype"),
    {.name = "precompute-gates",
     .type = CH_OPTION_FLAG,
     AT(precompute_gates),
     .help = "Compute the embedding gates of an egmla model for the whole vocabulary first (EG-MLA-A)."},
    {.name = "keep-dictionary",
     .type = CH_OPTION_FLAG,
     AT(keep_dictionary),
     .help = "Keep the shared atoms of a masa model instead of a matrix for every layer: less memory, more "
             "time per token."},
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
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};
