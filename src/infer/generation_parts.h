/* Declarations shared by the files of a generation: requests, their texts, prompts, and rounds. */
#ifndef CH_INFER_GENERATION_PARTS_H
#define CH_INFER_GENERATION_PARTS_H

#include "infer/generation.h"

/* A prompt, of one request or of several that share it. */
typedef struct ch_read_prompt {
  const int32_t *ids; /* [count] ids of the prompt's tokens */
  int64_t count;
  int32_t *own;    /* copy of the ids that the prompt owns, or NULL */
  int references;  /* number of requests that use the prompt, plus 1 if it is ch_generation.shared */
  int64_t serial;  /* number of the prompt, from 1 */
  int64_t waiting; /* number of choices that have no place yet */
  float *logits;   /* logits after the last token, while choices wait; or NULL */
} ch_read_prompt;

typedef struct ch_queued_request {
  struct ch_queued_request *next; /* next request by id */
  int64_t id;
  ch_generation_request asked; /* request with its own copies of lists */
  ch_read_prompt *prompt;
  ch_generation_extra extra;
  bool has_extra, paused;
  bool announced; /* true once CH_EVENT_PROMPT was sent */
  /* cached: number of reused prompt tokens; scored: number of reported prompt tokens */
  int64_t cached, scored;
  /* begun: index of the first choice that never had a place; over: number of ended choices */
  int32_t begun, over;
  uint8_t *left; /* [choices] state of each choice: CH_CHOICE_... */
} ch_queued_request;

enum { CH_CHOICE_OPEN, CH_CHOICE_CANCELLED, CH_CHOICE_OVER };

/* The number of times that a choice has generated a token. */
typedef struct ch_token_count {
  int32_t token, count;
} ch_token_count;

/* A sequence of the session and its text. */
typedef struct ch_text_place {
  ch_queued_request *request; /* NULL: the place is free */
  int32_t choice;
  enum {
    CH_PLACE_READING,
    CH_PLACE_WAITING, /* another place reads the prompt */
    CH_PLACE_WRITING
  } phase;
  int64_t read; /* number of prompt tokens that the sequence holds */
  ch_text_stream *stream;
  ch_sampler sampler;
  ch_token_count *counts; /* [count_size] tokens of the text, if the request has penalties */
  int32_t count_size, count_capacity;
  ch_generation_result generated;
  double began; /* ch_clock at the start of generation */
  /* The last drawn token. */
  int32_t token;
  double log_probability;
  ch_token_probability *top; /* [CH_MOST_TOP] likeliest tokens when the token was drawn */
  ch_status status;
  ch_error error;
  /* The contents of the sequence, valid for free places too. */
  int64_t serial; /* number of the prompt that the sequence begins with; 0: none */
  int32_t *kept;  /* [kept_count] ids of whole chunks of prompts at the start of the sequence */
  int64_t kept_count;
  uint64_t last_use;
  ch_generation_place figures;
} ch_text_place;

enum { CH_MOST_TOP = 100, CH_MOST_CHOICES = 1024, CH_MOST_BIASES = 1 << 20 };

struct ch_generation {
  ch_session *session, *owned;
  const ch_tokenizer *tokenizer;
  ch_generation_manner manner;
  int64_t vocabulary, capacity, count;
  ch_text_place *places; /* [count] places, one for each sequence */
  ch_queued_request *first, *last;
  ch_read_prompt *shared; /* prompt of the last request with an extra, or NULL */
  int64_t last_id, last_serial;
  uint64_t clock;  /* counter for ch_text_place.last_use */
  int64_t reading; /* id of the request whose prompt is being read, or 0 */
  bool stepping, swept, stopped;
  void (*watch)(void *user);
  void *watch_user;
  /* [count + CH_SKINNY_ROWS, CH_MOST_TOP] likeliest tokens: of each place, then of each row of a scored prompt */
  ch_token_probability *top;
  int32_t *sequences, *tokens; /* [count] sequences of one step, and their last tokens */
  char *scratch;               /* scratch memory of ch_place_choose for every thread */
  float *logits;               /* logits after the last token of a scored prompt, or NULL */
  ch_generation_counts counts;
};

/* --- requests ------------------------------------------------------------------------------------------- */

/* Drops a reference, and frees the prompt after the last one. */
void ch_prompt_release(ch_read_prompt *prompt);
/* Removes a request from the queue and frees it. */
void ch_request_remove(ch_generation *generation, ch_queued_request *request);
/* Returns true if the logits of the choice's next token are changed before it is drawn. */
bool ch_request_adjusts(const ch_queued_request *request, int64_t written);
/* Writes the adjusted logits that the next token is drawn from: with penalties, biases, bans. */
void ch_request_adjust(const ch_generation *generation, const ch_text_place *place, const float *logits,
                       float *adjusted);
/* Returns true if the token ends the request's texts. */
bool ch_request_ends(const ch_queued_request *request, const ch_session *session, int32_t token);

/* --- texts ---------------------------------------------------------------------------------------------- */

static inline int32_t ch_place_index(const ch_generation *g, const ch_text_place *place) {
  return (int32_t)(place - g->places);
}
/* Returns the number of tokens that a place's sequence holds. */
static inline int64_t ch_place_length(const ch_generation *g, const ch_text_place *place) {
  return ch_session_sequence_length(g->session, ch_place_index(g, place));
}
bool ch_place_is_cancelled(const ch_text_place *place);
/* Returns the place of a choice, or NULL if it has none. */
ch_text_place *ch_request_place(const ch_generation *generation, const ch_queued_request *request,
                                int32_t choice);
/* Calls a request's sink. Returns false if the sink cancels the request. */
bool ch_request_tell(const ch_queued_request *request, ch_event *event);
/* Reports the end of a choice. `place`: the place of its text, or NULL if it had none. */
void ch_request_end(ch_queued_request *request, int32_t choice, const ch_text_place *place, ch_event *event);
/* Marks a choice, or all choices with -1, as cancelled. */
void ch_request_cancel(ch_generation *generation, ch_queued_request *request, int32_t choice);
/* Ends all choices that have no place, after the session's callback has cancelled. No events report these ends. */
void ch_generation_drop_waiting(ch_generation *generation);

/* Starts generation after the prompt, which the place's sequence holds. */
void ch_place_begin(ch_generation *generation, ch_text_place *place, const float *logits);
/* Draws a place's next token. */
void ch_place_choose(const ch_generation *generation, ch_text_place *place, const float *logits,
                     char *scratch);
/* Returns the bytes of scratch memory that ch_place_choose needs. */
size_t ch_generation_scratch(const ch_generation *generation);
/* Reports the drawn token, and ends the text if it is complete. */
void ch_place_take(ch_generation *generation, ch_text_place *place);
/* Ends the text of a place and frees the place. Text that is held back is released, unless the text was
   cancelled. */
void ch_place_end(ch_generation *generation, ch_text_place *place, ch_end why);

/* --- prompts -------------------------------------------------------------------------------------------- */

/* Assigns free places to the choices that have waited longest. */
void ch_generation_fill(ch_generation *generation);
/* Returns the place of the oldest prompt that can be read, or NULL if there is none. */
ch_text_place *ch_generation_oldest(const ch_generation *generation);
/* Reads one chunk of a place's prompt, or all of it. */
void ch_place_read(ch_generation *generation, ch_text_place *place);

#endif
