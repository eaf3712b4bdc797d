/* --cache-dtype: what the cache stores, for all states or apart for keys, values and latents. */
#include "cli/cache_types.h"

#include <stdlib.h>
#include <string.h>

#include "attention/registry.h"

static const struct {
  const char *name, *plural;
} roles[CH_STATE_ROLES] = {{"k", "keys"}, {"v", "values"}, {"latent", "latents"}};

static const struct {
  const char *name;
  ch_dtype dtype;
} types_by_name[] = {
    {"f32", CH_F32}, {"bf16", CH_BF16}, {"f16", CH_F16}, {"q8_0", CH_Q8_0}, {"q4_0", CH_Q4_0}};

static bool is_word(const char *text, size_t size, const char *word) {
  return strlen(word) == size && memcmp(text, word, size) == 0;
}

static bool find_type(const char *text, size_t size, ch_dtype *dtype) {
  for (size_t i = 0; i < sizeof types_by_name / sizeof *types_by_name; i++)
    if (is_word(text, size, types_by_name[i].name)) {
      *dtype = types_by_name[i].dtype;
      return true;
    }
  return false;
}

/* One entry of the list, TYPE or ROLE=TYPE; `named` gets a bit for each role that is named. */
static bool read_entry(const char *text, size_t size, ch_cache_types *types, unsigned *named) {
  const char *equals = memchr(text, '=', size);
  ch_dtype dtype;
  if (!equals) {
    if (!find_type(text, size, &dtype)) return false;
    *types = ch_cache_of(dtype);
    return true;
  }
  if (!find_type(equals + 1, size - (size_t)(equals + 1 - text), &dtype)) return false;
  for (int r = 0; r < CH_STATE_ROLES; r++)
    if (is_word(text, (size_t)(equals - text), roles[r].name)) {
      types->of[r] = dtype;
      *named |= 1u << r;
      return true;
    }
  return false;
}

/* A bit for each role that parts of the model's states have. */
static ch_status roles_of(const ch_config *config, unsigned *held, ch_error *error) {
  ch_layer_parts *parts = calloc((size_t)config->num_hidden_layers + 1, sizeof *parts);
  if (!parts)
    return ch_fail(error, CH_ERROR_MEMORY, "no memory for the states of %lld layers",
                   (long long)config->num_hidden_layers);
  *held = 0;
  if (!ch_config_is_vision(config)) ch_state_parts(config, parts);
  for (int64_t l = 0; l < config->num_hidden_layers; l++)
    for (int p = 0; p < CH_MAX_STATE_PARTS; p++) {
      const ch_state_part *part = &parts[l].part[p];
      if (part->width > 0 && part->kind == CH_PART_ELEMENTS) *held |= 1u << part->role;
    }
  free(parts);
  return CH_OK;
}

/* "keys and values" */
static void put_roles(unsigned held, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int r = 0; r < CH_STATE_ROLES; r++)
    if (held & 1u << r) {
      const char *joint = used ? " and " : "";
      if (used + strlen(joint) + strlen(roles[r].plural) >= size) return;
      strcpy(text + used, joint);
      strcpy(text + used + strlen(joint), roles[r].plural);
      used = strlen(text);
    }
}

static ch_status check_roles(unsigned named, const ch_config *config, ch_error *error) {
  unsigned held = 0;
  char text[64];
  CH_TRY(roles_of(config, &held, error));
  for (int r = 0; r < CH_STATE_ROLES; r++) {
    if (!(named & ~held & 1u << r)) continue;
    put_roles(held, text, sizeof text);
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--cache-dtype names %s (%s=), but this model's cache holds %s%s", roles[r].plural,
                   roles[r].name, held ? text : "nothing", held ? " only" : "");
  }
  return CH_OK;
}

ch_status ch_cache_types_read(const char *text, ch_dtype otherwise, const ch_config *config,
                              ch_cache_types *types, ch_error *error) {
  unsigned named = 0;
  *types = ch_cache_of(otherwise);
  for (const char *p = text;; p++) {
    size_t size = strcspn(p, ",");
    if (!read_entry(p, size, types, &named))
      return ch_fail(
          error, CH_ERROR_ARGUMENT,
          "--cache-dtype is f32, bf16, f16, q8_0 or q4_0, or apart for keys, values and latents, as "
          "k=q8_0,v=q4_0 or latent=bf16, not '%.60s'",
          text);
    p += size;
    if (*p == 0) break;
  }
  return check_roles(named, config, error);
}
