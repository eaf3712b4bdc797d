/* Reads lists of learning rates such as "3e-3,mla=6e-3", and sets the rate of each model of a plan. A search may find
 * better rates later (trial/rate_search.c). */
#include "experiment/lineup/learning_rates.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/spectral.h"

/* Bounds of a rate, as in a sweep's grid (sweep_rates.c). */
static const double least_rate = 1e-12, most_rate = 10;

double ch_usual_rate(ch_parametrization parametrization, bool images) {
  if (parametrization == CH_PARAMETRIZATION_SPECTRAL) return ch_spectral_rate;
  return images ? 1e-3 : 2e-3;
}

/* A piece of the list between commas. */
typedef struct piece {
  const char *name; /* [name_length] name of the model; length 0: the rate is of all models */
  size_t name_length;
  double rate;
} piece;

/* Reads the piece at *text, and moves *text past it and its comma. */
static ch_status read_piece(const char *rates, const char **text, piece *p, ch_error *error) {
  const char *at = *text + strspn(*text, " ");
  size_t length = strcspn(at, ",");
  const char *equals = memchr(at, '=', length);
  *p = (piece){.name = at, .name_length = equals ? (size_t)(equals - at) : 0};
  const char *number = equals ? equals + 1 : at;
  char *end;
  p->rate = strtod(number, &end);
  end += strspn(end, " ");
  if (end != at + length || end == number || !(p->rate >= least_rate && p->rate <= most_rate))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{rates} \"%.80s\" has a piece that is not a rate from %g to %g; write 3e-3, or "
                   "mla=6e-3,mha=2e-3 for "
                   "single mechanisms",
                   rates, least_rate, most_rate);
  *text = at + length + (at[length] == ',');
  return CH_OK;
}

ch_status ch_rates_common(const char *rates, double *common, ch_error *error) {
  *common = 0;
  for (const char *at = rates; at && *at;) {
    piece p;
    CH_TRY(read_piece(rates, &at, &p, error));
    if (p.name_length) continue;
    if (*common > 0)
      return ch_fail(error, CH_ERROR_ARGUMENT, "{rates} \"%.80s\" has two rates without a name; give one",
                     rates);
    *common = p.rate;
  }
  return CH_OK;
}

static ch_planned_model *model_of(const piece *p, ch_compare_plan *plan) {
  for (int i = 0; i < plan->count; i++)
    if (strlen(plan->models[i].name) == p->name_length &&
        strncasecmp(plan->models[i].name, p->name, p->name_length) == 0)
      return &plan->models[i];
  return NULL;
}

ch_status ch_rates_settle(const char *rates, double common, bool images, ch_compare_plan *plan,
                          ch_error *error) {
  for (int i = 0; i < plan->count; i++)
    plan->models[i].lr = common > 0 ? common : ch_usual_rate(plan->models[i].config.parametrization, images);
  for (const char *at = rates; at && *at;) {
    piece p;
    CH_TRY(read_piece(rates, &at, &p, error));
    if (!p.name_length) continue;
    ch_planned_model *model = model_of(&p, plan);
    if (!model)
      return ch_fail(
          error, CH_ERROR_ARGUMENT,
          "{rates} gives a rate to %.*s, which {mechanisms} does not name; write it as it is there",
          (int)(p.name_length < 64 ? p.name_length : 64), p.name);
    model->lr = p.rate;
  }
  return CH_OK;
}
