/* Fuzz target: templates. The input is a template, a NUL, and the JSON of the item that fills it. Without a NUL, the
 * item is fixed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char item_text[] =
    "{\"t\": \" a caf\\u00e9 \", \"q\": 1, \"list\": [\"x\", \"y\"], \"deep\": {\"a\": {\"b\": [5]}}}";

/* Fills a template twice. Both must give the same value, or both must fail with a one-line message. */
static void fill(const ch_template *template, json_t *item) {
  ch_template_scope scope = {.fields = item, .now = 1000000000};
  json_t *values[2];
  for (int i = 0; i < 2; i++) {
    ch_error error = {0};
    ch_status status = ch_template_value(template, &scope, &values[i], &error);
    if ((status == CH_OK) != (values[i] != NULL)) abort();
    if (status != CH_OK && (status != error.status || !*error.message || strchr(error.message, '\n')))
      abort();
  }
  if (!values[0] != !values[1] || (values[0] && !json_equal(values[0], values[1]))) abort();
  json_decref(values[0]);
  json_decref(values[1]);
  ch_template_scope_free(&scope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *end = size ? memchr(data, 0, size) : NULL;
  size_t length = end ? (size_t)(end - data) : size;
  json_t *item = end ? json_loadb((const char *)end + 1, size - length - 1, JSON_REJECT_DUPLICATES, NULL)
                     : json_loads(item_text, 0, NULL);
  char *text = malloc(length + 1);
  if (text && json_is_object(item)) {
    ch_template *template;
    ch_error error = {0};
    if (length) memcpy(text, data, length);
    text[length] = 0;
    for (int dialect = CH_TEMPLATE_TASK; dialect <= CH_TEMPLATE_CHAT; dialect++) {
      ch_status status = ch_template_parse(text, dialect, "input", &template, &error);
      if ((status == CH_OK) != (template != NULL) || (status != CH_OK && !*error.message)) abort();
      if (template) fill(template, item);
      ch_template_free(template);
    }
  }
  free(text);
  json_decref(item);
  return 0;
}
