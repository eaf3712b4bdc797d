/* Shared by the files of a comparison's page. Each ch_page_put_ function fills one placeholder of
 * report/page/compare.html; ch_page_put_laws fills the end of {{curves}}. */
#ifndef CH_REPORT_PAGE_PRIVATE_H
#define CH_REPORT_PAGE_PRIVATE_H

#include "report/figure.h"
#include "experiment/findings/warnings.h"

typedef struct ch_page {
  const ch_comparison *comparison;
  const ch_summary *summary;
  const ch_warnings *warnings;
} ch_page;

/* Writes the start of a row: the name with its colour, and the verdict on the model if `mark` is true
 * (page_names.c). */
void ch_page_name_cell(const ch_page *page, int rank, bool mark, ch_text *html);

/* Write the spread between seeds with the differences between models, and the fitted laws (page_seeds.c). */
void ch_page_put_noise(const ch_page *page, ch_text *html);
void ch_page_put_laws(const ch_page *page, ch_text *html);

/* Writes results on tasks, if there are any (task_page.c). */
void ch_page_put_tasks(const ch_page *page, ch_text *html);

/* Write the facts of data and training, of the machine, and the commands (page_facts.c). */
void ch_page_put_training(const ch_page *page, ch_text *html);
void ch_page_put_machine(const ch_page *page, ch_text *html);
void ch_page_put_commands(const ch_page *page, ch_text *html);

/* The ch_trained_on of each run: one in every `stride` bytes from `first`. */
typedef struct ch_page_runs {
  const ch_trained_on *first;
  size_t stride;
  int count;
} ch_page_runs;

/* Writes the engine, its devices and versions, and the machine as terms and values (page_facts.c). */
void ch_page_machine_facts(const ch_comparison *about, const ch_page_runs *runs, ch_text *html);

#endif
