/* Means, spreads and paired differences over seeds. */
#include "train/compare_summary.h"

#include <math.h>
#include <string.h>

#include "train/compare_law.h"

double ch_compared_quality(const ch_compared *run) {
  return run->images ? run->top1 : run->validation_loss;
}

static ch_group *find(ch_summary *summary, const char *name) {
  for (int i = 0; i < summary->count; i++)
    if (strcmp(summary->groups[i].name, name) == 0) return &summary->groups[i];
  return NULL;
}

static bool is_better(const ch_group *a, const ch_group *b) {
  return a->runs[0]->images ? a->quality > b->quality : a->quality < b->quality;
}

/* The best first; equal ones keep their order. */
static void sort(ch_summary *summary) {
  for (int i = 1; i < summary->count; i++) {
    ch_group group = summary->groups[i];
    int at = i;
    for (; at > 0 && is_better(&group, &summary->groups[at - 1]); at--)
      summary->groups[at] = summary->groups[at - 1];
    summary->groups[at] = group;
  }
}

ch_status ch_summarise(const ch_comparison *comparison, ch_summary *summary, ch_error *error) {
  size_t count = (size_t)comparison->count + 1;
  *summary = (ch_summary){0};
  summary->groups = ch_arena_alloc(&summary->arena, count * sizeof *summary->groups);
  for (int i = 0; summary->groups && i < comparison->count; i++) {
    const ch_compared *run = &comparison->models[i];
    ch_group *group = find(summary, run->name);
    if (!group) {
      group = &summary->groups[summary->count++];
      *group = (ch_group){.name = run->name,
                          .runs = ch_arena_alloc(&summary->arena, count * sizeof(ch_compared *))};
    }
    if (!group->runs) return ch_fail(error, CH_ERROR_MEMORY, "no memory to summarise the comparison");
    group->runs[group->count++] = run;
    if (group->count > summary->seeds) summary->seeds = group->count;
  }
  if (!summary->groups) return ch_fail(error, CH_ERROR_MEMORY, "no memory to summarise the comparison");
  for (int i = 0; i < summary->count; i++)
    summary->groups[i].quality = ch_group_spread(&summary->groups[i], ch_compared_quality).mean;
  sort(summary);
  return CH_OK;
}

static ch_spread spread_of(const double *values, int count) {
  ch_spread spread = {.count = count};
  for (int i = 0; i < count; i++) spread.mean += values[i] / count;
  for (int i = 0; i < count; i++) spread.deviation += pow(values[i] - spread.mean, 2);
  spread.deviation = count > 1 ? sqrt(spread.deviation / (count - 1)) : 0;
  return spread;
}

ch_spread ch_group_spread(const ch_group *group, ch_compared_value *value) {
  double values[CH_COMPARE_MOST_SEEDS];
  for (int i = 0; i < group->count; i++) values[i] = value(group->runs[i]);
  return spread_of(values, group->count);
}

/* Exact for few degrees of freedom; beyond them the expansion in 1 / degrees around the normal quantile (Abramowitz and
   Stegun 26.7.5), which is right to 1e-4 there. */
double ch_student_t(double degrees) {
  static const double few[] = {INFINITY, 12.706205, 4.302653, 3.182446, 2.776445, 2.570582,
                               2.446912, 2.364624,  2.306004, 2.262157, 2.228139};
  const double z = 1.959963985;
  double most = (double)(sizeof few / sizeof *few) - 1;
  if (degrees <= 0) return INFINITY;
  if (degrees <= most && degrees == floor(degrees)) return few[(int)degrees];
  double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z, n = degrees;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

ch_difference ch_group_difference(const ch_group *a, const ch_group *b, ch_compared_value *value) {
  double values[CH_COMPARE_MOST_SEEDS] = {0};
  int pairs = 0;
  for (int i = 0; i < a->count; i++)
    for (int k = 0; k < b->count; k++)
      if (a->runs[i]->seed == b->runs[k]->seed) values[pairs++] = value(a->runs[i]) - value(b->runs[k]);
  ch_spread spread = spread_of(values, pairs);
  ch_difference difference = {.mean = spread.mean, .pairs = pairs, .low = -INFINITY, .high = INFINITY};
  if (pairs < 2) return difference;
  double half = ch_student_t(pairs - 1) * spread.deviation / sqrt(pairs);
  difference.low = spread.mean - half;
  difference.high = spread.mean + half;
  difference.beyond_noise = difference.low > 0 || difference.high < 0;
  return difference;
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

static double perplexity(const ch_compared *run) {
  return exp(run->validation_loss);
}

static double loss(const ch_compared *run) {
  return run->validation_loss;
}

static double top1(const ch_compared *run) {
  return run->top1;
}

static double top5(const ch_compared *run) {
  return run->top5;
}

static double training_rate(const ch_compared *run) {
  return run->train_tokens_per_second;
}

static double second_rate(const ch_compared *run) {
  return run->decode_tokens_per_second;
}

static const struct {
  const char *text, *images; /* the key; NULL: not in such comparisons */
  ch_compared_value *value;
} columns[] = {
    {"validation_loss", "validation_loss", loss},
    {"perplexity", NULL, perplexity},
    {NULL, "top1", top1},
    {NULL, "top5", top5},
    {"train_tokens_per_second", "train_images_per_second", training_rate},
    {"decode_tokens_per_second", "predict_images_per_second", second_rate},
};

static json_t *group_to_json(const ch_group *group) {
  json_t *object = json_pack("{s:s, s:[]}", "name", group->name, "seeds");
  json_t *seeds = json_object_get(object, "seeds");
  bool images = group->runs[0]->images;
  for (int i = 0; i < group->count; i++)
    json_array_append_new(seeds, json_integer((json_int_t)group->runs[i]->seed));
  for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
    const char *key = images ? columns[c].images : columns[c].text;
    if (!key) continue;
    ch_spread spread = ch_group_spread(group, columns[c].value);
    json_object_set_new(object, key,
                        json_pack("{s:f, s:o}", "mean", spread.mean, "std",
                                  spread.count > 1 ? json_real(spread.deviation) : json_null()));
  }
  return object;
}

json_t *ch_summary_to_json(const ch_summary *summary, const ch_compared_training *training) {
  json_t *list = json_array();
  for (int i = 0; i < summary->count; i++) {
    ch_scaling_law law;
    json_t *object = group_to_json(&summary->groups[i]);
    bool fitted = ch_group_law(&summary->groups[i], training, &law);
    json_object_set_new(object, "law", fitted ? ch_law_to_json(&law) : json_null());
    json_array_append_new(list, object);
  }
  return list;
}

json_t *ch_differences_to_json(const ch_summary *summary) {
  json_t *list = json_array();
  for (int i = 0; i < summary->count; i++)
    for (int k = i + 1; k < summary->count; k++) {
      const ch_group *a = &summary->groups[k], *b = &summary->groups[i];
      ch_difference d = ch_group_difference(a, b, ch_compared_quality);
      bool known = d.pairs > 1;
      json_array_append_new(list,
                            json_pack("{s:s, s:s, s:s, s:i, s:f, s:o, s:o, s:o}", "name", a->name, "minus",
                                      b->name, "of", a->runs[0]->images ? "top1" : "validation_loss", "pairs",
                                      d.pairs, "mean", d.mean, "low", known ? json_real(d.low) : json_null(),
                                      "high", known ? json_real(d.high) : json_null(), "beyond_noise",
                                      known ? json_boolean(d.beyond_noise) : json_null()));
    }
  return list;
}
