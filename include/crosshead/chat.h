/* Chat: a model's template turns messages into a prompt.
 *
 *   ch_chat *chat;
 *   ch_ids prompt = {0};
 *   ch_message message = {"user", "Hello", 5};
 *   ch_chat_request request = {.messages = &message, .count = 1, .add_generation_prompt = true};
 *   if (ch_chat_open("model", ch_model_tokenizer(model), &chat, NULL) == CH_OK && chat) {
 *     if (ch_chat_encode(chat, &request, &prompt, NULL) == CH_OK) printf("%zu tokens\n", prompt.size);
 *     ch_ids_free(&prompt);
 *     ch_chat_free(chat);
 *   } */
#ifndef CROSSHEAD_CHAT_H
#define CROSSHEAD_CHAT_H

#include <crosshead/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A chat template and the names of special tokens that it may print. It never changes, but one thread at a
 * time may render with it. */
typedef struct ch_chat ch_chat;

/* Opens the template of a model directory: chat_template.jinja, else additional_chat_templates/default.jinja, else
 * "chat_template" of tokenizer_config.json, else of chat_template.json (a text, or a list of texts with names, of
 * which "default" counts). Release *chat with ch_chat_free. tokenizer: the model's tokenizer, which must outlive the
 * chat. *chat is NULL, without an error, if the directory has no template. Errors: CH_ERROR_ARGUMENT for NULL;
 * CH_ERROR_IO; CH_ERROR_FORMAT for a file that is damaged and a template that cannot be parsed; CH_ERROR_MEMORY. */
CH_API ch_status ch_chat_open(const char *directory, const ch_tokenizer *tokenizer, ch_chat **chat,
                              ch_error *error);

/* Opens a template from its text (NUL-terminated UTF-8) in place of the directory's template. The directory still
 * names the special tokens. `name` appears in messages. Errors: those of ch_chat_open. */
CH_API ch_status ch_chat_open_text(const char *directory, const ch_tokenizer *tokenizer, const char *text,
                                   const char *name, ch_chat **chat, ch_error *error);

/* Releases the chat. NULL is fine. */
CH_API void ch_chat_free(ch_chat *chat);

/* Returns the template's text, NUL-terminated; it belongs to the chat. */
CH_API const char *ch_chat_template(const ch_chat *chat);

/* A message of a conversation. */
typedef struct ch_message {
  const char *role;    /* NUL-terminated name that the template knows: "system", "user", "assistant" */
  const char *content; /* [size] bytes of UTF-8 */
  size_t size;
} ch_message;

/* The messages of a prompt. Zero-initialise it, then set messages; later versions may add members. */
typedef struct ch_chat_request {
  const ch_message *messages; /* [count] messages in their order */
  size_t count;
  bool add_generation_prompt; /* true: the prompt ends where the assistant's answer begins */
  /* true: the prompt ends with the content of the last message; excludes add_generation_prompt */
  bool continue_final_message;
  const char *variables; /* a JSON object whose members the template sees as variables; or NULL */
  int64_t now;           /* time that strftime_now shows, in seconds since 1970; 0 = the clock's time */
} ch_chat_request;

/* Renders the prompt as text: *size bytes, NUL-terminated. *text is the caller's: release it with ch_free. Errors:
 * CH_ERROR_ARGUMENT with the sentence of a template that calls raise_exception, for requests that contradict
 * themselves and for messages that are not UTF-8; CH_ERROR_FORMAT for a template that fails on these messages and for
 * `variables` that are not a JSON object; CH_ERROR_MEMORY. */
CH_API ch_status ch_chat_render(ch_chat *chat, const ch_chat_request *request, char **text, size_t *size,
                                ch_error *error);

/* Appends the ids of the prompt to `ids`, a list of the caller. Special tokens that the template prints become
 * their ids; those that are spelled out in the content of a message stay text. No tokens are added around the
 * prompt: a beginning-of-text token comes from the template. Errors: those of ch_chat_render and
 * ch_tokenizer_encode. */
CH_API ch_status ch_chat_encode(ch_chat *chat, const ch_chat_request *request, ch_ids *ids, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif
