/* The fields of a request body that control generation, validated. */
#ifndef CH_SERVE_REQUEST_FIELDS_H
#define CH_SERVE_REQUEST_FIELDS_H

#include <jansson.h>

#include <crosshead/generation.h>

#include "serve/reply.h"

/* The API of a request. It determines the accepted fields and the format of the answer. The values are bits for the
   table of fields. */
typedef enum ch_form {
  CH_COMPLETION = 1, /* /v1/completions */
  CH_CHAT = 2,       /* /v1/chat/completions */
  CH_NATIVE = 4      /* /completion, llama.cpp's API */
} ch_form;

enum { CH_MOST_CHOICES = 128, CH_MOST_STOPS = 16, CH_LONGEST_STOP = 256, CH_MOST_BIASES = 1024 };

/* Fill with ch_request_fields_read, release with ch_request_fields_free. */
typedef struct ch_request_fields {
  ch_form form;
  int64_t max_tokens; /* maximum number of generated tokens; -1: as many as fit */
  int64_t min_tokens, n, top_k, seed;
  int64_t top; /* number of likeliest tokens to report; -1: no log-probabilities */
  double temperature, top_p, frequency_penalty, presence_penalty;
  bool ignore_eos, echo, stream, include_usage, continuous_usage, cache_prompt, return_tokens;
  char *stops[CH_MOST_STOPS];
  int stop_count;
  ch_logit_bias *biases; /* [bias_count] */
  size_t bias_count;
} ch_request_fields;

/* Reads and validates the fields. `vocabulary` is the number of token ids. */
bool ch_request_fields_read(json_t *body, ch_form form, int64_t vocabulary, ch_request_fields *fields,
                            ch_refusal *refusal);
void ch_request_fields_free(ch_request_fields *fields);

/* Reads a boolean field. `value` is unchanged if the field is absent or null. */
bool ch_field_bool(const json_t *body, const char *name, bool *value, ch_refusal *refusal);
/* Reads a string field. *text belongs to the body; it is NULL if the field is absent or null. */
bool ch_field_text(const json_t *body, const char *name, const char **text, size_t *size,
                   ch_refusal *refusal);

#endif
