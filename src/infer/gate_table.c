/* The product of an embedding table and a projection, chunk by chunk. */
#include "infer/gate_table.h"

#include <stdio.h>
#include <stdlib.h>

#include "attention/embedding_gate.h"
#include "base/memory.h"

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

static ch_status fill_layer(const ch_tensor *table, const ch_tensor *projection, const ch_state_view *view,
                            const ch_kernels *kernels, ch_gemm *gemm, void *rows, ch_error *error) {
  int64_t width = table->shape[1];
  size_t stored = (size_t)width * ch_dtype_size(table->dtype),
         made = (size_t)view->token_stride * sizeof(float);
  for (int64_t id = 0; id < table->shape[0]; id += CHUNK) {
    int64_t count = table->shape[0] - id < CHUNK ? table->shape[0] - id : CHUNK;
    kernels->convert_from(count * width, (const char *)table->data + (size_t)id * stored, table->dtype, rows);
    CH_TRY(ch_gemm_linear(gemm, count, width, projection->shape[0], rows, projection->data, projection->dtype,
                          NULL, (char *)view->data + (size_t)id * made, false, error));
  }
  return CH_OK;
}

ch_status ch_gate_table_fill(const ch_config *config, const ch_params *params, const ch_tensor *weights,
                             const ch_kernels *kernels, ch_gemm *gemm, ch_cache *cache, ch_error *error) {
  CH_TRY(check_room(cache, error));
  void *rows = malloc((size_t)(CHUNK * config->attention.gate_embedding_dim) * sizeof(float));
  ch_status status = rows ? CH_OK : ch_fail(error, CH_ERROR_MEMORY, "no memory to tabulate gates");
  for (int layer = 0; status == CH_OK && layer < cache->layers; layer++) {
    int table = find(params, layer, "kv_gate_embed"), projection = find(params, layer, "kv_gate_proj");
    if (table < 0 || projection < 0) continue;
    status = fill_layer(&weights[table], &weights[projection], &cache->views[layer][CH_GATE_PART], kernels,
                        gemm, rows, error);
  }
  free(rows);
  return status;
}
