/* Builds lists of configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "combinations.h"

static const struct {
  const char *key, *value;
} usual[] = {{"vocab_size", "13"},           {"hidden_size", "16"},        {"intermediate_size", "12"},
             {"num_hidden_layers", "2"},     {"num_attention_heads", "4"}, {"max_position_embeddings", "32"},
             {"tie_word_embeddings", "true"}};

static void append(char text[COMBINATION_TEXT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(char text[COMBINATION_TEXT], const char *format, ...) {
  size_t used = strlen(text);
  va_list args;
  va_start(args, format);
  int wrote = vsnprintf(text + used, COMBINATION_TEXT - used, format, args);
  va_end(args);
  if (wrote < 0 || (size_t)wrote >= COMBINATION_TEXT - used) {
    print_error("a combination is too long: %s\n", text);
    abort();
  }
}

static bool mentions(const char *sizes, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "'%s'", key);
  return strstr(sizes, quoted) != NULL;
}

void add_combination_of(combination_list *list, int64_t sequences, int64_t length, const char *sizes,
                        const char *type, const char *attention) {
  if (list->count == MOST_COMBINATIONS) {
    print_error("more than %d combinations in a list\n", MOST_COMBINATIONS);
    abort();
  }
  combination *item = &list->items[list->count++];
  *item = (combination){.sequences = sequences, .length = length};
  append(item->json, "{'model_type': 'crosshead'");
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (!mentions(sizes, usual[i].key)) append(item->json, ", '%s': %s", usual[i].key, usual[i].value);
  if (*sizes) append(item->json, ", %s", sizes);
  append(item->json, ", 'attention': {'type': '%s'%s%s}}", type, *attention ? ", " : "", attention);
  for (char *c = item->json; *c; c++)
    if (*c == '\'') *c = '"';
}

void add_combination(combination_list *list, const char *sizes, const char *type, const char *attention) {
  add_combination_of(list, 2, 8, sizes, type, attention);
}

void add_combination_stored(combination_list *list, const reference_stored *stored, int count,
                            const char *sizes, const char *type, const char *attention) {
  add_combination(list, sizes, type, attention);
  list->items[list->count - 1].stored = stored;
  list->items[list->count - 1].stored_count = count;
}

void add_windows(combination_list *list) {
  enum { MOST = 12 };
  static const char *const windows[] = {
      "'sliding_window': 3", "'sliding_window': 1, 'attention_sinks': 2",
      "'sliding_window': 2, 'attention_sinks': 1", "'sliding_window': 5",
      "'sliding_window': 2, 'layer_types': ['sliding_attention', 'full_attention']"};
  int own = list->count, step = own > MOST ? own / MOST : 1, added = 0;
  for (int i = 0; i < own && added < MOST && list->count < MOST_COMBINATIONS; i += step) {
    const combination *from = &list->items[i];
    bool two_layers = strstr(from->json, "\"num_hidden_layers\": 2");
    if (strstr(from->json, "crosshead_vit") || from->stored) continue;
    combination *item = &list->items[list->count++];
    *item = (combination){.sequences = from->sequences, .length = from->length};
    append(item->json, "{'final_logit_softcapping': 3.0, %s%s, %s",
           strstr(from->json, "\"talking\"") || added % 3 ? "" : "'attn_logit_softcapping': 0.4, ",
           windows[added % (two_layers ? 5 : 4)], from->json + 1);
    for (char *c = item->json; *c; c++)
      if (*c == '\'') *c = '"';
    added++;
  }
}

int cross(const char *const *first, const char *const *second, crossing *out, int most) {
  int count = 0;
  for (const char *const *a = first; *a; a++)
    for (const char *const *b = second; *b; b++) {
      if (count == most) abort();
      snprintf(out[count++].text, COMBINATION_TEXT, "%s%s%s", *a, **a && **b ? ", " : "", *b);
    }
  return count;
}
