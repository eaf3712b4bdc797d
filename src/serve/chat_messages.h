/* The messages of a chat, converted to a request for the chat template. */
#ifndef CH_SERVE_CHAT_MESSAGES_H
#define CH_SERVE_CHAT_MESSAGES_H

#include <jansson.h>

#include "serve/server.h"

/* Zero-initialise; release with ch_messages_free. */
typedef struct ch_messages {
  ch_message *list; /* [count] */
  char **joined;    /* [count] contents joined from parts, or NULL */
  size_t count;
  char *variables; /* a JSON object, or NULL */
  ch_chat_request request;
} ch_messages;

/* Reads `messages`, `add_generation_prompt`, `continue_final_message`, `chat_template_kwargs` and `reasoning_effort`.
   The body must outlive *messages. */
bool ch_messages_read(const ch_server *server, json_t *body, ch_messages *messages, ch_refusal *refusal);
void ch_messages_free(ch_messages *messages);

/* Render the prompt as text or as ids. Only the request worker may call them. Release *text with ch_free. */
bool ch_messages_render(const ch_server *server, const ch_messages *messages, char **text, size_t *size,
                        ch_refusal *refusal);
bool ch_messages_encode(const ch_server *server, const ch_messages *messages, ch_ids *ids,
                        ch_refusal *refusal);

#endif
