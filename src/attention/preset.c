/* Sets the number of key-value heads, for the presets of mechanisms that have whole key-value heads. The presets
 * themselves are in the files of their mechanisms. */
#include "attention/preset.h"

#include <stdio.h>

const char ch_preset_counts_groups[] = "key-value heads";

/* Writes the divisors of n: "1, 2, 4 or 8". */
static void put_divisors(int64_t n, char *buffer, size_t size) {
  size_t used = 0;
  buffer[0] = 0;
  for (int64_t i = 1; i <= n && used < size; i++)
    if (n % i == 0)
      used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i == 1 ? "" : (i == n ? " or " : ", "),
                               (long long)i);
}

ch_status ch_preset_groups(ch_config *config, int64_t groups, const char *where, ch_error *error) {
  char divisors[128];
  config->num_key_value_heads = groups;
  if (config->num_attention_heads % groups == 0) return CH_OK;
  put_divisors(config->num_attention_heads, divisors, sizeof divisors);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "%s: %lld key-value heads do not divide the %lld query heads; use %s, or change {heads}",
                 where, (long long)groups, (long long)config->num_attention_heads, divisors);
}

/* Returns the smallest divisor of the query heads that is at least 2 and at least a quarter of them (rounded down); 1
   if there is one query head. */
static int64_t usual_groups(int64_t heads) {
  int64_t groups = heads / 4 > 2 ? heads / 4 : 2;
  while (groups < heads && heads % groups != 0) groups++;
  return groups < heads ? groups : heads;
}

ch_status ch_preset_grouped(ch_config *config, int64_t number, const char *where, ch_error *error) {
  return ch_preset_groups(config, number ? number : usual_groups(config->num_attention_heads), where, error);
}
