/* Writes the page of a sweep: answer, figures, table, machine and command. */
#include "report/sweep_page.h"

#include <math.h>
#include <stdio.h>

#include "experiment/findings/verdict.h"
#include "laws/scaling_law.h"
#include "report/compare_figures.h"
#include "report/labels.h"
#include "report/page_private.h"
#include "report/sweep_text.h"

enum { LAW_POINTS = 60 };

static json_t *axis(const char *title, const char *word, bool log) {
  return json_pack("{s:s, s:s, s:b, s:i}", "title", title, "word", word, "log", log, "base", 10);
}

/* --- losses against rates ---------------------------------------------------------------------------------------- */

/* Returns the losses of a mechanism's stable or unstable runs. Stable runs are marks on a line, unstable runs are
 * joined by a dashed line. Runs without a loss are omitted. */
static json_t *rate_series(const ch_sweep *sweep, int m, bool stable) {
  const ch_sweep_choice *choice = &sweep->choices[m];
  json_t *points = json_array();
  for (int i = 0; i < sweep->count; i++) {
    const ch_sweep_result *run = &sweep->runs[i];
    if (ch_sweep_is_of(run, choice) && (run->verdict == CH_STABLE) == stable &&
        isfinite(run->validation_loss))
      json_array_append_new(points, json_pack("[f, f]", run->lr, run->validation_loss));
  }
  return json_pack("{s:s, s:i, s:s, s:s, s:o}", "name", choice->name, "colour", m, "group",
                   stable ? "stable" : "unstable", "style", stable ? "marks" : "dashed", "points", points);
}

static json_t *rates_figure(const ch_sweep *sweep) {
  json_t *series = json_array();
  for (int m = 0; m < sweep->mechanisms; m++) json_array_append_new(series, rate_series(sweep, m, true));
  for (int m = 0; m < sweep->mechanisms; m++) {
    json_t *unstable = rate_series(sweep, m, false);
    if (json_array_size(json_object_get(unstable, "points"))) json_array_append(series, unstable);
    json_decref(unstable);
  }
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:[s, s], s:[s]}", "id", "rates", "kind", "lines", "title",
      "Loss against learning rate", "note",
      "Marks are stable runs. Dashed lines join the last losses of unstable runs. A run that ended before "
      "its first evaluation has no point.",
      "x", axis("learning rate", "rate", true), "y", axis("validation loss, nats per token", "loss", false),
      "series", series, "switches", "log-x", "log-y", "on", "log-x");
}

/* --- curves with laws -------------------------------------------------------------------------------------------- */

static json_t *measured(const ch_sweep_result *run, const char *name, int colour) {
  json_t *points = json_array();
  for (int i = 0; i < run->validation_points; i++)
    json_array_append_new(
        points, json_pack("[f, f]", (double)run->validation_curve[i].tokens, run->validation_curve[i].loss));
  return json_pack("{s:s, s:i, s:s, s:s, s:o}", "name", name, "colour", colour, "group", "validation",
                   "style", "marks", "points", points);
}

/* Returns the law from the first fitted point to the budget. A band widens from the last fitted point to the interval
 * at the budget. */
static json_t *fitted(const ch_sweep_result *run, const char *name, int colour) {
  const ch_scaling_law *law = &run->law;
  json_t *points = json_array();
  double ratio = law->budget / law->first;
  for (int i = 0; i < LAW_POINTS; i++) {
    double tokens = law->first * pow(ratio, (double)i / (LAW_POINTS - 1));
    json_array_append_new(points, json_pack("[f, f]", tokens, ch_predict_loss(law, tokens)));
  }
  json_t *series = json_pack("{s:s, s:i, s:s, s:s, s:o}", "name", name, "colour", colour, "group", "law",
                             "style", "dashed", "points", points);
  if (isfinite(law->at.low) && isfinite(law->at.high))
    json_object_set_new(series, "band",
                        json_pack("[[f, f, f], [f, f, f]]", law->last, ch_predict_loss(law, law->last),
                                  ch_predict_loss(law, law->last), law->budget, law->at.low, law->at.high));
  return series;
}

static void put_run(json_t *series, const ch_sweep_result *run, const char *name, int colour) {
  json_array_append_new(series, measured(run, name, colour));
  if (run->has_law) json_array_append_new(series, fitted(run, name, colour));
}

static json_t *curves_figure(const ch_sweep *sweep, const char *id, const char *title, json_t *series) {
  return json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:[s, s, s], s:[s]}", "id", id, "kind", "lines",
                   "title", json_string(title), "note",
                   ch_sweep_has_laws(sweep)
                       ? "Dashed: the law, fitted to the losses after the warm-up and the first tenth of the "
                         "tokens, up to "
                         "the budget. The band shows its 95 % interval there."
                       : "No law is fitted, because the learning rate falls during the runs.",
                   "x", axis("training tokens", "tokens", true), "y",
                   axis("validation loss, nats per token", "loss", false), "series", series, "switches",
                   "second-half", "log-x", "log-y", "on", "log-x");
}

/* Returns the figure of every mechanism's first seed at its chosen rate. */
static json_t *chosen_figure(const ch_sweep *sweep) {
  json_t *series = json_array();
  for (int m = 0; m < sweep->mechanisms; m++) {
    const ch_sweep_choice *choice = &sweep->choices[m];
    for (int i = 0; i < sweep->count; i++) {
      const ch_sweep_result *run = &sweep->runs[i];
      char name[160];
      if (!ch_sweep_is_of(run, choice) || run->lr != choice->chosen) continue;
      snprintf(name, sizeof name, "%s at %.4g", run->name, run->lr);
      put_run(series, run, name, m);
      break;
    }
  }
  return curves_figure(sweep, "chosen", "Each mechanism at its largest stable rate", series);
}

static json_t *mechanism_figure(const ch_sweep *sweep, int m) {
  const ch_sweep_choice *choice = &sweep->choices[m];
  json_t *series = json_array();
  char id[32], title[200];
  int colour = -1;
  double last = 0;
  for (int i = 0; i < sweep->count; i++) {
    const ch_sweep_result *run = &sweep->runs[i];
    char name[80];
    if (!ch_sweep_is_of(run, choice) || run->lr == last) continue; /* a later seed of the rate */
    last = run->lr;
    snprintf(name, sizeof name, "%.4g", run->lr);
    put_run(series, run, name, ++colour);
  }
  snprintf(id, sizeof id, "curves-%d", m + 1);
  snprintf(title, sizeof title, "%s at every rate", choice->name);
  return curves_figure(sweep, id, title, series);
}

/* --- the page ---------------------------------------------------------------------------------------------------- */

static void put_sentences(const ch_sweep *sweep, ch_text *html) {
  ch_text table = {0};
  ch_text_puts(
      html, "<section aria-labelledby=\"results-heading\">\n<h2 id=\"results-heading\">Rates</h2>\n<ul>\n");
  for (int m = 0; m < sweep->mechanisms; m++) {
    ch_text sentence = {0};
    ch_sweep_sentence(&sweep->choices[m], &sentence);
    ch_text_puts(html, "<li>");
    ch_page_escaped(&sentence, html);
    ch_text_puts(html, "</li>\n");
  }
  ch_text_puts(html,
               "</ul>\n<div class=\"scroll\" role=\"region\" aria-label=\"All runs\" tabindex=\"0\"><pre>");
  ch_sweep_table_write(sweep, &table);
  ch_page_escaped(&table, html);
  ch_text_puts(html, "</pre></div>\n</section>\n");
}

static void put_machine(const ch_sweep *sweep, ch_text *html) {
  const ch_page_runs runs = {sweep->runs ? &sweep->runs->trained_on : NULL, sizeof *sweep->runs,
                             sweep->count};
  ch_text_puts(html, "<section aria-labelledby=\"machine-heading\">\n"
                     "<h2 id=\"machine-heading\">Machine</h2>\n<dl>\n");
  ch_page_machine_facts(&sweep->about, &runs, html);
  ch_text_puts(html, "</dl>\n</section>\n");
}

/* Returns true if several mechanisms can be compared at their best rates. */
static bool is_comparison(const ch_sweep *sweep) {
  return sweep->mechanisms > 1 && sweep->about.count > 0;
}

static void put_answer(const ch_sweep *sweep, const ch_summary *summary, ch_text *answer) {
  char budget[32];
  if (is_comparison(sweep)) {
    ch_verdict_sentence(summary, &sweep->about, answer);
    ch_text_puts(answer, "\nEach mechanism at the rate of its lowest loss. ");
  }
  ch_text_printf(answer, "%d of %d runs are done.", sweep->count, sweep->planned);
  if (ch_sweep_has_laws(sweep))
    ch_text_printf(answer, " Losses are extrapolated to %s tokens.",
                   ch_format_count(sweep->budget, budget, sizeof budget));
}

static ch_status write_page(const ch_sweep *sweep, const ch_summary *summary, ch_text *html,
                            ch_error *error) {
  char title[200];
  ch_text answer = {0};
  snprintf(title, sizeof title, "Learning rates on %s", ch_page_file_name(sweep->about.data.file));
  put_answer(sweep, summary, &answer);
  const ch_page_head head = {.kicker = "Learning-rate sweep",
                             .title = title,
                             .answer = answer.data ? answer.data : "",
                             .version = sweep->about.version,
                             .created = sweep->about.created};
  html->failed |= answer.failed;
  ch_page_begin(&head, html);
  if (is_comparison(sweep)) ch_page_figure(ch_figure_quality(summary, &sweep->about), html);
  put_sentences(sweep, html);
  if (sweep->count) {
    ch_page_figure(rates_figure(sweep), html);
    ch_page_figure(chosen_figure(sweep), html);
    for (int m = 0; m < sweep->mechanisms; m++) ch_page_figure(mechanism_figure(sweep, m), html);
  }
  put_machine(sweep, html);
  ch_page_command(sweep->about.command, html);
  ch_page_end(&head, html);
  ch_text_free(&answer);
  return html->failed ? ch_no_memory(error) : CH_OK;
}

ch_status ch_sweep_page_write(const ch_sweep *sweep, ch_text *html, ch_error *error) {
  ch_summary summary = {0};
  ch_status status = ch_summarise(&sweep->about, &summary, error);
  if (status == CH_OK) status = ch_summary_label(&summary, error);
  if (status == CH_OK) status = write_page(sweep, &summary, html, error);
  ch_arena_free(&summary.arena);
  return status;
}
