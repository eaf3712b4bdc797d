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
 * (ch_generation_step) and reports what happens through the callback of each request. One thread at a time
 * may use it, and every callback is called by that thread.
 *
 * A request gives the same tokens and log-probabilities, bit for bit, alone or with others, first or
 * repeated, and with or without reuse of an earlier prompt's states, as long as model, number of threads,
 * chunk and types are the same. Exceptions are those of ch_session_step: block-quantised weights, talking
 * heads and embedding gates, which are the same within rounding. */
typedef struct ch_generation ch_generation;

/* ---- Opening ---- */

/* Fill with ch_generation_defaults, then change what should differ: members may be added in later
 * versions. */
typedef struct ch_generation_settings {
  /* session.sequences: places, the texts decoded together, 1 ... CH_BATCH_MOST (default 8).
   * session.max_tokens: the tokens of one text, prompt included; 0 = the context length, at most 4096. */
  ch_session_settings session;
  int64_t chunk; /* tokens of a prefill pass, 33 ... 1024; default 128 */
} ch_generation_settings;

CH_API void ch_generation_defaults(ch_generation_settings *settings);

/* Computes the bytes that ch_generation_create with these settings (NULL = the defaults) would need for
 * weights, cache and workspace, without allocating them. Errors: CH_ERROR_ARGUMENT for settings out of range,
 * CH_ERROR_CONFIG. */
CH_API ch_status ch_generation_estimate(const ch_model *model, const ch_generation_settings *settings,
                                        ch_memory *memory, ch_error *error);

/* Creates a generation without requests. The cache of all places is allocated here; its memory is used as
 * tokens fill it. The model must outlive it. Errors: CH_ERROR_ARGUMENT, CH_ERROR_CONFIG, and CH_ERROR_MEMORY
 * with what is needed and what would fit. */
CH_API ch_status ch_generation_create(const ch_model *model, const ch_generation_settings *settings,
                                      ch_generation **generation, ch_error *error);

/* Requests that are not over end without an event. NULL is fine. */
CH_API void ch_generation_free(ch_generation *generation);

/* Returns its session, for ch_session_capacity, ch_session_cache_bytes, ch_session_end_tokens,
 * ch_session_set_end_tokens. Feed nothing to it. */
CH_API ch_session *ch_generation_session(ch_generation *generation);

/* ---- Events ---- */

typedef enum ch_event_kind {
  CH_EVENT_PROMPT_TOKEN =
      0,               /* with echo_probabilities: a token of the prompt, in order, from the first one on */
  CH_EVENT_PROMPT = 1, /* the prompt is read; once a request, after its CH_EVENT_PROMPT_TOKEN */
  CH_EVENT_TOKEN = 2,  /* a choice wrote a token; an end token too */
  CH_EVENT_END = 3     /* a choice is over; its last event */
} ch_event_kind;

/* Valid during the call, with all that it points to. Members that a kind does not name are 0. */
typedef struct ch_event {
  ch_event_kind kind;
  int64_t request; /* ch_generation_add's id */
  void *user;      /* the request's */
  int32_t choice;  /* 0 ... choices - 1: CH_EVENT_TOKEN, CH_EVENT_END */

  /* CH_EVENT_PROMPT_TOKEN, CH_EVENT_TOKEN. ln of the softmax of the raw logits, before bias, penalties and
   * temperature: NaN for the first token of a prompt, which nothing predicts, and without `probabilities`.
   * top: the likeliest tokens at its place, as ch_top_tokens orders them. */
  int32_t token;
  double log_probability;
  const ch_token_probability *top; /* [top_count] */
  int32_t top_count;
  int64_t index; /* of the token in the prompt, or among those that the choice wrote */
  bool ends;     /* an end token, which has no text */

  /* CH_EVENT_TOKEN, CH_EVENT_END: text that is released now, perhaps none: whole UTF-8 characters, and no
   * byte that may begin a stop string. CH_EVENT_END releases what was held back and is no stop string. Not
   * NUL-terminated. */
  const char *text;
  size_t size;
  /* CH_EVENT_TOKEN: where the token's own text begins in the choice's text, in bytes and in characters. The
   * tokens of a character that several of them make share one offset. CH_EVENT_END: the length of the text. A
   * token whose offset is not below that length belongs to the stop string, or has no text. */
  int64_t text_offset, character_offset;
  /* The first bytes of the choice's text that complete a character which the prompt left unfinished: set from
   * the first released text on. */
  int32_t prompt_bytes;

  int64_t cached; /* CH_EVENT_PROMPT, CH_EVENT_END: tokens of the prompt whose states were reused */
  /* CH_EVENT_END: prompt_tokens are those computed for this choice (of a prompt that choices share, the first
   * counts it), tokens those written, the end token not included. CH_END_STOPPED: cancelled, or the callback
   * returned false. */
  const ch_generation_result *generated;
  ch_status status;    /* CH_EVENT_END: CH_OK, or the error of CH_END_ERROR */
  const char *message; /* its sentence, or NULL */
} ch_event;

/* Returning false cancels the choice, or with a prompt's event the request: CH_EVENT_END follows at once. It
 * may call ch_generation_cancel and ch_generation_pause, and nothing else of the generation. */
typedef bool (*ch_event_sink)(const ch_event *event, void *user);

/* ---- Requests ---- */

typedef struct ch_logit_bias {
  int32_t token;
  double bias; /* added to the token's logit; -100 or less bans it */
} ch_logit_bias;

/* A prompt and how to continue it. Fill with ch_generation_request_defaults: members may be added in later
 * versions. All that it points to but `user` is copied. */
typedef struct ch_generation_request {
  const int32_t *prompt; /* [prompt_count] ids, at least one */
  size_t prompt_count;
  int32_t choices;    /* continuations of the prompt, which is read once: 1 (default) ... 1024 */
  int64_t max_tokens; /* that each may write; -1 (default) = as many as fit; 0 = the prompt is only read */
  /* of choice 0; only temperature, top_k and top_p matter. Defaults: ch_sampler_defaults */
  ch_sampler sampler;
  uint64_t seed;               /* choice k draws as a sampler of ch_sampler_defaults(seed + k); default 0 */
  const ch_logit_bias *biases; /* [bias_count], one per token */
  size_t bias_count;
  /* Subtracted from the logit of a token that the choice wrote c > 0 times: c * frequency_penalty +
     presence_penalty. */
  double frequency_penalty, presence_penalty;
  const int32_t *banned; /* [banned_count] tokens that are never written */
  size_t banned_count;
  bool ban_end_tokens;      /* tokens that end a text are banned */
  int64_t min_tokens;       /* they are banned until so many tokens are written; default 0 */
  const char *const *stops; /* [stop_count] as ch_batch_text's */
  int32_t stop_count;
  bool probabilities;      /* events get log_probability */
  int32_t top_count;       /* and so many likeliest tokens, 0 (default) ... 100 */
  bool echo_probabilities; /* tokens of the prompt are reported too, with both; nothing is reused then */
  bool reuse;              /* states of an earlier prompt that begins alike may be reused; default true */
  ch_event_sink sink;      /* or NULL */
  void *user;              /* the sink's */
} ch_generation_request;

CH_API void ch_generation_request_defaults(ch_generation_request *request);

/* Puts a request into the queue; *id (or NULL) is its number, from 1 up, never used twice. Errors, after
 * which nothing is queued: CH_ERROR_ARGUMENT for settings out of range and ids outside the vocabulary;
 * CH_ERROR_FULL for a prompt that the context has no room for; with max_tokens other than 0 it must leave
 * room for one token; CH_ERROR_MEMORY. */
CH_API ch_status ch_generation_add(ch_generation *generation, const ch_generation_request *request,
                                   int64_t *id, ch_error *error);

/* Ends a request, or one of its choices (choice -1: all). CH_EVENT_END of each comes at once, or, when called
 * within a callback or while a pass runs, before ch_generation_step returns. A request that is over, or never
 * was, is ignored. */
CH_API void ch_generation_cancel(ch_generation *generation, int64_t id, int32_t choice);

/* Pauses a request, or continues it. A paused one keeps its places and is neither read nor decoded. */
CH_API void ch_generation_pause(ch_generation *generation, int64_t id, bool paused);

/* Sets a callback that is called about twenty times a second within long passes over prompts. It may do what
 * a sink may: a request that it cancels while its prompt is read ends within the pass. NULL = no calls. */
CH_API void ch_generation_set_watch(ch_generation *generation, void (*watch)(void *user), void *user);

/* ---- Rounds ---- */

/* Runs one round: requests get free places, all texts that can continue get one token in one pass, and one
 * chunk of the oldest unread prompt is read. Chunks begin at multiples of the chunk size, whatever was
 * reused. *busy (or NULL) becomes true if there is more to do, so call it again; false when nothing is left
 * or all that is left is paused. A broken logit ends its choice alone, with CH_END_ERROR. Errors concern the
 * generation as a whole (CH_ERROR_MEMORY): every request is then ended with it. */
CH_API ch_status ch_generation_step(ch_generation *generation, bool *busy, ch_error *error);

/* ---- Figures ---- */

typedef struct ch_generation_counts {
  /* Since it was created: prompt tokens computed and reused, tokens written (end tokens included), decoding
     passes. */
  uint64_t prompt_tokens, cached_tokens, generated_tokens, decode_steps;
  double prefill_seconds, decode_seconds;
  /* Now: choices that wait for a place, and those that have one; tokens of all texts in the cache. */
  int64_t waiting, processing, cache_tokens;
} ch_generation_counts;

CH_API void ch_generation_count(const ch_generation *generation, ch_generation_counts *counts);

/* A place. The figures are those of its text, or, while it has none, of its last one. */
typedef struct ch_generation_place {
  int64_t request; /* 0: free */
  int32_t choice;
  int64_t prompt_tokens, cached_tokens, generated_tokens;
} ch_generation_place;

/* Fills the place `index`, 0 ... session.sequences - 1; false for any other. */
CH_API bool ch_generation_at(const ch_generation *generation, int32_t index, ch_generation_place *place);

/* Makes the memory of the first 512 tokens of place `index` resident, so that its first prompt does not wait
 * for page faults; false if no place has this index. A server calls it while it is idle. */
CH_API bool ch_generation_warm(const ch_generation *generation, int32_t index);

#ifdef __cplusplus
}
#endif
#endif
