/* A transport carries messages between ranks: a table of functions. There is one for MPI (ranks/mpi/mpi.c) and one for
 * sockets (ranks/sockets.c); tests have one for threads. */
#ifndef CH_RANKS_TRANSPORT_H
#define CH_RANKS_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message or a collective operation that has begun. */
typedef struct ch_transfer {
  uint64_t handle; /* the transport's handle */
  bool active;     /* true from the beginning until the transfer is known to be done */
} ch_transfer;

/* `send`, `receive`, `gather` and `broadcast` begin an operation. It is complete when `done` returns true; until then
   it owns its memory. All ranks of a group begin equal collective operations in one order. Messages of one sender,
   receiver and tag arrive in the order in which they were sent. If a rank is lost, the transport ends the process. */
typedef struct ch_transport {
  void (*send)(void *context, int to, int tag, const void *data, size_t bytes, uint64_t *handle);
  void (*receive)(void *context, int from, int tag, void *data, size_t bytes, uint64_t *handle);
  /* Gathers `bytes_each` bytes of each rank at `all` + rank * bytes_each. The rank's own bytes are already there. */
  void (*gather)(void *context, void *all, size_t bytes_each, uint64_t *handle);
  void (*broadcast)(void *context, int root, void *data, size_t bytes, uint64_t *handle);
  bool (*done)(void *context, uint64_t *handle);
  /* Returns true if a message with this tag, from any rank, waits to be received. */
  bool (*waits)(void *context, int tag);
  /* Divides the group: ranks with equal `group` form one, in the order of their ranks here. Returns the context of the
     new group, or NULL if out of memory. Sets *rank to this process's rank in the new group, and *count to its
     number of ranks. The member is NULL if the transport cannot divide groups. */
  void *(*split)(void *context, int group, int *rank, int *count);
  /* Leaves a group that `split` created, or the first group and with it the transport. */
  void (*leave)(void *context);
} ch_transport;

/* The type of the symbol "ch_mpi_open" of the module crosshead-mpi.so. It joins the job in which this process was
   started. Returns NULL and a reason if that is impossible. */
typedef const ch_transport *(*ch_transport_opener)(void **context, int *rank, int *count,
                                                   const char **reason);
#define CH_TRANSPORT_OPENER "ch_mpi_open"

#endif
