/* Answers the GET routes about the server and its model. They use texts that were prepared at the start and the
   engine's counts, so the HTTP thread can answer them at once. */
#include "serve/info_routes.h"

#include <string.h>
#include <time.h>

#include <crosshead/version.h>

#include "base/file.h"
#include "base/json.h"
#include "serve/routes.h"

enum { LARGEST_CONFIG = 64 << 20 };

/* --- answers that never change -------------------------------------------------------------------------- */

/* Returns the value of an integer member; 0 if it does not exist. */
static json_int_t number_in(const json_t *object, const char *name) {
  return json_integer_value(json_object_get(object, name));
}

/* Loads a JSON file of the model's directory. Returns NULL if it does not exist or cannot be read. */
static json_t *read_object(const ch_server *server, const char *name) {
  json_t *object = NULL;
  char *path = ch_path_join(server->settings->directory, name);
  if (path && ch_is_file(path)) ch_json_read(path, LARGEST_CONFIG, &object, NULL);
  free(path);
  return object;
}

static ch_status put_model(ch_server *server, ch_error *error) {
  ch_text *json = &server->model_json;
  char *text = NULL;
  ch_memory memory;
  CH_TRY(ch_model_info(server->model, &text, error));
  json_t *info = json_loads(text, 0, NULL), *config = read_object(server, "config.json");
  ch_free(text);
  ch_status status = ch_memory_estimate(server->model, &server->session, &memory, error);
  json_int_t width = number_in(config, "hidden_size");
  ch_text_puts(json, "{\"id\":");
  ch_json_put_string(json, server->name);
  ch_text_printf(
      json,
      ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"crosshead\",\"max_model_len\":%lld,"
      "\"meta\":{\"n_vocab\":%lld,\"n_ctx_train\":%lld,\"n_embd\":%lld,\"n_params\":%lld,\"size\":%llu}}",
      (long long)server->started, (long long)server->context, (long long)server->vocabulary,
      (long long)ch_model_context_length(server->model), (long long)width,
      (long long)number_in(info, "parameters_total"), (unsigned long long)memory.weights);
  json_decref(info);
  json_decref(config);
  return status;
}

/* Returns the text of a special token: a string or, in some tokenizer files, an object with "content". Returns NULL
   for anything else. */
static const char *spelling_in(const json_t *config, const char *name) {
  const json_t *value = json_object_get(config, name);
  return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static void put_spelling(ch_text *json, const ch_server *server, const json_t *config, const char *name,
                         int32_t id) {
  const char *spelled = spelling_in(config, name), *piece = NULL;
  size_t size = 0;
  if (!spelled && id >= 0) piece = ch_tokenizer_piece(server->tokenizer, id, &size);
  ch_text_printf(json, "\"%s\":", name);
  if (spelled)
    ch_json_put_string(json, spelled);
  else if (piece)
    ch_json_put_bytes(json, piece, size);
  else
    ch_text_puts(json, "null");
  ch_text_puts(json, ",");
}

/* Returns the tokenizer's end token or, if the tokenizer has none, the model's first end token. */
static int32_t end_token(const ch_server *server) {
  const int32_t *ids;
  int32_t end = ch_tokenizer_eos(server->tokenizer);
  return end < 0 && ch_model_end_tokens(server->model, &ids) > 0 ? ids[0] : end;
}

static void put_tokenizer(ch_server *server) {
  ch_text *json = &server->tokenizer_json;
  json_t *config = read_object(server, "tokenizer_config.json");
  const char *class = json_string_value(json_object_get(config, "tokenizer_class"));
  ch_text_puts(json, "{\"tokenizer_class\":");
  if (class)
    ch_json_put_string(json, class);
  else
    ch_text_puts(json, "null");
  ch_text_puts(json, ",");
  put_spelling(json, server, config, "bos_token", ch_tokenizer_bos(server->tokenizer));
  put_spelling(json, server, config, "eos_token", end_token(server));
  put_spelling(json, server, config, "pad_token", -1);
  put_spelling(json, server, config, "unk_token", -1);
  ch_text_printf(json, "\"add_bos_token\":%s,\"chat_template\":",
                 ch_tokenizer_adds_bos(server->tokenizer) ? "true" : "false");
  if (server->chat)
    ch_json_put_string(json, ch_chat_template(server->chat));
  else
    ch_text_puts(json, "null");
  ch_text_puts(json, "}");
  json_decref(config);
}

ch_status ch_info_prepare(ch_server *server, ch_error *error) {
  server->started = time(NULL);
  CH_TRY(put_model(server, error));
  put_tokenizer(server);
  bool failed = server->model_json.failed || server->tokenizer_json.failed;
  return failed ? ch_fail(error, CH_ERROR_MEMORY, "no memory for the model's card") : CH_OK;
}

/* --- routes --------------------------------------------------------------------------------------------- */

static void put_text(ch_text *to, const ch_text *from) {
  ch_text_put(to, from->data, from->size);
}

bool ch_get_health(ch_exchange *exchange, const char *rest, ch_refusal *refusal) {
  (void)rest;
  if (atomic_load(&exchange->server->draining))
    return ch_refuse(refusal, 503, "shutting_down", NULL, "The server is shutting down.");
  ch_text_puts(&exchange->reply.body, "{\"status\":\"ok\"}");
  return true;
}

bool ch_get_models(ch_exchange *exchange, const char *rest, ch_refusal *refusal) {
  (void)rest, (void)refusal;
  ch_text *body = &exchange->reply.body;
  ch_text_puts(body, "{\"object\":\"list\",\"data\":[");
  put_text(body, &exchange->server->model_json);
  ch_text_puts(body, "]}");
  return true;
}

bool ch_get_model(ch_exchange *exchange, const char *rest, ch_refusal *refusal) {
  if (strcmp(rest, exchange->server->name) != 0)
    return ch_refuse(refusal, 404, "model_not_found", "model",
                     "There is no model '%.200s'; this server has '%.200s'.", rest, exchange->server->name);
  put_text(&exchange->reply.body, &exchange->server->model_json);
  return true;
}

bool ch_get_props(ch_exchange *exchange, const char *rest, ch_refusal *refusal) {
  const ch_server *server = exchange->server;
  ch_text *body = &exchange->reply.body;
  (void)rest, (void)refusal;
  ch_text_printf(
      body,
      "{\"default_generation_settings\":{\"n_ctx\":%lld,\"params\":{\"temperature\":0.8,\"top_k\":40,"
      "\"top_p\":0.95,\"seed\":-1,\"n_predict\":-1}},\"total_slots\":%d,\"model_alias\":",
      (long long)server->context, server->session.sequences);
  ch_json_put_string(body, server->name);
  ch_text_puts(body, ",\"model_path\":");
  ch_json_put_string(body, server->settings->directory);
  ch_text_puts(body, ",\"chat_template\":");
  ch_json_put_string(body, server->chat ? ch_chat_template(server->chat) : "");
  ch_text_puts(body,
               ",\"build_info\":\"crosshead " CH_VERSION_STRING "\",\"modalities\":{\"vision\":false}}");
  return true;
}

bool ch_get_slots(ch_exchange *exchange, const char *rest, ch_refusal *refusal) {
  ch_server *server = exchange->server;
  ch_text *body = &exchange->reply.body;
  int64_t waiting;
  (void)rest, (void)refusal;
  ch_engine_view view = ch_engine_look(server, &waiting);
  for (int i = 0; i < server->session.sequences; i++) {
    const ch_generation_place *place = &view.places[i];
    ch_text_printf(
        body,
        "%s{\"id\":%d,\"n_ctx\":%lld,\"is_processing\":%s,\"prompt_tokens\":%lld,\"cached_tokens\":%lld,"
        "\"generated_tokens\":%lld}",
        i ? "," : "[", i, (long long)server->context, place->request ? "true" : "false",
        (long long)place->prompt_tokens, (long long)place->cached_tokens, (long long)place->generated_tokens);
  }
  ch_text_puts(body, "]");
  return true;
}

bool ch_get_metrics(ch_exchange *exchange, const char *rest, ch_refusal *refusal) {
  ch_server *server = exchange->server;
  ch_gauges gauges = {.slots = server->session.sequences,
                      .cache_capacity = server->context * server->session.sequences,
                      .cache_bytes = server->cache_bytes,
                      .start = (double)server->started};
  (void)rest, (void)refusal;
  gauges.counts = ch_engine_look(server, &gauges.waiting).counts;
  exchange->reply.type = "text/plain; version=0.0.4; charset=utf-8";
  ch_metrics_put(&server->metrics, &gauges, server->endpoints, server->endpoint_count, &exchange->reply.body);
  return true;
}

bool ch_get_tokenizer_info(ch_exchange *exchange, const char *rest, ch_refusal *refusal) {
  (void)rest, (void)refusal;
  put_text(&exchange->reply.body, &exchange->server->tokenizer_json);
  return true;
}

/* --- the web page, embedded in the program with its Content-Security-Policy ----------------------------- */

extern const unsigned char ch_embedded_serve_page[], ch_embedded_serve_policy[];

bool ch_get_page(ch_exchange *exchange, const char *rest, ch_refusal *refusal) {
  (void)rest;
  if (!exchange->server->settings->page)
    return ch_refuse(refusal, 404, "not_found", NULL,
                     "There is no page: the server was started with --no-web.");
  const char *page = (const char *)ch_embedded_serve_page;
  ch_text_put(&exchange->reply.body, page, strlen(page));
  exchange->reply.type = "text/html; charset=utf-8";
  exchange->reply.page = true;
  return true;
}

const char *ch_page_policy(void) {
  return (const char *)ch_embedded_serve_policy;
}
