/* The files of a model directory besides weights and configuration. */
#ifndef CH_IO_COMPANIONS_H
#define CH_IO_COMPANIONS_H

#include "base/error.h"

/* A directory of a model's chat templates with names, NAME.jinja. */
#define CH_CHAT_TEMPLATES "additional_chat_templates"

/* Copies tokenizer, chat templates and generation settings, those that are there. */
ch_status ch_companions_copy(const char *from, const char *to, ch_error *error);
/* Copies the files that belong to a tokenizer.json, but not that file. */
ch_status ch_companions_copy_of_tokenizer(const char *from, const char *to, ch_error *error);
/* Copies generation_config.json. Without one, ids of several tokens that config.json ends texts with are put into a new one. */
ch_status ch_companions_copy_generation(const char *from, const char *to, ch_error *error);

#endif
