/* One combination as two models, the library's and the reference's, with equal random weights. */
#ifndef TESTS_ATTENTION_SPECIMEN_H
#define TESTS_ATTENTION_SPECIMEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "attention/reference/reference.h"
#include "config/config.h"
#include "config/params.h"
#include "model/runner.h"

#include "combinations.h"

typedef struct specimen {
  const combination *from;
  ch_config config;
  ch_params params;
  ch_tensor *wide, *narrow; /* [params.count] weights in F64, and equal weights in F32 */
  void *wide_data, *narrow_data;
  reference_config definition;
  reference_weights definition_weights; /* views of `wide` */
  int64_t sequences, length, vocab;
  int32_t *tokens, *targets; /* [sequences, length]; a target is the next token, or -1 after the last one */
  double *logits, loss;      /* results of the reference */
  double largest;            /* largest |logit| */
} specimen;

/* The specimens of a program, and the engines that run them. */
typedef struct laboratory {
  specimen *specimens;
  int count, left_out;    /* specimens, and combinations that the library does not support */
  ch_engine wide, narrow; /* engines of F64 and F32 */
} laboratory;

/* Creates a specimen. Prints a message and returns false if the library does not support the combination. */
bool specimen_open(const combination *from, specimen *s);
void specimen_close(specimen *s);
/* Returns the shape of a graph for all tokens of a specimen. */
ch_model_graph specimen_shape(const specimen *s, ch_dtype dtype, ch_head head);
/* Runs a graph of shape `shape` once on `sequences` x `length` tokens. Returns the root's `count` elements as doubles.
   The caller frees them. document_start may be NULL. Complains and returns NULL on failure. */
double *specimen_run(const specimen *s, ch_engine *engine, const ch_model_graph *shape,
                     const ch_tensor *weights, const int32_t *tokens, const int32_t *document_start,
                     int64_t count);

/* Reports a problem of a specimen. A property with complaints fails at its end. */
void complain(const specimen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the number of complaints so far. */
int complaints(void);
/* Complains unless a and b differ by at most `tolerance` times `scale`. */
void expect_near(const specimen *s, const char *what, int64_t count, const double *a, const double *b,
                 double scale, double tolerance);
/* Returns a copy of x in double, which the caller frees. */
double *widened(const float *x, int64_t count);

#endif
