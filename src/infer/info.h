/* The figures of <crosshead/info.h> as pages and tables of text. */
#ifndef CH_INFER_INFO_H
#define CH_INFER_INFO_H

#include <crosshead/info.h>

#include "base/text.h"
#include "model/accounting.h"

/* One model with its figures. */
typedef struct ch_info_row {
  const char *name;
  const ch_config *config;
  ch_account account;
} ch_info_row;

/* Writes all figures of one model. cache_name: the name of the cache's types. */
void ch_info_put_page(const ch_info_row *row, int64_t depth, const char *cache_name, ch_text *text);
/* Writes a line for each of several models. */
void ch_info_put_table(const ch_info_row *rows, size_t count, int64_t depth, ch_text *text);

#endif
