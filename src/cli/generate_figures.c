/* Rates and ids of generated texts, and the callbacks that stop generation. */
#include "cli/generate_figures.h"

#include "cli/command.h"
#include "cli/interrupt.h"

bool ch_text_is_wanted(void) {
  return !ch_interrupted() && ch_output_alive();
}

bool ch_prompt_is_wanted(int64_t done, int64_t total, void *user) {
  (void)done, (void)total, (void)user;
  return ch_text_is_wanted();
}

double ch_token_rate(int64_t tokens, double seconds) {
  return seconds > 0 ? (double)tokens / seconds : 0;
}

json_t *ch_json_rate(int64_t tokens, double seconds) {
  return json_pack("{s:I, s:f, s:f}", "tokens", (json_int_t)tokens, "milliseconds", 1e3 * seconds,
                   "tokens_per_second", ch_token_rate(tokens, seconds));
}

json_t *ch_json_ids(const int32_t *ids, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++) json_array_append_new(list, json_integer(ids[i]));
  return list;
}
