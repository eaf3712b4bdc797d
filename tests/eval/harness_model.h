/* The model with which lm-evaluation-harness was run, as fixtures of a test group. */
#ifndef CH_TESTS_HARNESS_MODEL_H
#define CH_TESTS_HARNESS_MODEL_H

#include "eval/tasks/ask_task.h"

static ch_model *model;
static ch_tokenizer *tokenizer;

static int open_model(void **state) {
  (void)state;
  const char *path = TEST_DATA "/TinyStories-656K";
  return ch_model_load(path, CH_WEIGHTS_MAPPED, &model, NULL) != CH_OK ||
         ch_tokenizer_open(path, &tokenizer, NULL) != CH_OK;
}

static int close_model(void **state) {
  (void)state;
  ch_tokenizer_free(tokenizer);
  ch_model_unload(model);
  return 0;
}

#endif
