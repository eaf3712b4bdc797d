/* Reads the type of a rotation, and computes YaRN's factor if it is null. */
#include "config_file/rope_keys.h"

#include <string.h>

const char *ch_config_rope_type(const json_t *rope) {
  const json_t *type = json_object_get(rope, "rope_type");
  if (!json_is_string(type)) type = json_object_get(rope, "type");
  return json_string_value(type);
}

void ch_config_settle_factor(const json_t *root, const json_t *context, json_t *rope) {
  const json_t *factor = json_object_get(rope, "factor");
  const char *type = ch_config_rope_type(rope);
  if (!factor || !json_is_null(factor) || !type || strcmp(type, "yarn") != 0) return;
  if (!context || json_is_null(context)) context = json_object_get(rope, "original_max_position_embeddings");
  double to = json_number_value(json_object_get(root, "max_position_embeddings")),
         from = json_number_value(context);
  if (to > 0 && from > 0) json_object_set_new(rope, "factor", json_real(to / from));
}
