/* Ranks that are threads of one process: a transport for tests without a launcher. */
#ifndef TESTS_TRAIN_RANK_THREADS_H
#define TESTS_TRAIN_RANK_THREADS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/ranks.h"

enum { MOST_RANKS = 4, GATHER_TAG = -1, BROADCAST_TAG = -2 };

typedef struct letter {
  struct letter *next;
  int from, to, tag;
  size_t bytes;
  char data[];
} letter;

/* Messages in the order in which they were sent. */
typedef struct post {
  pthread_mutex_t lock;
  letter *first, **last;
  int count;
} post;

typedef struct post_office {
  post *all;
  int rank;
} post_office;

/* A message to receive: from one rank or, for a gather, from all others. */
typedef struct wish {
  int from, tag; /* `from` is -1 for a gather, whose messages go to `data` + rank * bytes */
  char *data;
  size_t bytes;
  bool got[MOST_RANKS];
} wish;

static inline void post_letter(const post_office *o, int to, int tag, const void *data, size_t bytes) {
  letter *l = malloc(sizeof *l + bytes);
  *l = (letter){.from = o->rank, .to = to, .tag = tag, .bytes = bytes};
  memcpy(l->data, data, bytes);
  pthread_mutex_lock(&o->all->lock);
  *o->all->last = l;
  o->all->last = &l->next;
  pthread_mutex_unlock(&o->all->lock);
}

static inline letter *take_letter(const post_office *o, int from, int tag) {
  pthread_mutex_lock(&o->all->lock);
  letter **at = &o->all->first;
  while (*at && ((*at)->to != o->rank || (*at)->from != from || (*at)->tag != tag)) at = &(*at)->next;
  letter *found = *at;
  if (found) {
    *at = found->next;
    if (!found->next) o->all->last = at;
  }
  pthread_mutex_unlock(&o->all->lock);
  return found;
}

static inline uint64_t new_wish(int from, int tag, void *data, size_t bytes) {
  wish *w = calloc(1, sizeof *w);
  *w = (wish){.from = from, .tag = tag, .data = data, .bytes = bytes};
  return (uint64_t)(uintptr_t)w;
}

static inline void threads_send(void *context, int to, int tag, const void *data, size_t bytes,
                                uint64_t *handle) {
  post_letter(context, to, tag, data, bytes);
  *handle = 0;
}

static inline void threads_receive(void *context, int from, int tag, void *data, size_t bytes,
                                   uint64_t *handle) {
  (void)context;
  *handle = new_wish(from, tag, data, bytes);
}

static inline void threads_gather(void *context, void *all, size_t bytes_each, uint64_t *handle) {
  const post_office *o = context;
  for (int r = 0; r < o->all->count; r++)
    if (r != o->rank) post_letter(o, r, GATHER_TAG, (char *)all + (size_t)o->rank * bytes_each, bytes_each);
  *handle = new_wish(-1, GATHER_TAG, all, bytes_each);
}

static inline void threads_broadcast(void *context, int root, void *data, size_t bytes, uint64_t *handle) {
  const post_office *o = context;
  *handle = root == o->rank ? 0 : new_wish(root, BROADCAST_TAG, data, bytes);
  for (int r = 0; root == o->rank && r < o->all->count; r++)
    if (r != root) post_letter(o, r, BROADCAST_TAG, data, bytes);
}

static inline bool threads_done(void *context, uint64_t *handle) {
  const post_office *o = context;
  wish *w = (wish *)(uintptr_t)*handle;
  if (!w) return true;
  bool all = true;
  for (int r = 0; r < o->all->count; r++) {
    if (w->got[r] || (w->from >= 0 ? r != w->from : r == o->rank)) continue;
    letter *l = take_letter(o, r, w->tag);
    w->got[r] = l != NULL;
    if (!l) all = false;
    if (l && l->bytes != w->bytes) abort(); /* the message has another size */
    if (l) memcpy(w->data + (w->from < 0 ? (size_t)r * w->bytes : 0), l->data, l->bytes);
    free(l);
  }
  if (all) free(w);
  if (all) *handle = 0;
  return all;
}

static inline bool threads_waits(void *context, int tag) {
  const post_office *o = context;
  bool found = false;
  pthread_mutex_lock(&o->all->lock);
  for (const letter *l = o->all->first; l; l = l->next) found = found || (l->to == o->rank && l->tag == tag);
  pthread_mutex_unlock(&o->all->lock);
  return found;
}

static inline void *threads_split(void *context, int group, int *rank, int *count) {
  (void)context;
  (void)group;
  (void)rank;
  (void)count;
  return NULL;
}

static inline void threads_leave(void *context) {
  (void)context;
}

static const ch_transport thread_transport = {.send = threads_send,
                                              .receive = threads_receive,
                                              .gather = threads_gather,
                                              .broadcast = threads_broadcast,
                                              .done = threads_done,
                                              .waits = threads_waits,
                                              .split = threads_split,
                                              .leave = threads_leave};

/* One rank: its thread, its function and its messages. */
typedef struct rank_thread {
  ch_rank_group *ranks;
  int rank, count;
  void (*run)(struct rank_thread *self);
  void *context; /* context of all ranks */
  post_office office;
} rank_thread;

static inline void *start_rank_thread(void *self) {
  rank_thread *t = self;
  t->run(t);
  return NULL;
}

/* Runs `run` in `count` threads, and checks that no message is left. */
static inline void run_ranks(int count, void (*run)(rank_thread *self), void *context) {
  post all = {.lock = PTHREAD_MUTEX_INITIALIZER, .count = count};
  rank_thread self[MOST_RANKS];
  pthread_t threads[MOST_RANKS];
  all.last = &all.first;
  for (int r = 0; r < count; r++) {
    self[r] = (rank_thread){
        .rank = r, .count = count, .run = run, .context = context, .office = {.all = &all, .rank = r}};
    assert_ok(ch_ranks_create(&thread_transport, &self[r].office, r, count, &self[r].ranks, &failure));
    assert_int_equal(pthread_create(&threads[r], NULL, start_rank_thread, &self[r]), 0);
  }
  for (int r = 0; r < count; r++) pthread_join(threads[r], NULL);
  for (int r = 0; r < count; r++) ch_close_ranks(self[r].ranks);
  assert_null(all.first);
}

#endif
