/* The product of an embedding table and a projection, chunk by chunk. */
#include "infer/gate_table.h"

#include <stdio.h>
#include <stdlib.h>

#include "attention/embedding_gate.h"
#include "base/memory.h"
#include "model/restate.h"

enum { CHUNK = 512, NAME = 96 };

static int find(const ch_params *params, int layer, const char *what) {
  char name[NAME];
  snprintf(name, sizeof name, "model.layers.%d.self_attn.%s.weight", layer, what);
  return ch_params_find(params, name);
}

static ch_status check_room(const ch_cache *cache, ch_error *error) {
  double machine = ch_machine_memory(), needed = (double)cache->by_id_bytes;
  if (needed <= machine) return CH_OK;
  return ch_fail(
      error, CH_ERROR_MEMORY,
      "gates of the whole vocabulary take %.1f GB where this machine has %.1f GB; leave them to be "
      "projected as ids appear",
      needed / 1e9, machine / 1e9);
}

/* The projection of a layer that has it as a tensor, or a copy made in `room` of what it is made of. */
static ch_status projection_of(const ch_config *config, const ch_params *params, const ch_tensor *weights,
                               int layer, float **room, ch_tensor *projection, ch_error *error) {
  const ch_attention_config *a = &config->attention;
  int index = find(params, layer, "kv_gate_proj");
  if (index >= 0) {
    *projection = weights[index];
    return CH_OK;
  }
  int64_t width = config->num_attention_heads * (a->qk_nope_head_dim + a->v_head_dim);
  if (!*room) *room = malloc((size_t)(width * a->gate_embedding_dim) * sizeof **room);
  if (!*room) return ch_fail(error, CH_ERROR_MEMORY, "no memory to tabulate gates");
  *projection =
      (ch_tensor){.dtype = CH_F32, .rank = 2, .shape = {width, a->gate_embedding_dim}, .data = *room};
  return ch_write_projection(config, params, weights, layer, "kv_gate_proj", projection, error);
}

static ch_status fill_layer(const ch_tensor *table, const ch_tensor *projection, const ch_state_view *view,
                            const ch_kernels *kernels, ch_gemm *gemm, void *rows, ch_error *error) {
  int64_t width = table->shape[1];
  size_t stored = (size_t)width * ch_dtype_size(table->dtype),
         made = (size_t)view->token_stride * sizeof(float);
  for (int64_t id = 0; id < table->shape[0]; id += CHUNK) {
    int64_t count = table->shape[0] - id < CHUNK ? table->shape[0] - id : CHUNK;
    kernels->convert_from(count * width, (const char *)table->data + (size_t)id * stored, table->dtype, rows);
    CH_TRY(ch_gemm_linear(gemm, count, width, projection->shape[0], rows, kernels->dtype, projection->data,
                          projection->dtype, NULL, (char *)view->data + (size_t)id * made, false, error));
  }
  return CH_OK;
}

ch_status ch_gate_table_fill(const ch_config *config, const ch_params *params, const ch_tensor *weights,
                             const ch_kernels *kernels, ch_gemm *gemm, ch_cache *cache, ch_error *error) {
  CH_TRY(check_room(cache, error));
  void *rows = malloc((size_t)(CHUNK * config->attention.gate_embedding_dim) * sizeof(float));
  float *room = NULL; /* of a projection that is no tensor of its own */
  ch_status status = rows ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory to tabulate gates");
  for (int layer = 0; status == CH_OK && layer < cache->layers; layer++) {
    int table = find(params, layer, "kv_gate_embed");
    if (table < 0) continue; /* a layer that reads what another one of its group wrote */
    ch_tensor projection;
    status = projection_of(config, params, weights, layer, &room, &projection, error);
    if (status == CH_OK)
      status = fill_layer(&weights[table], &projection, &cache->views[layer][CH_GATE_PART], kernels, gemm,
                          rows, error);
  }
  free(room);
  free(rows);
  return status;
}
