/* Computes the product of an embedding table and a projection in chunks. */
#include "infer/gate_table.h"

#include <stdio.h>

#include "attention/embedding_gate.h"
#include "base/memory.h"
#include "model/materialise.h"

enum { CHUNK = 512, NAME = 96 };

static int find(const ch_params *params, int layer, const char *what) {
  char name[NAME];
  snprintf(name, sizeof name, "model.layers.%d.self_attn.%s.weight", layer, what);
  return ch_params_find(params, name);
}

/* Returns the number of columns of the gates: heads * (n + v). */
static int64_t gate_width(const ch_config *config) {
  const ch_attention_config *a = &config->attention;
  return config->num_attention_heads * (a->qk_nope_head_dim + a->v_head_dim);
}

static ch_status check_room(const ch_cache *cache, ch_error *error) {
  double machine = ch_machine_memory(), needed = (double)cache->by_id_bytes;
  if (needed <= machine) return CH_OK;
  return ch_fail(error, CH_ERROR_MEMORY,
                 "gates of the whole vocabulary need %.1f GB, but this machine has %.1f GB; without "
                 "{precompute_gates} they are computed as token ids appear",
                 needed / 1e9, machine / 1e9);
}

/* Finds a layer's projection: its tensor among `placed`, or a matrix computed into `room`
   [heads * (n + v), gate_embedding_dim] of F32 in the engine's memory. */
static ch_status projection_of(const ch_engine *engine, const ch_config *config, const ch_params *params,
                               const ch_tensor *weights, const ch_tensor *placed, int layer, void *room,
                               ch_tensor *projection, ch_error *error) {
  int index = find(params, layer, "kv_gate_proj");
  if (index >= 0) {
    *projection = placed[index];
    return CH_OK;
  }
  *projection = (ch_tensor){.dtype = CH_F32,
                            .rank = 2,
                            .shape = {gate_width(config), config->attention.gate_embedding_dim},
                            .data = room};
  ch_host_tensors host;
  CH_TRY(ch_host_tensors_read(engine->kernels->memory, 1, projection, &host, error));
  ch_status status = ch_write_projection(config, params, weights, layer, "kv_gate_proj", host.tensors, error);
  if (status == CH_OK) ch_host_tensors_write(&host, engine->kernels->memory, 1, projection);
  ch_host_tensors_free(&host);
  return status;
}

static ch_status fill_layer(const ch_engine *engine, const ch_tensor *table, const ch_tensor *projection,
                            const ch_state_view *view, void *rows, ch_error *error) {
  int64_t width = table->shape[1];
  size_t stored = (size_t)width * ch_dtype_size(table->dtype),
         made = (size_t)view->token_stride * sizeof(float);
  for (int64_t id = 0; id < table->shape[0]; id += CHUNK) {
    int64_t count = table->shape[0] - id < CHUNK ? table->shape[0] - id : CHUNK;
    engine->kernels->convert_from(&engine->team, count * width,
                                  (const char *)table->data + (size_t)id * stored, table->dtype, rows);
    CH_TRY(ch_gemm_linear(engine->gemm, count, width, projection->shape[0], rows, CH_F32, projection->data,
                          projection->dtype, NULL, (char *)view->data + (size_t)id * made, false, error));
  }
  return CH_OK;
}

ch_status ch_gate_table_fill(ch_engine *engine, const ch_config *config, const ch_params *params,
                             const ch_tensor *weights, ch_cache *cache, ch_error *error) {
  const ch_value_memory *memory = engine->kernels->memory;
  const ch_tensor *placed;
  const int64_t width = config->attention.gate_embedding_dim;
  const size_t rows_bytes = (size_t)(CHUNK * width) * sizeof(float),
               bytes = rows_bytes + (size_t)(gate_width(config) * width) * sizeof(float);
  CH_TRY(check_room(cache, error));
  CH_TRY(ch_engine_copies_tensors(&engine->placed, memory, params->count, weights, &placed, error));
  char *rows = memory->allocate(bytes);
  ch_status status = rows ? CH_OK : ch_no_memory(error);
  for (int layer = 0; status == CH_OK && layer < cache->layers; layer++) {
    int table = find(params, layer, "kv_gate_embed");
    if (table < 0) continue; /* the layer reads the cache of another layer of its group */
    ch_tensor projection;
    status =
        projection_of(engine, config, params, weights, placed, layer, rows + rows_bytes, &projection, error);
    if (status == CH_OK)
      status =
          fill_layer(engine, &placed[table], &projection, &cache->views[layer][CH_GATE_PART], rows, error);
  }
  if (rows) memory->release(rows, bytes);
  return status;
}
