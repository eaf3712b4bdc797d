/* Readers of the forms of items. */
#ifndef CH_EVAL_TASKS_ITEMS_PRIVATE_H
#define CH_EVAL_TASKS_ITEMS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "eval/tasks/items.h"

/* One file that is being read. */
typedef struct ch_item_reader {
  const char *path;
  const char *text;
  size_t size;
  const ch_item_forms *forms;
  int64_t most;
  ch_items *items;
} ch_item_reader;

/* Adds an item, steals its fields, and adds the field "file" if it is missing. fields NULL: out of memory. */
ch_status ch_items_add(ch_item_reader *reader, json_t *fields, int64_t line, ch_error *error);
bool ch_items_full(const ch_item_reader *reader);

ch_status ch_items_read_json(ch_item_reader *reader, ch_error *error);
ch_status ch_items_read_table(ch_item_reader *reader, ch_error *error);
ch_status ch_items_read_lines(ch_item_reader *reader, ch_error *error);
ch_status ch_items_read_pages(ch_item_reader *reader, ch_error *error);

#endif
