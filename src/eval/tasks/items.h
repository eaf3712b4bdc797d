/* Items of a task: JSON objects read from whatever form their file has. */
#ifndef CH_EVAL_TASKS_ITEMS_H
#define CH_EVAL_TASKS_ITEMS_H

#include <jansson.h>

#include "base/error.h"

/* The task's description of files whose fields have no names. */
typedef struct ch_item_forms {
  /* names of the fields of plain text with one per line, item after item; a name that is there more than
     once makes a list. Or NULL */
  const json_t *lines;
  const json_t *columns; /* names of a CSV file's columns when its first row is an item. Or NULL */
  /* the field that holds a page of plain text, in tasks whose items are pages. Or NULL */
  const json_t *pages;
  const char *
      labels; /* "-labels.lst": ITEMS.jsonl has its field "label" in ITEMS-labels.lst, one line per item. Or NULL */
} ch_item_forms;

typedef struct ch_item {
  json_t *fields; /* an object; "file" is its file's name without ending */
  int file;       /* index into ch_items.files */
  int64_t line;   /* where it begins, from 1 */
} ch_item;

/* Zero-initialise; release with ch_items_free. */
typedef struct ch_items {
  ch_item *data;
  int64_t count, capacity;
  char **files; /* paths */
  int file_count;
} ch_items;

/* Reads a file, or all files of a directory in the order of their names: JSON lines, a JSON list, CSV or TSV with a row
   of names, or what `forms` says; gzip and bzip2 are unpacked. most: items at most, the first ones; 0: all. A file that
   holds something else is an error with its line. */
ch_status ch_items_read(const char *path, const ch_item_forms *forms, int64_t most, ch_items *items,
                        ch_error *error);
/* Items of a list of objects, which messages call `name`. The objects remain the caller's. */
ch_status ch_items_of_list(const json_t *list, const char *name, ch_items *items, ch_error *error);
void ch_items_free(ch_items *items);

/* Writes "FILE:LINE" of an item. Returns buffer. */
const char *ch_item_place(const ch_items *items, int64_t index, char *buffer, size_t size);

#endif
