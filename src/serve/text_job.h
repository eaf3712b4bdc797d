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
  bool ends;              /* end token, without text */
  int64_t character;      /* start of its text within the choice's text, in characters */
  int64_t byte;           /* start in bytes */
  size_t released;        /* bytes of the choice's text released up to this token */
  double log_probability; /* NaN: none */
} ch_token_record;

/* Tokens and the text that they released. */
typedef struct ch_token_list {
  ch_token_record *records;  /* [count] */
  ch_token_probability *top; /* [count, top] */
  size_t count, capacity;
  ch_text text;
} ch_token_list;

typedef struct ch_choice {
  ch_token_list written;  /* in a stream, only the tokens that were not taken yet */
  _Atomic int64_t tokens; /* generated so far, including the end token */
  size_t pending;         /* this choice's share of the job's `pending` */
  int64_t bytes;          /* of the whole text, set at its end */
  bool begun;             /* its text has begun */
  int64_t mark;           /* 1 if the text begins with U+FFFD for an incomplete character of the prompt */
  bool over;
  ch_end end;
  int32_t stop; /* index of the stop string, or -1 */
} ch_choice;

typedef struct ch_prompt {
  ch_ids ids;
  char *text; /* as sent, or decoded from ids; NULL if the answer does not show it */
  size_t text_size;
  bool unfinished;        /* the prompt ends with an incomplete character, which is not in `text` */
  ch_token_list echo;     /* prompt tokens, if `echo` and log-probabilities are requested */
  int64_t id;             /* generation id; 0 before it is added */
  _Atomic int64_t cached; /* prompt tokens whose states were reused */
  double read_at;         /* ch_clock at the end of its prefill */
  bool read;
  ch_choice *choices; /* [n] */
} ch_prompt;

/* The exchange's lock guards all members that are neither atomic nor constant. */
typedef struct ch_text_job {
  ch_request_fields fields; /* constant */
  ch_prompt *prompts;       /* [prompt_count]; ids and texts are constant */
  int prompt_count;
  size_t reserved;                        /* bytes reserved from the server's budget */
  char id[40];                            /* "cmpl-..." */
  int64_t created;                        /* seconds since 1970 */
  double first_token, ended;              /* ch_clock; 0: not yet */
  double prefill_seconds, decode_seconds; /* of the first choice */
  int64_t prompt_computed;                /* prompt tokens computed, not reused */
  int64_t left;                           /* unfinished choices */
  bool newline;                           /* some text contains a line break */
  bool counted_gone;                      /* the disconnect of its client was counted */
  size_t pending;                         /* of a stream: estimated bytes of its unsent events */
  bool paused;                            /* by the engine, because too much is pending */
  atomic_bool resume;                     /* the stream has caught up; the engine resumes the job */
  bool failed;
  ch_refusal failure; /* the error if `failed` */
} ch_text_job;

void ch_text_job_free(ch_text_job *job);
/* Appends a record with its `width` likeliest tokens; `top` may be NULL. False: out of memory. */
bool ch_token_list_add(ch_token_list *written, const ch_token_record *record, const ch_token_probability *top,
                       int64_t width);
void ch_token_list_free(ch_token_list *written);

#endif
