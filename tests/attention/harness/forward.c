/* Checks whole passes: the graph against the definition, and documents packed into one sequence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "properties.h"

static double mean_of(const double *losses, int64_t count, int64_t predicted) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += losses[i];
  return sum / (double)predicted;
}

void check_definition(laboratory *lab, const specimen *s) {
  int64_t rows = s->sequences * s->length;
  ch_model_graph shape = specimen_shape(s, CH_F64, CH_HEAD_LOGITS);
  double *wide = specimen_run(s, &lab->wide, &shape, s->wide, s->tokens, NULL, rows * s->vocab);
  expect_near(s, "logits in double", rows * s->vocab, wide, s->logits, s->largest, 1e-9);
  free(wide);
  shape.dtype = CH_F32;
  double *narrow = specimen_run(s, &lab->narrow, &shape, s->narrow, s->tokens, NULL, rows * s->vocab);
  expect_near(s, "logits in F32", rows * s->vocab, narrow, s->logits, s->largest, 5e-5);
  free(narrow);
  if (s->length < 2) return;
  shape = specimen_shape(s, CH_F64, CH_HEAD_LOSS);
  double *losses = specimen_run(s, &lab->wide, &shape, s->wide, s->tokens, NULL, rows);
  if (!losses) return;
  double loss = mean_of(losses, rows, s->sequences * (s->length - 1));
  expect_near(s, "loss in double", 1, &loss, &s->loss, s->loss, 1e-9);
  free(losses);
}

/* Packs two documents into each sequence, with a different split in each. Each document must have the logits that it
   has alone. */
void check_documents(laboratory *lab, const specimen *s) {
  if (s->length < 3) return;
  int64_t rows = s->sequences * s->length, count = rows * s->vocab;
  int32_t *start = malloc((size_t)rows * sizeof *start);
  for (int64_t i = 0; i < rows; i++) {
    int32_t second = (int32_t)(1 + (i / s->length + s->length / 2) % (s->length - 1));
    start[i] = i % s->length < second ? 0 : second;
  }
  ch_model_graph shape = specimen_shape(s, CH_F64, CH_HEAD_LOGITS);
  shape.documents = true;
  double *packed = specimen_run(s, &lab->wide, &shape, s->wide, s->tokens, start, count);
  double *expected = malloc((size_t)count * sizeof *expected);
  for (int64_t b = 0; b < s->sequences; b++) {
    int64_t second = start[(b + 1) * s->length - 1], first_row = b * s->length;
    reference_weights weights = s->definition_weights;
    reference_forward(&s->definition, &weights, s->tokens + first_row, 1, second, NULL,
                      expected + first_row * s->vocab);
    reference_forward(&s->definition, &weights, s->tokens + first_row + second, 1, s->length - second, NULL,
                      expected + (first_row + second) * s->vocab);
  }
  expect_near(s, "logits of packed documents", count, packed, expected, s->largest, 1e-9);
  free(expected);
  free(packed);
  free(start);
}
