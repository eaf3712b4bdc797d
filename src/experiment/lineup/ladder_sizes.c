/* Reads the sizes of a ladder, and derives the settings of the comparison at each size. */
#include "experiment/lineup/ladder_sizes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { USUAL_RUNGS = CH_LADDER_LEAST_RUNGS };

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static ch_status add_size(int64_t size, int64_t *sizes, int *count, ch_error *error) {
  for (int i = 0; i < *count; i++)
    if (sizes[i] == size) return CH_OK;
  if (*count == CH_LADDER_MOST_RUNGS)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{ladder} has more than %d sizes", CH_LADDER_MOST_RUNGS);
  sizes[(*count)++] = size;
  return CH_OK;
}

static ch_status read_sizes(const char *list, int64_t *sizes, int *count, ch_error *error) {
  for (const char *at = list; *at; at += *at == ',') {
    char word[32];
    size_t length = strcspn(at, ",");
    int64_t size = 0;
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    if (length >= sizeof word || !ch_parse_count(word, &size) || size < 1)
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "{ladder}: '%s' is not a number of parameters; write sizes like 100k,200k,400k,800k",
                     word);
    CH_TRY(add_size(size, sizes, count, error));
    at += length;
  }
  return CH_OK;
}

static ch_status check_settings(const ch_compare_settings *s, ch_error *error) {
  const char *fixed = s->lineup.layers   ? "layers"
                      : s->lineup.hidden ? "hidden"
                      : s->lineup.heads  ? "heads"
                                         : NULL;
  if (s->vision.images)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{ladder} is for text; leave it out with {images}");
  if (fixed)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{ladder} changes the shape with the size, which {%s} fixes; leave one of them out",
                   fixed);
  if (s->schedule.until_decided)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{ladder} trains all models with the same seeds; give {seeds} instead of {until_decided}");
  return CH_OK;
}

ch_status ch_ladder_sizes(const ch_compare_settings *s, int64_t usual, int64_t *sizes, int *count,
                          ch_error *error) {
  int64_t base = s->lineup.parameters ? s->lineup.parameters : usual;
  *count = 0;
  CH_TRY(check_settings(s, error));
  CH_TRY(add_size(base, sizes, count, error));
  if (*s->schedule.ladder)
    CH_TRY(read_sizes(s->schedule.ladder, sizes, count, error));
  else
    for (int i = 1; i < USUAL_RUNGS; i++) CH_TRY(add_size(base >> i, sizes, count, error));
  if (*count < CH_LADDER_LEAST_RUNGS)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{ladder} has %d sizes with that of {parameters}; a law needs at least %d", *count,
                   CH_LADDER_LEAST_RUNGS);
  qsort(sizes, (size_t)*count, sizeof *sizes, by_size);
  return CH_OK;
}

int64_t ch_ladder_tokens(const ch_compare_settings *s, int64_t base, int64_t size) {
  return (int64_t)fmax(1, round((double)s->training.tokens * (double)size / (double)base));
}

ch_compare_settings ch_ladder_rung(const ch_compare_settings *settings, int64_t base, int64_t size,
                                   const char *directory, int64_t vocabulary, int64_t eval_tokens) {
  ch_compare_settings rung = *settings;
  rung.schedule.ladder = NULL;
  rung.schedule.target = 0;
  rung.verdict.tasks = NULL;
  rung.report.out = directory;
  rung.lineup.parameters = size;
  rung.training.tokens = ch_ladder_tokens(settings, base, size);
  if (!rung.lineup.tokenizer && vocabulary) rung.lineup.vocab = vocabulary;
  if (eval_tokens) rung.training.eval_tokens = eval_tokens;
  return rung;
}
