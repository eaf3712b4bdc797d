/* The arguments and results of methods, filters and tests. */
#include <string.h>

#include "template/template_private.h"

typedef ch_template_call call;

json_t *ch_template_argument(const call *c, int position, const char *keyword) {
  for (int i = 0; i < c->count; i++) {
    const char *given = c->keywords ? c->keywords[i] : NULL;
    if (given ? strcmp(given, keyword) == 0 : i == position) return c->in[i];
  }
  return NULL;
}

const char *ch_template_text_argument(const call *c, int position, const char *keyword) {
  return json_string_value(ch_template_argument(c, position, keyword));
}

json_t *ch_template_refuse(const call *c, const char *what) {
  ch_fail(c->error, CH_ERROR_FORMAT, "%s %s", c->name, what);
  return NULL;
}

json_t *ch_template_finish(const call *c, ch_text *text) {
  json_t *result = text->failed ? NULL : json_stringn(text->data ? text->data : "", text->size);
  ch_text_free(text);
  if (!result) ch_no_memory(c->error);
  return result;
}

bool ch_template_put(const call *c, ch_text *text, const char *bytes, size_t size) {
  if (!ch_template_fits(text->size + size, c->error)) return false;
  ch_text_put(text, bytes, size);
  return true;
}
