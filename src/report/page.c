/* The page of a comparison: fills the template report/page/compare.html. Larger sections have separate files:
 * page_seeds.c, page_facts.c, page_matrices.c, task_page.c, ladder_page.c, compare_figures.c. */
#include "report/page.h"

#include <string.h>

#include "experiment/lineup/presets.h"
#include "experiment/findings/comparison_json.h"
#include "report/compare_figures.h"
#include "report/embedded.h"
#include "report/equal.h"
#include "report/labels.h"
#include "report/ladder_page.h"
#include "report/ladder_text.h"
#include "report/page_matrices.h"
#include "report/page_private.h"
#include "report/comparison_columns.h"
#include "report/comparison_text.h"
#include "experiment/findings/verdict.h"
#include "experiment/findings/warnings.h"

enum { MOST_NAMES_IN_TITLE = 4 };

static void put_title(const ch_page *p, ch_text *title) {
  const ch_summary *s = p->summary;
  if (s->count > MOST_NAMES_IN_TITLE || s->count == 0)
    ch_text_printf(title, "%d attention mechanisms", s->count);
  else
    for (int i = 0; i < s->count; i++)
      ch_text_printf(title, "%s%s",
                     i == 0              ? ""
                     : i + 1 == s->count ? " and "
                                         : ", ",
                     ch_page_file_name(s->groups[i].name));
  ch_text_printf(title, " on %s", ch_page_file_name(p->comparison->data.file));
}

/* --- the parts, one function per placeholder --------------------------------------------------------------------- */

static void put_rule(const ch_page *p, ch_text *html) {
  ch_text sentence = {0};
  ch_verdict_rule(p->comparison, &sentence);
  ch_page_escaped(&sentence, html);
}

static void put_count(int64_t value, ch_text *html) {
  static const ch_column plain = {.decimals = 0};
  char buffer[64];
  ch_text_puts(html, ch_column_format(&plain, (double)value, buffer, sizeof buffer));
}

static void put_basis(const ch_page *p, ch_text *html) {
  const ch_comparison_training *training = &p->comparison->training;
  bool images = p->comparison->data.images;
  if (p->summary->seeds > 1)
    ch_text_printf(html, "Means of %d runs with different seeds, ± their standard deviation. ",
                   p->summary->seeds);
  else
    ch_text_printf(html, "One run each, seed %llu. ", (unsigned long long)training->seed);
  ch_text_puts(html, images ? "Accuracies and losses are those on " : "The loss is the mean over ");
  put_count(training->eval_tokens, html);
  ch_text_puts(html, images ? " images that no model was trained on."
                            : " tokens of text that no model was trained on.");
}

static void put_unfinished(const ch_page *p, ch_text *html) {
  const ch_comparison *c = p->comparison;
  if (c->count != c->planned)
    ch_text_printf(
        html,
        "<p class=\"notice\">Unfinished: %d of %d models are trained so far. Run the same command again to "
        "continue.</p>\n",
        c->count, c->planned);
  else if (c->open)
    ch_text_puts(html, "<p class=\"notice\">Unfinished: more seeds may follow. Run the same command again to "
                       "continue.</p>\n");
}

static void put_notice(const ch_page *p, ch_text *html) {
  for (int i = 0; i < p->warnings->count; i++) {
    ch_text_puts(html, "<p class=\"notice\">Warning: ");
    ch_html_escape(p->warnings->list[i].sentence, html);
    ch_text_puts(html, "</p>\n");
  }
}

static void put_table_head(const ch_columns *columns, ch_text *html) {
  ch_text_puts(html, "<thead>\n<tr><th scope=\"col\">mechanism</th>");
  for (int c = 0; c < columns->count; c++) {
    ch_text_printf(html, "<th scope=\"col\">%s", columns->list[c].title);
    if (*columns->list[c].title_unit) ch_text_printf(html, "<small>%s</small>", columns->list[c].title_unit);
    ch_text_puts(html, "</th>");
  }
  ch_text_puts(html, "</tr>\n</thead>\n");
}

/* Writes "3.4012", and below it "± 0.0031". */
static void put_cell(const ch_column *column, const ch_group *group, bool best, ch_text *html) {
  char value[192];
  ch_column_cell(column, group, value, sizeof value);
  char *deviation = strstr(value, " ± ");
  if (deviation) *deviation++ = 0;
  ch_text_printf(html,
                 best ? "<td class=\"best\"><span class=\"best-mark\" role=\"img\" "
                        "aria-label=\"best\">★</span>%s"
                      : "<td>%s",
                 value);
  if (ch_column_is_unsteady(column, group))
    ch_text_puts(html, "<span title=\"not steady\" role=\"img\" aria-label=\"not steady\">?</span>");
  if (deviation) ch_text_printf(html, " <small>%s</small>", deviation);
  ch_text_puts(html, "</td>");
}

static void put_spikes(const ch_page *p, ch_text *html) {
  ch_text sentence = {0};
  ch_spikes_write(p->summary, &sentence);
  if (sentence.size) {
    ch_text_puts(html, "<p class=\"note\">");
    ch_html_escape(sentence.data, html);
    ch_text_puts(html, "</p>\n");
  }
  html->failed |= sentence.failed;
  ch_text_free(&sentence);
}

static void put_table(const ch_page *p, ch_text *html) {
  const ch_columns columns = ch_columns_of(p->comparison);
  ch_text_puts(html, "<table>\n");
  put_table_head(&columns, html);
  ch_text_puts(html, "<tbody>\n");
  for (int i = 0; i < p->summary->count; i++) {
    const ch_group *group = &p->summary->groups[i];
    ch_page_name_cell(p, i, true, html);
    for (int k = 0; k < columns.count; k++)
      put_cell(&columns.list[k], group, ch_column_is_best(&columns.list[k], p->summary, group), html);
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_puts(html, "</tbody>\n</table>\n");
  if (p->summary->count > 1) {
    ch_text_puts(html, "<p class=\"note\">");
    ch_equal_write(p->summary, p->comparison, html);
    ch_text_puts(html, "</p>\n");
  }
  put_spikes(p, html);
  if (ch_columns_have_unsteady(&columns, p->summary))
    ch_text_puts(html, "<p class=\"note\">? A speed that is not steady: " CH_UNSTEADY_NOTE "</p>\n");
}

/* Writes the full name of each model's mechanism: that of gqa for "gqa:4". The table of results links to them. */
static void put_full_names(const ch_page *p, ch_text *html) {
  ch_text_puts(html, "<dl class=\"names\">\n");
  for (int i = 0; i < p->summary->count; i++) {
    const ch_group *group = &p->summary->groups[i];
    const ch_preset *preset = ch_preset_of(group->runs[0]->name);
    ch_text_printf(html, "<dt id=\"name-%d\">", i);
    ch_html_escape(group->name, html);
    ch_text_puts(html, "</dt><dd>");
    ch_html_escape(preset ? preset->summary : "as its configuration file says", html);
    ch_text_puts(html, "</dd>\n");
  }
  ch_text_puts(html, "</dl>\n");
}

static void put_shapes(const ch_page *p, ch_text *html) {
  static const char *const headings[] = {"layers",          "width",     "query heads",
                                         "key-value heads", "head size", "FFN width"};
  ch_text_puts(html, "<table>\n<thead>\n<tr><th scope=\"col\">mechanism</th>");
  for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
    ch_text_printf(html, "<th scope=\"col\">%s</th>", headings[i]);
  ch_text_puts(html, "</tr>\n</thead>\n<tbody>\n");
  for (int i = 0; i < p->summary->count; i++) {
    const ch_model_result *m = p->summary->groups[i].runs[0];
    int64_t cells[] = {m->layers,          m->hidden_size, m->heads,
                       m->key_value_heads, m->head_dim,    m->intermediate_size};
    ch_page_name_cell(p, i, false, html);
    for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
      ch_text_puts(html, "<td>");
      if (cells[k])
        put_count(cells[k], html);
      else
        ch_text_puts(html, "–"); /* a mechanism without this size */
      ch_text_puts(html, "</td>");
    }
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_puts(html, "</tbody>\n</table>\n");
  put_full_names(p, html);
}

/* --- figures ----------------------------------------------------------------------------------------------------- */

static void put_quality(const ch_page *p, ch_text *html) {
  if (p->summary->count) ch_page_figure(ch_figure_quality(p->summary, p->comparison), html);
}

static void put_curves(const ch_page *p, ch_text *html) {
  if (ch_has_tried_rates(p->summary)) ch_page_figure(ch_figure_rates(p->summary), html);
  if (p->summary->count) ch_page_figure(ch_figure_curves(p->summary, p->comparison), html);
  ch_page_put_laws(p, html);
}

/* Writes the ladder of sizes, if there is one. */
static void put_ladder(const ch_page *p, ch_text *html) {
  const ch_ladder *ladder = p->comparison->ladder;
  int colours[CH_LADDER_MOST_CURVES] = {0};
  ch_text sentences = {0};
  if (!ladder) return;
  for (int m = 0; m < ladder->count; m++)
    for (int i = 0; i < p->summary->count; i++)
      if (strcmp(p->summary->groups[i].runs[0]->name, ladder->mechanisms[m].name) == 0) colours[m] = i;
  ch_ladder_sentences_write(ladder, &sentences);
  ch_text_puts(html,
               "<section aria-labelledby=\"ladder-heading\">\n<h2 id=\"ladder-heading\">Other sizes</h2>\n"
               "<div class=\"scroll\" role=\"region\" aria-labelledby=\"ladder-heading\" tabindex=\"0\">\n");
  ch_ladder_put_tables(ladder, html);
  ch_text_puts(html, "</div>\n");
  for (char *line = sentences.data, *end; line && (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = 0;
    ch_text_puts(html, "<p class=\"note\">");
    ch_html_escape(line, html);
    ch_text_puts(html, "</p>\n");
  }
  ch_text_free(&sentences);
  ch_text_puts(html, "</section>\n");
  ch_page_figure(ch_figure_ladder(ladder, colours), html);
}

static void put_speed(const ch_page *p, ch_text *html) {
  if (!p->summary->count) return;
  ch_text_puts(html, "<section class=\"pair\" aria-label=\"Speed\">\n");
  ch_page_small_figure(ch_figure_training_speed(p->summary), html);
  ch_page_small_figure(ch_figure_second_speed(p->summary), html);
  ch_text_puts(html, "</section>\n");
  if (ch_has_depths(p->summary)) ch_page_figure(ch_figure_depths(p->summary), html);
}

static void put_size(const ch_page *p, ch_text *html) {
  if (!p->summary->count || !ch_has_account(p->summary)) return;
  ch_text_puts(html, "<section class=\"pair\" aria-label=\"Size\">\n");
  ch_page_small_figure(ch_figure_parameters(p->summary), html);
  ch_page_small_figure(ch_figure_flops(p->summary), html);
  ch_text_puts(html, "</section>\n");
}

static void put_matrices(const ch_page *p, ch_text *html) {
  ch_matrices_put(p->summary, p->comparison->out, html);
}

/* --- words ------------------------------------------------------------------------------------------------------- */

static void put_source(const ch_page *p, ch_text *html) {
  ch_text_puts(html, p->comparison->data.images ? "Images" : "Text");
}

static void put_results(const ch_page *p, ch_text *html) {
  ch_html_json(ch_comparison_to_json(p->comparison), html);
}

/* --- the template ------------------------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  void (*put)(const ch_page *p, ch_text *html);
} parts[] = {
    {"unfinished", put_unfinished},
    {"notice", put_notice},
    {"table", put_table},
    {"rule", put_rule},
    {"basis", put_basis},
    {"quality", put_quality},
    {"noise", ch_page_put_noise},
    {"tasks", ch_page_put_tasks},
    {"curves", put_curves},
    {"ladder", put_ladder},
    {"speed", put_speed},
    {"size", put_size},
    {"matrices", put_matrices},
    {"shapes", put_shapes},
    {"training", ch_page_put_training},
    {"machine", ch_page_put_machine},
    {"commands", ch_page_put_commands},
    {"results", put_results},
    {"source", put_source},
};

static bool put_page_part(const void *context, const char *name, size_t length, ch_text *html) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strlen(parts[i].name) == length && strncmp(parts[i].name, name, length) == 0) {
      parts[i].put(context, html);
      return true;
    }
  return false;
}

ch_status ch_page_write(const ch_comparison *comparison, ch_text *html, ch_error *error) {
  ch_summary summary;
  ch_warnings warnings;
  ch_text title = {0}, answer = {0};
  ch_status status = ch_summarise(comparison, &summary, error);
  if (status == CH_OK) status = ch_summary_label(&summary, error);
  if (status == CH_OK)
    status = ch_comparison_warnings(comparison, &summary, &summary.arena, &warnings, error);
  if (status == CH_OK) {
    ch_page p = {comparison, &summary, &warnings};
    put_title(&p, &title);
    ch_verdict_sentence(&summary, comparison, &answer);
    html->failed |= title.failed || answer.failed;
    ch_page_head head = {"crosshead compare", title.data ? title.data : "", answer.data ? answer.data : "",
                         comparison->version, comparison->created};
    ch_page_begin(&head, html);
    ch_template_fill((const char *)ch_embedded_compare_html, NULL, put_page_part, &p, html);
    ch_page_end(&head, html);
    if (html->failed) status = ch_no_memory(error);
  }
  ch_text_free(&title);
  ch_text_free(&answer);
  ch_arena_free(&summary.arena);
  return status;
}
