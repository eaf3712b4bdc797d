/* What the public functions share. */
#ifndef CH_INFER_API_H
#define CH_INFER_API_H

#include <crosshead/crosshead.h>

#include "infer/generate.h"
#include "infer/model.h"

struct ch_session {
  const ch_model *model;
  ch_timeline *timeline;
  int32_t sequences, threads;
};

/* "WHAT is NULL". */
ch_status ch_api_missing(ch_error *error, const char *what);
ch_status ch_api_need_tokenizer(const ch_model *model, ch_error *error);
/* Appends the tokens of a text, with the beginning-of-text token in front where the tokenizer puts one. */
ch_status ch_api_encode(const ch_model *model, const char *text, size_t size, bool begin, ch_ids *ids,
                        ch_error *error);
/* The session's number of threads, for parallel regions that the calling thread starts; returns what was set. */
int ch_api_enter_threads(const ch_session *session);
void ch_api_leave_threads(int before);

#endif
