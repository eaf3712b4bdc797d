/* The table of presets, and how their names are read. */
#include "train/presets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NAME = 64, MOST_NUMBER = 1 << 20 };

/* --- what each preset makes of the base ------------------------------------------------------------------------ */

/* "1, 2, 4 or 8": what divides n. */
static void put_divisors(int64_t n, char *buffer, size_t size) {
  size_t used = 0;
  buffer[0] = 0;
  for (int64_t i = 1; i <= n && used < size; i++)
    if (n % i == 0)
      used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i == 1 ? "" : (i == n ? " or " : ", "),
                               (long long)i);
}

static ch_status grouped(ch_config *config, int64_t groups, const char *where, ch_error *error) {
  char divisors[128];
  snprintf(config->attention.type, sizeof config->attention.type, "gqa");
  config->num_key_value_heads = groups;
  if (config->num_attention_heads % groups == 0) return CH_OK;
  put_divisors(config->num_attention_heads, divisors, sizeof divisors);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s: %lld key-value heads do not divide the %lld query heads; %s would, or other --heads",
                 where, (long long)groups, (long long)config->num_attention_heads, divisors);
}

static ch_status mha(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)number;
  return grouped(config, config->num_attention_heads, where, error);
}

/* A quarter of the query heads, but not fewer than two: the smallest divisor from there. */
static int64_t usual_groups(int64_t heads) {
  int64_t groups = heads / 4 > 2 ? heads / 4 : 2;
  while (groups < heads && heads % groups != 0) groups++;
  return groups < heads ? groups : heads;
}

static ch_status gqa(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return grouped(config, number ? number : usual_groups(config->num_attention_heads), where, error);
}

static ch_status mqa(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)number;
  return grouped(config, 1, where, error);
}

/* --- the table: one row a name ----------------------------------------------------------------------------------- */

const ch_preset ch_presets[] = {
    {"mha", NULL, "multi-head attention: keys and values for every query head", mha},
    {"gqa", "key-value heads",
     "grouped-query attention: query heads share key-value heads (default: 4 share 1)", gqa},
    {"mqa", NULL, "multi-query attention: one key-value head for all query heads", mqa},
    {NULL, NULL, NULL, NULL},
};

/* --- names ------------------------------------------------------------------------------------------------------- */

bool ch_preset_is_path(const char *name) {
  size_t length = strlen(name);
  return strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

static const ch_preset *find(const char *word) {
  for (const ch_preset *p = ch_presets; p->name; p++)
    if (strcmp(p->name, word) == 0) return p;
  return NULL;
}

static ch_status unknown(const char *name, const char *word, ch_error *error) {
  enum { MOST = 64 };
  const char *names[MOST + 1] = {0};
  char known[512] = "", shown[LONGEST_NAME + 1];
  size_t used = 0;
  for (int i = 0; ch_presets[i].name && i < MOST; i++) {
    names[i] = ch_presets[i].name;
    if (used < sizeof known)
      used += (size_t)snprintf(known + used, sizeof known - used, "%s%s%s", i ? ", " : "", names[i],
                               ch_presets[i].number ? "[:N]" : "");
  }
  const char *near = ch_nearest_name(word, names);
  snprintf(shown, sizeof shown, "%s", name);
  if (near)
    return ch_fail(
        error, CH_ERROR_ARGUMENT,
        "--mechanisms: there is no '%s'; did you mean %s? (known: %s, or the path of a config.json)", shown,
        near, known);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "--mechanisms: there is no '%s'; known are %s, or the path of a config.json", shown, known);
}

static ch_status parse(const char *name, const ch_preset **preset, int64_t *number, ch_error *error) {
  char word[LONGEST_NAME];
  size_t length = strcspn(name, ":");
  snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word), name);
  *number = 0;
  *preset = find(word);
  if (!*preset) return unknown(name, word, error);
  if (!name[length]) return CH_OK;
  if (!(*preset)->number)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--mechanisms: %s takes no number, but '%.64s' gives one; write %s", word, name, word);
  const char *digits = name + length + 1;
  size_t count = strspn(digits, "0123456789");
  long long value = count && !digits[count] && count < 10 ? atoll(digits) : 0;
  if (value < 1 || value > MOST_NUMBER)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--mechanisms: '%.64s' needs a whole number of %s from 1 after the colon, as in %s:4",
                   name, (*preset)->number, word);
  *number = value;
  return CH_OK;
}

ch_status ch_preset_check(const char *name, ch_error *error) {
  const ch_preset *preset;
  int64_t number;
  return parse(name, &preset, &number, error);
}

ch_status ch_preset_apply(const char *name, ch_config *config, ch_error *error) {
  const ch_preset *preset;
  int64_t number;
  CH_TRY(parse(name, &preset, &number, error));
  CH_TRY(preset->apply(config, number, name, error));
  return ch_config_validate(config, name, error);
}
