/* Lists of configurations, and the tests that run over them. There is one program per family of mechanisms.
 *
 * A family's test fills a list and passes it to run_combinations. Every property of properties.h becomes a
 * test over the whole list. A failure names its configuration. */
#ifndef TESTS_ATTENTION_COMBINATIONS_H
#define TESTS_ATTENTION_COMBINATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "attention/reference/reference.h"

enum { MOST_COMBINATIONS = 160, COMBINATION_TEXT = 800 };

typedef struct combination {
  char json[COMBINATION_TEXT];    /* config.json */
  int64_t sequences, length;      /* of the tokens it is tried on */
  const reference_stored *stored; /* sizes that its checkpoint says and not the config, or NULL */
  int stored_count;
} combination;

typedef struct combination_list {
  combination items[MOST_COMBINATIONS];
  int count;
} combination_list;

/* Adds a small model of 2 layers, 16 wide, with 13 tokens of vocabulary (so that tokens repeat). `sizes` are further
   keys of the top level, which may replace those; `attention` are the keys of the attention object after its type.
   Both are written with ' for ", and may be "". */
void add_combination(combination_list *list, const char *sizes, const char *type, const char *attention);
/* Like add_combination, with this number of tokens instead of 2 sequences of 8. */
void add_combination_of(combination_list *list, int64_t sequences, int64_t length, const char *sizes,
                        const char *type, const char *attention);
/* Like add_combination, with `count` sizes from a checkpoint, which must outlive the list. */
void add_combination_stored(combination_list *list, const reference_stored *stored, int count,
                            const char *sizes, const char *type, const char *attention);
/* Adds a dozen of the list's configurations again, with windows and sinks of every kind. */
void add_windows(combination_list *list);
/* Lists all texts "a, b" of an `a` from the first list and a `b` from the second. Lists are NULL-terminated;
   "" adds nothing. */
typedef struct crossing {
  char text[COMBINATION_TEXT];
} crossing;
int cross(const char *const *first, const char *const *second, crossing *out, int most);

/* Runs every property over the list as cmocka tests. Returns the number of failures. */
int run_combinations(const combination_list *list);
/* Runs only the properties that compare the results of models, with and without the cache. They change no
   weights and do not inspect the cache. */
int run_values_of_combinations(const combination_list *list);

#endif
