/* Receives the pieces of a tensor on rank 0, or sends this rank's piece there. */
#include "train/gather.h"

#include <stdlib.h>

#include "train/trainer_private.h"

bool ch_is_divided(const ch_trainer *trainer, ch_parameter_group group, int parameter) {
  if (!trainer->ranks) return false;
  return group != CH_WEIGHTS || trainer->set.keeping[parameter] != CH_KEPT_WHOLE;
}

void ch_gather_tensor(const ch_trainer *trainer, ch_parameter_group group, int p, void *whole, void *room) {
  const ch_parameter_set *set = &trainer->set;
  ch_rank_group *ranks = trainer->ranks;
  const ch_tensor *own = &ch_parameter_pieces(set, group)[p];
  int tag = ch_relay_moment_tag(&trainer->relay);
  ch_transfer transfer = {0};
  if (!ch_ranks_leads(ranks)) {
    if (set->pieces[p].count > 0) ch_ranks_send(ranks, 0, tag, own->data, ch_tensor_bytes(own), &transfer);
    ch_ranks_wait(ranks, &transfer, NULL, NULL);
    return;
  }
  ch_parameter_piece_join(set, p, 0, own->data, whole);
  for (int rank = 1; rank < ch_rank_count(ranks); rank++) {
    size_t bytes = (size_t)ch_parameter_piece_of(set, p, rank).count * ch_dtype_size(set->dtype);
    if (bytes == 0) continue;
    ch_ranks_receive(ranks, rank, tag, room, bytes, &transfer);
    ch_ranks_wait(ranks, &transfer, NULL, NULL);
    ch_parameter_piece_join(set, p, rank, room, whole);
  }
}

size_t ch_trainer_largest(const ch_trainer *trainer) {
  int64_t most = 1;
  for (int p = 0; p < trainer->params.count; p++) {
    int64_t count = ch_param_count(&trainer->params.rows[p]);
    if (count > most) most = count;
  }
  return (size_t)most * ch_dtype_size(trainer->set.dtype);
}

/* Prepares the weights on rank 0: allocates memory for divided tensors, and reads the others into host memory. */
static ch_status reserve(const ch_trainer *trainer, ch_gathered_weights *g, void **room, ch_error *error) {
  const ch_parameter_set *set = &trainer->set;
  if (!ch_ranks_leads(trainer->ranks)) return CH_OK;
  size_t count = (size_t)trainer->params.count;
  bool enough = (g->tensors = calloc(count, sizeof *g->tensors)) &&
                (g->made = calloc(count, sizeof *g->made)) && (*room = malloc(ch_trainer_largest(trainer)));
  g->count = trainer->params.count;
  for (int p = 0; p < trainer->params.count && enough; p++) {
    if (!ch_is_divided(trainer, CH_WEIGHTS, p)) continue;
    const ch_param *param = &trainer->params.rows[p];
    g->made[p] = malloc((size_t)ch_param_count(param) * ch_dtype_size(set->dtype) + 1);
    enough = g->made[p] != NULL;
    g->tensors[p] = ch_parameter_whole(set, p, g->made[p]);
  }
  if (!enough) return ch_no_memory(error);
  CH_TRY(ch_host_tensors_read(set->memory, trainer->params.count, set->weights, &g->host, error));
  for (int p = 0; p < trainer->params.count; p++)
    if (!g->made[p]) g->tensors[p] = g->host.tensors[p];
  return CH_OK;
}

ch_status ch_gather_weights(const ch_trainer *trainer, ch_gathered_weights *g, ch_error *error) {
  void *room = NULL;
  *g = (ch_gathered_weights){0};
  ch_status status = ch_agree(trainer->ranks, reserve(trainer, g, &room, error), error);
  for (int p = 0; p < trainer->params.count && status == CH_OK; p++)
    if (ch_is_divided(trainer, CH_WEIGHTS, p))
      ch_gather_tensor(trainer, CH_WEIGHTS, p, g->made ? g->made[p] : NULL, room);
  free(room);
  if (status != CH_OK) ch_gathered_weights_free(g);
  return status;
}

void ch_gathered_weights_free(ch_gathered_weights *g) {
  for (int p = 0; p < g->count && g->made; p++) free(g->made[p]);
  free(g->tensors);
  free(g->made);
  ch_host_tensors_free(&g->host);
  *g = (ch_gathered_weights){0};
}
