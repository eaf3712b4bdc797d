/* What the files of a comparison's page share; each put_ function fills one placeholder of report/page/compare.html. */
#ifndef CH_REPORT_PAGE_PRIVATE_H
#define CH_REPORT_PAGE_PRIVATE_H

#include "report/figure.h"
#include "train/compare_summary.h"

typedef struct ch_page {
  const ch_comparison *comparison;
  const ch_summary *summary;
} ch_page;

/* A row's beginning: the name with its colour, and "take this" at the chosen one where `mark` says so. */
void ch_page_name_cell(const ch_page *page, int rank, bool mark, ch_text *html);
/* Escapes what `text` holds and releases it. */
void ch_page_escaped(ch_text *text, ch_text *html);

/* page_seeds.c: the spread between seeds and which differences are larger; the fitted laws. */
void ch_page_put_noise(const ch_page *page, ch_text *html);
void ch_page_put_laws(const ch_page *page, ch_text *html);

/* page_facts.c: data and training, machine, commands. */
void ch_page_put_training(const ch_page *page, ch_text *html);
void ch_page_put_machine(const ch_page *page, ch_text *html);
void ch_page_put_commands(const ch_page *page, ch_text *html);

#endif
