/* Fills the template web/report.html. What comes from the user passes ch_html_escape or, in the embedded JSON, has its
 * markup characters written as \uXXXX: no name can end an element or start a script. */
#include "report/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/embedded.h"
#include "report/table.h"
#include "report/verdict.h"

enum { SERIES_COLOURS = 14, MOST_NAMES_IN_TITLE = 4 };

void ch_html_escape(const char *string, ch_text *html) {
  for (const char *p = string; *p; p++) {
    unsigned char c = (unsigned char)*p;
    switch (c) {
    case '&':
      ch_text_puts(html, "&amp;");
      break;
    case '<':
      ch_text_puts(html, "&lt;");
      break;
    case '>':
      ch_text_puts(html, "&gt;");
      break;
    case '"':
      ch_text_puts(html, "&quot;");
      break;
    case '\'':
      ch_text_puts(html, "&#39;");
      break;
    default:
      if ((c >= ' ' && c != 127) || c == '\n' || c == '\t') ch_text_put(html, p, 1);
    }
  }
}

/* Escapes what `text` holds and releases it. */
static void put_escaped(ch_text *text, ch_text *html) {
  if (text->data) ch_html_escape(text->data, html);
  html->failed |= text->failed;
  ch_text_free(text);
}

/* --- the parts, one function a placeholder ----------------------------------------------------------------------- */

typedef struct page {
  const ch_comparison *comparison;
  const int *order; /* models by validation loss */
} page;

static void put_version(const page *p, ch_text *html) {
  ch_html_escape(p->comparison->version, html);
}

static void put_created(const page *p, ch_text *html) {
  char day[32];
  snprintf(day, sizeof day, "%s", p->comparison->created);
  char *letter = strchr(day, 'T');
  if (letter) *letter = ' ';
  char *zone = strchr(day, 'Z');
  if (zone) *zone = 0;
  ch_html_escape(day, html);
}

static void put_style(const page *p, ch_text *html) {
  (void)p;
  ch_text_puts(html, (const char *)ch_embedded_report_css);
}

static void put_script(const page *p, ch_text *html) {
  (void)p;
  ch_text_puts(html, (const char *)ch_embedded_report_js);
}

static void put_chart_js(const page *p, ch_text *html) {
  (void)p;
  ch_text_puts(html, (const char *)ch_embedded_chart_js);
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

static void put_title(const page *p, ch_text *html) {
  const ch_comparison *c = p->comparison;
  if (c->count > MOST_NAMES_IN_TITLE || c->count == 0)
    ch_text_printf(html, "%d attention mechanisms", c->count);
  else
    for (int i = 0; i < c->count; i++) {
      if (i) ch_text_puts(html, i + 1 == c->count ? " and " : ", ");
      ch_html_escape(file_name(c->models[i].name), html);
    }
  ch_text_puts(html, " on ");
  ch_html_escape(file_name(c->data.file), html);
}

static void put_answer(const page *p, ch_text *html) {
  ch_text sentence = {0};
  ch_verdict_sentence(p->comparison, &sentence);
  put_escaped(&sentence, html);
}

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
  ch_text_puts(html, "One run each, seed ");
  ch_text_printf(html, "%llu", (unsigned long long)training->seed);
  ch_text_puts(html, ": small differences may be chance, which other seeds would show. ");
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
  const ch_comparison *c = p->comparison;
  ch_text_printf(html, "<tr><th scope=\"row\" style=\"--swatch:var(--series-%d)\">", rank % SERIES_COLOURS);
  ch_html_escape(c->models[p->order[rank]].name, html);
  if (mark && c->count > 1 && ch_verdict_of(c).take == p->order[rank])
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

static void put_table(const page *p, ch_text *html) {
  const ch_comparison *c = p->comparison;
  const ch_column *columns = ch_columns_of(c);
  ch_text_puts(html, "<table>\n");
  put_table_head(columns, html);
  ch_text_puts(html, "<tbody>\n");
  for (int i = 0; i < c->count; i++) {
    const ch_compared *model = &c->models[p->order[i]];
    put_name_cell(p, i, true, html);
    for (int k = 0; k < CH_COLUMNS; k++) {
      char value[64];
      ch_column_format(&columns[k], columns[k].value(model), value, sizeof value);
      if (ch_column_is_best(&columns[k], c, model))
        ch_text_printf(
            html,
            "<td class=\"best\"><span class=\"best-mark\" role=\"img\" aria-label=\"best\">★</span>%s</td>",
            value);
      else
        ch_text_printf(html, "<td>%s</td>", value);
    }
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_puts(html, "</tbody>\n</table>\n");
}

static void put_shapes(const page *p, ch_text *html) {
  static const char *const headings[] = {"layers",          "width",     "query heads",
                                         "key-value heads", "head size", "FFN width"};
  const ch_comparison *c = p->comparison;
  ch_text_puts(html, "<table>\n<thead>\n<tr><th scope=\"col\">mechanism</th>");
  for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
    ch_text_printf(html, "<th scope=\"col\">%s</th>", headings[i]);
  ch_text_puts(html, "</tr>\n</thead>\n<tbody>\n");
  for (int i = 0; i < c->count; i++) {
    const ch_compared *m = &c->models[p->order[i]];
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

static void put_command(const page *p, ch_text *html) {
  ch_html_escape(p->comparison->command, html);
}

/* The results as JSON inside a script element: "</script>" and "<!--" must not appear in it. */
static void put_results(const page *p, ch_text *html) {
  json_t *object = ch_comparison_to_json(p->comparison);
  char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
  json_decref(object);
  if (!text) {
    html->failed = true;
    return;
  }
  for (const char *c = text; *c; c++)
    if (*c == '<' || *c == '>' || *c == '&')
      ch_text_printf(html, "\\u%04x", (unsigned)*c);
    else
      ch_text_put(html, c, 1);
  free(text);
}

/* --- words that differ between text and images ------------------------------------------------------------------ */

static void put_words(const page *p, const char *of_text, const char *of_images, ch_text *html) {
  ch_text_puts(html, p->comparison->data.images ? of_images : of_text);
}

static void put_quality_heading(const page *p, ch_text *html) {
  put_words(p, "Quality against cache", "Accuracy against parameters of attention", html);
}

static void put_quality_note(const page *p, ch_text *html) {
  put_words(p,
            "Down and to the left is better: a lower loss from a smaller cache. The line joins the models "
            "that no other "
            "beats in both.",
            "Up and to the left is better: a higher accuracy from fewer parameters. The line joins the "
            "models that no "
            "other beats in both.",
            html);
}

static void put_amount(const page *p, ch_text *html) {
  put_words(p, "tokens", "images", html);
}

static void put_second_speed(const page *p, ch_text *html) {
  put_words(p, "Decoding one sequence, tokens/s", "Telling images apart, images/s", html);
}

static void put_source(const page *p, ch_text *html) {
  put_words(p, "Text", "Images", html);
}

/* --- the template ------------------------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  void (*put)(const page *p, ch_text *html);
} parts[] = {
    {"version", put_version},
    {"created", put_created},
    {"title", put_title},
    {"style", put_style},
    {"answer", put_answer},
    {"notice", put_notice},
    {"table", put_table},
    {"rule", put_rule},
    {"basis", put_basis},
    {"shapes", put_shapes},
    {"training", put_training},
    {"machine", put_machine},
    {"command", put_command},
    {"results", put_results},
    {"chart_js", put_chart_js},
    {"script", put_script},
    {"quality_heading", put_quality_heading},
    {"quality_note", put_quality_note},
    {"amount", put_amount},
    {"second_speed", put_second_speed},
    {"source", put_source},
};

static bool put_part(const page *p, const char *name, size_t length, ch_text *html) {
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strlen(parts[i].name) == length && strncmp(parts[i].name, name, length) == 0) {
      parts[i].put(p, html);
      return true;
    }
  return false;
}

ch_status ch_page_write(const ch_comparison *comparison, ch_text *html, ch_error *error) {
  int *order = calloc((size_t)comparison->count + 1, sizeof *order);
  if (!order) return ch_fail(error, CH_ERROR_MEMORY, "no memory for the report");
  ch_comparison_order(comparison, order);
  page p = {comparison, order};
  const char *at = (const char *)ch_embedded_report_html;
  ch_status status = CH_OK;
  for (const char *open; status == CH_OK && (open = strstr(at, "{{")) != NULL;) {
    const char *close = strstr(open, "}}");
    ch_text_put(html, at, (size_t)(open - at));
    if (!close || !put_part(&p, open + 2, (size_t)(close - open - 2), html))
      status = ch_fail(error, CH_ERROR_FORMAT,
                       "web/report.html has a placeholder that page.c does not fill: %.20s", open);
    else
      at = close + 2;
  }
  ch_text_puts(html, at);
  free(order);
  if (status == CH_OK && html->failed) status = ch_fail(error, CH_ERROR_MEMORY, "no memory for the report");
  return status;
}
