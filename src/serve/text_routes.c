/* A body becomes a writing, which the engine gets. */
#include "serve/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/progress.h"
#include "serve/messages.h"
#include "serve/names.h"
#include "serve/prompt_fields.h"

/* --- what a request may take ---------------------------------------------------------------------------------------------------------- */

/* Bytes of one token in memory and as text, with its probabilities and `top` likeliest ones. */
static size_t token_bytes(const ch_asked *asked) {
  size_t bytes = sizeof(ch_record) + 16;
  return asked->top < 0 ? bytes : bytes + 80 + (size_t)asked->top * (sizeof(ch_token_probability) + 56);
}

/* The most that a request's answer can take. A stream's texts are sent as they come. */
static size_t answer_bytes(const ch_server *server, const ch_writing *writing) {
  const ch_asked *asked = &writing->asked;
  size_t bytes = 0, each = token_bytes(asked);
  for (int p = 0; p < writing->prompt_count; p++) {
    int64_t size = (int64_t)writing->prompts[p].ids.size, room = server->context - size;
    int64_t written = asked->max_tokens < 0 || asked->max_tokens > room ? room : asked->max_tokens;
    bytes += (size_t)size * sizeof(int32_t) + writing->prompts[p].text_size;
    if (asked->echo && asked->top >= 0) bytes += (size_t)size * each;
    if (!asked->stream) bytes += (size_t)(written * asked->n) * each;
  }
  return bytes;
}

/* Takes that from the budget. */
static bool reserve(ch_server *server, ch_writing *writing, ch_refusal *refusal) {
  size_t bytes = answer_bytes(server, writing);
  if (bytes > server->memory_limit)
    return ch_refuse(refusal, 400, "invalid_value", writing->asked.form == CH_CHAT ? "max_tokens" : "prompt",
                     "The answer could need %zu MiB of memory, but the limit is %zu MiB; request fewer "
                     "prompts, choices, tokens or log-probabilities at once.",
                     bytes >> 20, server->memory_limit >> 20);
  if (!ch_server_reserve(server, bytes))
    return ch_refuse(refusal, 429, "queue_full", NULL,
                     "The server is busy with other large requests; try again later.");
  writing->reserved = bytes;
  return true;
}

/* --- the writing -------------------------------------------------------------------------------------------------------------------------- */

static void name(ch_writing *writing) {
  unsigned char random[12];
  if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random) random[0] = 0;
  int used =
      snprintf(writing->id, sizeof writing->id, "%s-", writing->asked.form == CH_CHAT ? "chatcmpl" : "cmpl");
  for (size_t i = 0; i < sizeof random; i++)
    used += snprintf(writing->id + used, sizeof writing->id - (size_t)used, "%02x", random[i]);
  writing->created = time(NULL);
}

static bool make_choices(ch_writing *writing, ch_refusal *refusal) {
  for (int p = 0; p < writing->prompt_count; p++) {
    ch_choice *choices = calloc((size_t)writing->asked.n, sizeof *choices);
    if (!choices) return ch_refuse_memory(refusal);
    for (int64_t k = 0; k < writing->asked.n; k++) choices[k].stop = -1;
    writing->prompts[p].choices = choices;
  }
  writing->left = writing->prompt_count * writing->asked.n;
  return true;
}

/* Hands a complete writing to the engine. From here on the exchange owns it. */
static bool submit(ch_exchange *exchange, ch_writing *writing, const char *field, bool *answers,
                   ch_refusal *refusal) {
  ch_server *server = exchange->server;
  if (!ch_prompts_fit(server, writing, field, refusal) || !make_choices(writing, refusal) ||
      !reserve(server, writing, refusal))
    return false;
  name(writing);
  bool streams = writing->asked.stream;
  pthread_mutex_lock(&exchange->lock);
  exchange->quiet = ch_clock();
  exchange->reply.status = 200;
  exchange->reply.events = streams;
  pthread_mutex_unlock(&exchange->lock);
  *answers = streams;
  if (ch_engine_submit(server, exchange, refusal)) return true;
  exchange->reply.events = false;
  return false;
}

/* --- routes ----------------------------------------------------------------------------------------------------------------------------------- */

/* The exchange's writing, with its fields read. */
static ch_writing *begin(ch_exchange *exchange, json_t *body, ch_form form, ch_refusal *refusal) {
  ch_writing *writing = calloc(1, sizeof *writing);
  exchange->writing = writing;
  if (!writing) {
    ch_refuse_memory(refusal);
    return NULL;
  }
  return ch_asked_read(body, form, exchange->server->vocabulary, &writing->asked, refusal) ? writing : NULL;
}

bool ch_post_completions(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal) {
  ch_writing *writing = begin(exchange, body, CH_COMPLETION, refusal);
  return writing &&
         ch_prompts_read_body(exchange->server, body, CH_MOST_CHOICES / writing->asked.n, writing->asked.echo,
                              writing, refusal) &&
         submit(exchange, writing, "prompt", answers, refusal);
}

bool ch_post_native(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal) {
  ch_writing *writing = begin(exchange, body, CH_NATIVE, refusal);
  return writing && ch_prompts_read_body(exchange->server, body, 1, true, writing, refusal) &&
         submit(exchange, writing, "prompt", answers, refusal);
}

bool ch_post_chat(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal) {
  ch_messages messages = {0};
  ch_writing *writing = begin(exchange, body, CH_CHAT, refusal);
  bool fine = writing && ch_messages_read(exchange->server, body, &messages, refusal);
  if (fine) {
    writing->prompts = calloc(1, sizeof *writing->prompts);
    writing->prompt_count = writing->prompts ? 1 : 0;
    fine = writing->prompts
               ? ch_messages_encode(exchange->server, &messages, &writing->prompts[0].ids, refusal)
               : ch_refuse_memory(refusal);
  }
  ch_messages_free(&messages);
  return fine && submit(exchange, writing, "messages", answers, refusal);
}
