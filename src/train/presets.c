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

static ch_status grouped(const char *type, ch_config *config, int64_t groups, const char *where,
                         ch_error *error) {
  char divisors[128];
  ch_config_set_mechanism(config, type);
  config->num_key_value_heads = groups;
  if (config->num_attention_heads % groups == 0) return CH_OK;
  put_divisors(config->num_attention_heads, divisors, sizeof divisors);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s: %lld key-value heads do not divide the %lld query heads; %s would, or other --heads",
                 where, (long long)groups, (long long)config->num_attention_heads, divisors);
}

static ch_status mha(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)number;
  return grouped("gqa", config, config->num_attention_heads, where, error);
}

/* A quarter of the query heads, but not fewer than two: the smallest divisor from there. */
static int64_t usual_groups(int64_t heads) {
  int64_t groups = heads / 4 > 2 ? heads / 4 : 2;
  while (groups < heads && heads % groups != 0) groups++;
  return groups < heads ? groups : heads;
}

static ch_status gqa(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return grouped("gqa", config, number ? number : usual_groups(config->num_attention_heads), where, error);
}

static ch_status mqa(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)number;
  return grouped("gqa", config, 1, where, error);
}

/* GTA keeps G heads of d and half a head for the rotated key. */
static ch_status gta(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return grouped("gta", config, number ? number : usual_groups(config->num_attention_heads), where, error);
}

/* DeepSeek-V2's proportions: values and unrotated dims of a head d, rotated ones d / 2, a latent of 4 d. */
static ch_status mla(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  (void)error;
  ch_attention_config *a = &config->attention;
  ch_config_set_mechanism(config, "mla");
  a->qk_nope_head_dim = a->v_head_dim = config->head_dim;
  a->qk_rope_head_dim = (config->head_dim / 2 + 1) / 2 * 2;
  a->kv_lora_rank = number ? number : 4 * config->head_dim;
  config->num_key_value_heads = config->num_attention_heads;
  config->head_dim = 0;
  return CH_OK;
}

/* EG-MLA's kv64 at heads of 64: a latent of one head's size, and a lookup table of as many columns. */
static ch_status egmla(ch_config *config, int64_t number, const char *where, ch_error *error) {
  int64_t head_dim = config->head_dim;
  CH_TRY(mla(config, number ? number : head_dim, where, error));
  config->attention.gate_embedding_dim = head_dim;
  return CH_OK;
}

/* MFA's proportions: heads twice as wide, 7/8 as many, so that together they are wider than the model. */
static ch_status factorized(const char *type, ch_config *config, int64_t number) {
  ch_config_set_mechanism(config, type);
  config->num_attention_heads = (config->num_attention_heads * 7 + 4) / 8;
  config->num_key_value_heads = 1;
  config->head_dim = number ? number : 2 * config->head_dim;
  return CH_OK;
}

static ch_status mfa(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  (void)error;
  return factorized("mfa", config, number);
}

static ch_status mfa_kr(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)where;
  (void)error;
  return factorized("mfa_kr", config, number);
}

static ch_status diff(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return grouped("diff", config, number ? number : config->num_attention_heads, where, error);
}

static ch_status talking(ch_config *config, int64_t number, const char *where, ch_error *error) {
  (void)number;
  return grouped("talking", config, config->num_attention_heads, where, error);
}

/* MEA trains with as many component heads as heads; fewer of them are what the cache then holds. */
static ch_status mea(ch_config *config, int64_t number, const char *where, ch_error *error) {
  CH_TRY(mha(config, 0, where, error));
  config->attention.head_norm = true;
  config->attention.head_mix.on = CH_ON_K | CH_ON_V;
  config->attention.head_mix.component_heads = number ? number : config->num_attention_heads;
  return CH_OK;
}

static ch_status knocking(ch_config *config, ch_knocking_type type, unsigned on, int64_t number,
                          const char *where, ch_error *error) {
  CH_TRY(gqa(config, number, where, error));
  config->attention.knocking = (ch_knocking){.type = type, .on = on};
  return CH_OK;
}

static ch_status kha_linear(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return knocking(config, CH_KNOCKING_LINEAR, CH_ON_Q | CH_ON_K | CH_ON_V, number, where, error);
}

static ch_status kha_mlp(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return knocking(config, CH_KNOCKING_MLP, CH_ON_V, number, where, error);
}

static ch_status kha_gate(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return knocking(config, CH_KNOCKING_GATE, CH_ON_V, number, where, error);
}

/* --- the table: one row a name ----------------------------------------------------------------------------------- */

static const char heads_counted[] = "key-value heads";

const ch_preset ch_presets[] = {
    {"mha", NULL, "multi-head attention: keys and values for every query head", mha},
    {"gqa", heads_counted, "grouped-query attention: query heads share key-value heads (default: 4 share 1)",
     gqa},
    {"mqa", NULL, "multi-query attention: one key-value head for all query heads", mqa},
    {"gta", heads_counted, "grouped-tied attention: keys and values are one state (default: as gqa)", gta},
    {"mla", "latent elements", "multi-head latent attention: keys and values from one latent a token", mla},
    {"egmla", "latent elements", "embedding-gated MLA: a smaller latent, gated by the token", egmla},
    {"mfa", "elements a head", "multi-matrix factorization attention: wide heads, one key and one value",
     mfa},
    {"mfa_kr", "elements a head", "MFA with key reuse: one key a token, values made from it", mfa_kr},
    {"diff", heads_counted, "differential attention: pairs of heads subtract their weights", diff},
    {"talking", NULL, "talking heads: scores and weights mixed across heads", talking},
    {"mea", "component heads", "multi-head explicit attention: mixed key-value heads, head norm", mea},
    {"kha-linear", heads_counted, "gqa with linear knocking on queries, keys and values", kha_linear},
    {"kha-mlp", heads_counted, "gqa with MLP knocking on values", kha_mlp},
    {"kha-gate", heads_counted, "gqa with a knocking gate on values, the paper's negative control", kha_gate},
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
