/* Writes the results of a sweep as JSON and reads them back. */
#include "experiment/findings/sweep_results.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "experiment/findings/comparison_json.h"
#include "experiment/findings/comparison_results.h"
#include "experiment/findings/warnings.h"
#include "laws/loss_spikes.h"

/* --- laws and stability ------------------------------------------------------------------------------------------ */

json_t *ch_scaling_law_to_json(const ch_scaling_law *law) {
  json_t *object =
      json_pack("{so, so, so, sf, sf, sf, si, si, sf, sf}", "alpha", ch_estimate_to_json(&law->alpha), "D_c",
                ch_estimate_to_json(&law->tokens), "L_0", ch_estimate_to_json(&law->floor), "noise",
                law->noise, "noise_power", law->noise_power, "correlation", law->correlation, "points",
                law->points, "outliers", law->outliers, "first_tokens", law->first, "last_tokens", law->last);
  if (object && law->budget > 0)
    json_object_update_new(object, json_pack("{sf, so}", "budget", law->budget, "loss_at_budget",
                                             ch_estimate_to_json(&law->at)));
  return object;
}

json_t *ch_stability_to_json(const ch_stability *s) {
  json_t *list = json_array();
  for (int i = 0; i < s->kept; i++)
    json_array_append_new(list,
                          json_pack("{sI, sI, so, sb}", "first", (json_int_t)s->list[i].first, "last",
                                    (json_int_t)s->list[i].last, "height", ch_json_finite(s->list[i].height),
                                    "recovered", s->list[i].recovered));
  return json_pack("{ss, sI, sI, so}", "verdict", ch_stability_names[s->verdict], "step", (json_int_t)s->step,
                   "spikes", (json_int_t)s->spikes, "spike_list", list);
}

/* --- a run ------------------------------------------------------------------------------------------------------- */

json_t *ch_sweep_result_to_json(const ch_sweep_result *run, bool judged) {
  json_t *object =
      json_pack("{ss, ss, ss, sf, sI, sI, sI, sI, sI, so, so, so, sb, so}", "name", run->name, "directory",
                run->directory, "mechanism", run->mechanism, "lr", run->lr, "seed", (json_int_t)run->seed,
                "parameters", (json_int_t)run->parameters, "cache_bytes_per_token",
                (json_int_t)run->cache_bytes_per_token, "tokens_trained", (json_int_t)run->tokens_trained,
                "threads", (json_int_t)run->threads, "validation_loss", ch_json_finite(run->validation_loss),
                "training_loss", ch_json_finite(run->training_loss), "train_tokens_per_second",
                ch_json_finite(run->train_tokens_per_second), "stopped_early", run->stopped, "stability",
                ch_stability_to_json(&run->stability));
  if (object && judged) {
    json_object_set_new(object, "verdict", json_string(ch_stability_names[run->verdict]));
    json_object_set_new(object, "law", run->has_law ? ch_scaling_law_to_json(&run->law) : json_null());
    if (!run->has_law) json_object_set_new(object, "no_law", json_string(run->no_law));
  }
  if (object) {
    ch_trained_on_put(&run->trained_on, object);
    json_object_set_new(object, "curve", ch_curve_to_json(run->curve, run->curve_points));
    json_object_set_new(object, "validation_curve",
                        ch_curve_to_json(run->validation_curve, run->validation_points));
  }
  return object;
}

static ch_status wrong_sweep_key(const char *where, const char *key, ch_error *error) {
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s: \"%s\" is missing or not what `sweep` writes; delete the file to train this run again",
                 where, key);
}

static ch_status text_at(const json_t *object, const char *key, const char *where, ch_arena *arena,
                         const char **text, ch_error *error) {
  const char *value = json_string_value(json_object_get(object, key));
  if (!value) return wrong_sweep_key(where, key, error);
  *text = ch_arena_strdup(arena, value);
  return *text ? CH_OK : ch_no_memory(error);
}

static ch_status curve_at(const json_t *object, const char *key, const char *where, ch_arena *arena,
                          const ch_curve_point **points, int *count, ch_error *error) {
  const json_t *list = json_object_get(object, key);
  if (!json_is_array(list)) return wrong_sweep_key(where, key, error);
  ch_curve_point *copies = ch_arena_alloc(arena, (json_array_size(list) + 1) * sizeof *copies);
  if (!copies) return ch_no_memory(error);
  *points = copies;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *tokens = json_array_get(json_array_get(list, i), 0),
                 *loss = json_array_get(json_array_get(list, i), 1);
    if (!json_is_integer(tokens) || !json_is_number(loss)) return wrong_sweep_key(where, key, error);
    copies[(*count)++] = (ch_curve_point){json_integer_value(tokens), json_number_value(loss)};
  }
  return CH_OK;
}

static ch_status stability_at(const json_t *object, const char *where, ch_stability *s, ch_error *error) {
  const json_t *stability = json_object_get(object, "stability"), *list, *spike;
  const char *name = json_string_value(json_object_get(stability, "verdict"));
  int verdict = CH_STABLE;
  size_t i;
  while (name && verdict <= CH_STUCK && strcmp(name, ch_stability_names[verdict]) != 0) verdict++;
  if (!name || verdict > CH_STUCK) return wrong_sweep_key(where, "stability", error);
  s->verdict = (ch_stability_verdict)verdict;
  s->step = json_integer_value(json_object_get(stability, "step"));
  s->spikes = json_integer_value(json_object_get(stability, "spikes"));
  list = json_object_get(stability, "spike_list");
  json_array_foreach(list, i, spike) {
    if (s->kept == CH_SPIKES_KEPT) break;
    s->list[s->kept++] = (ch_spike){.first = json_integer_value(json_object_get(spike, "first")),
                                    .last = json_integer_value(json_object_get(spike, "last")),
                                    .height = ch_json_number_at(spike, "height", NAN),
                                    .recovered = json_is_true(json_object_get(spike, "recovered"))};
  }
  return CH_OK;
}

ch_status ch_sweep_result_from_json(const json_t *object, const char *where, ch_arena *arena,
                                    ch_sweep_result *run, ch_error *error) {
  static const char *const wholes[] = {"seed", "parameters", "cache_bytes_per_token", "tokens_trained",
                                       "threads"};
  *run = (ch_sweep_result){0};
  int64_t *const members[] = {&run->seed, &run->parameters, &run->cache_bytes_per_token, &run->tokens_trained,
                              &run->threads};
  CH_TRY(text_at(object, "name", where, arena, &run->name, error));
  CH_TRY(text_at(object, "directory", where, arena, &run->directory, error));
  CH_TRY(text_at(object, "mechanism", where, arena, &run->mechanism, error));
  for (int i = 0; i < 5; i++) {
    const json_t *value = json_object_get(object, wholes[i]);
    if (!json_is_integer(value)) return wrong_sweep_key(where, wholes[i], error);
    *members[i] = json_integer_value(value);
  }
  if (!ch_trained_on_take(object, arena, &run->trained_on)) return ch_no_memory(error);
  run->lr = ch_json_number_at(object, "lr", NAN);
  if (!(run->lr > 0)) return wrong_sweep_key(where, "lr", error);
  run->validation_loss = ch_json_number_at(object, "validation_loss", NAN);
  run->training_loss = ch_json_number_at(object, "training_loss", NAN);
  run->train_tokens_per_second = ch_json_number_at(object, "train_tokens_per_second", NAN);
  run->stopped = json_is_true(json_object_get(object, "stopped_early"));
  CH_TRY(stability_at(object, where, &run->stability, error));
  CH_TRY(curve_at(object, "curve", where, arena, &run->curve, &run->curve_points, error));
  return curve_at(object, "validation_curve", where, arena, &run->validation_curve, &run->validation_points,
                  error);
}

/* --- the whole sweep --------------------------------------------------------------------------------------------- */

static json_t *choice_to_json(const ch_sweep_choice *c) {
  return json_pack("{ss, so, so, so, so, sI, sb}", "name", c->name, "largest_stable_lr",
                   c->chosen > 0 ? json_real(c->chosen) : json_null(), "loss", ch_json_finite(c->chosen_loss),
                   "lowest_loss_lr", c->lowest > 0 ? json_real(c->lowest) : json_null(), "lowest_loss",
                   ch_json_finite(c->lowest_loss), "spikes", (json_int_t)c->spikes, "complete", c->whole);
}

json_t *ch_sweep_to_json(const ch_sweep *sweep) {
  json_t *object = ch_comparison_to_json(&sweep->about), *runs = json_array(), *choices = json_array();
  if (!object || !runs || !choices) {
    json_decref(object);
    json_decref(runs);
    json_decref(choices);
    return NULL;
  }
  for (int i = 0; i < sweep->count; i++)
    json_array_append_new(runs, ch_sweep_result_to_json(&sweep->runs[i], true));
  for (int m = 0; m < sweep->mechanisms; m++)
    json_array_append_new(choices, choice_to_json(&sweep->choices[m]));
  static const char *const of_comparisons[] = {"models", "summary", "differences", "tolerance"};
  for (int i = 0; i < 4; i++) json_object_del(object, of_comparisons[i]);
  json_object_del(json_object_get(object, "training"), "lr");
  json_object_set_new(object, "complete", json_boolean(sweep->count == sweep->planned));
  json_object_set_new(object, "jobs", json_integer(sweep->jobs));
  json_object_set_new(object, "threads_of_a_run", json_integer(sweep->threads));
  json_object_set_new(object, "budget", json_real(sweep->budget));
  json_object_set_new(object, "skip_tokens", json_integer(sweep->skip));
  json_object_set_new(object, "mechanisms", choices);
  json_object_set_new(object, "runs", runs);
  ch_warnings warnings;
  ch_arena arena = {0};
  ch_error error;
  bool fine = ch_sweep_warnings(sweep, &arena, &warnings, &error) == CH_OK;
  json_object_set_new(object, "warnings", fine ? ch_warnings_to_json(&warnings) : NULL);
  ch_arena_free(&arena);
  return object;
}
