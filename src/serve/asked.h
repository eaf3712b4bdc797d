/* What a client asked for: the fields of a body, read and checked. */
#ifndef CH_SERVE_ASKED_H
#define CH_SERVE_ASKED_H

#include <jansson.h>

#include <crosshead/generation.h>

#include "serve/reply.h"

/* Whose fields a body has, and whose form the answer gets. Bits, for the table of fields. */
typedef enum ch_form {
  CH_COMPLETION = 1, /* /v1/completions */
  CH_CHAT = 2,       /* /v1/chat/completions */
  CH_NATIVE = 4      /* /completion, llama.cpp's */
} ch_form;

enum { CH_MOST_CHOICES = 128, CH_MOST_STOPS = 16, CH_LONGEST_STOP = 256, CH_MOST_BIASES = 1024 };

/* Fill with ch_asked_read, release with ch_asked_free. */
typedef struct ch_asked {
  ch_form form;
  int64_t max_tokens; /* -1: as many as fit */
  int64_t min_tokens, n, top_k, seed;
  int64_t top; /* likeliest tokens to report; -1: no probabilities at all */
  double temperature, top_p, frequency_penalty, presence_penalty;
  bool ignore_eos, echo, stream, include_usage, continuous_usage, cache_prompt, return_tokens;
  char *stops[CH_MOST_STOPS];
  int stop_count;
  ch_logit_bias *biases; /* [bias_count] */
  size_t bias_count;
} ch_asked;

/* Reads the fields that say how to generate. `vocabulary` is the number of ids. */
bool ch_asked_read(json_t *body, ch_form form, int64_t vocabulary, ch_asked *asked, ch_refusal *refusal);
void ch_asked_free(ch_asked *asked);

/* A field that is true or false; `value` stays as it is where the field is absent or null. */
bool ch_field_bool(const json_t *body, const char *name, bool *value, ch_refusal *refusal);
/* A field with a text; *text is the body's, and NULL where the field is absent or null. */
bool ch_field_text(const json_t *body, const char *name, const char **text, size_t *size,
                   ch_refusal *refusal);

#endif
