/* The sockets transport, for processes of one machine without MPI. There is a socket between any two ranks. */
#define _GNU_SOURCE

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "ranks/launch.h"

enum { MOST_BYTES = 1 << 16, GATHER_TAG = -1, BROADCAST_TAG = -2 };

/* A message is sent in packets. Each has this header and at most MOST_BYTES of the message. */
typedef struct packet_header {
  size_t bytes; /* size of the whole message */
  int64_t tag;
} packet_header;

/* A message that has not been received yet. All of its packets have arrived, or only the first ones. */
typedef struct stored_message {
  struct stored_message *next;
  int from, tag;
  size_t bytes, arrived;
  char data[];
} stored_message;

typedef struct socket_group {
  int rank, count;
  int *sockets;                  /* [count] socket to each rank; -1: this rank, or a rank that has left */
  stored_message **partial;      /* [count] message of which not all packets have arrived, or NULL */
  stored_message *first, **last; /* list of messages in the order of arrival, and the place of its end */
  char packet[sizeof(packet_header) + MOST_BYTES];
} socket_group;

/* A receive in progress: from one rank, or for a gather from all others. */
typedef struct receive_request {
  int from, tag; /* sender and tag; from = -1: all other ranks, each to `data` + rank * bytes */
  char *data;
  size_t bytes;
  bool got[]; /* [count] true for ranks whose message was received */
} receive_request;

static void lose(int rank) {
  dprintf(STDERR_FILENO, "crosshead: process %d of this job has ended\n", rank);
  raise(SIGKILL);
}

/* --- messages ------------------------------------------------------------------------------------------- */

/* Reads the packets that have arrived from one rank. */
static void fetch_from(socket_group *o, int from) {
  ssize_t size;
  while (o->sockets[from] >= 0 &&
         (size = recv(o->sockets[from], o->packet, sizeof o->packet, MSG_DONTWAIT)) != -1) {
    packet_header header;
    if (size < (ssize_t)sizeof header) { /* the rank has left */
      close(o->sockets[from]);
      o->sockets[from] = -1;
      return;
    }
    memcpy(&header, o->packet, sizeof header);
    size_t bytes = (size_t)size - sizeof header;
    stored_message *l = o->partial[from];
    if (!l) {
      l = malloc(sizeof *l + header.bytes);
      if (!l) lose(o->rank);
      *l = (stored_message){.from = from, .tag = (int)header.tag, .bytes = header.bytes};
    }
    memcpy(l->data + l->arrived, o->packet + sizeof header, bytes);
    l->arrived += bytes;
    o->partial[from] = l->arrived < l->bytes ? l : NULL;
    if (o->partial[from]) continue;
    *o->last = l;
    o->last = &l->next;
  }
}

/* Sends a message. While the other rank's socket is full, this rank reads what has arrived. Otherwise two ranks that send to
   each other would wait forever. */
static void post(socket_group *o, int to, int tag, const void *data, size_t bytes) {
  packet_header header = {.bytes = bytes, .tag = tag};
  size_t sent = 0;
  do {
    size_t part = bytes - sent < MOST_BYTES ? bytes - sent : MOST_BYTES;
    struct iovec parts[] = {{&header, sizeof header}, {(char *)(uintptr_t)data + sent, part}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    while (o->sockets[to] < 0 || sendmsg(o->sockets[to], &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      struct pollfd room = {.fd = o->sockets[to], .events = POLLOUT};
      if (room.fd < 0 || (errno != EINTR && errno != EAGAIN)) lose(to);
      poll(&room, 1, 1);
      for (int r = 0; r < o->count; r++) fetch_from(o, r);
    }
    sent += part;
  } while (sent < bytes);
}

static stored_message *take(socket_group *o, int from, int tag) {
  fetch_from(o, from);
  stored_message **at = &o->first;
  while (*at && ((*at)->from != from || (*at)->tag != tag)) at = &(*at)->next;
  stored_message *found = *at;
  if (!found) {
    if (o->sockets[from] < 0) lose(from);
    return NULL;
  }
  *at = found->next;
  if (!found->next) o->last = at;
  return found;
}

/* --- the transport -------------------------------------------------------------------------------------- */

static uint64_t new_wish(const socket_group *o, int from, int tag, void *data, size_t bytes) {
  receive_request *w = calloc(1, sizeof *w + (size_t)o->count * sizeof *w->got);
  if (!w) lose(o->rank);
  w->from = from;
  w->tag = tag;
  w->data = data;
  w->bytes = bytes;
  return (uint64_t)(uintptr_t)w;
}

static void send_to(void *context, int to, int tag, const void *data, size_t bytes, uint64_t *handle) {
  post(context, to, tag, data, bytes);
  *handle = 0;
}

static void receive(void *context, int from, int tag, void *data, size_t bytes, uint64_t *handle) {
  *handle = new_wish(context, from, tag, data, bytes);
}

static void gather(void *context, void *all, size_t bytes_each, uint64_t *handle) {
  socket_group *o = context;
  for (int r = 0; r < o->count; r++)
    if (r != o->rank) post(o, r, GATHER_TAG, (char *)all + (size_t)o->rank * bytes_each, bytes_each);
  *handle = new_wish(o, -1, GATHER_TAG, all, bytes_each);
}

static void broadcast(void *context, int root, void *data, size_t bytes, uint64_t *handle) {
  socket_group *o = context;
  *handle = root == o->rank ? 0 : new_wish(o, root, BROADCAST_TAG, data, bytes);
  for (int r = 0; root == o->rank && r < o->count; r++)
    if (r != root) post(o, r, BROADCAST_TAG, data, bytes);
}

static bool done(void *context, uint64_t *handle) {
  socket_group *o = context;
  receive_request *w = (receive_request *)(uintptr_t)*handle;
  bool all = true;
  for (int r = 0; w && r < o->count; r++) {
    if (w->got[r] || (w->from >= 0 ? r != w->from : r == o->rank)) continue;
    stored_message *l = take(o, r, w->tag);
    w->got[r] = l != NULL;
    all = all && l;
    if (l && l->bytes != w->bytes) lose(r); /* the ranks disagree on the size of the message */
    if (l) memcpy(w->data + (w->from < 0 ? (size_t)r * w->bytes : 0), l->data, l->bytes);
    free(l);
  }
  if (all) {
    free(w);
    *handle = 0;
  }
  return all;
}

static bool waits(void *context, int tag) {
  socket_group *o = context;
  for (int r = 0; r < o->count; r++) fetch_from(o, r);
  for (const stored_message *l = o->first; l; l = l->next)
    if (l->tag == tag) return true;
  return false;
}

static void leave(void *context) {
  socket_group *o = context;
  for (int r = 0; r < o->count; r++) {
    if (o->sockets[r] >= 0) close(o->sockets[r]);
    free(o->partial[r]);
  }
  for (stored_message *l = o->first, *next; l; l = next) {
    next = l->next;
    free(l);
  }
  free(o->sockets);
  free(o->partial);
  free(o);
}

static const ch_transport transport = {.send = send_to,
                                       .receive = receive,
                                       .gather = gather,
                                       .broadcast = broadcast,
                                       .done = done,
                                       .waits = waits,
                                       .leave = leave};

ch_status ch_connect_ranks(int rank, int count, const int *sockets, ch_rank_group **ranks, ch_error *error) {
  *ranks = NULL;
  if (count < 1 || rank < 0 || rank >= count)
    return ch_fail(error, CH_ERROR_ARGUMENT, "rank %d of %d does not exist; ranks count from 0", rank, count);
  socket_group *o = calloc(1, sizeof *o);
  int *own = calloc((size_t)count, sizeof *own);
  stored_message **partial = calloc((size_t)count, sizeof *partial);
  ch_status status = o && own && partial ? CH_OK : ch_no_memory(error);
  if (status == CH_OK) {
    for (int r = 0; r < count; r++) own[r] = r == rank ? -1 : sockets[r];
    *o = (socket_group){.rank = rank, .count = count, .sockets = own, .partial = partial};
    o->last = &o->first;
    status = ch_ranks_create(&transport, o, rank, count, ranks, error);
  }
  if (status == CH_OK) return CH_OK;
  free(o);
  free(own);
  free(partial);
  return status;
}
