/* What a model directory holds beside weights and configuration. */
#ifndef CH_IO_COMPANIONS_H
#define CH_IO_COMPANIONS_H

#include "base/error.h"

/* Copies tokenizer and generation settings, those that are there. */
ch_status ch_companions_copy(const char *from, const char *to, ch_error *error);

#endif
