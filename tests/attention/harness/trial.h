/* Models in double whose logits and gradients tests compare with each other. */
#ifndef TESTS_ATTENTION_TRIAL_H
#define TESTS_ATTENTION_TRIAL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "specimen.h"

static ch_engine engine;

/* A model in double with its gradients. */
typedef struct trial {
  combination_list list;
  specimen s;
  double *logits, **gradients; /* [sequences, length, vocab] logits; [params] gradient of each tensor */
} trial;

static inline trial *open_trial(const char *sizes, const char *type, const char *attention) {
  trial *t = calloc(1, sizeof *t);
  add_combination(&t->list, sizes, type, attention);
  if (!specimen_open(&t->list.items[0], &t->s))
    fail_msg("the library does not know %s", t->list.items[0].json);
  t->gradients = calloc((unsigned)t->s.params.count, sizeof *t->gradients);
  for (int p = 0; p < t->s.params.count; p++)
    t->gradients[p] = calloc((size_t)ch_param_count(&t->s.params.rows[p]), sizeof **t->gradients);
  return t;
}

static inline void close_trial(trial *t) {
  for (int p = 0; p < t->s.params.count; p++) free(t->gradients[p]);
  free(t->gradients);
  free(t->logits);
  specimen_close(&t->s);
  free(t);
}

static inline int find(const trial *t, const char *name) {
  int index = ch_params_find(&t->s.params, name);
  if (index < 0) fail_msg("there is no %s", name);
  return index;
}

static inline double *values(const trial *t, const char *name) {
  return t->s.wide[find(t, name)].data;
}

static inline const double *gradient(const trial *t, const char *name) {
  return t->gradients[find(t, name)];
}

/* Returns "model.layers.{layer}.self_attn.{projection}.{rest}" in one of four static buffers. */
static inline const char *in_layer(int layer, const char *projection, const char *rest) {
  static char names[4][128];
  static int next;
  char *name = names[next++ % 4];
  snprintf(name, 128, "model.layers.%d.self_attn.%s.%s", layer, projection, rest);
  return name;
}

static inline void run(trial *t) {
  specimen *s = &t->s;
  int64_t rows = s->sequences * s->length;
  ch_model_graph shape = specimen_shape(s, CH_F64, CH_HEAD_LOGITS);
  t->logits = specimen_run(s, &engine, &shape, s->wide, s->tokens, NULL, rows * s->vocab);
  assert_non_null(t->logits);
  shape = specimen_shape(s, CH_F64, CH_HEAD_LOSS);
  shape.trainable = true;
  ch_runner_call call = {.weights = s->wide,
                         .tokens = s->tokens,
                         .targets = s->targets,
                         .gradients = (void **)t->gradients,
                         .seed = 1};
  ch_runner *runner = NULL;
  ch_error error = {0};
  const void *losses = NULL;
  if (ch_runner_create(&engine, &s->config, &s->params, &shape, false, &runner, &error) != CH_OK ||
      ch_runner_run(runner, &call, &losses, &error) != CH_OK)
    fail_msg("%s", error.message);
  ch_runner_free(runner);
}

static inline void assert_same(const char *what, const double *a, const double *b, int64_t count) {
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < count; i++) {
    largest = fmax(largest, fabs(b[i]));
    worst = fmax(worst, fabs(a[i] - b[i]));
    if (isnan(a[i])) fail_msg("%s: element %d is not a number", what, (int)i);
  }
  if (!(worst <= 1e-12 * largest)) fail_msg("%s differ by %g of the largest", what, worst / largest);
}

static inline void assert_same_logits(const trial *a, const trial *b) {
  assert_same("logits", a->logits, b->logits, a->s.sequences * a->s.length * a->s.vocab);
}

/* Asserts that all tensors whose names are in both models have equal gradients. Dictionaries are not compared. */
static inline void assert_same_gradients(const trial *a, const trial *b) {
  int common = 0;
  for (int p = 0; p < a->s.params.count; p++) {
    const char *name = a->s.params.rows[p].name;
    int other = ch_params_find(&b->s.params, name);
    if (other < 0 || strstr(name, ".dictionary.")) continue;
    assert_same(name, a->gradients[p], b->gradients[other], ch_param_count(&a->s.params.rows[p]));
    common++;
  }
  assert_true(common > 0);
}

static inline int open_engine(void **state) {
  (void)state;
  ch_error error = {0};
  return ch_engine_init(&engine, CH_F64, &error) == CH_OK ? 0 : -1;
}

static inline int close_engine(void **state) {
  (void)state;
  ch_engine_free(&engine);
  return 0;
}

#endif
