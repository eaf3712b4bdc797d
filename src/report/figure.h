/* Pages of results: a head, figures, a foot. A page is one file that loads no other files; its charts
 * are drawn by Vega from the JSON that each figure carries, with a legend, a table of the numbers, and
 * downloads as SVG and CSV.
 *
 * A figure is a JSON object. Every figure has
 *   "id"       unique on the page; the name of its downloads
 *   "kind"     as below
 *   "title"    its heading
 *   "note"     optional: a sentence below it
 * and an axis is {"title": "validation loss", "word": "loss", "log": true, "base": 2, "unit": "bytes",
 * "ratio": 10} (of lines: a logarithmic axis spans at least this ratio); only the title is required. A
 * "colour" counts models from 0 and gives the colour and the symbol.
 *
 * lines    "x", "y", "series": [{"name", "colour", "points": [[x, y], ...], and optional
 *            "group": "validation" (switched on and off together),
 *            "style": "marks" | "thin" | "dashed" (else a plain line),
 *            "band": [[x, low, high], ...]}], "switches": any of "log-x", "log-y", "second-half"; "on": those
 *            that are on at first; "off": groups that are hidden at first
 * points   "x", "y", "points": [{"name", "colour", "x", "y", optional "low", "high" of y, "chosen": true
 *            (with a ring)}], optional
 *            "front": [[x, y], ...] (a line), "limit": {"y", "name", "better": "low" | "high"} (what is good enough)
 * bars     "x", "bars": [{"name", "colour", "value", optional "low", "high"}]; or of parts: "parts": [name,
 *            ...], "bars": [{"name", "values"}];
 *            optional "colours": [name, ...] (a legend of the colours), "cut": a size above 0 at which longer
 *            bars are cut off
 * dots     "x", "runs": [name, ...], "dots": [{"name", "colour", "values" (one per run), "mean", "deviation"}]
 * heatmaps "scales": [{"name", "low", "high", "scheme": "viridis" (any of Vega's)}], "columns": panels in a row,
 *            "panels": [{"title", "values": [[...], ...], optional "scale": index}] */
#ifndef CH_REPORT_FIGURE_H
#define CH_REPORT_FIGURE_H

#include <jansson.h>

#include "base/error.h"
#include "base/text.h"

/* The texts at the top of a page and at its foot; plain text. */
typedef struct ch_page_head {
  const char *kicker, *title, *answer, *version;
  const char *created; /* UTC, ISO 8601 */
} ch_page_head;

/* Appends a page up to the content of <main>. The caller then appends sections and calls ch_page_end. */
void ch_page_begin(const ch_page_head *head, ch_text *html);
void ch_page_end(const ch_page_head *head, ch_text *html);
/* Writes a section with one figure; steals the reference. NULL (out of memory) marks `html` as failed. */
void ch_page_figure(json_t *figure, ch_text *html);
/* Writes a figure without a section of its own, under a smaller heading: one of several in a section of class
 * "pair". */
void ch_page_small_figure(json_t *figure, ch_text *html);

/* Writes a section with the command that was typed. */
void ch_page_command(const char *command, ch_text *html);
/* Returns the part of a path after its last slash; the whole path if that is empty. */
const char *ch_page_file_name(const char *path);

/* Appends text for HTML content or a quoted attribute. The characters & < > " ' become references. Control characters
 * except tabs and line breaks are omitted. */
void ch_html_escape(const char *string, ch_text *html);
/* Appends the escaped contents of `text` and releases it. */
void ch_page_escaped(ch_text *text, ch_text *html);
/* Appends JSON for the inside of a script element, which it cannot end; steals the reference. */
void ch_html_json(json_t *object, ch_text *html);

/* Copies a template from `from` up to its end, or up to {{stop}}, and returns what follows. `put` appends the
   text that replaces {{NAME}}; it returns false if the name is unknown. */
typedef bool ch_template_put(const void *context, const char *name, size_t length, ch_text *html);
const char *ch_template_fill(const char *from, const char *stop, ch_template_put *put, const void *context,
                             ch_text *html);

#endif
