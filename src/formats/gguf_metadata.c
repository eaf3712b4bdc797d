/* Reads metadata under an architecture's prefix. */
#include "formats/gguf_metadata.h"

#include <stdlib.h>
#include <string.h>

const char *ch_metadata_key(ch_metadata *m, const char *name) {
  snprintf(m->key, sizeof m->key, "%s.%s", m->architecture, name);
  return m->key;
}

ch_status ch_metadata_whole(ch_metadata *m, const char *name, bool required, int64_t *value) {
  return ch_gguf_whole(m->file, ch_metadata_key(m, name), required, value, m->error);
}

double ch_metadata_tidy(double value) {
  char text[40];
  for (int digits = 1; digits < 10; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if ((float)strtod(text, NULL) == (float)value) return strtod(text, NULL);
  }
  return value;
}

ch_status ch_metadata_number(ch_metadata *m, const char *name, bool required, double *value) {
  CH_TRY(ch_gguf_number(m->file, ch_metadata_key(m, name), required, value, m->error));
  *value = ch_metadata_tidy(*value);
  return CH_OK;
}

ch_status ch_metadata_of_layers(ch_metadata *m, const char *name, bool required, int64_t *value) {
  const ch_gguf_value *list = ch_gguf_find(m->file, ch_metadata_key(m, name));
  if (!list || !list->list || list->count == 0) return ch_metadata_whole(m, name, required, value);
  int64_t first = 0, other = 0;
  for (uint64_t i = 0; i < list->count; i++)
    if (list->type == CH_GGUF_STRING || !ch_gguf_whole_at(list, i, i ? &other : &first) ||
        (i && other != first))
      return ch_fail(m->error, CH_ERROR_CONFIG,
                     "%s: \"%s\" differs between layers; only models whose layers are alike are supported",
                     m->file->where, m->key);
  *value = first;
  return CH_OK;
}

/* Reads YaRN's numbers. A logarithm's multiplier sets both mscale and mscale_all_dim, as in DeepSeek's
   models. */
static ch_status read_yarn(ch_metadata *m, ch_rope_scaling *scaling) {
  double multiplier = 0;
  scaling->type = CH_ROPE_YARN;
  CH_TRY(ch_metadata_number(m, "rope.scaling.factor", true, &scaling->factor));
  CH_TRY(ch_metadata_whole(m, "rope.scaling.original_context_length", true,
                           &scaling->original_max_position_embeddings));
  CH_TRY(ch_metadata_number(m, "rope.scaling.yarn_beta_fast", false, &scaling->beta_fast));
  CH_TRY(ch_metadata_number(m, "rope.scaling.yarn_beta_slow", false, &scaling->beta_slow));
  CH_TRY(ch_metadata_number(m, "rope.scaling.yarn_log_multiplier", false, &multiplier));
  scaling->mscale = scaling->mscale_all_dim = ch_metadata_tidy(10 * multiplier);
  return CH_OK;
}

ch_status ch_metadata_scaling(ch_metadata *m, ch_rope_scaling *scaling) {
  ch_gguf_string type = {"none", 4};
  CH_TRY(ch_gguf_text(m->file, ch_metadata_key(m, "rope.scaling.type"), false, &type, m->error));
  if (ch_gguf_is(type, "yarn")) return read_yarn(m, scaling);
  if (ch_gguf_is(type, "none")) {
    CH_TRY(ch_metadata_number(m, "rope.scale_linear", false, &scaling->factor)); /* older files */
    if (scaling->factor == 1) scaling->factor = 0;
    if (scaling->factor != 0) scaling->type = CH_ROPE_LINEAR;
    return CH_OK;
  }
  scaling->type = CH_ROPE_LINEAR;
  if (ch_gguf_is(type, "linear")) return ch_metadata_number(m, "rope.scaling.factor", true, &scaling->factor);
  return ch_fail(m->error, CH_ERROR_CONFIG, "%s: \"%s\" must be none, linear or yarn", m->file->where,
                 m->key);
}
