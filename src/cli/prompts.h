/* The prompts of generate: one, or one per line of a file. */
#ifndef CH_CLI_PROMPTS_H
#define CH_CLI_PROMPTS_H

#include <crosshead/chat.h>
#include <crosshead/text.h>

#include "base/error.h"
#include "base/text.h"

typedef struct ch_prompt {
  char *text; /* text of the prompt; NULL: no text */
  size_t size;
  ch_ids ids;
} ch_prompt;

/* The prompts of one command. Zero-initialise the struct. */
typedef struct ch_prompts {
  ch_prompt *list;
  int64_t count;
} ch_prompts;

/* Reads one prompt: `text`, or the contents of `file` ("-" is standard input; one newline at the end is dropped). Both
   NULL: a prompt without text. */
ch_status ch_prompts_read_one(const char *text, const char *file, ch_prompts *prompts, ch_error *error);
/* Reads one prompt per line. In a file whose name ends in .jsonl a line is a JSON string, or an object with
 * the string "prompt" and nothing else. */
ch_status ch_prompts_read_lines(const char *path, ch_prompts *prompts, ch_error *error);
/* Tokenizes the prompts, with the special tokens that the tokenizer adds to a text. A prompt without tokens becomes
   the tokenizer's beginning token, or its end token. */
ch_status ch_prompts_encode(ch_prompts *prompts, const ch_tokenizer *tokenizer, ch_error *error);
/* Tokenizes each prompt as the user's message of a chat, after the system's message if `system` is not NULL. */
ch_status ch_prompts_encode_chat(ch_prompts *prompts, ch_chat *chat, const char *system, ch_error *error);
/* Sets *context, the capacity of a sequence in tokens: `asked` or, if that is 0, the length of the longest prompt
   plus max_tokens, at most the model's context; if max_tokens is 0 too, the model's context. Fails if the longest
   prompt does not fit. */
ch_status ch_prompts_context(const ch_prompts *prompts, const ch_model *model, int64_t asked,
                             int64_t max_tokens, int64_t *context, ch_error *error);
/* Appends the prompt's text, with U+FFFD for invalid bytes and without an unfinished character at the end. */
void ch_prompt_echo(const ch_prompt *prompt, ch_text *text);
/* Appends the unfinished character that ch_prompt_echo leaves out, unless the generated text completed it. */
void ch_prompt_echo_rest(const ch_prompt *prompt, bool completed, ch_text *text);
void ch_prompts_free(ch_prompts *prompts);

#endif
