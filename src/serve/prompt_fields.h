/* Prompts of a body: texts or lists of ids, one or several. */
#ifndef CH_SERVE_PROMPT_FIELDS_H
#define CH_SERVE_PROMPT_FIELDS_H

#include <jansson.h>

#include "serve/server.h"

/* Appends the ids of a text; `field` names it in messages. */
bool ch_prompt_encode(const ch_server *server, const char *text, size_t size, unsigned flags,
                      const char *field, ch_ids *ids, ch_refusal *refusal);
/* The text of ids, special tokens written out and U+FFFD for bytes that are no character; *text is malloc'd. With `unfinished`, a
   character that the ids leave unfinished is not in the text, and *unfinished says that there is one. */
bool ch_prompt_decode(const ch_server *server, const ch_ids *ids, char **text, size_t *size, bool *unfinished,
                      ch_refusal *refusal);
/* Reads a list of ids of the vocabulary. */
bool ch_ids_read(const ch_server *server, const json_t *list, const char *field, ch_ids *ids,
                 ch_refusal *refusal);

/* Reads `prompt` into writing->prompts, at most `most` of them. `text`: their texts are needed too; what the answer echoes is
   without the character that ids leave unfinished, for the text that is written may complete it. */
bool ch_prompts_read_body(const ch_server *server, json_t *body, int64_t most, bool text, ch_writing *writing,
                          ch_refusal *refusal);
/* Notes where the text of each echoed token begins in the prompt's text. False when memory is out. */
bool ch_prompt_place(const ch_server *server, ch_prompt *prompt);
/* Refuses prompts without tokens, and those that the context has no room for; `field` names them. */
bool ch_prompts_fit(const ch_server *server, const ch_writing *writing, const char *field,
                    ch_refusal *refusal);

#endif
