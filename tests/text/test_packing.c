/* Tests best-fit packing and the splitting of texts into documents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/random.h"
#include "text/documents.h"
#include "text/packing.h"

/* --- documents ---------------------------------------------------------------------------------------------- */

static void expect_documents(ch_document_separator separator, const char *text, const char *const *expected) {
  size_t place = 0, size = 0;
  const char *document = NULL;
  separator = ch_separator_resolve(separator, text, strlen(text));
  for (; *expected; expected++) {
    assert_true(ch_next_document(separator, text, strlen(text), &place, &document, &size));
    assert_int_equal(size, strlen(*expected));
    assert_memory_equal(document, *expected, size);
  }
  assert_false(ch_next_document(separator, text, strlen(text), &place, &document, &size));
}

static void markers_and_blank_lines_separate_documents(void **state) {
  (void)state;
  expect_documents(CH_DOCUMENTS_AUTO, "one\n<|endoftext|>\ntwo\n\nmore<|endoftext|><|endoftext|>\n",
                   (const char *const[]){"one", "two\n\nmore", NULL});
  expect_documents(CH_DOCUMENTS_AUTO, "one\n\ntwo\n", (const char *const[]){"one\n\ntwo\n", NULL});
  expect_documents(CH_DOCUMENTS_BLANK_LINES, "\none\nstill\n\n\n\ntwo\r\n \r\nthree",
                   (const char *const[]){"one\nstill", "two", "three", NULL});
  expect_documents(CH_DOCUMENTS_NONE, "a<|endoftext|>b", (const char *const[]){"a<|endoftext|>b", NULL});
  expect_documents(CH_DOCUMENTS_MARKER, "<|endoftext|>\n\n<|endoftext|>", (const char *const[]){NULL});
}

/* --- packing ------------------------------------------------------------------------------------------------ */

enum { LENGTH = 32, END = 0, MOST = 1 << 16 };

typedef struct packed {
  int32_t ids[MOST];
  int64_t count;
} packed;

static ch_status collect(void *context, const int32_t *window, int64_t length, ch_error *error) {
  (void)error;
  packed *p = context;
  assert_true(p->count + length <= MOST);
  memcpy(p->ids + p->count, window, (size_t)length * sizeof *window);
  p->count += length;
  return CH_OK;
}

/* Document k is k, k, …, k, END. Every id must come out once, and no document that fits into a window may be
   cut. */
static void documents_that_fit_are_never_cut(void **state) {
  (void)state;
  static packed out;
  memset(&out, 0, sizeof out);
  ch_packer packer;
  assert_int_equal(ch_packer_init(&packer, LENGTH, END, collect, &out, NULL), CH_OK);
  ch_random random;
  ch_random_seed(&random, 3, 0);
  enum { DOCUMENTS = 500 };
  int64_t sizes[DOCUMENTS + 1] = {0}, total = 0;
  for (int32_t k = 1; k <= DOCUMENTS; k++) {
    int32_t ids[100];
    sizes[k] = 2 + (int64_t)ch_random_below(&random, k % 10 == 0 ? 90 : 20);
    for (int64_t i = 0; i + 1 < sizes[k]; i++) ids[i] = k;
    ids[sizes[k] - 1] = END;
    total += sizes[k];
    assert_int_equal(ch_packer_add(&packer, ids, sizes[k], NULL), CH_OK);
  }
  assert_int_equal(ch_packer_finish(&packer, NULL), CH_OK);
  assert_int_equal(out.count % LENGTH, 0);
  assert_int_equal(out.count, total + packer.padding);
  assert_true(packer.padding < out.count / 20);
  int64_t seen[DOCUMENTS + 1] = {0}, windows[DOCUMENTS + 1] = {0}, last[DOCUMENTS + 1];
  memset(last, 0xff, sizeof last);
  for (int64_t i = 0; i < out.count; i++) {
    int32_t k = out.ids[i];
    if (k == END) continue;
    seen[k]++;
    if (last[k] != i / LENGTH) windows[k]++;
    last[k] = i / LENGTH;
  }
  for (int k = 1; k <= DOCUMENTS; k++) {
    assert_int_equal(seen[k], sizes[k] - 1);
    assert_int_equal(windows[k] > 1, sizes[k] - 1 > LENGTH);
  }
  ch_packer_free(&packer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(markers_and_blank_lines_separate_documents),
      cmocka_unit_test(documents_that_fit_are_never_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
