/* Prints the figures of one text or of many texts. */
#ifndef CH_CLI_GENERATE_FIGURES_H
#define CH_CLI_GENERATE_FIGURES_H

#include <jansson.h>

#include <stddef.h>
#include <stdint.h>

/* Tokens per second; 0 where there was no time. */
double ch_token_rate(int64_t tokens, double seconds);
/* Returns {"tokens", "milliseconds", "tokens_per_second"}. */
json_t *ch_json_rate(int64_t tokens, double seconds);
json_t *ch_json_ids(const int32_t *ids, size_t count);

#endif
