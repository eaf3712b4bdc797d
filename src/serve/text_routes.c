/* The POST routes that generate text: each turns a body into a job and submits it to the engine. */
#include "serve/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/progress.h"
#include "serve/chat_messages.h"
#include "serve/token_names.h"
#include "serve/prompt_fields.h"

/* --- the limits of a request ---------------------------------------------------------------------------- */

/* Estimates the bytes of one token in memory and in the answer, with its log-probabilities. */
static size_t token_bytes(const ch_request_fields *fields) {
  size_t bytes = sizeof(ch_token_record) + 16;
  return fields->top < 0 ? bytes : bytes + 80 + (size_t)fields->top * (sizeof(ch_token_probability) + 56);
}

/* Estimates the maximum memory of an answer, in bytes. Streams do not store their text. */
static size_t answer_bytes(const ch_server *server, const ch_text_job *job) {
  const ch_request_fields *fields = &job->fields;
  size_t bytes = 0, each = token_bytes(fields);
  for (int p = 0; p < job->prompt_count; p++) {
    int64_t size = (int64_t)job->prompts[p].ids.size, room = server->context - size;
    int64_t written = fields->max_tokens < 0 || fields->max_tokens > room ? room : fields->max_tokens;
    bytes += (size_t)size * sizeof(int32_t) + job->prompts[p].text_size;
    if (fields->echo && fields->top >= 0) bytes += (size_t)size * each;
    if (!fields->stream) bytes += (size_t)(written * fields->n) * each;
  }
  return bytes;
}

/* Reserves the memory of the answer. */
static bool reserve(ch_server *server, ch_text_job *job, ch_refusal *refusal) {
  size_t bytes = answer_bytes(server, job);
  if (bytes > server->memory_limit)
    return ch_refuse(refusal, 400, "invalid_value", job->fields.form == CH_CHAT ? "max_tokens" : "prompt",
                     "The answer could need %zu MiB of memory, but the limit is %zu MiB; request fewer "
                     "prompts, choices, tokens or log-probabilities at once.",
                     bytes >> 20, server->memory_limit >> 20);
  if (!ch_server_reserve(server, bytes))
    return ch_refuse(refusal, 429, "queue_full", NULL,
                     "The server is busy with other large requests; try again later.");
  job->reserved = bytes;
  return true;
}

/* --- the job -------------------------------------------------------------------------------------------- */

static void name(ch_text_job *job) {
  unsigned char random[12];
  if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random) random[0] = 0;
  int used = snprintf(job->id, sizeof job->id, "%s-", job->fields.form == CH_CHAT ? "chatcmpl" : "cmpl");
  for (size_t i = 0; i < sizeof random; i++)
    used += snprintf(job->id + used, sizeof job->id - (size_t)used, "%02x", random[i]);
  job->created = time(NULL);
}

static bool make_choices(ch_text_job *job, ch_refusal *refusal) {
  for (int p = 0; p < job->prompt_count; p++) {
    ch_choice *choices = calloc((size_t)job->fields.n, sizeof *choices);
    if (!choices) return ch_refuse_memory(refusal);
    for (int64_t k = 0; k < job->fields.n; k++) choices[k].stop = -1;
    job->prompts[p].choices = choices;
  }
  job->left = job->prompt_count * job->fields.n;
  return true;
}

/* Submits a complete job to the engine. */
static bool submit(ch_exchange *exchange, ch_text_job *job, const char *field, bool *answers,
                   ch_refusal *refusal) {
  ch_server *server = exchange->server;
  if (!ch_prompts_fit(server, job, field, refusal) || !make_choices(job, refusal) ||
      !reserve(server, job, refusal))
    return false;
  name(job);
  bool streams = job->fields.stream;
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

/* --- routes --------------------------------------------------------------------------------------------- */

/* Creates the exchange's job and reads the body's fields. */
static ch_text_job *begin(ch_exchange *exchange, json_t *body, ch_form form, ch_refusal *refusal) {
  ch_text_job *job = calloc(1, sizeof *job);
  exchange->job = job;
  if (!job) {
    ch_refuse_memory(refusal);
    return NULL;
  }
  return ch_request_fields_read(body, form, exchange->server->vocabulary, &job->fields, refusal) ? job : NULL;
}

bool ch_post_completions(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal) {
  ch_text_job *job = begin(exchange, body, CH_COMPLETION, refusal);
  return job &&
         ch_prompts_read_body(exchange->server, body, CH_MOST_CHOICES / job->fields.n, job->fields.echo, job,
                              refusal) &&
         submit(exchange, job, "prompt", answers, refusal);
}

bool ch_post_native(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal) {
  ch_text_job *job = begin(exchange, body, CH_NATIVE, refusal);
  return job && ch_prompts_read_body(exchange->server, body, 1, true, job, refusal) &&
         submit(exchange, job, "prompt", answers, refusal);
}

bool ch_post_chat(ch_exchange *exchange, json_t *body, bool *answers, ch_refusal *refusal) {
  ch_messages messages = {0};
  ch_text_job *job = begin(exchange, body, CH_CHAT, refusal);
  bool fine = job && ch_messages_read(exchange->server, body, &messages, refusal);
  if (fine) {
    job->prompts = calloc(1, sizeof *job->prompts);
    job->prompt_count = job->prompts ? 1 : 0;
    fine = job->prompts ? ch_messages_encode(exchange->server, &messages, &job->prompts[0].ids, refusal)
                        : ch_refuse_memory(refusal);
  }
  ch_messages_free(&messages);
  return fine && submit(exchange, job, "messages", answers, refusal);
}
