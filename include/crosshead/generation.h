/* Texts that are written together and join and leave at any time, for servers. ch_generate_batch uses the
 * same machinery to write a list of texts to its end.
 *
 *   static bool on_event(const ch_event *event, void *user) {
 *     (void)user;
 *     return fwrite(event->text, 1, event->size, stdout) == event->size;
 *   }
 *
 *   bool busy = true;
 *   int32_t prompt[] = {1, 403, 2501};
 *   ch_generation *generation;
 *   ch_generation_request request;
 *   ch_generation_request_defaults(&request);
 *   request.prompt = prompt;
 *   request.prompt_count = 3;
 *   request.sink = on_event;
 *   if (ch_generation_create(model, NULL, &generation, NULL) == CH_OK) {
 *     if (ch_generation_add(generation, &request, NULL, NULL) == CH_OK)
 *       while (busy && ch_generation_step(generation, &busy, NULL) == CH_OK) continue;
 *     ch_generation_free(generation);
 *   } */
#ifndef CROSSHEAD_GENERATION_H
#define CROSSHEAD_GENERATION_H

#include <crosshead/generate.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A generation holds a session of several places (sequences) and a queue of requests. It works in rounds
 * (ch_generation_step) and reports events through the callback of each request. One thread at a time may use
 * it, and that thread calls every callback.
 *
 * A request gives the same tokens and log-probabilities, bit for bit, alone or with others, first or
 * repeated, and with or without reuse of an earlier prompt's states, as long as model, number of threads,
 * chunk and types are the same. With block-quantised weights, talking heads and embedding gates they are the
 * same within rounding (ch_session_step). */
typedef struct ch_generation ch_generation;

/* ---- Opening ---- */

/* The settings of a generation. Fill with ch_generation_defaults, then change what should differ: later versions
 * may add members. */
typedef struct ch_generation_settings {
  /* settings of the session. sequences: places, the texts that are decoded together, 1 ... CH_BATCH_MOST
   * (default 8). max_tokens: tokens of one text, prompt included. */
  ch_session_settings session;
  int64_t chunk; /* tokens of a prefill pass, 33 ... 1024; default 128 */
} ch_generation_settings;

/* Fills in the defaults. */
CH_API void ch_generation_defaults(ch_generation_settings *settings);

/* Computes the bytes that a generation with these settings (NULL = the defaults) needs for weights, cache and
 * workspace, without allocating them. Errors: those of ch_generation_create. */
CH_API ch_status ch_generation_estimate(const ch_model *model, const ch_generation_settings *settings,
                                        ch_memory *memory, ch_error *error);

/* Creates a generation without requests; release *generation with ch_generation_free. The cache of all places
 * is allocated here; its memory becomes resident as tokens fill it. The model must outlive the generation.
 * settings may be NULL for the defaults. Errors: CH_ERROR_ARGUMENT for settings out of range, CH_ERROR_CONFIG
 * as of ch_session_create, and CH_ERROR_MEMORY if cache and workspace exceed the free memory. */
CH_API ch_status ch_generation_create(const ch_model *model, const ch_generation_settings *settings,
                                      ch_generation **generation, ch_error *error);

/* Releases the generation and its session. Unfinished requests end without an event. NULL is fine. */
CH_API void ch_generation_free(ch_generation *generation);

/* Returns the generation's session, for ch_session_capacity, ch_session_cache_bytes, ch_session_end_tokens and
 * ch_session_set_end_tokens. Do not feed, truncate or free it, and do not set its progress callback. */
CH_API ch_session *ch_generation_session(ch_generation *generation);

/* ---- Events ---- */

/* The kind of an event. */
typedef enum ch_event_kind {
  CH_EVENT_PROMPT_TOKEN = 0, /* with echo_probabilities: the next token of the prompt */
  CH_EVENT_PROMPT = 1,       /* the prompt is read: one event per request, after those of its tokens */
  CH_EVENT_TOKEN = 2,        /* a choice wrote a token, which may be an end token */
  CH_EVENT_END = 3           /* a choice has ended: its last event */
} ch_event_kind;

/* An event. All that it points to is valid during the call. Members after `user` are 0 in events of
 * kinds that their comments do not name. */
typedef struct ch_event {
  ch_event_kind kind;
  int64_t request; /* id of the request, from ch_generation_add */
  void *user;      /* `user` of the request */
  int32_t choice;  /* CH_EVENT_TOKEN, CH_EVENT_END: index of the choice, from 0 */

  int32_t token; /* CH_EVENT_PROMPT_TOKEN, CH_EVENT_TOKEN: the token's id */
  /* CH_EVENT_PROMPT_TOKEN, CH_EVENT_TOKEN: ln of the softmax of the raw logits, before bias, penalties and
   * temperature. NaN for the first token of a prompt, which nothing predicts, and for CH_EVENT_TOKEN without
   * `probabilities`. */
  double log_probability;
  /* CH_EVENT_PROMPT_TOKEN, CH_EVENT_TOKEN: [top_count] the likeliest tokens at the token's position, as ch_top_tokens
   * orders them */
  const ch_token_probability *top;
  int32_t top_count;
  int64_t index; /* CH_EVENT_PROMPT_TOKEN: index in the prompt; CH_EVENT_TOKEN: index in the choice; from 0 */
  bool ends;     /* CH_EVENT_TOKEN: true for an end token, which has no text */

  /* CH_EVENT_TOKEN, CH_EVENT_END: [size] the text that is released now, perhaps none: whole UTF-8 characters,
   * and no byte that may begin a stop string. CH_EVENT_END releases the text that was held back, unless it is a
   * stop string or the choice was cancelled. Not NUL-terminated. */
  const char *text;
  size_t size;
  /* CH_EVENT_TOKEN: offset of the token's own text in the choice's text, in bytes and in characters. Tokens
   * that form one character together share an offset. CH_EVENT_END: length of the text. A token whose offset is
   * not below that length belongs to the stop string, or has no text. */
  int64_t text_offset, character_offset;
  /* CH_EVENT_TOKEN, CH_EVENT_END: bytes at the beginning of the choice's text that complete a character of the
   * prompt; known from the first released text on */
  int32_t prompt_bytes;

  int64_t cached; /* CH_EVENT_PROMPT, CH_EVENT_END: tokens of the prompt whose states were reused */
  /* CH_EVENT_END: the results. prompt_tokens were computed for this choice; of the choices that share a prompt, the
   * first counts its tokens. `tokens` does not include an end token. CH_END_STOPPED: the choice was cancelled, or the
   * callback returned false. */
  const ch_generation_result *generated;
  ch_status status;    /* CH_EVENT_END: CH_OK, or the error of CH_END_ERROR */
  const char *message; /* CH_EVENT_END: the sentence of the error; NULL without one */
} ch_event;

/* Called with each event of a request. Returning false cancels the choice, or for an event of the prompt the
 * whole request; CH_EVENT_END follows. It may call ch_generation_cancel and ch_generation_pause, but no other
 * function of the generation. */
typedef bool (*ch_event_sink)(const ch_event *event, void *user);

/* ---- Requests ---- */

/* A number to add to the logit of a token. */
typedef struct ch_logit_bias {
  int32_t token;
  double bias; /* added to the token's logit; -100 or less bans the token */
} ch_logit_bias;

/* A prompt and the settings of its continuations. Fill with ch_generation_request_defaults, then change what
 * should differ: later versions may add members. All that it points to except `user` is copied. */
typedef struct ch_generation_request {
  const int32_t *prompt; /* [prompt_count] ids, at least one */
  size_t prompt_count;
  int32_t choices; /* number of continuations of the prompt, 1 (default) ... 1024; the prompt is read once */
  /* maximum number of tokens of a choice; -1 (default) = as many as fit; 0 = only read the prompt */
  int64_t max_tokens;
  ch_sampler sampler;          /* temperature, top_k and top_p of all choices; sampler.state is ignored */
  uint64_t seed;               /* choice k draws as a sampler of ch_sampler_defaults(seed + k); default 0 */
  const ch_logit_bias *biases; /* [bias_count] biases, one per token */
  size_t bias_count;
  /* c * frequency_penalty + presence_penalty is subtracted from the logit of a token that the choice wrote
   * c > 0 times; default 0 */
  double frequency_penalty, presence_penalty;
  const int32_t *banned; /* [banned_count] tokens that are never written */
  size_t banned_count;
  bool ban_end_tokens;      /* true: tokens that end a text are never written */
  int64_t min_tokens;       /* tokens that a choice writes before it may end by an end token; default 0 */
  const char *const *stops; /* [stop_count] stop strings, as ch_batch_text.stops */
  int32_t stop_count;
  /* true: events of kind CH_EVENT_TOKEN have log_probability, and `top` if top_count is not 0 */
  bool probabilities;
  int32_t top_count; /* number of likeliest tokens in events, 0 (default) ... 100, at most the vocabulary */
  /* true: tokens of the prompt are reported too, with log_probability and `top`; no states are reused */
  bool echo_probabilities;
  bool reuse;         /* true (default): states of an earlier prompt that begins alike may be reused */
  ch_event_sink sink; /* receives the events; or NULL */
  void *user;         /* argument of the sink */
} ch_generation_request;

/* Fills in the defaults; the prompt remains to be set. */
CH_API void ch_generation_request_defaults(ch_generation_request *request);

/* Adds a request to the queue. *id (id may be NULL) becomes its number, counted from 1 and never used twice.
 * Errors, after which nothing is queued: CH_ERROR_ARGUMENT for settings out of range, ids outside the
 * vocabulary and stop strings without a tokenizer; CH_ERROR_FULL for a prompt that does not fit into the
 * context or, unless max_tokens is 0, leaves no room for one more token; CH_ERROR_MEMORY. */
CH_API ch_status ch_generation_add(ch_generation *generation, const ch_generation_request *request,
                                   int64_t *id, ch_error *error);

/* Cancels a request, or one of its choices (choice -1: all). CH_EVENT_END of each comes before this function
 * returns or, when a callback calls it, before the function that called the callback returns. A request that
 * has ended or does not exist is ignored. */
CH_API void ch_generation_cancel(ch_generation *generation, int64_t id, int32_t choice);

/* Pauses a request (paused: true) or continues it. A paused request holds its places, but its prompt is not read
 * and its choices are not decoded. A request that does not exist is ignored. */
CH_API void ch_generation_pause(ch_generation *generation, int64_t id, bool paused);

/* Sets a callback that is called about twenty times a second within long passes over prompts. It may call the
 * functions that a ch_event_sink may: a request that it cancels while its prompt is read ends within the pass.
 * NULL = no calls. */
CH_API void ch_generation_set_watch(ch_generation *generation, void (*watch)(void *user), void *user);

/* ---- Rounds ---- */

/* Runs one round: requests get free places, all texts that can continue get one token in one pass, and one
 * chunk of the oldest unread prompt is read. Chunks begin at multiples of the chunk size, whatever was
 * reused. *busy (busy may be NULL) becomes true if another round has work; false when no request is left or
 * all are paused. A NaN logit ends its choice alone, with CH_END_ERROR. Errors: CH_ERROR_ARGUMENT when a
 * callback calls it; other errors concern the whole generation (CH_ERROR_MEMORY) and end every request. */
CH_API ch_status ch_generation_step(ch_generation *generation, bool *busy, ch_error *error);

/* ---- Figures ---- */

/* The work of a generation: totals since it was created, and its present load. */
typedef struct ch_generation_counts {
  /* totals: prompt tokens computed and reused, tokens written (end tokens included), decoding passes */
  uint64_t prompt_tokens, cached_tokens, generated_tokens, decode_steps;
  double prefill_seconds, decode_seconds; /* totals of wall time */
  /* at present: choices that wait for a place, choices that have one, and tokens of their texts in the cache */
  int64_t waiting, processing, cache_tokens;
} ch_generation_counts;

/* Fills in the counts. */
CH_API void ch_generation_count(const ch_generation *generation, ch_generation_counts *counts);

/* A place and its text; a free place has the figures of its last text. */
typedef struct ch_generation_place {
  int64_t request; /* id of the request whose text is in the place; 0: the place is free */
  int32_t choice;  /* index of the choice */
  /* tokens of the prompt, tokens of it that were reused, and tokens written (an end token included) */
  int64_t prompt_tokens, cached_tokens, generated_tokens;
} ch_generation_place;

/* Fills *place for place `index`, 0 ... session.sequences - 1. Returns false for any other index. */
CH_API bool ch_generation_at(const ch_generation *generation, int32_t index, ch_generation_place *place);

/* Makes the memory of the first 512 tokens of place `index` resident, so that its first prompt does not wait for page
 * faults. Returns false if no place has this index. It is meant for servers that are idle. */
CH_API bool ch_generation_warm(const ch_generation *generation, int32_t index);

#ifdef __cplusplus
}
#endif
#endif
