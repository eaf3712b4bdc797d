/* Writes a comparison as JSON: text or images, training, machine, models, and the figures over seeds.
 * comparison_results.c writes single models. */
#include "experiment/findings/comparison_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "experiment/findings/task_accuracy.h"
#include "experiment/findings/group_law.h"
#include "experiment/findings/ladder_results.h"
#include "experiment/lineup/match_size.h"
#include "experiment/lineup/comparison_plan.h"
#include "experiment/findings/verdict.h"
#include "experiment/findings/warnings.h"

/* --- over seeds ---------------------------------------------------------------------------------------------- */

CH_FIGURE_OF_RUN(perplexity, exp(run->validation_loss))
CH_FIGURE_OF_RUN(loss, run->validation_loss)
CH_FIGURE_OF_RUN(top1, run->top1)
CH_FIGURE_OF_RUN(top5, run->top5)
CH_FIGURE_OF_RUN(training_rate, run->train_tokens_per_second)
CH_FIGURE_OF_RUN(second_rate, run->decode_tokens_per_second)
CH_FIGURE_OF_RUN(spikes, (double)run->loss_spikes)
CH_FIGURE_OF_RUN(training_spread, run->train_spread)
CH_FIGURE_OF_RUN(second_spread, run->decode_spread)

static const struct {
  const char *text, *images; /* keys in comparisons on text and on images; NULL: the figure is left out */
  ch_model_result_value *value;
  ch_model_result_value *measured; /* spread of a speed's measurements; NULL: the figure is not a speed */
} columns[] = {
    {"validation_loss", "validation_loss", loss, NULL},
    {"perplexity", NULL, perplexity, NULL},
    {NULL, "top1", top1, NULL},
    {NULL, "top5", top5, NULL},
    {"train_tokens_per_second", "train_images_per_second", training_rate, training_spread},
    {"decode_tokens_per_second", "predict_images_per_second", second_rate, second_spread},
    {"loss_spikes", "loss_spikes", spikes, NULL},
};

/* Returns false if the value is the number of spikes and a run of the group is from an earlier version, which did not
 * count them. */
static bool is_known(const ch_group *group, ch_model_result_value *value) {
  for (int i = 0; value == spikes && i < group->count; i++)
    if (group->runs[i]->loss_spikes < 0) return false;
  return true;
}

static json_t *answers_to_json(const ch_group *group) {
  json_t *object = json_object();
  ch_task_accuracy answer;
  for (int i = 0; ch_task_accuracy_at(group, i, &answer); i++)
    json_object_set_new(object, answer.task,
                        json_pack("{s:s, s:f, s:o, s:f, s:I}", "metric", answer.metric, "mean", answer.mean,
                                  "std", answer.runs > 1 ? json_real(answer.deviation) : json_null(),
                                  "stderr", answer.error, "items", (json_int_t)answer.items));
  return object;
}

static json_t *group_to_json(const ch_group *group) {
  json_t *object = json_pack("{s:s, s:[]}", "name", group->name, "seeds");
  json_t *seeds = json_object_get(object, "seeds");
  bool images = group->runs[0]->images;
  for (int i = 0; i < group->count; i++)
    json_array_append_new(seeds, json_integer((json_int_t)group->runs[i]->seed));
  for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
    const char *key = images ? columns[c].images : columns[c].text;
    if (!key || !is_known(group, columns[c].value)) continue;
    ch_spread spread = ch_group_spread(group, columns[c].value);
    json_object_set_new(object, key,
                        json_pack("{s:o, s:o}", "mean", ch_json_finite(spread.mean), "std",
                                  spread.count > 1 ? ch_json_finite(spread.deviation) : json_null()));
    if (columns[c].measured)
      json_object_set_new(json_object_get(object, key), "spread",
                          json_real(ch_group_spread(group, columns[c].measured).mean));
  }
  ch_task_accuracy first;
  if (ch_task_accuracy_at(group, 0, &first)) json_object_set_new(object, "tasks", answers_to_json(group));
  return object;
}

/* Returns a list with one object per group. */
static json_t *summary_to_json(const ch_summary *summary, const ch_comparison_training *training) {
  json_t *list = json_array();
  for (int i = 0; i < summary->count; i++) {
    ch_scaling_law law;
    json_t *object = group_to_json(&summary->groups[i]);
    bool fitted = ch_group_law(&summary->groups[i], training, &law);
    json_object_set_new(object, "law",
                        fitted ? json_pack("{s:o, s:o, s:o, s:f}", "alpha", ch_estimate_to_json(&law.alpha),
                                           "tokens", ch_estimate_to_json(&law.tokens), "floor",
                                           ch_estimate_to_json(&law.floor), "noise", law.noise)
                               : json_null());
    json_array_append_new(list, object);
  }
  return list;
}

/* Returns a list with one object per pair of groups. The better group of a pair is its second. */
static json_t *differences_to_json(const ch_summary *summary) {
  json_t *list = json_array();
  for (int i = 0; i < summary->count; i++)
    for (int k = i + 1; k < summary->count; k++) {
      const ch_group *a = &summary->groups[k], *b = &summary->groups[i];
      const ch_difference *d = ch_difference_of(summary, k, i);
      bool known = isfinite(d->high);
      json_array_append_new(
          list, json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:o}", "name", a->name, "minus", b->name, "of",
                          a->runs[0]->images ? "top1" : "validation_loss", "pairs", d->pairs, "mean",
                          ch_json_finite(d->mean), "low", known ? json_real(d->low) : json_null(), "high",
                          known ? json_real(d->high) : json_null(), "beyond_noise",
                          known ? json_boolean(d->beyond_noise) : json_null()));
    }
  return list;
}

/* --- the verdict ------------------------------------------------------------------------------------------------- */

static json_t *names_to_json(const char *const *names, int count) {
  json_t *list = json_array();
  for (int i = 0; list && i < count; i++) json_array_append_new(list, json_string(names[i]));
  return list;
}

/* Converts a distance from the best to a share of the best loss. On images it remains a difference of accuracy. */
static json_t *share_to_json(const ch_summary *summary, double distance) {
  const ch_group *best = &summary->groups[0];
  return ch_json_finite(best->runs[0]->images ? distance : distance / best->quality);
}

static json_t *standing_to_json(const ch_summary *summary, int group) {
  const ch_standing *s = &summary->decision.standings[group];
  bool known = isfinite(s->high);
  return json_pack("{s:o, s:o}", "low", known ? share_to_json(summary, s->low) : json_null(), "high",
                   share_to_json(summary, s->high));
}

static json_t *choices_to_json(const ch_comparison *comparison, const ch_summary *summary) {
  const ch_decision *d = &summary->decision;
  json_t *list = json_array();
  for (int i = 0; list && i < d->choice_count; i++) {
    int ties[CH_COMPARE_MOST], group = d->choices[i], count = ch_verdict_ties(summary, group, ties);
    const ch_group *g = &summary->groups[group];
    const char *names[CH_COMPARE_MOST];
    for (int k = 0; k < count; k++) names[k] = summary->groups[ties[k]].runs[0]->name;
    double more = g->runs[0]->images || !d->known
                      ? -1
                      : ch_group_more_tokens(g, &comparison->training, d->standings[group].high);
    json_array_append_new(list,
                          json_pack("{s:s, s:f, s:f, s:o, s:o, s:o}", "name", g->runs[0]->name,
                                    g->runs[0]->images ? "parameters_attention" : "cache_bytes_per_token",
                                    ch_group_cost(g), g->runs[0]->images ? "top1" : "loss", g->quality,
                                    "behind", standing_to_json(summary, group), "behind_tokens",
                                    more >= 0 ? ch_json_finite(more) : json_null(), "tied_with",
                                    names_to_json(names, count)));
  }
  return list;
}

static json_t *standings_to_json(const ch_summary *summary) {
  json_t *list = json_array();
  for (int i = 0; list && i < summary->count; i++)
    json_array_append_new(list, json_pack("{s:s, s:o, s:b}", "name", summary->groups[i].runs[0]->name,
                                          "behind", standing_to_json(summary, i), "candidate",
                                          summary->decision.standings[i].candidate));
  return list;
}

static json_t *verdict_to_json(const ch_comparison *comparison, const ch_summary *summary) {
  const ch_decision *d = &summary->decision;
  const char *names[CH_COMPARE_MOST];
  int count = ch_verdict_names(summary, names);
  ch_text sentence = {0};
  ch_verdict_sentence(summary, comparison, &sentence);
  json_t *verdict =
      sentence.failed
          ? NULL
          : json_pack(
                "{s:s, s:o, s:s, s:i, s:o, s:o, s:s, s:b, s:o, s:f, s:f, s:f, s:f}", "kind",
                ch_verdict_kinds[d->kind], "names", names_to_json(names, count), "sentence", sentence.data,
                "seeds", summary->seeds, "choices", choices_to_json(comparison, summary), "behind_the_best",
                standings_to_json(summary), "method",
                "multiple comparison with the best (Hsu, Dunnett), seeds as blocks, moderated variances",
                "until_decided", comparison->until_decided, "cache_budget",
                comparison->cache_budget > 0 ? json_real(comparison->cache_budget) : json_null(),
                "confidence", 0.95, "error", summary->error, "deviation", summary->deviation,
                "degrees_of_freedom", summary->degrees);
  ch_text_free(&sentence);
  return verdict;
}

static json_t *warnings_to_json(const ch_comparison *comparison, ch_summary *summary) {
  ch_warnings warnings;
  ch_error error;
  bool fine = ch_comparison_warnings(comparison, summary, &summary->arena, &warnings, &error) == CH_OK;
  return fine ? ch_warnings_to_json(&warnings) : NULL;
}

/* --- the whole file -------------------------------------------------------------------------------------------- */

static json_t *models_to_json(const ch_comparison *comparison) {
  json_t *list = json_array();
  for (int i = 0; list && i < comparison->count; i++)
    ch_json_append(&list, ch_model_result_to_json(&comparison->models[i]));
  return list;
}

static json_t *data_to_json(const ch_comparison_data *data) {
  if (data->images)
    return json_pack("{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I}", "file", data->file, "bytes",
                     (json_int_t)data->bytes, "format", data->format, "train_images",
                     (json_int_t)data->train_tokens, "validation_images", (json_int_t)data->validation_tokens,
                     "image_size", (json_int_t)data->image_size, "channels", (json_int_t)data->channels,
                     "classes", (json_int_t)data->classes);
  return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s}", "file", data->file, "bytes", (json_int_t)data->bytes,
                   "train_tokens", (json_int_t)data->train_tokens, "validation_tokens",
                   (json_int_t)data->validation_tokens, "vocab_size", (json_int_t)data->vocab_size,
                   "tokenizer", data->tokenizer);
}

static json_t *training_to_json(const ch_comparison_training *t, bool images) {
  json_t *object = images ? json_pack("{s:I, s:I, s:I}", "images", (json_int_t)t->tokens, "steps",
                                      (json_int_t)t->steps, "batch", (json_int_t)t->batch)
                          : json_pack("{s:I, s:I, s:I, s:I}", "tokens", (json_int_t)t->tokens, "steps",
                                      (json_int_t)t->steps, "batch", (json_int_t)t->batch, "sequence",
                                      (json_int_t)t->sequence);
  json_t *rest = json_pack("{s:f, s:s, s:I, s:f, s:I, s:I, s:I}", "lr", t->lr, "schedule", t->schedule,
                           "warmup", (json_int_t)t->warmup, "weight_decay", t->weight_decay,
                           images ? "eval_images" : "eval_tokens", (json_int_t)t->eval_tokens, "seed",
                           (json_int_t)t->seed, "seeds", (json_int_t)t->seeds);
  if (object && rest && images)
    json_object_update_new(rest, json_pack("{s:b, s:I}", "flip", t->flip, "crop", (json_int_t)t->crop));
  bool fine = object && rest && json_object_update(object, rest) == 0;
  json_decref(rest);
  if (fine) return object;
  json_decref(object);
  return NULL;
}

static json_t *match_to_json(const ch_comparison *c) {
  json_t *object = json_pack("{ss}", "equal", ch_match_names[c->match]);
  if (object && c->match == CH_MATCH_TIME)
    json_object_set_new(object, "seconds", json_real(c->budget_seconds));
  if (object && c->match == CH_MATCH_CACHE)
    json_object_set_new(object, "cache_elements_per_token", json_integer((json_int_t)c->cache_per_token));
  return object;
}

/* Returns the names of the devices that trained. */
static json_t *devices_to_json(const ch_comparison *about) {
  if (about->engine == CH_ENGINE_NATIVE) return json_pack("[s]", "cpu");
  json_t *devices = json_array();
  char *names = strdup(about->device ? about->device : "default"), *rest = NULL;
  for (char *name = names ? strtok_r(names, ",", &rest) : NULL; name; name = strtok_r(NULL, ",", &rest))
    json_array_append_new(devices, json_string(name));
  free(names);
  return devices;
}

json_t *ch_experiment_to_json(const ch_comparison *about) {
  return json_pack(
      "{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:o}", "command", about->command, "version", about->version,
      "created", about->created, "data", data_to_json(&about->data), "training",
      training_to_json(&about->training, about->data.images), "machine", ch_machine_to_json(&about->machine),
      "engine", about->engine == CH_ENGINE_NATIVE ? "native" : "pytorch", "devices", devices_to_json(about));
}

json_t *ch_comparison_to_json(const ch_comparison *c) {
  ch_summary summary;
  ch_error error;
  json_t *object = NULL, *found = NULL;
  if (ch_summarise(c, &summary, &error) == CH_OK) {
    object = ch_experiment_to_json(c);
    found = json_pack("{s:b, s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "complete",
                      !c->open && c->count == c->planned, "tolerance", c->tolerance, "match",
                      match_to_json(c), "verdict", verdict_to_json(c, &summary), "warnings",
                      warnings_to_json(c, &summary), "summary", summary_to_json(&summary, &c->training),
                      "differences", differences_to_json(&summary), "models", models_to_json(c));
  }
  ch_arena_free(&summary.arena);
  bool fine = object && found && json_object_update(object, found) == 0;
  json_decref(found);
  if (fine && c->ladder) {
    json_t *ladder = ch_ladder_to_json(c->ladder);
    fine = ladder && json_object_update(object, ladder) == 0;
    json_decref(ladder);
  }
  if (fine) return object;
  json_decref(object);
  return NULL;
}
