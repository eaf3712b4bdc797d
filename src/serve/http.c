/* The callbacks of libmicrohttpd. A malformed header or a too large Content-Length is answered once the header is
   complete. Other refused requests, GET routes and preflights are answered once the request is complete. A POST is
   answered when the request worker or the engine wakes the connection. */
#include "serve/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/progress.h"
#include "serve/request_worker.h"
#include "serve/event_stream.h"
#include "serve/access_log.h"
#include "serve/info_routes.h"
#include "serve/routes.h"
#include "serve/connection_monitor.h"

/* EVENT_BLOCK: bytes of a block of a stream. DISCARDED: a body of more than this many times its limit ends the
   connection. */
enum { EVENT_BLOCK = 16 << 10, DISCARDED = 4 };

/* --- sending -------------------------------------------------------------------------------------------- */

static ssize_t read_events(void *user, uint64_t position, char *bytes, size_t most) {
  (void)position;
  ssize_t size = ch_events_read(user, bytes, most);
  return size == -1   ? MHD_CONTENT_READER_END_OF_STREAM
         : size == -2 ? MHD_CONTENT_READER_END_WITH_ERROR
                      : size;
}

static void release_exchange(void *user) {
  ch_exchange *exchange = user;
  ch_events_free(exchange->events);
  exchange->events = NULL;
  ch_exchange_release(exchange);
}

static struct MHD_Response *response_of(ch_exchange *exchange) {
  ch_reply *reply = &exchange->reply;
  if (reply->events) {
    exchange->events = ch_events_new(exchange->job);
    if (!exchange->events) return NULL;
    ch_exchange_hold(exchange);
    struct MHD_Response *stream = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BLOCK,
                                                                    read_events, exchange, release_exchange);
    if (!stream) release_exchange(exchange);
    return stream;
  }
  struct MHD_Response *response =
      reply->body.data
          ? MHD_create_response_from_buffer(reply->body.size, reply->body.data, MHD_RESPMEM_MUST_FREE)
          : MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
  if (response) reply->body = (ch_text){0};
  return response;
}

static void add_headers(const ch_exchange *exchange, struct MHD_Response *response) {
  const ch_reply *reply = &exchange->reply;
  unsigned char random[16];
  char id[33];
  if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random) memset(random, 0, sizeof random);
  for (size_t i = 0; i < sizeof random; i++) snprintf(id + 2 * i, 3, "%02x", random[i]);
  MHD_add_response_header(response, "X-Request-Id", id);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  if (reply->status != 204)
    MHD_add_response_header(response, "Content-Type",
                            reply->events ? "text/event-stream; charset=utf-8"
                            : reply->type ? reply->type
                                          : "application/json; charset=utf-8");
  if (reply->events) {
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no");
  }
  if (reply->allow) MHD_add_response_header(response, "Allow", reply->allow);
  if (reply->page) MHD_add_response_header(response, "Content-Security-Policy", ch_page_policy());
  if (reply->status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
  if (reply->status == 429) MHD_add_response_header(response, "Retry-After", "1");
  if (reply->status == 503) MHD_add_response_header(response, "Retry-After", "5");
  if (reply->close) MHD_add_response_header(response, "Connection", "close");
  if (!exchange->allowed_origin) return;
  MHD_add_response_header(response, "Access-Control-Allow-Origin", exchange->origin);
  MHD_add_response_header(response, "Vary", "Origin");
  if (!exchange->preflight) return;
  MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  MHD_add_response_header(response, "Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key");
  MHD_add_response_header(response, "Access-Control-Max-Age", "600");
}

static enum MHD_Result send_reply(ch_exchange *exchange) {
  struct MHD_Response *response = response_of(exchange);
  if (!response) return MHD_NO;
  add_headers(exchange, response);
  /* close the connection of a client that does not read its answer */
  MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                            (unsigned)CH_STALLED_SECONDS);
  enum MHD_Result queued = MHD_queue_response(exchange->connection, exchange->reply.status, response);
  MHD_destroy_response(response);
  return queued;
}

/* --- the header ----------------------------------------------------------------------------------------- */

/* The headers that determine the length of the body. */
typedef struct lengths {
  int content, transfer; /* number of Content-Length headers; number of Transfer-Encoding headers */
  bool chunked;
} lengths;

static enum MHD_Result note_length(void *user, enum MHD_ValueKind kind, const char *name, const char *value) {
  lengths *l = user;
  (void)kind;
  if (strcasecmp(name, "Content-Length") == 0) l->content++;
  if (strcasecmp(name, "Transfer-Encoding") == 0) {
    l->transfer++;
    l->chunked = value && strcasecmp(value, "chunked") == 0;
  }
  return MHD_YES;
}

static const char *header(const ch_exchange *exchange, const char *name) {
  return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

/* Refuses a request whose end a proxy could locate differently (request smuggling). */
static bool check_lengths(const ch_exchange *exchange, ch_refusal *refusal) {
  lengths l = {0};
  MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, note_length, &l);
  if (l.content + l.transfer <= 1 && (l.transfer == 0 || l.chunked)) return true;
  return ch_refuse(
      refusal, 400, "malformed_request", NULL,
      "The header must say once how long the body is: Content-Length, or Transfer-Encoding: chunked.");
}

static bool is_json(const char *type) {
  static const char json[] = "application/json";
  if (!type || strncasecmp(type, json, sizeof json - 1) != 0) return false;
  return strchr("; \t", type[sizeof json - 1]) != NULL; /* strchr also finds the end of the string */
}

static bool check_method(ch_exchange *exchange, ch_refusal *refusal) {
  const ch_route *route = exchange->route;
  bool head = strcmp(exchange->method, "HEAD") == 0, get = strcmp(exchange->method, "GET") == 0;
  bool post = strcmp(exchange->method, "POST") == 0;
  exchange->preflight = strcmp(exchange->method, "OPTIONS") == 0;
  if (exchange->preflight || (route->get && (get || head)) || (route->post && post)) return true;
  exchange->reply.allow = route->get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  return ch_refuse(refusal, 405, "method_not_allowed", NULL, "%.100s accepts %s, not %.15s.", exchange->path,
                   route->get ? "GET" : "POST", exchange->method);
}

/* Checks a POST before its body is read. */
static bool check_body(const ch_exchange *exchange, ch_refusal *refusal) {
  const ch_server *server = exchange->server;
  const char *length = header(exchange, "Content-Length");
  if (length && strtoull(length, NULL, 10) > (unsigned long long)server->settings->max_body)
    return ch_refuse(refusal, 413, "body_too_large", NULL,
                     "The body is larger than %lld bytes; see --max-body.",
                     (long long)server->settings->max_body);
  if (!is_json(header(exchange, "Content-Type")))
    return ch_refuse(refusal, 415, "unsupported_media_type", NULL,
                     "The body must be JSON; send the header 'Content-Type: application/json'.");
  if (!atomic_load(&server->draining)) return true;
  return ch_refuse(refusal, 503, "shutting_down", NULL, "The server is shutting down.");
}

static bool check_header(ch_exchange *exchange, ch_refusal *refusal) {
  const ch_access *access = &exchange->server->access;
  const char *rest;
  if (!check_lengths(exchange, refusal) || !ch_access_host(access, header(exchange, "Host"), refusal))
    return false;
  exchange->route = ch_route_find(exchange->path, &rest);
  if (!exchange->route) return ch_route_refuse(exchange->path, refusal);
  if (!check_method(exchange, refusal)) return false;
  if (exchange->preflight) {
    exchange->reply.status = 204;
    exchange->reply.allow = exchange->route->get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    exchange->answered = exchange->discard = true;
    return true;
  }
  if (!exchange->route->open &&
      !ch_access_key(access, header(exchange, "Authorization"), header(exchange, "X-Api-Key"), refusal))
    return false;
  return !exchange->route->post || check_body(exchange, refusal);
}

/* Checks a complete header. A malformed header or a too large Content-Length is answered at once. The body of any
   other refused request is read and discarded before its answer. MHD_NO ends the connection. */
static enum MHD_Result read_header(ch_exchange *exchange) {
  ch_refusal refusal;
  const char *origin = header(exchange, "Origin");
  exchange->allowed_origin = ch_access_origin(&exchange->server->access, origin);
  if (exchange->allowed_origin && !(exchange->origin = strdup(origin))) return MHD_NO;
  exchange->body_limit = (size_t)exchange->server->settings->max_body;
  if (check_header(exchange, &refusal)) return MHD_YES;
  const char *allow = exchange->reply.allow;
  ch_reply_refuse(&exchange->reply, &refusal);
  exchange->reply.allow = allow;
  exchange->answered = exchange->discard = true;
  bool at_once = refusal.status == 413 || (refusal.code && strcmp(refusal.code, "malformed_request") == 0);
  if (!at_once) return MHD_YES;
  exchange->reply.close = true;
  return send_reply(exchange);
}

/* --- the body ------------------------------------------------------------------------------------------- */

static void refuse_body(ch_exchange *exchange, unsigned status, const char *code, const char *sentence) {
  ch_refusal refusal;
  ch_refuse(&refusal, status, code, NULL, "%s", sentence);
  ch_reply_refuse(&exchange->reply, &refusal);
  exchange->reply.close = true;
  exchange->answered = exchange->discard = true;
  ch_server_release(exchange->server, exchange->body.capacity);
  ch_text_free(&exchange->body);
}

/* Appends a part of the body if the body's and the server's limit allow it. MHD_NO: the body is far beyond its
   limit. */
static enum MHD_Result read_body(ch_exchange *exchange, const char *data, size_t size) {
  exchange->body_seen += size;
  if (exchange->body_seen > DISCARDED * exchange->body_limit) return MHD_NO;
  if (exchange->discard || exchange->route->get) return MHD_YES;
  if (exchange->body.size + size > exchange->body_limit) {
    refuse_body(exchange, 413, "body_too_large",
                "The body is larger than the server allows; see --max-body.");
    return MHD_YES;
  }
  size_t before = exchange->body.capacity;
  ch_text_put(&exchange->body, data, size);
  if (exchange->body.failed) {
    exchange->body.capacity = before;
    refuse_body(exchange, 500, "out_of_memory", "The server has no memory for this request.");
  } else if (!ch_server_reserve(exchange->server, exchange->body.capacity - before)) {
    ch_server_release(exchange->server, before);
    ch_text_free(&exchange->body);
    refuse_body(exchange, 429, "queue_full", "The server holds too many large requests; try again later.");
  }
  return MHD_YES;
}

/* --- requests ------------------------------------------------------------------------------------------- */

static ch_exchange *begin(ch_server *server, struct MHD_Connection *connection, const char *url,
                          const char *method) {
  ch_exchange *exchange = ch_exchange_new(server);
  if (!exchange) return NULL;
  exchange->connection = connection;
  snprintf(exchange->method, sizeof exchange->method, "%s", method);
  exchange->path = strdup(url);
  if (!exchange->path) {
    ch_exchange_release(exchange);
    return NULL;
  }
  ch_route_tidy(exchange->path);
  ch_monitor_begin(server, connection, exchange);
  return exchange;
}

static void answer_now(ch_exchange *exchange) {
  ch_refusal refusal;
  const char *rest;
  ch_route_find(exchange->path, &rest);
  exchange->reply.status = 200;
  if (!exchange->route->get(exchange, rest, &refusal)) ch_reply_refuse(&exchange->reply, &refusal);
  if (!exchange->reply.body.failed) return;
  ch_refuse_memory(&refusal);
  ch_reply_refuse(&exchange->reply, &refusal);
}

/* Handles a complete request: sends its answer, or suspends the connection until an answer exists. MHD_NO ends the
   connection of a client that disconnected. */
static enum MHD_Result respond(ch_exchange *exchange) {
  if (!exchange->discard && exchange->route->get) {
    answer_now(exchange);
    return send_reply(exchange);
  }
  pthread_mutex_lock(&exchange->lock);
  bool waits = !exchange->answered && !atomic_load(&exchange->gone);
  bool answered = exchange->answered, first = waits && !exchange->counted;
  exchange->counted |= first;
  /* The connection is suspended before the request worker can wake it, and again if a stream's first event
     comes before its answer. */
  if (waits) ch_exchange_suspend(exchange);
  pthread_mutex_unlock(&exchange->lock);
  if (first) {
    atomic_fetch_add(&exchange->server->active_requests, 1);
    ch_monitor_answer(exchange->server, exchange);
    ch_request_worker_put(exchange->server, exchange);
  }
  if (waits) return MHD_YES;
  if (!answered || atomic_load(&exchange->gone)) return MHD_NO;
  return send_reply(exchange);
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *size,
                                  void **context) {
  ch_exchange *exchange = *context;
  (void)version;
  if (!exchange) {
    exchange = begin(user, connection, url, method);
    *context = exchange;
    return exchange ? read_header(exchange) : MHD_NO;
  }
  if (*size == 0) return respond(exchange);
  enum MHD_Result result = read_body(exchange, data, *size);
  *size = 0;
  return result;
}

static void on_completed(void *user, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode why) {
  ch_server *server = user;
  ch_exchange *exchange = *context;
  if (!exchange) return;
  *context = NULL;
  ch_monitor_end(server, connection);
  if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK) ch_exchange_leave(exchange);
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)CH_IDLE_SECONDS);
  pthread_mutex_lock(&exchange->lock);
  exchange->connection = NULL;
  pthread_mutex_unlock(&exchange->lock);
  unsigned status = why == MHD_REQUEST_TERMINATED_COMPLETED_OK ? exchange->reply.status : CH_CLIENT_CLOSED;
  ch_metrics_request(&server->metrics, ch_route_endpoint(exchange->route), status);
  ch_log_request(exchange, status);
  if (exchange->counted) atomic_fetch_sub(&server->active_requests, 1);
  ch_exchange_release(exchange);
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
  if (code == MHD_CONNECTION_NOTIFY_STARTED)
    *context = ch_monitor_open(user, connection);
  else
    ch_monitor_close(user, *context);
}

/* --- starting and ending -------------------------------------------------------------------------------- */

ch_status ch_http_start(ch_server *server, int listener, ch_error *error) {
  server->daemon = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, server,
      MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CH_MOST_CONNECTIONS,
      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CH_IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      (size_t)32 << 10, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
      MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
  if (server->daemon) return CH_OK;
  return ch_fail(error, CH_ERROR_IO, "cannot start the HTTP server on %s", server->address);
}

void ch_http_stop(ch_server *server) {
  if (server->daemon) MHD_stop_daemon(server->daemon);
  server->daemon = NULL;
}
