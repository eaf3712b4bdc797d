/* A forecast of the cost of a comparison: runs, time, memory and disk. */
#ifndef CH_EXPERIMENT_FORECAST_H
#define CH_EXPERIMENT_FORECAST_H

#include <crosshead/compare.h>
#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"

struct ch_compare_forecast {
  ch_mechanism_forecast *models; /* [count] */
  int count;
  ch_mechanism_forecast total;
  bool images;
  bool tunes;           /* learning rates are tried first: times and disk count the most that may be */
  bool open;            /* seeds may be added until there is a verdict */
  int part, parts;      /* only this part's runs count, with parts > 0 */
  const char *untimed;  /* why PyTorch could not time steps: seconds and memory are not known; or NULL */
  bool pytorch;         /* it trains */
  double machine_bytes; /* of memory; 0: not known */
  ch_arena arena;
};

/* Release forecast->arena, also on failure. */
ch_status ch_forecast_make(const ch_compare_settings *settings, ch_compare_forecast *forecast,
                           ch_error *error);
/* Returns a new object; NULL when out of memory. */
json_t *ch_forecast_to_json(const ch_compare_forecast *forecast);

#endif
