/* The files of a model directory other than weights and configuration. */
#ifndef CH_IO_EXTRA_FILES_H
#define CH_IO_EXTRA_FILES_H

#include "base/error.h"

/* The directory of a model's named chat templates, NAME.jinja. */
#define CH_CHAT_TEMPLATES "additional_chat_templates"

/* Copies the tokenizer, chat templates, generation settings and settings of image processors, if they exist. */
ch_status ch_copy_extra_files(const char *from, const char *to, ch_error *error);
/* Copies the files that belong to a tokenizer.json, but not that file. */
ch_status ch_copy_tokenizer_files(const char *from, const char *to, ch_error *error);
/* Copies generation_config.json. If there is none and config.json has several end tokens, writes them into a new
   one. */
ch_status ch_copy_generation_settings(const char *from, const char *to, ch_error *error);

#endif
