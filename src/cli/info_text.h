/* What `crosshead info` prints for people. */
#ifndef CH_CLI_INFO_TEXT_H
#define CH_CLI_INFO_TEXT_H

#include "base/text.h"
#include "model/accounting.h"

enum { CH_INFO_NAME_SIZE = 48 };

typedef struct ch_info {
  char name[CH_INFO_NAME_SIZE];
  ch_config config;
  ch_account account;
} ch_info;

/* All figures of one model. */
void ch_info_page(const ch_info *info, int64_t depth, const char *cache_dtype, ch_text *text);
/* A line for each of several models. */
void ch_info_table(const ch_info *infos, int count, int64_t depth, ch_text *text);

#endif
