/* The page of a comparison: its template report/page/compare.html filled. */
#include "report/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/compare_figures.h"
#include "report/embedded.h"
#include "report/matrices.h"
#include "report/table.h"
#include "report/verdict.h"

enum { SERIES_COLOURS = 14, MOST_NAMES_IN_TITLE = 4 };

typedef struct page {
  const ch_comparison *comparison;
  const ch_summary *summary;
} page;

/* Escapes what `text` holds and releases it. */
static void put_escaped(ch_text *text, ch_text *html) {
  if (text->data) ch_html_escape(text->data, html);
  html->failed |= text->failed;
  ch_text_free(text);
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

static void put_title(const page *p, ch_text *title) {
  const ch_summary *s = p->summary;
  if (s->count > MOST_NAMES_IN_TITLE || s->count == 0)
    ch_text_printf(title, "%d attention mechanisms", s->count);
  else
    for (int i = 0; i < s->count; i++)
      ch_text_printf(title, "%s%s",
                     i == 0              ? ""
                     : i + 1 == s->count ? " and "
                                         : ", ",
                     file_name(s->groups[i].name));
  ch_text_printf(title, " on %s", file_name(p->comparison->data.file));
}

/* --- the parts, one function a placeholder ----------------------------------------------------------------------- */

static void put_rule(const page *p, ch_text *html) {
  ch_text sentence = {0};
  ch_verdict_rule(p->comparison, &sentence);
  put_escaped(&sentence, html);
}

static void put_count(int64_t value, ch_text *html) {
  static const ch_column plain = {.decimals = 0};
  char buffer[64];
  ch_text_puts(html, ch_column_format(&plain, (double)value, buffer, sizeof buffer));
}

static void put_basis(const page *p, ch_text *html) {
  const ch_compared_training *training = &p->comparison->training;
  bool images = p->comparison->data.images;
  if (p->summary->seeds > 1)
    ch_text_printf(html, "Means of %d runs with different seeds, ± their standard deviation. ",
                   p->summary->seeds);
  else
    ch_text_printf(html,
                   "One run each, seed %llu: small differences may be chance, which other seeds would show. ",
                   (unsigned long long)training->seed);
  ch_text_puts(html, images ? "Accuracies and losses are those on " : "The loss is the mean over ");
  put_count(training->eval_tokens, html);
  ch_text_puts(html, images ? " images that no model was trained on."
                            : " tokens of text that no model was trained on.");
}

static void put_notice(const page *p, ch_text *html) {
  const ch_comparison *c = p->comparison;
  if (c->count == c->planned) return;
  ch_text_printf(
      html,
      "<p class=\"notice\">Unfinished: %d of %d models are trained so far. Run the same command again to "
      "continue.</p>\n",
      c->count, c->planned);
}

static void put_name_cell(const page *p, int rank, bool mark, ch_text *html) {
  const ch_summary *s = p->summary;
  ch_text_printf(html, "<tr><th scope=\"row\" style=\"--swatch:var(--series-%d)\">", rank % SERIES_COLOURS);
  ch_html_escape(s->groups[rank].name, html);
  if (mark && s->count > 1 && ch_verdict_of(s, p->comparison->tolerance).take == rank)
    ch_text_puts(html, " <span class=\"take\">take this</span>");
  ch_text_puts(html, "</th>");
}

static void put_table_head(const ch_column *columns, ch_text *html) {
  ch_text_puts(html, "<thead>\n<tr><th scope=\"col\">mechanism</th>");
  for (int c = 0; c < CH_COLUMNS; c++) {
    ch_text_printf(html, "<th scope=\"col\">%s", columns[c].title);
    if (*columns[c].title_unit) ch_text_printf(html, "<small>%s</small>", columns[c].title_unit);
    ch_text_puts(html, "</th>");
  }
  ch_text_puts(html, "</tr>\n</thead>\n");
}

/* "3.4012", and below it "± 0.0031" */
static void put_cell(const ch_column *column, const ch_group *group, bool best, ch_text *html) {
  char value[128];
  ch_column_cell(column, group, value, sizeof value);
  char *deviation = strstr(value, " ± ");
  if (deviation) *deviation++ = 0;
  ch_text_printf(html,
                 best ? "<td class=\"best\"><span class=\"best-mark\" role=\"img\" "
                        "aria-label=\"best\">★</span>%s"
                      : "<td>%s",
                 value);
  if (deviation) ch_text_printf(html, " <small>%s</small>", deviation);
  ch_text_puts(html, "</td>");
}

static void put_table(const page *p, ch_text *html) {
  const ch_column *columns = ch_columns_of(p->comparison);
  ch_text_puts(html, "<table>\n");
  put_table_head(columns, html);
  ch_text_puts(html, "<tbody>\n");
  for (int i = 0; i < p->summary->count; i++) {
    const ch_group *group = &p->summary->groups[i];
    put_name_cell(p, i, true, html);
    for (int k = 0; k < CH_COLUMNS; k++)
      put_cell(&columns[k], group, ch_column_is_best(&columns[k], p->summary, group), html);
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_puts(html, "</tbody>\n</table>\n");
}

static void put_shapes(const page *p, ch_text *html) {
  static const char *const headings[] = {"layers",          "width",     "query heads",
                                         "key-value heads", "head size", "FFN width"};
  ch_text_puts(html, "<table>\n<thead>\n<tr><th scope=\"col\">mechanism</th>");
  for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
    ch_text_printf(html, "<th scope=\"col\">%s</th>", headings[i]);
  ch_text_puts(html, "</tr>\n</thead>\n<tbody>\n");
  for (int i = 0; i < p->summary->count; i++) {
    const ch_compared *m = p->summary->groups[i].runs[0];
    int64_t cells[] = {m->layers,          m->hidden_size, m->heads,
                       m->key_value_heads, m->head_dim,    m->intermediate_size};
    put_name_cell(p, i, false, html);
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
}

/* A term and its value, printf-style, escaped. */
__attribute__((format(printf, 3, 4))) static void put_fact(ch_text *html, const char *term,
                                                           const char *format, ...) {
  char value[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(value, sizeof value, format, arguments);
  va_end(arguments);
  ch_text_printf(html, "<dt>%s</dt><dd>", term);
  ch_html_escape(value, html);
  ch_text_puts(html, "</dd>\n");
}

static void put_text_facts(const ch_compared_data *data, ch_text *html) {
  char a[32], b[32];
  put_fact(html, "text", "%s, %s bytes", data->file, ch_format_count((double)data->bytes, a, sizeof a));
  put_fact(html, "tokenizer", "%s, %lld tokens", data->tokenizer, (long long)data->vocab_size);
  put_fact(html, "tokens", "%s to train on, %s to validate",
           ch_format_count((double)data->train_tokens, a, sizeof a),
           ch_format_count((double)data->validation_tokens, b, sizeof b));
}

static void put_image_facts(const ch_compared_data *data, ch_text *html) {
  char a[32], b[32];
  put_fact(html, "images", "%s (%s), %lld × %lld %s, %lld classes", data->file, data->format,
           (long long)data->image_size, (long long)data->image_size,
           data->channels == 1 ? "grey" : "in colour", (long long)data->classes);
  put_fact(html, "number", "%s to train on, %s to validate",
           ch_format_count((double)data->train_tokens, a, sizeof a),
           ch_format_count((double)data->validation_tokens, b, sizeof b));
}

static void put_budget(const ch_compared_training *training, bool images, ch_text *html) {
  char count[32];
  ch_format_count((double)training->tokens, count, sizeof count);
  if (images)
    put_fact(html, "budget", "%s images a model: %lld steps of %lld", count, (long long)training->steps,
             (long long)training->batch);
  else
    put_fact(html, "budget", "%s tokens a model: %lld steps of %lld × %lld", count,
             (long long)training->steps, (long long)training->batch, (long long)training->sequence);
  if (images && training->flip)
    put_fact(html, "augmentation", "mirrored, shifted by up to %lld pixels", (long long)training->crop);
}

static void put_training(const page *p, ch_text *html) {
  const ch_compared_data *data = &p->comparison->data;
  const ch_compared_training *training = &p->comparison->training;
  (data->images ? put_image_facts : put_text_facts)(data, html);
  put_budget(training, data->images, html);
  put_fact(html, "optimizer", "AdamW, weight decay %g", training->weight_decay);
  put_fact(html, "learning rate", "%g, %s, %lld steps of warm-up", training->lr, training->schedule,
           (long long)training->warmup);
  if (p->summary->seeds > 1)
    put_fact(html, "seeds", "%llu to %llu; of each seed the same batches in the same order for all",
             (unsigned long long)training->seed,
             (unsigned long long)training->seed + (unsigned long long)p->summary->seeds - 1);
  else
    put_fact(html, "seed", "%llu; the same batches in the same order for all",
             (unsigned long long)training->seed);
}

static void put_machine(const page *p, ch_text *html) {
  const ch_machine *machine = &p->comparison->machine;
  if (machine->processor[0]) put_fact(html, "processor", "%s", machine->processor);
  put_fact(html, "cores", "%lld, %lld threads used", (long long)machine->cores, (long long)machine->threads);
  if (machine->memory_bytes)
    put_fact(html, "memory", "%.1f GiB", (double)machine->memory_bytes / (1024.0 * 1024 * 1024));
  if (machine->system[0]) put_fact(html, "system", "%s", machine->system);
  if (machine->kernels[0]) put_fact(html, "arithmetic", "%s", machine->kernels);
}

/* --- differences between seeds ----------------------------------------------------------------------------------- */

/* "+0.0123 ± 0.0042", in points where images are told apart. */
static void put_difference(const ch_difference *d, bool images, ch_text *html) {
  double unit = images ? 100 : 1;
  int decimals = images ? 2 : 4;
  ch_text_printf(html,
                 d->beyond_noise ? "<td class=\"best\">%+.*f <small>± %.*f</small></td>"
                                 : "<td>%+.*f <small>± %.*f</small></td>",
                 decimals, unit * d->mean, decimals, unit * (d->high - d->mean));
}

static void put_pairs(const page *p, ch_text *html) {
  const ch_summary *s = p->summary;
  bool images = p->comparison->data.images;
  ch_text_puts(html, "<div class=\"scroll\" role=\"region\" aria-label=\"Differences, paired by seed\" "
                     "tabindex=\"0\">\n<table class=\"pairs\">\n<thead>\n<tr><th scope=\"col\">less →</th>");
  for (int k = 0; k + 1 < s->count; k++) {
    ch_text_puts(html, "<th scope=\"col\">");
    ch_html_escape(s->groups[k].name, html);
    ch_text_puts(html, "</th>");
  }
  ch_text_puts(html, "</tr>\n</thead>\n<tbody>\n");
  for (int i = 1; i < s->count; i++) {
    put_name_cell(p, i, false, html);
    for (int k = 0; k + 1 < s->count; k++) {
      ch_difference d = ch_group_difference(&s->groups[i], &s->groups[k], ch_compared_quality);
      if (k < i && d.pairs > 1)
        put_difference(&d, images, html);
      else
        ch_text_puts(html, "<td></td>");
    }
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_puts(html, "</tbody>\n</table>\n</div>\n");
}

static void put_noise(const page *p, ch_text *html) {
  if (p->summary->seeds < 2) return;
  ch_text sentence = {0};
  ch_page_figure(ch_figure_seeds(p->summary), html);
  if (p->summary->count < 2) return;
  ch_text_puts(html,
               "<section aria-labelledby=\"noise-heading\">\n<h2 id=\"noise-heading\">Which differences "
               "are larger than the noise</h2>\n<p class=\"note\">");
  ch_verdict_noise(p->summary, &sentence);
  put_escaped(&sentence, html);
  ch_text_puts(html, "</p>\n");
  put_pairs(p, html);
  ch_text_puts(
      html,
      "<p class=\"note\">The mechanism of the row less that of the column, ± half of the interval; bold: "
      "beyond the noise. Of many pairs, one in twenty would be called different by chance.</p>\n"
      "</section>\n");
}

/* --- figures ----------------------------------------------------------------------------------------------------- */

static void put_quality(const page *p, ch_text *html) {
  if (p->summary->count) ch_page_figure(ch_figure_quality(p->summary, p->comparison), html);
}

static void put_curves(const page *p, ch_text *html) {
  if (p->summary->count) ch_page_figure(ch_figure_curves(p->summary, p->comparison), html);
}

static void put_speed(const page *p, ch_text *html) {
  if (!p->summary->count) return;
  ch_text_puts(html, "<section class=\"pair\" aria-label=\"Speed\">\n");
  ch_page_small_figure(ch_figure_training_speed(p->summary), html);
  ch_page_small_figure(ch_figure_second_speed(p->summary), html);
  ch_text_puts(html, "</section>\n");
  if (ch_has_depths(p->summary)) ch_page_figure(ch_figure_depths(p->summary), html);
}

static void put_size(const page *p, ch_text *html) {
  if (!p->summary->count || !ch_has_account(p->summary)) return;
  ch_text_puts(html, "<section class=\"pair\" aria-label=\"Size\">\n");
  ch_page_small_figure(ch_figure_parameters(p->summary), html);
  ch_page_small_figure(ch_figure_flops(p->summary), html);
  ch_text_puts(html, "</section>\n");
}

static void put_matrices(const page *p, ch_text *html) {
  ch_matrices_put(p->summary, p->comparison->out, html);
}

/* --- words ------------------------------------------------------------------------------------------------------- */

static void put_source(const page *p, ch_text *html) {
  ch_text_puts(html, p->comparison->data.images ? "Images" : "Text");
}

static void put_pre(const char *before, const char *command, const char *after, ch_text *html) {
  ch_text_printf(html, "<p class=\"note\">%s</p>\n<pre tabindex=\"0\"><code>", before);
  ch_html_escape(command, html);
  ch_html_escape(after, html);
  ch_text_puts(html, "</code></pre>\n");
}

static void put_commands(const page *p, ch_text *html) {
  const ch_comparison *c = p->comparison;
  ch_text_puts(html, "<p class=\"note\">Made by Crosshead ");
  ch_html_escape(c->version, html);
  ch_text_puts(
      html, ". The same command continues what was interrupted; in another --out it begins again, and gives "
            "the same losses on the same machine.</p>\n<pre tabindex=\"0\"><code>");
  ch_html_escape(c->command, html);
  ch_text_puts(html, "</code></pre>\n");
  if (!c->count) return;
  const char *model = p->summary->groups[0].runs[0]->directory;
  ch_text more = {0};
  ch_text_printf(&more, "crosshead info %s\n", model);
  if (c->data.images)
    ch_text_printf(&more, "crosshead eval %s --images IMAGES", model);
  else
    ch_text_printf(&more,
                   "crosshead eval %s --text FILE\ncrosshead bench %s --depth 0,2048\ncrosshead generate %s "
                   "--prompt \"...\"",
                   model, model, model);
  if (more.data) put_pre("A model by itself, in the directory of this page:", more.data, "", html);
  html->failed |= more.failed;
  ch_text_free(&more);
}

static void put_results(const page *p, ch_text *html) {
  ch_html_json(ch_comparison_to_json(p->comparison), html);
}

/* --- the template ------------------------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  void (*put)(const page *p, ch_text *html);
} parts[] = {
    {"notice", put_notice},     {"table", put_table},       {"rule", put_rule},
    {"basis", put_basis},       {"quality", put_quality},   {"noise", put_noise},
    {"curves", put_curves},     {"speed", put_speed},       {"size", put_size},
    {"matrices", put_matrices}, {"shapes", put_shapes},     {"training", put_training},
    {"machine", put_machine},   {"commands", put_commands}, {"results", put_results},
    {"source", put_source},
};

static bool put_part(const void *context, const char *name, size_t length, ch_text *html) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strlen(parts[i].name) == length && strncmp(parts[i].name, name, length) == 0) {
      parts[i].put(context, html);
      return true;
    }
  return false;
}

ch_status ch_page_write(const ch_comparison *comparison, ch_text *html, ch_error *error) {
  ch_summary summary;
  ch_text title = {0}, answer = {0};
  ch_status status = ch_summarise(comparison, &summary, error);
  if (status == CH_OK) {
    page p = {comparison, &summary};
    put_title(&p, &title);
    ch_verdict_sentence(&summary, comparison, &answer);
    html->failed |= title.failed || answer.failed;
    ch_page_head head = {"crosshead compare", title.data ? title.data : "", answer.data ? answer.data : "",
                         comparison->version, comparison->created};
    ch_page_begin(&head, html);
    ch_template_fill((const char *)ch_embedded_compare_html, NULL, put_part, &p, html);
    ch_page_end(&head, html);
    if (html->failed) status = ch_fail(error, CH_ERROR_MEMORY, "no memory for the report");
  }
  ch_text_free(&title);
  ch_text_free(&answer);
  ch_arena_free(&summary.arena);
  return status;
}
