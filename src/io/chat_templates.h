/* The chat templates of a model directory. */
#ifndef CH_IO_CHAT_TEMPLATES_H
#define CH_IO_CHAT_TEMPLATES_H

#include <jansson.h>

#include "base/error.h"

enum { CH_MAX_CHAT_TEMPLATES = 32 };

/* The name of the template that chats use by default. */
#define CH_USUAL_TEMPLATE "default"

typedef struct ch_chat_templates {
  struct {
    char *name;
    char *text; /* Jinja template in UTF-8 */
  } list[CH_MAX_CHAT_TEMPLATES];
  int count;
} ch_chat_templates;

/* Reads chat_template.jinja, additional_chat_templates/NAME.jinja, "chat_template" of tokenizer_config.json (a text, or
   a list of texts with names) and of chat_template.json. If two templates have one name, the first in this order is
   used. Release with ch_chat_templates_free, also after a failure. */
ch_status ch_chat_templates_read(const char *directory, ch_chat_templates *templates, ch_error *error);
void ch_chat_templates_free(ch_chat_templates *templates);
/* Adds a template, unless it is empty or there is one of this name. `where` names the file in errors. */
ch_status ch_chat_templates_add(ch_chat_templates *templates, const char *where, const char *name,
                                const char *text, size_t size, ch_error *error);
/* Returns the index of a name, or -1. */
int ch_chat_templates_find(const ch_chat_templates *templates, const char *name);

/* Reads a JSON file in a tokenizer's directory; *root is NULL if the file does not exist. Unlike other JSON files, it
   may contain the character U+0000, which occurs in tokens. */
ch_status ch_tokenizer_json_read(const char *directory, const char *file, json_t **root, ch_error *error);

#endif
