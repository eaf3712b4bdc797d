#include "train/compare_turns.h"

#include <stdlib.h>

#include "base/file.h"
#include "train/compare_measure.h"

/* Of one model in one turn. */
typedef struct speeds {
  double rate;
  ch_curve_point depths[CH_DEPTHS];
  int depth_count;
} speeds;

static ch_status measure(const ch_compare_setup *setup, const char *directory, speeds *taken,
                         ch_error *error) {
  const ch_compare_events *events = setup->events;
  *taken = (speeds){0};
  if (ch_compare_on_images(setup))
    return ch_measure_seeing(directory, events->interrupted, events->context, &taken->rate, error);
  CH_TRY(ch_measure_decoding(directory, setup->options->sequence, events->interrupted, events->context,
                             &taken->rate, error));
  return ch_measure_depths(directory, events->interrupted, events->context, taken->depths,
                           &taken->depth_count, error);
}

/* The medians of several turns. */
static ch_status fill(ch_compare_setup *setup, const speeds *turns, int count, ch_compared *model,
                      ch_error *error) {
  double values[CH_COMPARE_TURNS];
  for (int t = 0; t < count; t++) values[t] = turns[t].rate;
  model->decode_tokens_per_second = ch_median(values, count);
  model->decode_points = turns->depth_count;
  if (model->decode_points == 0) return CH_OK;
  model->decode_curve = ch_arena_alloc(&setup->comparison->arena, sizeof turns->depths);
  if (!model->decode_curve) return ch_fail(error, CH_ERROR_MEMORY, "no memory to time %s", model->name);
  for (int p = 0; p < model->decode_points; p++) {
    for (int t = 0; t < count; t++) values[t] = turns[t].depths[p].loss;
    model->decode_curve[p] = (ch_curve_point){turns->depths[p].tokens, ch_median(values, count)};
  }
  return CH_OK;
}

ch_status ch_compare_time_alone(ch_compare_setup *setup, const char *directory, ch_compared *model,
                                ch_error *error) {
  speeds taken;
  CH_TRY(measure(setup, directory, &taken, error));
  return fill(setup, &taken, 1, model, error);
}

/* Finished models may have been deleted but for their results. */
static bool has_weights(const ch_compare_setup *setup, const ch_compared *model) {
  char *directory = ch_path_join(setup->options->out, model->directory);
  char *path = directory ? ch_path_join(directory, "model.safetensors") : NULL;
  bool there = path && ch_is_file(path);
  free(path);
  free(directory);
  return there;
}

bool ch_compare_lacks_turns(const ch_compare_setup *setup) {
  const ch_comparison *c = setup->comparison;
  for (int i = 0; i < c->count; i++)
    if (c->models[i].timing_turns == 0 && has_weights(setup, &c->models[i])) return true;
  return false;
}

/* speeds [count of models][CH_COMPARE_TURNS] */
static ch_status take_all(ch_compare_setup *setup, speeds *taken, ch_error *error) {
  const ch_compare_events *events = setup->events;
  const ch_comparison *c = setup->comparison;
  for (int turn = 0; turn < CH_COMPARE_TURNS; turn++)
    for (int i = 0; i < c->count; i++) {
      if (!has_weights(setup, &c->models[i])) continue;
      char *directory = ch_path_join(setup->options->out, c->models[i].directory);
      if (!directory) return ch_fail(error, CH_ERROR_MEMORY, "no memory to time %s", c->models[i].name);
      if (events->timing) events->timing(events->context, turn, CH_COMPARE_TURNS, &c->models[i]);
      ch_status status = measure(setup, directory, &taken[i * CH_COMPARE_TURNS + turn], error);
      free(directory);
      CH_TRY(status);
    }
  return CH_OK;
}

static ch_status keep(ch_compare_setup *setup, const speeds *turns, ch_compared *model, ch_error *error) {
  const ch_compare_events *events = setup->events;
  CH_TRY(fill(setup, turns, CH_COMPARE_TURNS, model, error));
  model->timing_turns = CH_COMPARE_TURNS;
  char *directory = ch_path_join(setup->options->out, model->directory);
  char *path = directory ? ch_path_join(directory, CH_COMPARE_RESULT) : NULL;
  ch_status status = path ? ch_write_json(path, ch_compared_to_json(model), CH_DIGITS_EXACT, error)
                          : ch_fail(error, CH_ERROR_MEMORY, "no memory to time %s", model->name);
  free(path);
  free(directory);
  if (status == CH_OK && events->timed) events->timed(events->context, model);
  return status;
}

ch_status ch_compare_take_turns(ch_compare_setup *setup, ch_error *error) {
  ch_comparison *c = setup->comparison;
  speeds *taken = calloc((size_t)c->count * CH_COMPARE_TURNS, sizeof *taken);
  ch_status status =
      taken ? take_all(setup, taken, error) : ch_fail(error, CH_ERROR_MEMORY, "no memory to time the models");
  for (int i = 0; status == CH_OK && i < c->count; i++)
    if (taken[i * CH_COMPARE_TURNS].rate > 0) /* it was there */
      status = keep(setup, &taken[i * CH_COMPARE_TURNS], &c->models[i], error);
  free(taken);
  return status;
}
