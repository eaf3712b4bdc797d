/* Parses --cache-dtype: one type for all states, or types for keys, values and latents. */
#include "cli/cache_types.h"

#include <string.h>

#include "base/error.h"
#include "cli/precision.h"

enum { ROLES = 3, NAME_SIZE = 8 };

static const struct {
  const char *name, *plural;
  unsigned bit;
} roles[ROLES] = {
    {"k", "keys", CH_CACHE_KEYS}, {"v", "values", CH_CACHE_VALUES}, {"latent", "latents", CH_CACHE_LATENTS}};

static bool is_word(const char *text, size_t size, const char *word) {
  return strlen(word) == size && memcmp(text, word, size) == 0;
}

static bool find_type(const char *text, size_t size, ch_precision *precision) {
  char name[NAME_SIZE];
  if (size >= sizeof name) return false;
  memcpy(name, text, size);
  name[size] = 0;
  *precision = ch_precision_of(name);
  /* other types are for weights only */
  return *precision >= CH_PRECISION_F32 && *precision <= CH_PRECISION_Q4_0;
}

/* Parses one entry of the list, TYPE or ROLE=TYPE; sets a bit of `named` for each role that it names. */
static bool read_entry(const char *text, size_t size, ch_cache_choice *choice, unsigned *named) {
  ch_precision *const of[ROLES] = {&choice->keys, &choice->values, &choice->latents};
  const char *equals = memchr(text, '=', size);
  ch_precision precision;
  if (!equals) {
    if (!find_type(text, size, &precision)) return false;
    *choice = (ch_cache_choice){precision, precision, precision};
    return true;
  }
  if (!find_type(equals + 1, size - (size_t)(equals + 1 - text), &precision)) return false;
  for (int r = 0; r < ROLES; r++)
    if (is_word(text, (size_t)(equals - text), roles[r].name)) {
      *of[r] = precision;
      *named |= roles[r].bit;
      return true;
    }
  return false;
}

/* Writes the names of the states: "keys and values". */
static void put_roles(unsigned held, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int r = 0; r < ROLES; r++)
    if (held & roles[r].bit) {
      const char *joint = used ? " and " : "";
      if (used + strlen(joint) + strlen(roles[r].plural) >= size) return;
      strcpy(text + used, joint);
      strcpy(text + used + strlen(joint), roles[r].plural);
      used = strlen(text);
    }
}

static ch_status check_roles(unsigned named, unsigned held, ch_error *error) {
  char text[64];
  for (int r = 0; r < ROLES; r++) {
    if (!(named & ~held & roles[r].bit)) continue;
    put_roles(held, text, sizeof text);
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--cache-dtype names %s (%s=), but this model's cache holds %s%s", roles[r].plural,
                   roles[r].name, held ? text : "nothing", held ? " only" : "");
  }
  return CH_OK;
}

ch_status ch_cache_choice_read(const char *text, ch_precision otherwise, unsigned held,
                               ch_cache_choice *choice, ch_error *error) {
  unsigned named = 0;
  *choice = (ch_cache_choice){otherwise, otherwise, otherwise};
  for (const char *p = text;; p++) {
    size_t size = strcspn(p, ",");
    if (!read_entry(p, size, choice, &named))
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "--cache-dtype: '%.60s' is not known; write f32, bf16, f16, q8_0 or q4_0, or separate "
                     "types as in k=q8_0,v=q4_0 or latent=bf16",
                     text);
    p += size;
    if (*p == 0) break;
  }
  return check_roles(named, held, error);
}
