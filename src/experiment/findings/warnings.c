/* Finds results that must not be taken at face value: runs that diverged or hardly learned, text that was read too
 * often, rates at the edge of those tried, laws that say nothing. */
#include "experiment/findings/warnings.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "experiment/findings/group_law.h"
#include "experiment/lineup/comparison_plan.h"

enum { LAW_PARAMETERS = 3 };
static const double plateau_share = 0.95; /* smallest ratio of a plateau's loss to the tokens' entropy */
static const double most_passes = 4;      /* passes over the text that may be useful */
static const double widest_alpha = 10;    /* largest ratio of the ends of a useful exponent's interval */
static const double rise_share = 1.001;   /* smallest ratio of a risen validation loss to the lowest one */

/* --- the list ---------------------------------------------------------------------------------------------------- */

typedef struct writer {
  ch_arena *arena;
  ch_warnings *warnings;
  bool failed;
} writer;

/* The names that a warning is about. */
typedef struct name_list {
  const char *names[CH_COMPARE_MOST];
  int count;
} name_list;

static void add_name(name_list *list, const char *name) {
  if (list->count < CH_COMPARE_MOST) list->names[list->count++] = name;
}

/* Writes "mha, gqa:2 and mla". */
static void put_names(const name_list *list, ch_text *text) {
  for (int i = 0; i < list->count; i++)
    ch_text_printf(text, "%s%s", i == 0 ? "" : i + 1 == list->count ? " and " : ", ", list->names[i]);
}

/* Adds a warning about the names, and releases the sentence. */
static void warn(writer *w, const char *kind, const name_list *about, ch_text *sentence) {
  const char **names = ch_arena_alloc(w->arena, (size_t)about->count * sizeof *names);
  const char *words = sentence->failed ? NULL : ch_arena_strdup(w->arena, sentence->data);
  ch_text_free(sentence);
  if (!names || !words) {
    w->failed = true;
    return;
  }
  memcpy(names, about->names, (size_t)about->count * sizeof *names);
  w->warnings->list[w->warnings->count++] = (ch_warning){kind, names, about->count, words};
}

static ch_status finish_warnings(const writer *w, ch_error *error) {
  return w->failed ? ch_no_memory(error) : CH_OK;
}

/* --- comparisons ------------------------------------------------------------------------------------------------- */

static void warn_of_divergence(writer *w, const ch_comparison *comparison, const ch_summary *summary) {
  name_list about = {.count = 0};
  ch_text text = {0};
  for (int g = 0; g < summary->count; g++)
    if (summary->groups[g].diverged) add_name(&about, summary->groups[g].name);
  if (!about.count) return;
  put_names(&about, &text);
  if (comparison->data.images)
    ch_text_puts(&text, " diverged: the loss of a run became infinite.");
  else
    ch_text_printf(&text,
                   " diverged: a run's validation loss ends more than 5 %% above the %.2f nats of guessing.",
                   log((double)comparison->data.vocab_size));
  ch_text_printf(&text, " %s A lower learning rate may help.",
                 summary->compared == 0        ? "No model is left to choose."
                 : summary->groups[0].diverged ? "The choice means nothing."
                 : about.count == 1            ? "It is left out of the choice."
                                               : "They are left out of the choice.");
  warn(w, "diverged", &about, &text);
}

static void warn_of_plateaus(writer *w, const ch_comparison *comparison, const ch_summary *summary) {
  double entropy = comparison->data.token_entropy;
  bool images = comparison->data.images;
  name_list about = {.count = 0};
  ch_text text = {0};
  for (int g = 0; entropy > 0 && g < summary->count; g++) {
    bool stays = false;
    for (int i = 0; i < summary->groups[g].count; i++)
      stays = stays || summary->groups[g].runs[i]->validation_loss > plateau_share * entropy;
    if (stays && !summary->groups[g].diverged) add_name(&about, summary->groups[g].name);
  }
  if (!about.count) return;
  put_names(&about, &text);
  ch_text_printf(&text,
                 " did not leave the first plateau: the validation loss stays above %.2f nats, %.0f %% of "
                 "the loss of guessing from the frequencies of %s alone. Train for more %s.",
                 plateau_share * entropy, 100 * plateau_share, images ? "classes" : "tokens",
                 images ? "epochs" : "tokens");
  warn(w, "first_plateau", &about, &text);
}

static bool rises(const ch_model_result *run) {
  double lowest = INFINITY;
  for (int i = 0; i < run->validation_points; i++) lowest = fmin(lowest, run->validation_curve[i].loss);
  return run->validation_loss > rise_share * lowest;
}

static void warn_of_rereading(writer *w, const ch_comparison *comparison, const ch_summary *summary) {
  double text_tokens = (double)comparison->data.train_tokens, passes = 0;
  name_list about = {.count = 0};
  ch_text text = {0};
  for (int g = 0; !comparison->data.images && text_tokens > 0 && g < summary->count; g++) {
    bool found = false;
    for (int i = 0; i < summary->groups[g].count; i++) {
      const ch_model_result *run = summary->groups[g].runs[i];
      double read = (double)run->tokens_trained / text_tokens;
      if (read <= most_passes || !rises(run)) continue;
      found = true;
      passes = fmax(passes, read);
    }
    if (found) add_name(&about, summary->groups[g].name);
  }
  if (!about.count) return;
  put_names(&about, &text);
  ch_text_printf(&text,
                 " read the training text %.1f times, and the validation loss rises at the end, so the "
                 "comparison measures memorisation. Use more text, or fewer tokens.",
                 passes);
  warn(w, "reread", &about, &text);
}

static void warn_of_tuned_edges(writer *w, const ch_summary *summary) {
  name_list about = {.count = 0};
  ch_text text = {0};
  for (int g = 0; g < summary->count; g++)
    if (summary->groups[g].runs[0]->lr_at_edge) add_name(&about, summary->groups[g].name);
  if (!about.count) return;
  put_names(&about, &text);
  ch_text_puts(&text, about.count == 1 ? " does" : " do");
  ch_text_puts(&text, " best at the edge of the learning rates that were tried; a rate beyond it may be "
                      "better. Let the search try more rates, or start it from another rate.");
  warn(w, "edge_of_grid", &about, &text);
}

/* --- laws -------------------------------------------------------------------------------------------------------- */

static bool is_open(const ch_estimate *e) {
  return !isfinite(e->low) || !isfinite(e->high);
}

static bool is_loose(const ch_scaling_law *law) {
  double independent = law->points * (1 - law->correlation) / (1 + law->correlation);
  return independent <= LAW_PARAMETERS || is_open(&law->alpha) || is_open(&law->tokens) ||
         is_open(&law->floor) || law->alpha.high > widest_alpha * law->alpha.low;
}

static void warn_of_laws(writer *w, const name_list *about) {
  ch_text text = {0};
  if (!about->count) return;
  ch_text_puts(&text, "The laws fitted to ");
  put_names(about, &text);
  ch_text_printf(&text, " say nothing: the curves are too short or too noisy for the %d parameters of a law.",
                 LAW_PARAMETERS);
  warn(w, "loose_law", about, &text);
}

ch_status ch_comparison_warnings(const ch_comparison *comparison, const ch_summary *summary, ch_arena *arena,
                                 ch_warnings *warnings, ch_error *error) {
  writer w = {arena, warnings, false};
  name_list loose = {.count = 0};
  *warnings = (ch_warnings){.count = 0};
  warn_of_divergence(&w, comparison, summary);
  warn_of_plateaus(&w, comparison, summary);
  warn_of_rereading(&w, comparison, summary);
  warn_of_tuned_edges(&w, summary);
  for (int g = 0; g < summary->count; g++) {
    ch_scaling_law law;
    if (!summary->groups[g].diverged && ch_group_law(&summary->groups[g], &comparison->training, &law) &&
        is_loose(&law))
      add_name(&loose, summary->groups[g].name);
  }
  warn_of_laws(&w, &loose);
  return finish_warnings(&w, error);
}

/* --- sweeps ------------------------------------------------------------------------------------------------------ */

/* Writes a warning if a mechanism's lowest loss is at an edge of the grid, or if its largest stable rate is the largest
 * of the grid. Returns true if it wrote one. */
static bool put_edge(const ch_sweep *sweep, const ch_sweep_choice *choice, const char *before,
                     ch_text *text) {
  double least = INFINITY, most = 0;
  for (int i = 0; i < sweep->count; i++) {
    if (!ch_sweep_is_of(&sweep->runs[i], choice)) continue;
    least = fmin(least, sweep->runs[i].lr);
    most = fmax(most, sweep->runs[i].lr);
  }
  if (!choice->whole || !(least < most) || choice->chosen <= 0) return false;
  if (choice->lowest == most)
    ch_text_printf(text, "%s%s has its lowest loss at %.4g, the largest rate of the grid", before,
                   choice->name, most);
  else if (choice->lowest == least)
    ch_text_printf(text, "%s%s has its lowest loss at %.4g, the smallest rate of the grid", before,
                   choice->name, least);
  else if (choice->chosen == most)
    ch_text_printf(text, "%s%s is stable at %.4g, the largest rate of the grid", before, choice->name, most);
  else
    return false;
  return true;
}

static void warn_of_edges(writer *w, const ch_sweep *sweep) {
  name_list about = {.count = 0};
  ch_text text = {0};
  for (int m = 0; m < sweep->mechanisms; m++)
    if (put_edge(sweep, &sweep->choices[m], about.count ? "; " : "", &text))
      add_name(&about, sweep->choices[m].name);
  if (!about.count) return;
  ch_text_puts(&text, ": rates beyond it were not tried. Widen the grid.");
  warn(w, "edge_of_grid", &about, &text);
}

ch_status ch_sweep_warnings(const ch_sweep *sweep, ch_arena *arena, ch_warnings *warnings, ch_error *error) {
  writer w = {arena, warnings, false};
  name_list loose = {.count = 0};
  *warnings = (ch_warnings){.count = 0};
  warn_of_edges(&w, sweep);
  for (int m = 0; m < sweep->mechanisms; m++) {
    bool found = false;
    for (int i = 0; i < sweep->count; i++) {
      const ch_sweep_result *run = &sweep->runs[i];
      found = found || (ch_sweep_is_of(run, &sweep->choices[m]) && run->lr == sweep->choices[m].chosen &&
                        run->has_law && is_loose(&run->law));
    }
    if (found) add_name(&loose, sweep->choices[m].name);
  }
  warn_of_laws(&w, &loose);
  return finish_warnings(&w, error);
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

json_t *ch_warnings_to_json(const ch_warnings *warnings) {
  json_t *list = json_array();
  for (int i = 0; list && i < warnings->count; i++) {
    const ch_warning *w = &warnings->list[i];
    json_t *names = json_array();
    for (int n = 0; names && n < w->count; n++) json_array_append_new(names, json_string(w->names[n]));
    json_array_append_new(
        list, json_pack("{s:s, s:o, s:s}", "kind", w->kind, "names", names, "sentence", w->sentence));
  }
  return list;
}
