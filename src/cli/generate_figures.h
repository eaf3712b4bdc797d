/* Helpers for printing the figures of generated texts. */
#ifndef CH_CLI_GENERATE_FIGURES_H
#define CH_CLI_GENERATE_FIGURES_H

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns false after an interruption, or once a write to standard output has failed. */
bool ch_text_is_wanted(void);
/* Returns ch_text_is_wanted; a callback for ch_session_set_progress. */
bool ch_prompt_is_wanted(int64_t done, int64_t total, void *user);
/* Returns tokens per second, or 0 if `seconds` is 0. */
double ch_token_rate(int64_t tokens, double seconds);
/* Returns the object {"tokens", "milliseconds", "tokens_per_second"}. */
json_t *ch_json_rate(int64_t tokens, double seconds);
/* Returns the list of ids. */
json_t *ch_json_ids(const int32_t *ids, size_t count);

#endif
