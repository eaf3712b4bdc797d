/* Watches every socket in a separate epoll set. libmicrohttpd does not watch suspended connections, and its
   timeouts restart with every byte. */
#define _GNU_SOURCE
#include "serve/connection_monitor.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/progress.h"
#include "serve/http.h"

/* Timeouts and intervals in seconds. */
static const double header_seconds = 10, body_seconds = 30, quiet_seconds = 10, cut_seconds = 1,
                    drain_look = 0.02;
enum { EVENTS = 64 };

typedef enum phase {
  FREE,   /* no connection */
  IDLE,   /* no byte of a request has arrived */
  HEADER, /* a part of the header has arrived */
  BODY,   /* the header is complete */
  ANSWER  /* the body is complete */
} phase;

struct ch_connection {
  phase phase;
  int socket;
  uint32_t serial; /* number that differs from those of earlier connections in this element of the array */
  double since;    /* ch_clock at the start of the phase */
  bool left;       /* true once the client disconnected */
  ch_exchange *exchange;
};

typedef struct ch_monitor {
  pthread_mutex_t lock;
  pthread_t thread;
  int set, poke; /* descriptors: epoll set, eventfd that wakes the thread */
  bool serving, quit, released;
  double planned; /* ch_clock at which the thread wakes next; INFINITY: only for an event */
  struct ch_connection connections[CH_MOST_CONNECTIONS + 8];
} ch_monitor;
enum { PLACES = CH_MOST_CONNECTIONS + 8 };

/* --- calls of the HTTP thread --------------------------------------------------------------------------- */

static void poke(ch_monitor *monitor) {
  const uint64_t one = 1;
  while (write(monitor->poke, &one, sizeof one) < 0 && errno == EINTR)
    ;
}

/* Makes the thread wake no later than `when`. Lock held. */
static void plan(ch_monitor *monitor, double when) {
  if (when < monitor->planned) poke(monitor);
}

/* Requests one event when the client disconnects, or when the first bytes of a request arrive. Lock held. */
static void arm(ch_monitor *monitor, struct ch_connection *c, int operation) {
  uint64_t place = (uint64_t)(c - monitor->connections);
  struct epoll_event event = {.events = EPOLLONESHOT | EPOLLRDHUP | (c->phase == IDLE ? EPOLLIN : 0U),
                              .data.u64 = place << 32 | c->serial};
  epoll_ctl(monitor->set, operation, c->socket, &event);
}

static struct ch_connection *of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

struct ch_connection *ch_monitor_open(ch_server *server, struct MHD_Connection *connection) {
  ch_monitor *monitor = server->monitor;
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  struct ch_connection *c = NULL;
  pthread_mutex_lock(&monitor->lock);
  for (int i = 0; i < PLACES && !c && info; i++)
    if (monitor->connections[i].phase == FREE) c = &monitor->connections[i];
  if (c) {
    *c = (struct ch_connection){
        .phase = IDLE, .socket = info->connect_fd, .serial = c->serial + 1, .since = ch_clock()};
    arm(monitor, c, EPOLL_CTL_ADD);
  }
  pthread_mutex_unlock(&monitor->lock);
  return c;
}

void ch_monitor_close(ch_server *server, struct ch_connection *c) {
  if (!c) return;
  pthread_mutex_lock(&server->monitor->lock);
  epoll_ctl(server->monitor->set, EPOLL_CTL_DEL, c->socket, NULL);
  c->phase = FREE;
  c->exchange = NULL;
  pthread_mutex_unlock(&server->monitor->lock);
}

void ch_monitor_begin(ch_server *server, struct MHD_Connection *connection, ch_exchange *exchange) {
  ch_monitor *monitor = server->monitor;
  struct ch_connection *c = of(connection);
  pthread_mutex_lock(&monitor->lock);
  bool left = monitor->released || (c && c->left);
  if (c) {
    c->phase = BODY;
    c->since = ch_clock();
    c->exchange = exchange;
    plan(monitor, c->since + body_seconds);
  }
  pthread_mutex_unlock(&monitor->lock);
  if (left) atomic_store(&exchange->gone, true);
}

void ch_monitor_answer(ch_server *server, ch_exchange *exchange) {
  ch_monitor *monitor = server->monitor;
  struct ch_connection *c = of(exchange->connection);
  pthread_mutex_lock(&monitor->lock);
  if (c) {
    c->phase = ANSWER;
    c->since = ch_clock();
    plan(monitor, c->since + quiet_seconds);
  }
  pthread_mutex_unlock(&monitor->lock);
}

void ch_monitor_end(ch_server *server, struct MHD_Connection *connection) {
  struct ch_connection *c = of(connection);
  if (!c) return;
  pthread_mutex_lock(&server->monitor->lock);
  c->phase = IDLE;
  c->since = ch_clock();
  c->exchange = NULL;
  if (!c->left) arm(server->monitor, c, EPOLL_CTL_MOD);
  pthread_mutex_unlock(&server->monitor->lock);
}

/* --- events and timeouts -------------------------------------------------------------------------------- */

/* Exchanges to process after the lock is released, each with a reference. */
typedef struct found {
  ch_exchange *exchanges[PLACES];
  int count;
} found;

static void find(found *f, ch_exchange *exchange) {
  ch_exchange_hold(exchange);
  f->exchanges[f->count++] = exchange;
}

static void see(ch_monitor *monitor, const struct epoll_event *event, found *leaving) {
  uint64_t place = event->data.u64 >> 32;
  if (place >= PLACES) { /* the eventfd */
    uint64_t count;
    if (read(monitor->poke, &count, sizeof count) < 0) return;
    return;
  }
  struct ch_connection *c = &monitor->connections[place];
  if (c->phase == FREE || c->serial != (uint32_t)event->data.u64) return;
  if (c->phase == IDLE && event->events & EPOLLIN) {
    c->phase = HEADER;
    c->since = ch_clock();
  }
  if (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
    c->left = true;
    if (c->exchange) find(leaving, c->exchange);
  } else {
    arm(monitor, c, EPOLL_CTL_MOD);
  }
}

/* Makes a stream that was quiet for too long send a comment. Sets *when to the time of its next check. */
static void look_at_stream(ch_exchange *exchange, double now, double *when, found *quiet) {
  pthread_mutex_lock(&exchange->lock);
  bool streams = exchange->reply.events && exchange->answered;
  double due = exchange->quiet + quiet_seconds;
  if (streams && exchange->suspended && due <= now) {
    exchange->nudged = true;
    exchange->quiet = now;
    due = now + quiet_seconds;
    find(quiet, exchange);
  }
  pthread_mutex_unlock(&exchange->lock);
  *when = streams && due > now ? due : now + quiet_seconds;
}

/* Shuts down connections that timed out, and collects streams that were quiet for too long. Returns the time of the
   next check. */
static double look(ch_monitor *monitor, double now, found *quiet) {
  double next = INFINITY;
  for (int i = 0; i < PLACES; i++) {
    struct ch_connection *c = &monitor->connections[i];
    double when = INFINITY;
    if (c->phase == HEADER) when = c->since + header_seconds;
    if (c->phase == BODY) when = c->since + body_seconds;
    if (when <= now) {
      shutdown(c->socket, SHUT_RDWR); /* libmicrohttpd then closes it */
      c->phase = IDLE;
      continue;
    }
    if (c->phase == ANSWER && c->exchange) look_at_stream(c->exchange, now, &when, quiet);
    next = fmin(next, when);
  }
  return next;
}

/* --- draining ------------------------------------------------------------------------------------------- */

static void leave_all(ch_monitor *monitor, bool for_good) {
  found all = {.count = 0};
  pthread_mutex_lock(&monitor->lock);
  monitor->released |= for_good;
  for (int i = 0; i < PLACES; i++)
    if (monitor->connections[i].exchange) find(&all, monitor->connections[i].exchange);
  pthread_mutex_unlock(&monitor->lock);
  for (int i = 0; i < all.count; i++) {
    ch_exchange_leave(all.exchanges[i]);
    ch_exchange_release(all.exchanges[i]);
  }
}

/* Returns true if a draining server can end now. The remaining requests are aborted at `until`, and the server ends
   at most `cut_seconds` later. */
static bool is_drained(ch_server *server, double now, double until) {
  if (atomic_load(&server->active_requests) == 0) return true;
  if (now < until) return false;
  if (now >= until + cut_seconds) return true;
  if (!atomic_exchange(&server->cut, true)) leave_all(server->monitor, false);
  return false;
}

/* Begins and continues draining after the signal. Returns true when the server can end. */
static bool drain(ch_server *server, double now, double *until) {
  const ch_serve_settings *settings = server->settings;
  if (!settings->stop || !settings->stop(settings->user)) return false;
  pthread_mutex_lock(&server->monitor->lock);
  bool serving = server->monitor->serving;
  pthread_mutex_unlock(&server->monitor->lock);
  if (!serving) settings->leave(settings->user);
  if (!atomic_exchange(&server->draining, true)) *until = now + settings->drain;
  return is_drained(server, now, *until);
}

static void act(found *leaving, found *quiet) {
  for (int i = 0; i < leaving->count; i++) {
    ch_exchange_leave(leaving->exchanges[i]);
    ch_exchange_release(leaving->exchanges[i]);
  }
  for (int i = 0; i < quiet->count; i++) {
    ch_exchange_wake(quiet->exchanges[i]);
    ch_exchange_release(quiet->exchanges[i]);
  }
}

static void *monitor_all(void *user) {
  ch_server *server = user;
  ch_monitor *monitor = server->monitor;
  struct epoll_event events[EVENTS];
  sigset_t unblocked;
  double until = INFINITY;
  pthread_sigmask(SIG_SETMASK, NULL, &unblocked);
  sigdelset(&unblocked, SIGINT);
  sigdelset(&unblocked, SIGTERM);
  for (;;) {
    found leaving = {.count = 0}, quiet = {.count = 0};
    pthread_mutex_lock(&monitor->lock);
    double now = ch_clock();
    double next = look(monitor, now, &quiet);
    bool quit = monitor->quit;
    if (atomic_load(&server->draining)) next = fmin(next, now + drain_look);
    monitor->planned = next;
    pthread_mutex_unlock(&monitor->lock);
    act(&leaving, &quiet);
    if (quit) return NULL;
    int timeout = isfinite(next) ? (int)ceil(1e3 * fmax(0, next - now)) : -1;
    int count = epoll_pwait(monitor->set, events, EVENTS, timeout, &unblocked);
    pthread_mutex_lock(&monitor->lock);
    for (int i = 0; i < count; i++) see(monitor, &events[i], &leaving);
    pthread_mutex_unlock(&monitor->lock);
    quiet.count = 0;
    act(&leaving, &quiet);
    if (drain(server, ch_clock(), &until)) {
      ch_engine_quit(server);
      return NULL;
    }
  }
}

ch_status ch_monitor_start(ch_server *server, ch_error *error) {
  ch_monitor *monitor = calloc(1, sizeof *monitor);
  if (!monitor) return ch_fail(error, CH_ERROR_MEMORY, "no memory for the connections");
  server->monitor = monitor;
  monitor->planned = INFINITY;
  pthread_mutex_init(&monitor->lock, NULL);
  monitor->set = epoll_create1(EPOLL_CLOEXEC);
  monitor->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)PLACES << 32};
  bool ready = monitor->set >= 0 && monitor->poke >= 0 &&
               epoll_ctl(monitor->set, EPOLL_CTL_ADD, monitor->poke, &event) == 0;
  if (ready && pthread_create(&monitor->thread, NULL, monitor_all, server) == 0) return CH_OK;
  const char *reason = strerror(errno);
  if (monitor->set >= 0) close(monitor->set);
  if (monitor->poke >= 0) close(monitor->poke);
  free(monitor);
  server->monitor = NULL;
  return ch_fail(error, CH_ERROR_IO, "cannot watch connections: %s", reason);
}

void ch_monitor_serve(ch_server *server) {
  pthread_mutex_lock(&server->monitor->lock);
  server->monitor->serving = true;
  pthread_mutex_unlock(&server->monitor->lock);
}

void ch_monitor_release(ch_server *server) {
  leave_all(server->monitor, true);
}

void ch_monitor_stop(ch_server *server) {
  ch_monitor *monitor = server->monitor;
  if (!monitor) return;
  pthread_mutex_lock(&monitor->lock);
  monitor->quit = true;
  poke(monitor);
  pthread_mutex_unlock(&monitor->lock);
  pthread_join(monitor->thread, NULL);
  close(monitor->set);
  close(monitor->poke);
  pthread_mutex_destroy(&monitor->lock);
  free(monitor);
  server->monitor = NULL;
}
