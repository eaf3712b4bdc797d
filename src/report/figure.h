/* Pages of results: a head, figures, a foot. A page is one file that loads nothing from anywhere; its charts are drawn by
 * Vega from the JSON that each figure carries, with a legend, a table of the numbers, and downloads as SVG and CSV.
 *
 * A figure is a JSON object. All have
 *   "id"       unique on the page; the name of its downloads
 *   "kind"     as below
 *   "title"    its heading
 *   "note"     optional: a sentence below it
 * and an axis is {"title": "validation loss", "word": "loss", "log": true, "base": 2}, all but the title optional. A
 * "colour" counts models from 0: it gives colour and symbol.
 *
 * lines    "x", "y", "series": [{"name", "colour", "points": [[x, y], ...], and optional
 *            "group": "validation" (switched on and off together),
 *            "style": "marks" | "thin" | "dashed" (else a plain line),
 *            "band": [[x, low, high], ...]}], "switches": any of "log-x", "log-y", "second-half"; "on": those that are on at
 *            first; "off": groups that are hidden at first
 * points   "x", "y", "points": [{"name", "colour", "x", "y", optional "low", "high" of y}], optional
 *            "front": [[x, y], ...] (a line), "limit": {"y", "name", "better": "low" | "high"} (what is good enough)
 * bars     "x", "bars": [{"name", "colour", "value"}]; or of parts: "parts": [name, ...], "bars": [{"name", "values"}]
 * dots     "x", "runs": [name, ...], "dots": [{"name", "colour", "values" (one a run), "mean", "deviation"}]
 * heatmaps "scales": [{"name", "low", "high", "scheme": "viridis" (any of Vega's)}], "columns": panels in a row,
 *            "panels": [{"title", "values": [[...], ...], optional "scale": index}] */
#ifndef CH_REPORT_FIGURE_H
#define CH_REPORT_FIGURE_H

#include <jansson.h>

#include "base/error.h"
#include "base/text.h"

/* What stands at the top of a page and at its foot; plain text. */
typedef struct ch_page_head {
  const char *kicker, *title, *answer, *version;
  const char *created; /* UTC, ISO 8601 */
} ch_page_head;

/* Appends a page up to the content of <main>; then come sections, and ch_page_end. */
void ch_page_begin(const ch_page_head *head, ch_text *html);
void ch_page_end(const ch_page_head *head, ch_text *html);
/* A section with one figure; takes the reference. NULL (memory was out) marks `html` as failed. */
void ch_page_figure(json_t *figure, ch_text *html);
/* The same without a section of its own, under a smaller heading: one of several in a section of class "pair". */
void ch_page_small_figure(json_t *figure, ch_text *html);

/* Appends text for HTML content or a quoted attribute: & < > " ' as references, other control characters left out. */
void ch_html_escape(const char *string, ch_text *html);
/* Appends JSON for the inside of a script element, which it cannot end; takes the reference. */
void ch_html_json(json_t *object, ch_text *html);

/* Copies a template, in which {{NAME}} stands for what `put` appends for it; false: the name is unknown. From `from` up to
   the end, or up to {{stop}}; returns what follows that. */
typedef bool ch_template_put(const void *context, const char *name, size_t length, ch_text *html);
const char *ch_template_fill(const char *from, const char *stop, ch_template_put *put, const void *context,
                             ch_text *html);

#endif
