/* Shared by the files of a comparison's page. Each put_ function fills one placeholder of report/page/compare.html. */
#ifndef CH_REPORT_PAGE_PRIVATE_H
#define CH_REPORT_PAGE_PRIVATE_H

#include "report/figure.h"
#include "experiment/findings/warnings.h"

typedef struct ch_page {
  const ch_comparison *comparison;
  const ch_summary *summary;
  const ch_warnings *warnings;
} ch_page;

/* page_names.c: the start of a row: the name with its colour, and what the verdict says of the model if `mark` is
 * true. */
void ch_page_name_cell(const ch_page *page, int rank, bool mark, ch_text *html);

/* page_seeds.c: the spread between seeds, the differences that exceed it, and the fitted laws. */
void ch_page_put_noise(const ch_page *page, ch_text *html);
void ch_page_put_laws(const ch_page *page, ch_text *html);

/* task_tables.c: results on tasks, if there are any. */
void ch_page_put_tasks(const ch_page *page, ch_text *html);

/* page_facts.c: data and training, machine, commands. */
void ch_page_put_training(const ch_page *page, ch_text *html);
void ch_page_put_machine(const ch_page *page, ch_text *html);
void ch_page_put_commands(const ch_page *page, ch_text *html);

#endif
