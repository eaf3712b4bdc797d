/* Prints the figures of one text or of many texts. */
#ifndef CH_CLI_GENERATE_FIGURES_H
#define CH_CLI_GENERATE_FIGURES_H

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns false after an interruption, or once nobody reads the output. */
bool ch_text_is_wanted(void);
/* ch_text_is_wanted for ch_session_set_progress. */
bool ch_prompt_is_wanted(int64_t done, int64_t total, void *user);
/* Tokens per second; 0 where there was no time. */
double ch_token_rate(int64_t tokens, double seconds);
/* Returns {"tokens", "milliseconds", "tokens_per_second"}. */
json_t *ch_json_rate(int64_t tokens, double seconds);
json_t *ch_json_ids(const int32_t *ids, size_t count);

#endif
