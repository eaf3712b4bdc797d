/* Reads files and directories of items, recognises the form of a file, and reads labels from a separate file. */
#include "eval/tasks/items.h"

#include <errno.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_bytes.h"
#include "base/text.h"
#include "eval/tasks/items_private.h"
#include "base/utf8.h"

/* --- labels in a file ------------------------------------------------------------------------------------------- */

/* Returns "valid-labels.lst" for "valid.jsonl" and "-labels.lst". Malloc'd; NULL when out of memory. */
static char *beside(const char *path, const char *ending) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
  size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path);
  char *name = malloc(stem + strlen(ending) + 1);
  if (name) {
    memcpy(name, path, stem);
    strcpy(name + stem, ending);
  }
  return name;
}

static ch_status join_labels(ch_items *items, int64_t first, const char *path, const char *text, size_t size,
                             ch_error *error) {
  const char *at = text, *end = text + size;
  for (int64_t i = first; i < items->count; i++) {
    const char *line = at, *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    at = newline ? newline + 1 : end;
    size_t length = (size_t)((newline ? newline : end) - line);
    while (length && (line[length - 1] == '\r' || line[length - 1] == ' ')) length--;
    if (length == 0)
      return ch_fail(error, CH_ERROR_FORMAT, "%s:%lld has no label for the item of that line in %s", path,
                     (long long)(i - first) + 1, items->files[items->data[i].file]);
    json_t *label = json_stringn(line, length);
    if (!label || json_object_set_new(items->data[i].fields, "label", label) != 0)
      return ch_fail(error, CH_ERROR_FORMAT, "%s:%lld is not UTF-8 text", path, (long long)(i - first) + 1);
  }
  return CH_OK;
}

/* Adds labels from the labels' file next to a file of items, if it exists and the first item has no label. */
static ch_status add_labels(ch_items *items, int64_t first, const char *path, const char *ending,
                            ch_error *error) {
  if (!ending || first == items->count || json_object_get(items->data[first].fields, "label")) return CH_OK;
  char *name = beside(path, ending), *text = NULL;
  size_t size;
  if (!name) return ch_no_memory(error);
  ch_status status = CH_OK;
  if (ch_is_file(name)) {
    status = ch_read_file(name, 1 << 28, &text, &size, error);
    if (status == CH_OK) status = join_labels(items, first, name, text, size, error);
    free(text);
  }
  free(name);
  return status;
}

/* --- a file -------------------------------------------------------------------------------------------------- */

static ch_status check_text(const ch_item_reader *r, ch_error *error) {
  size_t valid = ch_utf8_valid_prefix((const unsigned char *)r->text, r->size);
  const char *zero = memchr(r->text, 0, r->size);
  if (zero && (size_t)(zero - r->text) < valid) valid = (size_t)(zero - r->text);
  if (valid == r->size) return CH_OK;
  int64_t line = 1;
  for (size_t i = 0; i < valid; i++) line += r->text[i] == '\n';
  return ch_fail(error, CH_ERROR_FORMAT, "%s:%lld is not UTF-8 text; task files must be UTF-8", r->path,
                 (long long)line);
}

static ch_status read_text(ch_item_reader *r, ch_error *error) {
  if (r->size >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0) {
    r->text += 3;
    r->size -= 3;
  }
  CH_TRY(check_text(r, error));
  size_t at = 0;
  while (at < r->size && strchr(" \t\r\n", r->text[at])) at++;
  if (at == r->size)
    return ch_fail(error, CH_ERROR_FORMAT, "%s is empty; it must hold the items of the task", r->path);
  if (r->text[at] == '{' || r->text[at] == '[') return ch_items_read_json(r, error);
  if (r->forms->pages) return ch_items_read_pages(r, error);
  if (r->forms->lines) return ch_items_read_lines(r, error);
  return ch_items_read_table(r, error);
}

static ch_status add_file(ch_items *items, const char *path, ch_error *error) {
  char **files = realloc(items->files, (size_t)(items->file_count + 1) * sizeof *files), *copy = strdup(path);
  if (files) items->files = files;
  if (!files || !copy) {
    free(copy);
    return ch_no_memory(error);
  }
  files[items->file_count++] = copy;
  return CH_OK;
}

static ch_status read_file(const char *path, const ch_item_forms *forms, int64_t most, ch_items *items,
                           ch_error *error) {
  CH_TRY(add_file(items, path, error));
  ch_file_bytes bytes;
  int64_t first = items->count;
  ch_status status = ch_file_bytes_open(path, &bytes, error);
  if (status == CH_OK) {
    ch_item_reader reader = {.path = path,
                             .text = bytes.data ? (const char *)bytes.data : "",
                             .size = bytes.size,
                             .forms = forms,
                             .most = most,
                             .items = items};
    status = read_text(&reader, error);
  }
  ch_file_bytes_close(&bytes);
  return status == CH_OK ? add_labels(items, first, path, forms->labels, error) : status;
}

/* --- a directory --------------------------------------------------------------------------------------------- */

static int visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

/* Compares names by bytes, whatever the locale. */
static int compare_entry_names(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static ch_status read_directory(const char *path, const ch_item_forms *forms, int64_t most, ch_items *items,
                                ch_error *error) {
  struct dirent **names;
  int count = scandir(path, &names, visible, compare_entry_names);
  if (count < 0)
    return ch_fail(error, CH_ERROR_IO, "cannot read the directory %s: %s", path, strerror(errno));
  ch_status status = CH_OK;
  for (int i = 0; i < count; i++) {
    char *file = ch_path_join(path, names[i]->d_name);
    if (!file) status = ch_no_memory(error);
    size_t length = strlen(names[i]->d_name);
    bool labels = length > 4 && strcmp(names[i]->d_name + length - 4, ".lst") == 0;
    if (status == CH_OK && !labels && ch_is_file(file) && !(most > 0 && items->count >= most))
      status = read_file(file, forms, most, items, error);
    free(file);
    free(names[i]);
  }
  free(names);
  if (status == CH_OK && items->count == 0)
    return ch_fail(error, CH_ERROR_FORMAT, "%s has no file with items", path);
  return status;
}

ch_status ch_items_read(const char *path, const ch_item_forms *forms, int64_t most, ch_items *items,
                        ch_error *error) {
  *items = (ch_items){0};
  ch_status status = ch_is_directory(path) ? read_directory(path, forms, most, items, error)
                                           : read_file(path, forms, most, items, error);
  if (status != CH_OK) ch_items_free(items);
  return status;
}

ch_status ch_items_of_list(const json_t *list, const char *name, ch_items *items, ch_error *error) {
  *items = (ch_items){0};
  ch_item_reader reader = {.path = name, .items = items};
  ch_status status = add_file(items, name, error);
  for (size_t i = 0; status == CH_OK && i < json_array_size(list); i++)
    status = ch_items_add(&reader, json_copy(json_array_get(list, i)), (int64_t)i + 1, error);
  if (status != CH_OK) ch_items_free(items);
  return status;
}
