/* A job: a request for text with its prompts, and the tokens that the engine has generated for each
   choice. */
#ifndef CH_SERVE_TEXT_JOB_H
#define CH_SERVE_TEXT_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/request_fields.h"

/* A generated token or a prompt token. */
typedef struct ch_token_record {
  int32_t token;
  bool ends;              /* true for an end token, which has no text */
  int64_t character;      /* offset of the token's text in the choice's text, in characters */
  int64_t byte;           /* offset of the token's text in the choice's text, in bytes */
  size_t released;        /* size of the list's text once this token has released its part, in bytes */
  double log_probability; /* NaN: not computed */
} ch_token_record;

/* Tokens and the text that they released. */
typedef struct ch_token_list {
  ch_token_record *records;  /* [count] */
  ch_token_probability *top; /* [count, fields.top] likeliest tokens, or NULL */
  size_t count, capacity;
  ch_text text;
} ch_token_list;

typedef struct ch_choice {
  ch_token_list written;  /* generated tokens; in a stream only tokens that the stream has not taken */
  _Atomic int64_t tokens; /* number of generated tokens, including the end token */
  size_t pending;         /* the choice's share of the job's `pending` */
  int64_t bytes;          /* bytes of the whole text, set at its end */
  bool begun;             /* true once the text has begun, after an unfinished prompt */
  int64_t mark;           /* 1 if the text begins with U+FFFD for an incomplete character of the prompt */
  bool over;              /* true once generation has ended */
  ch_end end;
  int32_t stop; /* index of the stop string, or -1 */
} ch_choice;

typedef struct ch_prompt {
  ch_ids ids;
  char *text; /* the prompt as sent, or decoded from ids; NULL if the answer does not show it */
  size_t text_size;
  bool unfinished;        /* true if the prompt ends with an incomplete character, which is not in `text` */
  ch_token_list echo;     /* prompt tokens, if `echo` and log-probabilities are requested */
  int64_t id;             /* id of the generation request; 0: not added */
  _Atomic int64_t cached; /* number of prompt tokens whose states were reused */
  double read_at;         /* ch_clock at the end of the prefill */
  bool read;              /* true once the prefill is complete */
  ch_choice *choices;     /* [n] */
} ch_prompt;

/* The exchange's lock guards all members that are neither atomic nor constant. */
typedef struct ch_text_job {
  ch_request_fields fields; /* constant */
  ch_prompt *prompts;       /* [prompt_count]; ids and texts are constant */
  int prompt_count;
  size_t reserved;                        /* bytes reserved from the server's budget */
  char id[40];                            /* id of the answer: "cmpl-..." or "chatcmpl-..." */
  int64_t created;                        /* seconds since 1970 */
  double first_token, ended;              /* ch_clock at the first token, at the end; 0: not yet */
  double prefill_seconds, decode_seconds; /* times of the first choice */
  int64_t prompt_computed;                /* number of prompt tokens computed, not reused */
  int64_t left;                           /* number of unfinished choices */
  bool newline;                           /* true if any generated text contains a line break */
  bool counted_gone;                      /* true once the client's disconnect was counted */
  size_t pending;     /* estimated bytes of the events of tokens that the stream has not taken */
  bool paused;        /* true if the engine paused the job because too much is pending */
  atomic_bool resume; /* true if the engine must resume the job, because the stream has caught up */
  bool failed;
  ch_refusal failure; /* the error, if `failed` */
} ch_text_job;

void ch_text_job_free(ch_text_job *job);
/* Appends a record with its `width` likeliest tokens; `top` may be NULL. False: out of memory. */
bool ch_token_list_add(ch_token_list *written, const ch_token_record *record, const ch_token_probability *top,
                       int64_t width);
void ch_token_list_free(ch_token_list *written);

#endif
