/* The list of items that readers fill. */
#include <stdlib.h>
#include <string.h>

#include "eval/tasks/items_private.h"

bool ch_items_full(const ch_item_reader *reader) {
  return reader->most > 0 && reader->items->count >= reader->most;
}

/* Returns the file's name without directory and endings. */
static json_t *items_name(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  return json_stringn(name, strcspn(name, "."));
}

ch_status ch_items_add(ch_item_reader *reader, json_t *fields, int64_t line, ch_error *error) {
  ch_items *items = reader->items;
  if (items->count == items->capacity) {
    int64_t capacity = items->capacity ? 2 * items->capacity : 256;
    ch_item *data = realloc(items->data, (size_t)capacity * sizeof *data);
    if (data) {
      items->data = data;
      items->capacity = capacity;
    }
  }
  json_t *name = fields && !json_object_get(fields, "file") ? items_name(reader->path) : NULL;
  bool room = fields && items->count < items->capacity;
  if (!room) json_decref(name);
  if (!room || (name && json_object_set_new(fields, "file", name) != 0)) {
    json_decref(fields);
    return ch_no_memory(error);
  }
  items->data[items->count++] = (ch_item){.fields = fields, .file = items->file_count - 1, .line = line};
  return CH_OK;
}

void ch_items_free(ch_items *items) {
  for (int64_t i = 0; i < items->count; i++) json_decref(items->data[i].fields);
  for (int i = 0; i < items->file_count; i++) free(items->files[i]);
  free(items->data);
  free(items->files);
  *items = (ch_items){0};
}

const char *ch_item_place(const ch_items *items, int64_t index, char *buffer, size_t size) {
  const ch_item *item = &items->data[index];
  snprintf(buffer, size, "%s:%lld", items->files[item->file], (long long)item->line);
  return buffer;
}
