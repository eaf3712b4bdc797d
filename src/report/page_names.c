/* The first cell of a row of the page: the name of a model. */
#include <string.h>

#include "report/page_private.h"

enum { SERIES_COLOURS = 14 };

/* Marks a chosen model: "take this" or "for now" for the pick, "choice" for the others. */
static void put_mark(const ch_summary *summary, int rank, ch_text *html) {
  const ch_decision *d = &summary->decision;
  const char *mark = NULL;
  if (summary->count < 2) return;
  for (int i = 0; i < d->choice_count; i++)
    if (d->choices[i] == rank) mark = "choice";
  if (rank == d->pick) mark = d->known ? "take this" : "for now";
  if (mark) ch_text_printf(html, " <span class=\"take\">%s</span>", mark);
}

void ch_page_name_cell(const ch_page *p, int rank, bool mark, ch_text *html) {
  const ch_summary *s = p->summary;
  const ch_group *group = &s->groups[rank];
  ch_text_printf(html, "<tr><th scope=\"row\" style=\"--swatch:var(--series-%d)\"", rank % SERIES_COLOURS);
  if (strcmp(group->name, group->runs[0]->name) != 0) {
    ch_text_puts(html, " title=\"");
    ch_html_escape(group->runs[0]->name, html);
    ch_text_puts(html, "\"");
  }
  ch_text_puts(html, ">");
  if (mark) ch_text_printf(html, "<a href=\"#name-%d\">", rank);
  ch_html_escape(group->name, html);
  if (mark) ch_text_puts(html, "</a>");
  if (mark) put_mark(s, rank, html);
  ch_text_puts(html, "</th>");
}
