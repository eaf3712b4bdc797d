/* The MPI transport, a module of its own: only a process that was started as one of several loads it and the MPI
   library. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/transport.h"

/* MPI counts in int. Messages of more than INT32_MAX bytes are counted in units of UNIT bytes. */
enum { UNIT = 64 };

typedef struct group {
  MPI_Comm communicator;
  MPI_Datatype unit;
  int ranks;
} group;

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into a handle");

static void put(uint64_t *handle, MPI_Request request) {
  *handle = 0;
  memcpy(handle, &request, sizeof request);
}

/* Returns the count of `bytes` bytes, and its type in *type. Data of 2 GiB or more is rounded up to units.
   The memory of such large tensors is a multiple of UNIT, so this is safe. In a gather, each rank's part must be a
   multiple too. The parts of weights are (parameter_set.c). */
static int count_of(const group *g, size_t bytes, MPI_Datatype *type) {
  bool fits = bytes <= INT32_MAX;
  *type = fits ? MPI_BYTE : g->unit;
  return (int)(fits ? bytes : (bytes + UNIT - 1) / UNIT);
}

static void send_to(void *context, int to, int tag, const void *data, size_t bytes, uint64_t *handle) {
  const group *g = context;
  MPI_Datatype type;
  MPI_Request request;
  int count = count_of(g, bytes, &type);
  MPI_Isend(data, count, type, to, tag, g->communicator, &request);
  put(handle, request);
}

static void receive_from(void *context, int from, int tag, void *data, size_t bytes, uint64_t *handle) {
  const group *g = context;
  MPI_Datatype type;
  MPI_Request request;
  int count = count_of(g, bytes, &type);
  MPI_Irecv(data, count, type, from, tag, g->communicator, &request);
  put(handle, request);
}

static void gather(void *context, void *all, size_t bytes_each, uint64_t *handle) {
  const group *g = context;
  MPI_Datatype type;
  MPI_Request request;
  int count = count_of(g, bytes_each, &type);
  MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, type, g->communicator, &request);
  put(handle, request);
}

static void broadcast(void *context, int root, void *data, size_t bytes, uint64_t *handle) {
  const group *g = context;
  MPI_Datatype type;
  MPI_Request request;
  int count = count_of(g, bytes, &type);
  MPI_Ibcast(data, count, type, root, g->communicator, &request);
  put(handle, request);
}

static bool done(void *context, uint64_t *handle) {
  (void)context;
  MPI_Request request;
  int flag = 0;
  memcpy(&request, handle, sizeof request);
  MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  put(handle, request);
  return flag != 0;
}

static bool waits(void *context, int tag) {
  const group *g = context;
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, tag, g->communicator, &flag, MPI_STATUS_IGNORE);
  return flag != 0;
}

static group *make_group(MPI_Comm communicator, int *rank, int *count) {
  group *g = malloc(sizeof *g);
  if (!g) return NULL;
  g->communicator = communicator;
  MPI_Type_contiguous(UNIT, MPI_BYTE, &g->unit);
  MPI_Type_commit(&g->unit);
  MPI_Comm_rank(communicator, rank);
  MPI_Comm_size(communicator, count);
  g->ranks = *count;
  return g;
}

static void *split(void *context, int part, int *rank, int *count) {
  const group *g = context;
  int own;
  MPI_Comm communicator;
  MPI_Comm_rank(g->communicator, &own);
  MPI_Comm_split(g->communicator, part, own, &communicator);
  return make_group(communicator, rank, count);
}

static void leave(void *context) {
  group *g = context;
  bool first = g->communicator == MPI_COMM_WORLD;
  MPI_Type_free(&g->unit);
  if (first)
    MPI_Finalize();
  else
    MPI_Comm_free(&g->communicator);
  free(g);
}

static const ch_transport mpi = {.send = send_to,
                                 .receive = receive_from,
                                 .gather = gather,
                                 .broadcast = broadcast,
                                 .done = done,
                                 .waits = waits,
                                 .split = split,
                                 .leave = leave};

__attribute__((visibility("default"))) const ch_transport *ch_mpi_open(void **context, int *rank, int *count,
                                                                       const char **reason);

const ch_transport *ch_mpi_open(void **context, int *rank, int *count, const char **reason) {
  int provided, begun;
  MPI_Initialized(&begun);
  *context = NULL;
  if (begun) {
    *reason = "this process has already joined an MPI job";
    return NULL;
  }
  /* Several threads compute, but only one calls MPI. */
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    *reason = "MPI does not start";
    return NULL;
  }
  *context = make_group(MPI_COMM_WORLD, rank, count);
  *reason = "no memory for the ranks of a job";
  return *context ? &mpi : NULL;
}
