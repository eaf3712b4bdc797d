/* Fuzz target: requests to the server. The first byte chooses the route, the rest is the body. The steps of the
 * server's threads run one after the other: the worker reads the body, the engine generates, then the worker answers or
 * the stream is read. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "serve/request_worker.h"
#include "serve/engine.h"
#include "serve/event_stream.h"
#include "serve/routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Clients that request more than MOST_CHOICES choices disconnect at once, because inputs must run quickly, and because
   streams are read only after everything is generated. */
enum { CONTEXT = 20, PLACES = 4, MOST_CHOICES = 6 };

static const char chat_template[] =
    "{% for m in messages %}<|start_story|>{{ m.role }}: {{ m.content | trim }}<|end_story|>{% endfor %}"
    "{% if x is defined %}{{ x }}{% endif %}{% if add_generation_prompt %}<|start_story|>assistant: {% endif "
    "%}";

static ch_server server;

static void need(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  abort();
}

static void open_server(void) {
  static ch_serve_settings settings = {
      .directory = TEST_DATA "/TinyStories-656K", .queue = 4, .prefill_chunk = 33, .max_body = 1 << 20};
  ch_error error = {0};
  ch_generation_settings generation;
  server.settings = &settings;
  server.name = "fuzz";
  server.memory_limit = 16 << 20;
  server.endpoint_count = ch_route_endpoints(&server.endpoints);
  pthread_mutex_init(&server.metrics.lock, NULL);
  pthread_mutex_init(&server.engine.lock, NULL);
  pthread_cond_init(&server.engine.wake, NULL);
  pthread_mutex_init(&server.worker.lock, NULL);
  pthread_cond_init(&server.worker.wake, NULL);
  need(ch_model_open(settings.directory, &server.model, &error) == CH_OK, error.message);
  server.tokenizer = ch_model_tokenizer(server.model);
  server.vocabulary = ch_model_vocab_size(server.model);
  need(ch_chat_open_text(settings.directory, server.tokenizer, chat_template, "template", &server.chat,
                         &error) == CH_OK,
       error.message);
  ch_generation_defaults(&generation);
  generation.session.sequences = PLACES;
  generation.session.max_tokens = CONTEXT;
  generation.session.threads = 1;
  generation.chunk = settings.prefill_chunk;
  server.session = generation.session;
  server.context = CONTEXT;
  need(ch_generation_create(server.model, &generation, &server.engine.generation, &error) == CH_OK,
       error.message);
}

static void need_json(const char *text, size_t size) {
  json_t *value = json_loadb(text, size, 0, NULL);
  need(json_is_object(value), "an answer is not a JSON object of valid UTF-8");
  json_decref(value);
}

/* Reads a stream to its end and checks that its lines are JSON. */
static void read_stream(ch_exchange *exchange) {
  static const char head[] = "data: ", last[] = "[DONE]";
  ch_text all = {0};
  char bytes[4096];
  ssize_t size;
  exchange->events = ch_events_new(exchange->job);
  need(exchange->events, "no memory");
  while ((size = ch_events_read(exchange, bytes, sizeof bytes)) > 0) ch_text_put(&all, bytes, (size_t)size);
  need(size == -1 || exchange->job->failed, "a stream does not end");
  for (const char *at = all.data, *end = at + all.size; at < end;) {
    const char *line = memchr(at, '\n', (size_t)(end - at));
    need(line && line + 1 < end && line[1] == '\n' && strncmp(at, head, sizeof head - 1) == 0,
         "an event is not a line of data and an empty one");
    at += sizeof head - 1;
    if (strncmp(at, last, sizeof last - 1) != 0) need_json(at, (size_t)(line - at));
    at = line + 2;
  }
  ch_text_free(&all);
  ch_events_free(exchange->events);
  exchange->events = NULL;
}

/* Runs the engine until everything is generated. */
static void run_engine(ch_exchange *exchange) {
  const ch_text_job *job = exchange->job;
  need(ch_engine_sequences(job) <= CH_MOST_CHOICES, "there are too many choices");
  for (int p = 0; p < job->prompt_count; p++)
    for (size_t i = 0; i < job->prompts[p].ids.size; i++)
      need(job->prompts[p].ids.data[i] >= 0 && job->prompts[p].ids.data[i] < server.vocabulary,
           "an id is outside the vocabulary");
  if (ch_engine_sequences(job) > MOST_CHOICES) ch_exchange_leave(exchange);
  server.engine.quit = true;
  ch_engine_run(&server);
  server.engine.active = NULL;
  server.engine.active_count = server.engine.active_capacity = 0;
  server.engine.inbox_count = 0; /* an engine that quits does not count requests that left */
}

static void request(const ch_route *route, const char *body, size_t size) {
  ch_exchange *exchange = ch_exchange_new(&server);
  need(exchange, "no memory");
  exchange->route = route;
  ch_text_put(&exchange->body, body, size);
  need(ch_server_reserve(&server, exchange->body.capacity), "the budget is not free");
  ch_request_worker_process(&server, exchange);
  if (server.engine.inbox.first) run_engine(exchange);
  for (ch_exchange *waiting; (waiting = ch_exchange_queue_pop(&server.worker.queue));
       ch_exchange_release(waiting))
    ch_request_worker_process(&server, waiting);
  if (!atomic_load(&exchange->gone)) {
    need(exchange->answered, "there is no answer");
    if (exchange->reply.events)
      read_stream(exchange);
    else
      need_json(exchange->reply.body.data, exchange->reply.body.size);
  }
  ch_exchange_release(exchange);
  need(atomic_load(&server.memory) == 0 && atomic_load(&server.pending) == 0, "the budget leaks");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const paths[] = {"/v1/completions", "/v1/chat/completions", "/completion",
                                      "/tokenize",       "/detokenize",          "/apply-template"};
  const char *rest;
  if (!server.model) open_server();
  if (size == 0) return 0;
  request(ch_route_find(paths[data[0] % (sizeof paths / sizeof *paths)], &rest), (const char *)data + 1,
          size - 1);
  return 0;
}
