/* report.html of a compression: tables, and the profile as a figure. */
#include <stdio.h>

#include "base/file.h"
#include "report/compression.h"
#include "report/figure.h"
#include "report/comparison_columns.h"

static void put_html_number(double value, int decimals, ch_text *html) {
  ch_column plain = {.decimals = decimals};
  char buffer[64];
  ch_text_puts(html, ch_column_format(&plain, value, buffer, sizeof buffer));
}

/* --- before and after -------------------------------------------------------------------------------------------- */

static void put_html_row(const char *what, double before, double after, int decimals, ch_text *html) {
  ch_text_printf(html, "<tr><th scope=\"row\">%s</th><td>", what);
  put_html_number(before, decimals, html);
  ch_text_puts(html, "</td><td>");
  put_html_number(after, decimals, html);
  ch_text_printf(html, "</td><td>%+.2f %%</td></tr>\n", 100 * (after - before) / (before > 0 ? before : 1));
}

/* Writes the figures of the original model before and after its cache gets a narrower type. */
static void put_types(const ch_compression_report *r, const ch_compression_figures *f, ch_text *html) {
  const ch_compression_figures *b = &r->before;
  if (!f->cache_types) return;
  ch_text_printf(html,
                 "<tr><th scope=\"colgroup\" colspan=\"4\">without compressing: a cache in %s</th></tr>\n",
                 f->cache_types);
  put_html_row("cache bytes per token", (double)b->cache_bytes_per_token, (double)f->cache_bytes_per_token, 0,
               html);
  if (f->measured) put_html_row("perplexity", b->perplexity, f->perplexity, 4, html);
}

static void put_figures(const ch_compression_report *r, ch_text *html) {
  const ch_compression_figures *b = &r->before, *a = &r->after;
  ch_text_puts(
      html, "<section>\n<h2>Before and after</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>"
            "<th scope=\"col\">figure</th><th scope=\"col\">before</th><th scope=\"col\">after</th>"
            "<th scope=\"col\">change</th></tr></thead>\n<tbody>\n");
  put_html_row("parameters", (double)b->parameters, (double)a->parameters, 0, html);
  put_html_row("attention parameters", (double)b->parameters_attention, (double)a->parameters_attention, 0,
               html);
  put_html_row("cache elements per token", (double)b->cache_elements_per_token,
               (double)a->cache_elements_per_token, 0, html);
  put_html_row("cache bytes per token", (double)b->cache_bytes_per_token, (double)a->cache_bytes_per_token, 0,
               html);
  put_html_row("bytes of weights", (double)b->weight_bytes, (double)a->weight_bytes, 0, html);
  if (a->measured) {
    put_html_row("loss", b->loss, a->loss, 4, html);
    put_html_row("perplexity", b->perplexity, a->perplexity, 4, html);
  }
  if (a->decode_tokens_per_second > 0)
    put_html_row("decoded tokens/s", b->decode_tokens_per_second, a->decode_tokens_per_second, 1, html);
  bool fewer = a->cache_elements_per_token != b->cache_elements_per_token;
  if (fewer || r->types_alone.cache_types != r->eight_bit.cache_types) put_types(r, &r->eight_bit, html);
  if (fewer) put_types(r, &r->types_alone, html);
  ch_text_puts(html, "</tbody>\n</table></div>\n<p class=\"note\">");
  if (r->cache_types) ch_text_printf(html, "The result is read through a cache of type %s. ", r->cache_types);
  if (a->measured) {
    ch_text_puts(html, "Loss and perplexity are those of ");
    put_html_number((double)r->text_tokens, 0, html);
    ch_text_puts(html, " tokens of ");
    ch_html_escape(r->text, html);
    ch_text_puts(html, r->text_kept_back ? ", its last part, which calibration did not use. " : ". ");
  }
  if (a->decode_tokens_per_second > 0)
    ch_text_printf(html,
                   "Decoding before and after was timed alternately, one sequence with %lld %s in the cache.",
                   (long long)r->decode_depth, ch_plural(r->decode_depth, "token", "tokens"));
  ch_text_puts(html, "</p>\n</section>\n");
}

/* Returns true if only the type of the cache was chosen. */
static bool keeps_weights(const ch_compression_report *r) {
  return r->compressed->matrix_count == 0 && r->cache_types;
}

/* --- the profile ------------------------------------------------------------------------------------------------- */

/* Returns one bar per layer and number of component heads. The chosen number is marked with ✓. */
static json_t *profile_bars(const ch_compression_report *r) {
  const ch_sensitivity *s = r->sensitivity;
  json_t *bars = json_array();
  for (int64_t l = s->first; l <= s->last; l++)
    for (int c = 0; c < s->choices; c++) {
      bool chosen = r->component_heads && r->component_heads[l] == s->heads[c];
      json_array_append_new(
          bars, json_pack("{s:o, s:i, s:f}", "name",
                          json_sprintf("layer %lld, %lld %s%s", (long long)l, (long long)s->heads[c],
                                       ch_plural(s->heads[c], "head", "heads"), chosen ? " ✓" : ""),
                          "colour", c, "value", s->change[l * s->choices + c]));
    }
  return bars;
}

/* Returns the legend of the colours: "1 head", "2 heads". */
static json_t *head_names(const ch_sensitivity *s) {
  json_t *names = json_array();
  for (int c = 0; c < s->choices; c++)
    json_array_append_new(
        names, json_sprintf("%lld %s", (long long)s->heads[c], ch_plural(s->heads[c], "head", "heads")));
  return names;
}

static void put_profile(const ch_compression_report *r, ch_text *html) {
  const ch_sensitivity *s = r->sensitivity;
  if (!s) return;
  double end = ch_compression_profile_end(s);
  json_t *note = json_sprintf(
      "Compared with a loss of %.4f over %lld tokens of calibration text. Each layer has %lld %s.%s%s",
      s->loss, (long long)s->tokens, (long long)r->groups, ch_plural(r->groups, "head", "heads"),
      keeps_weights(r) ? " All stay." : " A tick marks what was chosen.",
      end > 0 ? " Bars with gaps at their end are longer than the axis." : "");
  ch_page_figure(json_pack("{s:s, s:s, s:s, s:o, s:{s:s}, s:f, s:o, s:o}", "id", "profile", "kind", "bars",
                           "title", "Loss change of compressing each layer alone", "note", note, "x", "title",
                           "change of the loss", "cut", end, "colours", head_names(s), "bars",
                           profile_bars(r)),
                 html);
}

/* --- matrices ---------------------------------------------------------------------------------------------------- */

static void put_matrices(const ch_compression_report *r, ch_text *html) {
  const ch_compressed_model *c = r->compressed;
  if (!c->matrix_count) return;
  ch_text_puts(
      html,
      "<section>\n<h2>What each matrix lost</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>"
      "<th scope=\"col\">matrix</th><th scope=\"col\">parameters before</th><th "
      "scope=\"col\">after</th><th scope=\"col\">");
  ch_text_puts(html, r->component_heads ? "heads" : "rank");
  ch_text_puts(
      html,
      "</th><th scope=\"col\">error of weights</th><th scope=\"col\">error of outputs</th></tr></thead>\n"
      "<tbody>\n");
  for (int i = 0; i < c->matrix_count; i++) {
    const ch_compressed_matrix *m = &c->matrices[i];
    ch_text_printf(html, "<tr><th scope=\"row\">layer %d ", m->layer);
    ch_html_escape(m->projection, html);
    ch_text_puts(html, "</th><td>");
    put_html_number((double)m->before, 0, html);
    ch_text_puts(html, "</td><td>");
    put_html_number((double)m->after, 0, html);
    ch_text_printf(html, "</td><td>%lld</td><td>%.5f</td><td>", (long long)m->rank, m->error);
    if (m->whitened_error >= 0)
      ch_text_printf(html, "%.5f", m->whitened_error);
    else
      ch_text_puts(html, "–");
    ch_text_puts(html, "</td></tr>\n");
  }
  ch_text_puts(
      html,
      "</tbody>\n</table></div>\n<p class=\"note\">Errors are Frobenius norms of the difference, relative to "
      "those of the matrix, or of its outputs on the calibration text.</p>\n</section>\n");
}

static void put_fact(const char *term, const char *value, ch_text *html) {
  ch_text_printf(html, "<dt>%s</dt><dd>", term);
  ch_html_escape(value, html);
  ch_text_puts(html, "</dd>\n");
}

static void put_facts(const ch_compression_report *r, ch_text *html) {
  char line[512];
  ch_text_puts(html, "<section class=\"pair\">\n<div><h2>How</h2>\n<dl>\n");
  put_fact("model", r->model, html);
  put_fact("method", keeps_weights(r) ? "a smaller type in the cache" : r->method, html);
  if (r->ranks) put_fact("ranks", r->ranks, html);
  if (r->weighting) put_fact("weighting of errors", r->weighting, html);
  if (r->calibration) {
    snprintf(line, sizeof line, "%lld tokens of %.300s, loss %.4f", (long long)r->calibration_tokens,
             r->calibration, r->calibration_loss);
    put_fact("calibration", line, html);
  } else
    put_fact("calibration", "none: the weights alone decide", html);
  put_fact("type of new matrices", r->dtype, html);
  snprintf(line, sizeof line, "%.1f seconds", r->seconds);
  put_fact("took", line, html);
  ch_text_puts(html, "</dl></div>\n<div><h2>Machine</h2>\n<dl>\n");
  if (r->machine.processor[0]) put_fact("processor", r->machine.processor, html);
  snprintf(line, sizeof line, "%lld, %lld %s used", (long long)r->machine.cores,
           (long long)r->machine.threads, ch_plural(r->machine.threads, "thread", "threads"));
  put_fact("cores", line, html);
  if (r->machine.kernels[0]) put_fact("arithmetic", r->machine.kernels, html);
  ch_text_puts(html, "</dl></div>\n</section>\n<section>\n<h2>The command</h2>\n<pre tabindex=\"0\"><code>");
  ch_html_escape(r->command, html);
  ch_text_puts(html, "</code></pre>\n</section>\n");
}

ch_status ch_compression_page(const ch_compression_report *r, ch_text *html, ch_error *error) {
  char stem[128];
  ch_text title = {0}, answer = {0};
  ch_path_stem(r->model, stem, sizeof stem);
  if (keeps_weights(r))
    ch_text_printf(&title, "%s with a cache in %s", stem, r->cache_types);
  else
    ch_text_printf(&title, "%s compressed by %s", stem, r->method);
  ch_compression_sentence(r, &answer);
  html->failed |= title.failed || answer.failed;
  ch_page_head head = {"crosshead compress", title.data ? title.data : "", answer.data ? answer.data : "",
                       r->version, r->created};
  ch_page_begin(&head, html);
  put_figures(r, html);
  put_profile(r, html);
  put_matrices(r, html);
  put_facts(r, html);
  ch_page_end(&head, html);
  ch_text_free(&title);
  ch_text_free(&answer);
  return html->failed ? ch_no_memory(error) : CH_OK;
}
