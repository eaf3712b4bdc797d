/* Writes what is equal and what differs between the models of a comparison: parameters, active parameters, tokens,
 * FLOPs, time, cache. A comparison makes at most one of these equal, and readers must know the others. */
#include "report/equal.h"

#include <stdio.h>
#include <string.h>

#include "experiment/findings/summary.h"
#include "experiment/lineup/match_size.h"

CH_FIGURE_OF_RUN(parameters, (double)run->parameters)
CH_FIGURE_OF_RUN(active, (double)run->parameters_active)
CH_FIGURE_OF_RUN(tokens, (double)run->tokens_trained)
CH_FIGURE_OF_RUN(cache, ch_model_result_cache(run))

static const struct {
  const char *text, *images; /* names in comparisons on text and on images; NULL: not written there */
  ch_model_result_value *value;
  int match;     /* ch_match that makes the quantity equal; -1: none */
  bool duration; /* true if the value is in seconds */
} quantities[] = {
    {"parameters", "parameters", parameters, CH_MATCH_PARAMETERS, false},
    {"active parameters", "active parameters", active, CH_MATCH_ACTIVE, false},
    {"tokens", "images", tokens, -1, false},
    {"FLOPs per token", "FLOPs per image", ch_model_result_flops, CH_MATCH_FLOPS, false},
    {"training time", "training time", ch_model_result_seconds, CH_MATCH_TIME, true},
    {"cache elements per token", NULL, cache, CH_MATCH_CACHE, false},
};
enum { QUANTITIES = sizeof quantities / sizeof *quantities };

typedef struct range {
  double least, most;
} range;

static range range_of(const ch_summary *summary, int q) {
  range r = {0};
  for (int i = 0; i < summary->count; i++) {
    double value = ch_group_spread(&summary->groups[i], quantities[q].value).mean;
    if (i == 0 || value < r.least) r.least = value;
    if (i == 0 || value > r.most) r.most = value;
  }
  return r;
}

static const char *shown(double value, bool duration, char *buffer, size_t size) {
  return duration && value >= 60 ? ch_format_duration(value, buffer, size)
         : duration              ? (snprintf(buffer, size, "%.1f s", value), buffer)
                                 : ch_format_count(value, buffer, size);
}

static bool is_equal(const ch_comparison *comparison, int q, range r) {
  return quantities[q].match == (int)comparison->match || r.most <= r.least * (1 + CH_MATCH_TOLERANCE);
}

/* Returns true if a quantity is mentioned. Active parameters are mentioned if the comparison makes them equal or if a
 * model's active parameters are fewer than its parameters; other quantities if they are known for all models. */
static bool is_said(const ch_summary *summary, const ch_comparison *comparison, int q, range r) {
  if (quantities[q].match == CH_MATCH_ACTIVE && comparison->match == CH_MATCH_ACTIVE) return true;
  if ((comparison->data.images && !quantities[q].images) || r.least <= 0) return false;
  if (quantities[q].match != CH_MATCH_ACTIVE) return true;
  for (int i = 0; i < summary->count; i++)
    if (active(summary->groups[i].runs[0]) < parameters(summary->groups[i].runs[0])) return true;
  return false;
}

/* Writes "tokens 20.1 k", "FLOPs per token 118 k to 140 k" or "training time 10.0 s by plan, measured 9.6 s
 * to 11.8 s". */
static void put_quantity(const ch_comparison *comparison, int q, range r, ch_text *text) {
  char least[32], most[32];
  shown(r.least, quantities[q].duration, least, sizeof least);
  shown(r.most, quantities[q].duration, most, sizeof most);
  ch_text_puts(text, comparison->data.images ? quantities[q].images : quantities[q].text);
  if (r.least <= 0) return; /* unknown: an earlier version did not count this quantity */
  ch_text_puts(text, " ");
  if (quantities[q].match == CH_MATCH_TIME && comparison->match == CH_MATCH_TIME &&
      comparison->budget_seconds > 0) {
    char planned[32];
    shown(comparison->budget_seconds, true, planned, sizeof planned);
    ch_text_printf(text, "%s by plan, measured ", planned);
  }
  ch_text_puts(text, least);
  if (strcmp(least, most) != 0) ch_text_printf(text, " to %s", most);
}

/* Writes the quantities that are equal if `equal`, else those that differ. Returns their number. */
static int put_all(const ch_summary *summary, const ch_comparison *comparison, bool equal, const char *begin,
                   ch_text *text) {
  int count = 0;
  for (int q = 0; q < QUANTITIES; q++) {
    range r = range_of(summary, q);
    if (!is_said(summary, comparison, q, r) || is_equal(comparison, q, r) != equal) continue;
    ch_text_puts(text, count++ ? ", " : begin);
    put_quantity(comparison, q, r, text);
  }
  if (count) ch_text_puts(text, ".");
  return count;
}

/* Writes the length of text at which caches are compared, if it matters. */
static void put_context(const ch_summary *summary, ch_text *text) {
  for (int i = 0; i < summary->count; i++)
    if (ch_model_result_depends_on_depth(summary->groups[i].runs[0])) {
      ch_text_printf(
          text,
          " Caches per token are means over %lld tokens: layers with a window cache no more than it, "
          "and layers of "
          "linear attention have a state of constant size.",
          (long long)summary->groups[i].runs[0]->cache_depth);
      return;
    }
}

void ch_equal_write(const ch_summary *summary, const ch_comparison *comparison, ch_text *text) {
  if (summary->count < 2) return;
  ch_text begin = {0};
  ch_text_printf(&begin, "Equal (by %s): ", ch_match_names[comparison->match]);
  if (!begin.failed) put_all(summary, comparison, true, begin.data, text);
  ch_text_free(&begin);
  put_all(summary, comparison, false, " Different: ", text);
  put_context(summary, text);
}
