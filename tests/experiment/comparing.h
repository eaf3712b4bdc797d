/* Small comparisons for tests: a text, settings that train in a second, and callbacks that check every event. */
#ifndef TESTS_EXPERIMENT_COMPARING_H
#define TESTS_EXPERIMENT_COMPARING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <omp.h>

#include "base/file.h"
#include "base/file_names.h"
#include "base/text.h"
#include "config_file/config_json.h"
#include "experiment/compare.h"
#include "experiment/lineup/match_size.h"
#include "scratch.h"

/* Writes sentences with some order in them, so that a model can learn a little. */
static inline void write_text(const char *name, uint32_t seed, int sentences) {
  static const char *const subjects[] = {"the king",      "a sailor", "my sister",
                                         "the old clock", "nobody",   "the river"};
  static const char *const verbs[] = {"sees", "remembers", "follows", "carries", "forgets"};
  static const char *const objects[] = {"a boat", "the city", "its own shadow", "three apples",
                                        "the song of the sea"};
  FILE *file = fopen(in_root(name), "w");
  assert_non_null(file);
  for (int i = 0; i < sentences; i++) {
    uint32_t choice[3];
    for (int k = 0; k < 3; k++) {
      seed = seed * 1664525u + 1013904223u;
      choice[k] = seed >> 16;
    }
    fprintf(file, "%s %s %s.%s", subjects[choice[0] % 6], verbs[choice[1] % 5], objects[choice[2] % 5],
            i % 4 == 3 ? "\n\n" : " ");
  }
  fclose(file);
}

static inline ch_compare_settings small(const char *out) {
  ch_compare_settings options;
  ch_compare_defaults(&options);
  options.text.data = in_root("text.txt");
  options.lineup.mechanisms = "mha,mqa";
  options.report.out = in_root(out);
  options.lineup.parameters = 60000;
  options.lineup.vocab = 300;
  options.training.tokens = 32 * 4 * 12; /* 12 steps */
  options.training.batch = 4;
  options.lineup.sequence = 32;
  options.rates.lr = 1.0 / 300; /* has no short decimal form */
  options.report.command = "test";
  return options;
}

typedef struct watch {
  int steps, begun, finished, earlier, written, timings, timed;
  int runs;                      /* expected number of runs of all models and seeds; 0: 2; -1: any */
  int names;                     /* number of mechanisms, of which one model each is timed */
  int stop_after;                /* steps after which the comparison is stopped; 0: never */
  bool stop_by_question;         /* true: `stop` stops the comparison; false: the event of a step does */
  int stop_timing;               /* timings after which the comparison is stopped; 0: never */
  int again;                     /* timings in a second round, for speeds that were not steady */
  const ch_model_result *timing; /* model of the last timing */
} watch;

static inline bool on_step(const ch_compare_position *position, void *user) {
  watch *w = user;
  assert_true(position->step.step >= 1 && position->step.step <= position->step.steps);
  w->steps++;
  return w->stop_after <= 0 || w->stop_by_question || w->steps < w->stop_after;
}

static inline void on_begin(const ch_compare_position *position, const ch_model_result *model, void *user) {
  watch *w = user;
  if (w->runs >= 0) assert_int_equal(position->runs, w->runs ? w->runs : 2);
  assert_int_equal(position->step.steps, 12);
  assert_string_equal(position->name, model->name);
  assert_int_equal(position->seed, model->seed);
  assert_true(model->parameters > 0 && model->layers > 0 && model->intermediate_size > 0);
  w->begun++;
}

static inline void on_model(const ch_model_result *model, bool earlier, void *user) {
  watch *w = user;
  assert_true(model->validation_loss > 0);
  w->finished++;
  w->earlier += earlier;
}

/* Checks that timing alternates between the models. */
static inline void on_timing(int32_t turn, int32_t turns, const ch_model_result *model, void *user) {
  watch *w = user;
  if (turn >= CH_COMPARE_TURNS) {
    assert_int_equal(turns, 2 * CH_COMPARE_TURNS);
    assert_true(++w->again <= w->names * CH_COMPARE_TURNS);
    return;
  }
  assert_int_equal(turns, CH_COMPARE_TURNS);
  assert_int_equal(turn, w->timings / w->names);
  assert_ptr_not_equal(model, w->timing);
  w->timing = model;
  w->timings++;
}

static inline void on_timed(const ch_model_result *model, void *user) {
  watch *w = user;
  assert_int_equal(model->timing_turns, CH_COMPARE_TURNS);
  w->timed++;
}

static inline ch_status on_written(const ch_compare_settings *settings, const ch_comparison *comparison,
                                   ch_error *error) {
  watch *w = settings->user;
  (void)comparison;
  (void)error;
  w->written++;
  return CH_OK;
}

static inline bool on_stop(void *user) {
  const watch *w = user;
  return (w->stop_by_question && w->steps >= w->stop_after) ||
         (w->stop_timing > 0 && w->timings >= w->stop_timing);
}

static inline bool on_event(const ch_compare_event *event, void *user) {
  switch (event->kind) {
  case CH_COMPARE_EVENT_STEP:
    return on_step(event->as.step.position, user);
  case CH_COMPARE_EVENT_BEGIN:
    on_begin(event->as.begin.position, event->as.begin.model, user);
    return true;
  case CH_COMPARE_EVENT_MODEL:
    on_model(event->as.model.model, event->as.model.earlier, user);
    return true;
  case CH_COMPARE_EVENT_TIMING:
    on_timing(event->as.timing.turn, event->as.timing.turns, event->as.timing.model, user);
    return true;
  case CH_COMPARE_EVENT_TIMED:
    on_timed(event->as.timed.model, user);
    return true;
  default:
    return true;
  }
}

static inline ch_status compare(const ch_compare_settings *options, watch *w, ch_comparison *comparison,
                                ch_error *error) {
  ch_compare_settings settings = *options;
  w->names = 1;
  for (const char *at = options->lineup.mechanisms; *at; at++) w->names += *at == ',';
  settings.event = on_event;
  settings.stop = on_stop;
  settings.user = w;
  const ch_compare_hooks outside = {.written = on_written};
  return ch_compare(&settings, &outside, comparison, error);
}

static inline json_t *results_of(const char *out) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", out, CH_COMPARE_RESULTS);
  json_t *results = json_load_file(path, 0, NULL);
  assert_non_null(results);
  return results;
}

/* Returns the values of keys in every object of a list of results.json, as one text. */
static inline char *listed(const char *out, const char *list, const char *const *keys) {
  char path[200];
  ch_text text = {0};
  snprintf(path, sizeof path, "%s/%s", out, CH_COMPARE_RESULTS);
  json_t *results = json_load_file(path, 0, NULL), *one;
  assert_non_null(results);
  size_t i;
  json_array_foreach(json_object_get(results, list), i, one) {
    for (const char *const *key = keys; *key; key++) {
      char *value = json_dumps(json_object_get(one, *key), JSON_ENCODE_ANY | JSON_COMPACT);
      ch_text_printf(&text, "%s%s", key == keys ? "" : " ", value ? value : "-");
      free(value);
    }
    ch_text_puts(&text, "\n");
  }
  json_decref(results);
  return text.data;
}

static inline void assert_refused(const ch_compare_settings *options, const char *part) {
  ch_comparison comparison;
  ch_error error = {0};
  watch w = {0};
  assert_int_not_equal(compare(options, &w, &comparison, &error), CH_OK);
  if (!strstr(error.message, part)) fail_msg("expected '%s' in: %s", part, error.message);
  assert_int_equal(w.steps, 0);
  ch_arena_free(&comparison.arena);
}

static inline void write_file(const char *name, const char *content, size_t size) {
  ch_error error = {0};
  assert_int_equal(ch_write_file(in_root(name), content, size, &error), CH_OK);
}

static inline int set_up(void **state) {
  if (make_root(state) != 0) return -1;
  omp_set_num_threads(1); /* models this small do not use more */
  write_text("text.txt", 1, 1000);
  return 0;
}

#endif
