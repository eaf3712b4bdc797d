/* A request for text while it is answered: its prompts, and what the engine has written for each choice. */
#ifndef CH_SERVE_WRITING_H
#define CH_SERVE_WRITING_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/asked.h"

/* A token that was written, or a token of a prompt. */
typedef struct ch_record {
  int32_t token;
  bool ends;              /* an end token, which has no text */
  int64_t character;      /* where its text begins in the choice's text, in characters */
  int64_t byte;           /* and in bytes */
  size_t released;        /* of a choice: bytes of `text` up to the end of what this token released */
  double log_probability; /* NaN: none */
} ch_record;

/* Tokens and the text that they released. */
typedef struct ch_written {
  ch_record *records;        /* [count] */
  ch_token_probability *top; /* [count, top] */
  size_t count, capacity;
  ch_text text;
} ch_written;

typedef struct ch_choice {
  ch_written written;     /* in a stream: what was not taken yet */
  _Atomic int64_t tokens; /* written so far, the end token included */
  size_t pending;         /* of the writing's, this choice's */
  int64_t bytes;          /* of the whole text, once it is over */
  bool begun;             /* its text did */
  int64_t mark;           /* characters at its beginning that stand for what the prompt left unfinished */
  bool over;
  ch_end end;
  int32_t stop; /* which stop string, or -1 */
} ch_choice;

typedef struct ch_prompt {
  ch_ids ids;
  char *text; /* as the client sent it, or decoded from its ids; only where the answer has it */
  size_t text_size;
  bool unfinished;        /* the prompt ends within a character, which is not in `text` */
  ch_written echo;        /* tokens of the prompt, with echo and probabilities */
  int64_t id;             /* the engine's; 0 before it knows */
  _Atomic int64_t cached; /* of its tokens: states that were reused */
  double read_at;         /* ch_clock when it was read */
  bool read;
  ch_choice *choices; /* [n] */
} ch_prompt;

/* All members but those that are atomic or never change are guarded by `lock`. */
typedef struct ch_writing {
  ch_asked asked;     /* does not change */
  ch_prompt *prompts; /* [prompt_count]; ids and texts do not change */
  int prompt_count;
  size_t reserved;                        /* bytes of the server's budget */
  char id[40];                            /* "cmpl-..." */
  int64_t created;                        /* seconds since 1970 */
  double first_token, ended;              /* ch_clock; 0: not yet */
  double prefill_seconds, decode_seconds; /* of the first choice */
  int64_t prompt_computed;                /* prompt tokens that were computed */
  int64_t left;                           /* choices that are not over */
  bool newline;                           /* a text has a line break */
  bool counted_gone;                      /* the engine's: its client left, and that is counted */
  size_t pending;                         /* of a stream: bytes that its events will take, about */
  bool paused;                            /* because too much is pending */
  atomic_bool resume;                     /* enough was taken */
  bool failed;
  ch_refusal failure; /* why */
} ch_writing;

void ch_writing_free(ch_writing *writing);
/* Appends a record with its likeliest tokens [width], or without any where `top` is NULL. False when memory is out. */
bool ch_written_add(ch_written *written, const ch_record *record, const ch_token_probability *top,
                    int64_t width);
void ch_written_free(ch_written *written);

#endif
