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
  bool tunes;      /* true if learning rates are tuned; time and disk include the maximum number of rates */
  bool open;       /* true if seeds may be added until there is a verdict; added seeds are not included */
  int part, parts; /* part whose runs are counted, and number of parts; parts 0: all runs */
  const char *untimed;  /* reason why time and memory are unknown: PyTorch could not time steps; or NULL */
  bool pytorch;         /* true if PyTorch trains, not the native engine */
  double machine_bytes; /* memory of the machine; 0: not known */
  ch_arena arena;
};

/* Forecasts the comparison or ladder of the settings. It times training steps and writes nothing into `out`. Release
 * forecast->arena, also on failure. Errors: those of the settings, the text and the models; CH_ERROR_INTERRUPTED. */
ch_status ch_forecast_make(const ch_compare_settings *settings, ch_compare_forecast *forecast,
                           ch_error *error);
/* Returns the forecast as JSON, or NULL when out of memory. The caller releases it with json_decref. */
json_t *ch_forecast_to_json(const ch_compare_forecast *forecast);

#endif
