/* Opens the socket that the server listens on. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/http.h"

typedef union address {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
} address;

static bool read_address(const char *host, int port, address *a, socklen_t *size) {
  memset(a, 0, sizeof *a);
  if (inet_pton(AF_INET, host, &a->four.sin_addr) == 1) {
    a->four.sin_family = AF_INET;
    a->four.sin_port = htons((uint16_t)port);
    *size = sizeof a->four;
    return true;
  }
  if (inet_pton(AF_INET6, host, &a->six.sin6_addr) != 1) return false;
  a->six.sin6_family = AF_INET6;
  a->six.sin6_port = htons((uint16_t)port);
  *size = sizeof a->six;
  return true;
}

static bool is_loopback(const address *a) {
  if (a->any.sa_family == AF_INET) return ntohl(a->four.sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&a->six.sin6_addr);
}

/* Sets options that connections inherit: keep-alive detects vanished peers, and small writes are sent at
   once. */
static void set_options(int socket_) {
  const int on = 1, idle = 30, interval = 10, probes = 3;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(socket_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket_, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(socket_, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(socket_, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

ch_status ch_http_listen(ch_server *server, int *listener, ch_error *error) {
  const ch_serve_settings *settings = server->settings;
  const char *host = strcmp(settings->host, "localhost") == 0 ? "127.0.0.1" : settings->host;
  address a;
  socklen_t size;
  if (!read_address(host, settings->port, &a, &size))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--host: '%s' is not a numeric address; write one like 127.0.0.1, 0.0.0.0 or ::1", host);
  server->access.local = is_loopback(&a);
  *listener = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (*listener >= 0) set_options(*listener);
  if (*listener < 0 || bind(*listener, &a.any, size) != 0 || listen(*listener, CH_MOST_CONNECTIONS) != 0) {
    int reason = errno;
    if (*listener >= 0) close(*listener);
    *listener = -1;
    return ch_fail(error, CH_ERROR_IO, "cannot listen on %s port %d: %s", host, settings->port,
                   reason == EADDRINUSE ? "another program uses it; choose one with --port"
                                        : strerror(reason));
  }
  getsockname(*listener, &a.any, &size);
  int port = ntohs(a.any.sa_family == AF_INET ? a.four.sin_port : a.six.sin6_port);
  snprintf(server->address, sizeof server->address, a.any.sa_family == AF_INET ? "%s:%d" : "[%s]:%d", host,
           port);
  return CH_OK;
}
