/* Items of a task: JSON objects read from files of several forms. */
#ifndef CH_EVAL_TASKS_ITEMS_H
#define CH_EVAL_TASKS_ITEMS_H

#include <jansson.h>

#include "base/error.h"

/* The task's description of files whose fields have no names. */
typedef struct ch_item_forms {
  /* names of the fields of plain text with one field per line, item after item; a name that occurs more than once
     becomes a list. NULL: none */
  const json_t *lines;
  const json_t *columns; /* names of a CSV file's columns if its first row is an item; NULL: none */
  const json_t *pages; /* field that holds a page of plain text, in tasks whose items are pages; NULL: none */
  /* "-labels.lst" if the field "label" of ITEMS.jsonl is in ITEMS-labels.lst, one line per item; NULL: none */
  const char *labels;
} ch_item_forms;

typedef struct ch_item {
  json_t *fields; /* object; "file" is the file's name without endings, unless the item has this field */
  int file;       /* index into ch_items.files */
  int64_t line;   /* line at which the item begins, from 1; the element's number in a JSON list */
} ch_item;

/* Zero-initialise; release with ch_items_free. */
typedef struct ch_items {
  ch_item *data;
  int64_t count, capacity;
  char **files; /* [file_count] paths */
  int file_count;
} ch_items;

/* Reads a file, or all files of a directory in the order of their names: JSON lines, a JSON list, CSV or TSV with a row
   of names, or a form of `forms`; gzip and bzip2 are unpacked. most: maximum number of items; 0: all. Another form
   is CH_ERROR_FORMAT. */
ch_status ch_items_read(const char *path, const ch_item_forms *forms, int64_t most, ch_items *items,
                        ch_error *error);
/* Reads items from a list of objects, which messages call `name`. The list remains the caller's. */
ch_status ch_items_of_list(const json_t *list, const char *name, ch_items *items, ch_error *error);
void ch_items_free(ch_items *items);

/* Writes an item's "FILE:LINE". Returns buffer. */
const char *ch_item_place(const ch_items *items, int64_t index, char *buffer, size_t size);

#endif
