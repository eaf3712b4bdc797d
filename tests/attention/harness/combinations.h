/* Lists of configurations, and the tests that run over them.
 *
 * A test program fills a list and passes it to run_combinations. Every property of properties.h becomes a test over the
 * whole list. A failure names its configuration. */
#ifndef TESTS_ATTENTION_COMBINATIONS_H
#define TESTS_ATTENTION_COMBINATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "attention/reference/reference.h"

enum { MOST_COMBINATIONS = 160, COMBINATION_TEXT = 800 };

typedef struct combination {
  char json[COMBINATION_TEXT];    /* config.json */
  int64_t sequences, length;      /* shape of the test's tokens */
  const reference_stored *stored; /* sizes that are in the checkpoint but not in the config, or NULL */
  int stored_count;
} combination;

typedef struct combination_list {
  combination items[MOST_COMBINATIONS];
  int count;
} combination_list;

/* Adds a small model of 2 layers, 16 wide, with a vocabulary of 13 tokens, so that tokens repeat. `sizes` are further
   keys of the top level, which replace the usual ones. `attention` are the keys of the attention object after its type.
   `sizes` and `attention` have ' instead of ", and may be "". */
void add_combination(combination_list *list, const char *sizes, const char *type, const char *attention);
/* Like add_combination, with `sequences` of `length` tokens instead of 2 of 8. */
void add_combination_of(combination_list *list, int64_t sequences, int64_t length, const char *sizes,
                        const char *type, const char *attention);
/* Like add_combination, with `count` sizes from a checkpoint, which must outlive the list. */
void add_combination_stored(combination_list *list, const reference_stored *stored, int count,
                            const char *sizes, const char *type, const char *attention);
/* Adds up to 12 of the list's configurations again, with different windows, sinks and soft caps. */
void add_windows(combination_list *list);
/* A result of `cross`. */
typedef struct crossing {
  char text[COMBINATION_TEXT];
} crossing;
/* Lists all texts "a, b" of an `a` from the first list and a `b` from the second. Both lists are NULL-terminated. ""
   adds nothing. Returns the number of texts. Aborts if there are more than `most`. */
int cross(const char *const *first, const char *const *second, crossing *out, int most);

/* Runs every property over the list as cmocka tests. Returns the number of failures. */
int run_combinations(const combination_list *list);
/* Like run_combinations, but only for the definition, packed documents, decoding, chunks, rewinding, forms of gates and
   batches. */
int run_values_of_combinations(const combination_list *list);

#endif
