/* Heads, figures and feet of pages. Text from the user passes ch_html_escape or, in JSON, has its markup characters
 * written as escapes of four hexadecimal digits: no name can end an element or start a script. */
#include "report/figure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "report/embedded.h"

void ch_html_escape(const char *string, ch_text *html) {
  static const char *const names[] = {
      ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&quot;", ['\''] = "&#39;"};
  for (const char *p = string; *p; p++) {
    unsigned char c = (unsigned char)*p;
    const char *name = c < sizeof names / sizeof *names ? names[c] : NULL;
    if (name)
      ch_text_puts(html, name);
    else if ((c >= ' ' && c != 127) || c == '\n' || c == '\t')
      ch_text_put(html, p, 1);
  }
}

void ch_page_escaped(ch_text *text, ch_text *html) {
  if (text->data) ch_html_escape(text->data, html);
  html->failed |= text->failed;
  ch_text_free(text);
}

/* Writes JSON for a script element, in which "</script>" and "<!--" must not appear. */
void ch_html_json(json_t *object, ch_text *html) {
  char *text = object ? ch_json_dump(object, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
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

/* --- templates --------------------------------------------------------------------------------------------------- */

const char *ch_template_fill(const char *from, const char *stop, ch_template_put *put, const void *context,
                             ch_text *html) {
  const char *at = from;
  for (const char *open; (open = strstr(at, "{{")) != NULL;) {
    const char *close = strstr(open, "}}");
    size_t length = close ? (size_t)(close - open - 2) : 0;
    ch_text_put(html, at, (size_t)(open - at));
    if (!close) break;
    at = close + 2;
    if (stop && strlen(stop) == length && strncmp(stop, open + 2, length) == 0) return at;
    if (!put(context, open + 2, length, html)) html->failed = true;
  }
  ch_text_puts(html, at);
  return at + strlen(at);
}

static void put_created(const char *created, ch_text *html) {
  char day[40];
  snprintf(day, sizeof day, "%s", created);
  char *letter = strchr(day, 'T'), *zone = strchr(day, 'Z');
  if (letter) *letter = ' ';
  if (zone) *zone = 0;
  ch_html_escape(day, html);
}

static void put_scripts(ch_text *html) {
  static const unsigned char *const scripts[] = {
      ch_embedded_modules_js,     ch_embedded_vega_modules,      ch_embedded_vega_js,
      ch_embedded_chart_parts_js, ch_embedded_chart_lines_js,    ch_embedded_chart_points_js,
      ch_embedded_chart_bars_js,  ch_embedded_chart_heatmaps_js, ch_embedded_figures_js};
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    ch_text_puts(html, "<script>\n");
    ch_text_puts(html, (const char *)scripts[i]);
    ch_text_puts(html, "</script>\n");
  }
}

/* Writes the answer. The first of several lines is the answer itself; the others explain it. */
static void put_answer(const char *answer, ch_text *html) {
  const char *more = strchr(answer, '\n');
  if (more) {
    ch_text first = {0};
    ch_text_printf(&first, "%.*s", (int)(more - answer), answer);
    ch_text_puts(html, "<strong>");
    ch_page_escaped(&first, html);
    ch_text_puts(html, "</strong>");
  }
  ch_html_escape(more ? more : answer, html);
}

static bool put_shell_part(const void *context, const char *name, size_t length, ch_text *html) {
  const ch_page_head *head = context;
  const struct {
    const char *name, *text;
  } texts[] = {{"kicker", head->kicker}, {"title", head->title}, {"version", head->version}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (strlen(texts[i].name) == length && strncmp(texts[i].name, name, length) == 0) {
      ch_html_escape(texts[i].text, html);
      return true;
    }
  if (length == 7 && strncmp(name, "created", 7) == 0)
    put_created(head->created, html);
  else if (length == 6 && strncmp(name, "answer", 6) == 0)
    put_answer(head->answer, html);
  else if (length == 5 && strncmp(name, "style", 5) == 0)
    ch_text_puts(html, (const char *)ch_embedded_page_css);
  else if (length == 7 && strncmp(name, "scripts", 7) == 0)
    put_scripts(html);
  else
    return false;
  return true;
}

void ch_page_begin(const ch_page_head *head, ch_text *html) {
  ch_template_fill((const char *)ch_embedded_shell_html, "main", put_shell_part, head, html);
}

void ch_page_end(const ch_page_head *head, ch_text *html) {
  ch_text none = {0};
  const char *rest =
      ch_template_fill((const char *)ch_embedded_shell_html, "main", put_shell_part, head, &none);
  ch_text_free(&none);
  ch_template_fill(rest, NULL, put_shell_part, head, html);
}

void ch_page_command(const char *command, ch_text *html) {
  ch_text_puts(html, "<section aria-labelledby=\"command-heading\">\n<h2 id=\"command-heading\">To "
                     "reproduce</h2>\n<pre tabindex=\"0\"><code>");
  ch_html_escape(command, html);
  ch_text_puts(html, "</code></pre>\n</section>\n");
}

const char *ch_page_file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

/* --- figures ----------------------------------------------------------------------------------------------------- */

static void put_text_of(const json_t *figure, const char *key, ch_text *html) {
  const char *text = json_string_value(json_object_get(figure, key));
  ch_html_escape(text ? text : "", html);
}

static void put_figure(json_t *figure, const char *element, const char *heading, ch_text *html) {
  if (!figure) {
    html->failed = true;
    return;
  }
  ch_text_printf(html, "<%s class=\"figure\"%s aria-labelledby=\"", element,
                 strcmp(element, "div") == 0 ? " role=\"group\"" : "");
  put_text_of(figure, "id", html);
  ch_text_printf(html, "-heading\">\n<%s id=\"", heading);
  put_text_of(figure, "id", html);
  ch_text_puts(html, "-heading\">");
  put_text_of(figure, "title", html);
  ch_text_printf(html, "</%s>\n", heading);
  if (json_object_get(figure, "note")) {
    ch_text_puts(html, "<p class=\"note\">");
    put_text_of(figure, "note", html);
    ch_text_puts(html, "</p>\n");
  }
  json_object_del(figure, "title"); /* the title and the note are above */
  json_object_del(figure, "note");
  ch_text_puts(html, "<script type=\"application/json\" class=\"figure-data\">");
  ch_html_json(figure, html);
  ch_text_printf(html, "</script>\n</%s>\n", element);
}

void ch_page_figure(json_t *figure, ch_text *html) {
  put_figure(figure, "section", "h2", html);
}

void ch_page_small_figure(json_t *figure, ch_text *html) {
  put_figure(figure, "div", "h3", html);
}
