/* The prompts of a body: one or several, as texts or lists of ids. */
#ifndef CH_SERVE_PROMPT_FIELDS_H
#define CH_SERVE_PROMPT_FIELDS_H

#include <jansson.h>

#include "serve/server.h"

/* Appends the ids of a text. `field` is the text's name in error messages. */
bool ch_prompt_encode(const ch_server *server, const char *text, size_t size, unsigned flags,
                      const char *field, ch_ids *ids, ch_refusal *refusal);
/* Decodes ids, with special tokens written out and U+FFFD for invalid bytes. Release *text with free. If
   `unfinished` is not NULL, an incomplete character at the end is omitted from the text and reported in
   *unfinished. */
bool ch_prompt_decode(const ch_server *server, const ch_ids *ids, char **text, size_t *size, bool *unfinished,
                      ch_refusal *refusal);
/* Reads a list of token ids and checks that the vocabulary has them. */
bool ch_ids_read(const ch_server *server, const json_t *list, const char *field, ch_ids *ids,
                 ch_refusal *refusal);

/* Reads `prompt` into job->prompts, at most `most` prompts. If `text` is true, their texts are stored too. If the
   fields request `echo`, the stored text of a prompt of ids omits an incomplete character at its end, because the
   generated text may complete it. */
bool ch_prompts_read_body(const ch_server *server, json_t *body, int64_t most, bool text, ch_text_job *job,
                          ch_refusal *refusal);
/* Computes the offset of each echoed token in the prompt's text, in characters. Returns false if out of memory. */
bool ch_prompt_place(const ch_server *server, ch_prompt *prompt);
/* Refuses prompts that are empty or do not fit into the context. `field` is their name in error messages. */
bool ch_prompts_fit(const ch_server *server, const ch_text_job *job, const char *field, ch_refusal *refusal);

#endif
