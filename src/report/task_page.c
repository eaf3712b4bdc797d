/* Writes the table of tasks of a comparison's page. */
#include "experiment/findings/task_accuracy.h"
#include "report/page_private.h"
#include "report/task_cells.h"

void ch_page_put_tasks(const ch_page *p, ch_text *html) {
  const ch_summary *summary = p->summary;
  const char *task;
  if (!ch_task_accuracy_name(summary, 0)) return;
  ch_text_puts(html,
               "<section aria-labelledby=\"tasks-heading\">\n<h2 id=\"tasks-heading\">Tasks</h2>\n"
               "<div class=\"scroll\" role=\"region\" aria-labelledby=\"tasks-heading\" tabindex=\"0\">\n"
               "<table>\n<thead>\n<tr><th scope=\"col\">mechanism</th>");
  for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++) {
    char name[CH_TASK_CELL];
    ch_text_puts(html, "<th scope=\"col\">");
    ch_html_escape(ch_task_short_name(task, name), html);
    ch_text_puts(html, "<small>");
    ch_html_escape(ch_task_metric(summary, task), html);
    ch_text_puts(html, "</small></th>");
  }
  ch_text_puts(html, "</tr>\n</thead>\n<tbody>\n");
  for (int i = 0; i < summary->count; i++) {
    ch_page_name_cell(p, i, false, html);
    for (int t = 0; (task = ch_task_accuracy_name(summary, t)); t++) {
      char value[CH_TASK_CELL], spread[CH_TASK_CELL];
      bool evaluated = ch_task_cell(&summary->groups[i], task, value, spread);
      ch_text_printf(html, "<td>%s", evaluated ? value : "–");
      if (*spread) ch_text_printf(html, " <small>%s</small>", spread + 1);
      ch_text_puts(html, "</td>");
    }
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_printf(html,
                 "</tbody>\n</table>\n</div>\n<p class=\"note\">%s The tasks do not affect the "
                 "verdict.</p>\n</section>\n",
                 ch_task_note(summary));
}
