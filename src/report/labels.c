/* Shortens the names of models for pages and tables, and keeps them distinct. */
#include "report/labels.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_NAME = 24, LONGEST_LABEL = 28, LABEL_SIZE = LONGEST_LABEL + 8 };

/* Returns the nearest start of a UTF-8 character at or after `at`. */
static size_t character_start(const char *text, size_t at) {
  while (((unsigned char)text[at] & 0xC0) == 0x80) at++;
  return at;
}

static void shorten(const char *name, char label[LABEL_SIZE]) {
  const char *slash = strrchr(name, '/'), *last = slash && slash[1] ? slash + 1 : name;
  size_t length = strlen(last);
  if (length > 5 && strcmp(last + length - 5, ".json") == 0) length -= 5;
  if (length <= LONGEST_LABEL) {
    snprintf(label, LABEL_SIZE, "%.*s", (int)length, last);
    return;
  }
  size_t head = character_start(last, LONGEST_LABEL / 2 - 4);
  size_t tail = character_start(last, length - LONGEST_LABEL / 2);
  snprintf(label, LABEL_SIZE, "%.*s…%.*s", (int)head, last, (int)(length - tail), last + tail);
}

static bool is_taken(const ch_summary *summary, int group, const char *label) {
  for (int i = 0; i < summary->count; i++)
    if (i != group && strcmp(summary->groups[i].name, label) == 0) return true;
  return false;
}

ch_status ch_summary_label(ch_summary *summary, ch_error *error) {
  for (int i = 0; i < summary->count; i++) {
    ch_group *group = &summary->groups[i];
    char label[LABEL_SIZE];
    if (strlen(group->name) <= LONGEST_NAME) continue;
    shorten(group->name, label);
    if (is_taken(summary, i, label)) continue;
    const char *kept = ch_arena_strdup(&summary->arena, label);
    if (!kept) return ch_no_memory(error);
    group->name = kept;
  }
  return CH_OK;
}
