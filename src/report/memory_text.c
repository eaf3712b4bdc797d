/* Bytes of a rank under their names. */
#include "report/memory_text.h"

json_t *ch_train_memory_to_json(const ch_train_memory *m) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)m->weights, "gradients",
                   (json_int_t)m->gradients, "masters", (json_int_t)m->masters, "moments",
                   (json_int_t)m->moments, "gate_rows", (json_int_t)m->exchange, "activations",
                   (json_int_t)m->activations, "total", (json_int_t)m->total);
}
