/* Reads the words and signs of templates, and reports errors with their position. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "template/template_private.h"

typedef ch_template_parser parser;

void *ch_template_fail(parser *p, const char *what) {
  size_t character = 1;
  for (const char *c = p->start; c < p->at; c++) character += ((unsigned char)*c & 0xc0) != 0x80; /* UTF-8 */
  if (p->status == CH_OK)
    p->status =
        ch_fail(p->error, CH_ERROR_FORMAT, "%s, at character %zu: %s", p->template->where, character, what);
  return NULL;
}

void *ch_template_allocate(parser *p, size_t size) {
  void *memory = ch_arena_alloc(&p->template->arena, size);
  if (!memory && p->status == CH_OK) p->status = ch_no_memory(p->error);
  return memory;
}

bool ch_template_enter(parser *p, const char *what) {
  char message[96];
  if (p->depth < CH_TEMPLATE_DEPTH) return ++p->depth;
  snprintf(message, sizeof message, "%s are nested more than %d deep; name an inner part with {%% set %%}",
           what, CH_TEMPLATE_DEPTH);
  ch_template_fail(p, message);
  return false;
}

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

bool ch_template_take(parser *p, const char *what) {
  while (p->at < p->end && isspace((unsigned char)*p->at)) p->at++;
  size_t size = strlen(what);
  if ((size_t)(p->end - p->at) < size || strncmp(p->at, what, size) != 0) return false;
  if (is_word(what[0]) && p->at + size < p->end && is_word(p->at[size])) return false;
  p->at += size;
  return true;
}

bool ch_template_need(parser *p, const char *what) {
  if (ch_template_take(p, what)) return true;
  char message[48];
  snprintf(message, sizeof message, "%s is missing", what);
  ch_template_fail(p, message);
  return false;
}

const char *ch_template_take_name(parser *p) {
  while (p->at < p->end && isspace((unsigned char)*p->at)) p->at++;
  const char *from = p->at;
  if (p->at < p->end && (isalpha((unsigned char)*p->at) || *p->at == '_'))
    while (p->at < p->end && is_word(*p->at)) p->at++;
  if (p->at == from) return ch_template_fail(p, "a name is missing");
  char *name = ch_template_allocate(p, (size_t)(p->at - from) + 1);
  if (name) memcpy(name, from, (size_t)(p->at - from));
  return name;
}
