/* Parses the learning rates of a sweep. */
#include "experiment/lineup/sweep_rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static ch_status add_rate(double rate, const char *text, ch_rate_grid *grid, ch_error *error) {
  if (!(rate >= 1e-12 && rate <= 10))
    return ch_fail(error, CH_ERROR_ARGUMENT, "{lr} has %g in \"%.80s\"; rates are from 1e-12 to 10", rate,
                   text);
  int at = 0;
  while (at < grid->count && grid->rates[at] < rate) at++;
  if (at < grid->count && grid->rates[at] == rate) return CH_OK;
  if (grid->count == CH_SWEEP_MOST_RATES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{lr} has more than %d rates", CH_SWEEP_MOST_RATES);
  memmove(grid->rates + at + 1, grid->rates + at, (size_t)(grid->count - at) * sizeof *grid->rates);
  grid->rates[at] = rate;
  grid->count++;
  return CH_OK;
}

/* Adds the rates of a range such as "1e-4..1e-2:5". Rates between its ends are rounded to three digits. */
static ch_status add_range(double from, double to, int count, const char *text, ch_rate_grid *grid,
                           ch_error *error) {
  if (count < 2 || count > CH_SWEEP_MOST_RATES || !(from > 0 && to > from))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{lr}: \"%.80s\" is not a range; FROM..TO:N has FROM below TO and N from 2 to %d", text,
                   CH_SWEEP_MOST_RATES);
  for (int i = 0; i < count; i++) {
    char digits[32];
    double rate = from * pow(to / from, (double)i / (count - 1));
    snprintf(digits, sizeof digits, "%.3g", rate);
    rate = i == 0 ? from : i == count - 1 ? to : strtod(digits, NULL);
    CH_TRY(add_rate(rate, text, grid, error));
  }
  return CH_OK;
}

ch_status ch_rate_grid_read(const char *text, ch_rate_grid *grid, ch_error *error) {
  char copy[512], *state = NULL, extra;
  grid->count = 0;
  if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{lr} is longer than %zu characters", sizeof copy - 1);
  for (char *part = strtok_r(copy, ",", &state); part; part = strtok_r(NULL, ",", &state)) {
    double from, to;
    int count;
    char *dots = strstr(part, "..");
    if (dots) *dots = ' ';
    if (dots && sscanf(part, "%lf .%lf:%d%c", &from, &to, &count, &extra) == 3) {
      CH_TRY(add_range(from, to, count, text, grid, error));
    } else if (!dots && ch_parse_number(part, &from)) {
      CH_TRY(add_rate(from, text, grid, error));
    } else {
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "{lr}: \"%.80s\" is not a list of rates; write 1e-3,3e-3 or 1e-4..1e-2:5", text);
    }
  }
  if (grid->count == 0) return ch_fail(error, CH_ERROR_ARGUMENT, "{lr} is empty");
  return CH_OK;
}
