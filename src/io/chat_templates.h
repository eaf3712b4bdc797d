/* The chat templates of a model directory. */
#ifndef CH_IO_CHAT_TEMPLATES_H
#define CH_IO_CHAT_TEMPLATES_H

#include <jansson.h>

#include "base/error.h"

enum { CH_MAX_CHAT_TEMPLATES = 32 };

/* The name of the template that chats use unless another is chosen. */
#define CH_USUAL_TEMPLATE "default"

typedef struct ch_chat_templates {
  struct {
    char *name;
    char *text; /* Jinja, UTF-8 */
  } list[CH_MAX_CHAT_TEMPLATES];
  int count;
} ch_chat_templates;

/* Reads chat_template.jinja, additional_chat_templates/NAME.jinja, "chat_template" of tokenizer_config.json
   (a text, or a list of texts with names) and of chat_template.json. Of two templates with a name the first
   in this order counts. Release with ch_chat_templates_free, also after a failure. */
ch_status ch_chat_templates_read(const char *directory, ch_chat_templates *templates, ch_error *error);
void ch_chat_templates_free(ch_chat_templates *templates);
/* Adds a template unless there is one of that name, or it is empty. `where` is for messages. */
ch_status ch_chat_templates_add(ch_chat_templates *templates, const char *where, const char *name,
                                const char *text, size_t size, ch_error *error);
/* Returns the index of a name, or -1. */
int ch_chat_templates_find(const ch_chat_templates *templates, const char *name);

/* Reads a JSON file in a tokenizer's directory; *root is NULL if there is none. Such files may name tokens
   with the character U+0000, which the project's own JSON may not. */
ch_status ch_tokenizer_json_read(const char *directory, const char *file, json_t **root, ch_error *error);

#endif
