/* Writes the results of a ladder as JSON, and interpolates sizes between its rungs or extrapolates
 * them. */
#include "experiment/findings/ladder_results.h"

#include <math.h>

#include "base/json.h"
#include "laws/ladder_laws.h"

void ch_ladder_release(const ch_ladder *ladder) {
  if (ladder) ch_ladder_laws_free(ladder->laws);
}

double ch_ladder_parameters(const ch_ladder *ladder, int mechanism, double flops) {
  const ch_ladder_mechanism *m = &ladder->mechanisms[mechanism];
  int i = 1;
  while (i + 1 < ladder->rungs && flops > m->flops[i]) i++;
  double slope = log(m->parameters[i] / m->parameters[i - 1]) / log(m->flops[i] / m->flops[i - 1]);
  return m->parameters[i] * pow(flops / m->flops[i], slope);
}

static json_t *laws_to_json(const ch_ladder *ladder) {
  json_t *list = json_array();
  for (int m = 0; list && m < ladder->count; m++) {
    const ch_ladder_law *law = &ladder->laws->laws[m];
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:o, s:b, s:{s:o, s:f}}", "name", law->name, "E",
                  ch_estimate_to_json(&law->floor), "A", ch_estimate_to_json(&law->amplitude), "alpha",
                  ch_estimate_to_json(&law->alpha), "says_nothing", law->says_nothing, "largest_predicted",
                  "loss", ch_estimate_to_json(&law->top), "true", law->top_loss);
    if (object && ladder->target)
      json_object_set_new(object, "target",
                          json_pack("{s:I, s:f, s:o}", "parameters",
                                    (json_int_t)ladder->mechanisms[m].target_parameters, "flops",
                                    law->target_flops, "loss", ch_estimate_to_json(&law->target)));
    json_array_append_new(list, object);
  }
  return list;
}

static json_t *multipliers_to_json(const ch_ladder *ladder) {
  const ch_ladder_basis *basis = &ladder->laws->basis;
  json_t *list = json_array();
  for (int m = 0; list && m < ladder->count; m++) {
    const ch_ladder_law *law = &ladder->laws->laws[m];
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:I, s:o, s:o}", "name", law->name, "baseline",
                        ladder->laws->laws[basis->baseline].name, "parameters",
                        (json_int_t)(ladder->target ? ladder->target : ladder->sizes[ladder->rungs - 1]),
                        "flops", ch_estimate_to_json(&law->multiplier), "seconds",
                        ch_estimate_to_json(&law->time_multiplier)));
  }
  return list;
}

static json_t *rung_to_json(const ch_ladder *ladder, int rung) {
  json_t *models = json_array();
  for (int m = 0; models && m < ladder->count; m++) {
    const ch_ladder_mechanism *own = &ladder->mechanisms[m];
    json_array_append_new(models, json_pack("{s:s, s:I, s:f, s:f, s:o}", "name", own->name, "parameters",
                                            (json_int_t)own->parameters[rung], "flops", own->flops[rung],
                                            "validation_loss", own->losses[rung], "multiplier",
                                            ch_json_finite(ladder->laws->laws[m].rung_multipliers[rung])));
  }
  return json_pack("{s:I, s:I, s:s, s:o}", "parameters", (json_int_t)ladder->sizes[rung], "tokens",
                   (json_int_t)ladder->tokens[rung], "directory", ladder->directories[rung], "models",
                   models);
}

static json_t *crossings_to_json(const ch_ladder *ladder) {
  json_t *list = json_array();
  for (int i = 0; list && i < ladder->laws->crossing_count; i++) {
    const ch_ladder_crossing *c = &ladder->laws->crossings[i];
    json_array_append_new(
        list,
        json_pack("{s:s, s:s, s:o, s:o, s:o}", "better_below", ladder->mechanisms[c->below].name,
                  "better_above", ladder->mechanisms[c->above].name, "flops", ch_estimate_to_json(&c->flops),
                  "parameters", ch_json_finite(round(ch_ladder_parameters(ladder, c->above, c->flops.value))),
                  "share_of_resampled_fits", ch_json_finite(c->share)));
  }
  return list;
}

json_t *ch_ladder_to_json(const ch_ladder *ladder) {
  const ch_ladder_basis *basis = &ladder->laws->basis;
  json_t *rungs = json_array();
  for (int i = 0; rungs && i < ladder->rungs; i++) json_array_append_new(rungs, rung_to_json(ladder, i));
  json_t *object = json_pack("{s:s, s:o, s:b, s:i, s:o, s:i, s:o}", "law", "L = E + A * C^-alpha, C in FLOPs",
                             "rungs", rungs, "one_floor", basis->one_floor, "earlier_shares",
                             (int)basis->shares, "noise", ch_json_finite(basis->noise), "degrees_of_freedom",
                             (int)basis->degrees, "crossings", crossings_to_json(ladder));
  if (object && ladder->target)
    json_object_set_new(object, "target",
                        json_pack("{s:I, s:I}", "parameters", (json_int_t)ladder->target, "tokens",
                                  (json_int_t)ladder->target_tokens));
  return json_pack("{s:o, s:o, s:o}", "laws", laws_to_json(ladder), "multipliers",
                   multipliers_to_json(ladder), "ladder", object);
}
