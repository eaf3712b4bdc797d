/* report.html of a compression: tables and a bar chart drawn as SVG; it loads nothing and runs no script. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "report/compression.h"
#include "report/embedded.h"
#include "report/page.h"
#include "report/table.h"

static void put_escaped(ch_text *text, ch_text *html) {
  if (text->data) ch_html_escape(text->data, html);
  html->failed |= text->failed;
  ch_text_free(text);
}

static void put_number(double value, int decimals, ch_text *html) {
  ch_column plain = {.decimals = decimals};
  char buffer[64];
  ch_text_puts(html, ch_column_format(&plain, value, buffer, sizeof buffer));
}

static void put_title(const ch_compression_report *r, ch_text *html) {
  char stem[128];
  ch_path_stem(r->model, stem, sizeof stem);
  ch_html_escape(stem, html);
  ch_text_puts(html, " compressed by ");
  ch_html_escape(r->method, html);
}

static void put_head(const ch_compression_report *r, ch_text *html) {
  ch_text sentence = {0};
  ch_text_puts(
      html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
            "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
            "dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>");
  put_title(r, html);
  ch_text_puts(html, "</title>\n<style>\n");
  ch_text_puts(html, (const char *)ch_embedded_report_css);
  ch_text_puts(html, "</style>\n</head>\n<body>\n<header>\n<p class=\"kicker\">crosshead compress</p>\n<h1>");
  put_title(r, html);
  ch_text_puts(html, "</h1>\n<p class=\"answer\">");
  ch_compression_sentence(r, &sentence);
  put_escaped(&sentence, html);
  ch_text_puts(html, "</p>\n</header>\n<main>\n");
}

/* --- before and after -------------------------------------------------------------------------------------------- */

static void put_row(const char *what, double before, double after, int decimals, ch_text *html) {
  ch_text_printf(html, "<tr><th scope=\"row\">%s</th><td>", what);
  put_number(before, decimals, html);
  ch_text_puts(html, "</td><td>");
  put_number(after, decimals, html);
  ch_text_printf(html, "</td><td>%+.2f %%</td></tr>\n", 100 * (after - before) / (before > 0 ? before : 1));
}

static void put_figures(const ch_compression_report *r, ch_text *html) {
  const ch_compression_figures *b = &r->before, *a = &r->after;
  ch_text_puts(
      html, "<section>\n<h2>Before and after</h2>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>"
            "<th scope=\"col\">figure</th><th scope=\"col\">before</th><th scope=\"col\">after</th>"
            "<th scope=\"col\">change</th></tr></thead>\n<tbody>\n");
  put_row("parameters", (double)b->parameters, (double)a->parameters, 0, html);
  put_row("attention parameters", (double)b->parameters_attention, (double)a->parameters_attention, 0, html);
  put_row("cache elements a token", (double)b->cache_elements_per_token, (double)a->cache_elements_per_token,
          0, html);
  put_row("cache bytes a token (16 bit)", (double)b->cache_bytes_per_token, (double)a->cache_bytes_per_token,
          0, html);
  put_row("bytes of weights", (double)b->weight_bytes, (double)a->weight_bytes, 0, html);
  if (a->measured) {
    put_row("loss", b->loss, a->loss, 4, html);
    put_row("perplexity", b->perplexity, a->perplexity, 4, html);
  }
  if (a->decode_tokens_per_second > 0)
    put_row("decoded tokens/s", b->decode_tokens_per_second, a->decode_tokens_per_second, 1, html);
  ch_text_puts(html, "</tbody>\n</table></div>\n<p class=\"note\">");
  if (a->measured) {
    ch_text_puts(html, "Loss and perplexity are those of ");
    put_number((double)r->text_tokens, 0, html);
    ch_text_puts(html, " tokens of ");
    ch_html_escape(r->text, html);
    ch_text_puts(html, r->text_kept_back ? ", its last part, which nothing was calibrated on. " : ". ");
  }
  if (a->decode_tokens_per_second > 0)
    ch_text_printf(html, "Decoding was measured in turns, one sequence with %lld tokens in the cache.",
                   (long long)r->decode_depth);
  ch_text_puts(html, "</p>\n</section>\n");
}

/* --- the profile ------------------------------------------------------------------------------------------------- */

enum { CHART_WIDTH = 900, CHART_HEIGHT = 300, LEFT = 70, RIGHT = 10, TOP = 15, BOTTOM = 40 };

static bool is_chosen(const ch_compression_report *r, int64_t layer, int64_t heads) {
  return r->component_heads && r->component_heads[layer] == heads;
}

/* A level line with its value. */
static void put_level(double value, double y, ch_text *html) {
  ch_text_printf(html,
                 "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"var(--line)\"/>"
                 "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"var(--quiet)\">%+.3g</text>\n",
                 LEFT, CHART_WIDTH - RIGHT, y, y, LEFT - 8, y + 4, value);
}

static void put_bars(const ch_compression_report *r, double low, double high, ch_text *html) {
  const ch_sensitivity *s = r->sensitivity;
  int64_t shown = s->last - s->first + 1;
  double slot = (double)(CHART_WIDTH - LEFT - RIGHT) / (double)shown,
         scale = (CHART_HEIGHT - TOP - BOTTOM) / (high - low);
  double bar = 0.8 * slot / s->choices, zero = TOP + high * scale;
  for (int64_t l = s->first; l <= s->last; l++) {
    double x = LEFT + (double)(l - s->first) * slot + 0.1 * slot;
    for (int c = 0; c < s->choices; c++) {
      double value = s->change[l * s->choices + c], height = fabs(value) * scale;
      ch_text_printf(html,
                     "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                     "fill=\"var(--series-%d)\"%s><title>layer "
                     "%lld, %lld heads: %+.6f</title></rect>\n",
                     x + c * bar, value < 0 ? zero : zero - height, bar * 0.92, height < 0.5 ? 0.5 : height,
                     c % 14, is_chosen(r, l, s->heads[c]) ? "" : " opacity=\"0.45\"", (long long)l,
                     (long long)s->heads[c], value);
    }
    if (shown <= 32 || l % 4 == 0)
      ch_text_printf(html,
                     "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"var(--quiet)\">%lld</text>\n",
                     x + 0.4 * slot, CHART_HEIGHT - BOTTOM + 18, (long long)l);
  }
}

static void put_profile(const ch_compression_report *r, ch_text *html) {
  const ch_sensitivity *s = r->sensitivity;
  double low = 0, high = 1e-9;
  if (!s) return;
  for (int64_t l = s->first; l <= s->last; l++)
    for (int c = 0; c < s->choices; c++) {
      low = fmin(low, s->change[l * s->choices + c]);
      high = fmax(high, s->change[l * s->choices + c]);
    }
  ch_text_printf(
      html,
      "<section>\n<h2>Loss change of compressing each layer alone</h2>\n<svg viewBox=\"0 0 %d %d\" "
      "role=\"img\" "
      "aria-label=\"Bars of the loss change by layer\" style=\"width:100%%;height:auto;font-size:12px\">\n",
      CHART_WIDTH, CHART_HEIGHT);
  double scale = (CHART_HEIGHT - TOP - BOTTOM) / (high - low);
  put_level(high, TOP, html);
  put_level(0, TOP + high * scale, html);
  if (low < 0) put_level(low, TOP + (high - low) * scale, html);
  put_bars(r, low, high, html);
  ch_text_printf(
      html, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"var(--quiet)\">layer</text>\n</svg>\n",
      (LEFT + CHART_WIDTH) / 2, CHART_HEIGHT - 4);
  ch_text_printf(
      html, "<p class=\"note\">Against a loss of %.4f over %lld tokens of calibration text. Component heads:",
      s->loss, (long long)s->tokens);
  for (int c = 0; c < s->choices; c++)
    ch_text_printf(html, " <span style=\"color:var(--series-%d)\">■ %lld</span>", c % 14,
                   (long long)s->heads[c]);
  ch_text_printf(html, " of %lld. What was chosen is drawn full.</p>\n</section>\n", (long long)s->groups);
}

/* --- matrices ---------------------------------------------------------------------------------------------------- */

static void put_matrices(const ch_compression_report *r, ch_text *html) {
  const ch_compressed *c = r->compressed;
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
    put_number((double)m->before, 0, html);
    ch_text_puts(html, "</td><td>");
    put_number((double)m->after, 0, html);
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
  put_fact("method", r->method, html);
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
  snprintf(line, sizeof line, "%lld, %lld threads used", (long long)r->machine.cores,
           (long long)r->machine.threads);
  put_fact("cores", line, html);
  if (r->machine.kernels[0]) put_fact("arithmetic", r->machine.kernels, html);
  ch_text_puts(html, "</dl></div>\n</section>\n<section>\n<h2>The command</h2>\n<pre tabindex=\"0\"><code>");
  ch_html_escape(r->command, html);
  ch_text_puts(html, "</code></pre>\n</section>\n");
}

ch_status ch_compression_page(const ch_compression_report *r, ch_text *html, ch_error *error) {
  put_head(r, html);
  put_figures(r, html);
  put_profile(r, html);
  put_matrices(r, html);
  put_facts(r, html);
  ch_text_puts(html, "</main>\n<footer><p>Crosshead ");
  ch_html_escape(r->version, html);
  ch_text_puts(html, ", ");
  ch_html_escape(r->created, html);
  ch_text_puts(
      html,
      ". This page is complete in itself: it loads nothing from elsewhere.</p></footer>\n</body>\n</html>\n");
  return html->failed ? ch_fail(error, CH_ERROR_MEMORY, "no memory for the report") : CH_OK;
}
