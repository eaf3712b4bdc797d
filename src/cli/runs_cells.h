/* Cells of the tables of runs, and runs as flat JSON objects. */
#ifndef CH_CLI_RUNS_CELLS_H
#define CH_CLI_RUNS_CELLS_H

#include <crosshead/runs.h>
#include <jansson.h>

#include "base/text.h"

enum { CH_CELL = 96 };
typedef char ch_cell[CH_CELL];

/* Writes text into a cell. Control characters become '?'. Text that is too long ends in "...". */
void ch_put_cell(ch_cell to, const char *text);
/* Replaces the end of a cell of more than `width` characters by "...", so that it has `width`. */
void ch_shorten_cell(ch_cell cell, int width);
/* Writes a JSON value into a cell; "-" for null. */
void ch_put_json_cell(const json_t *value, ch_cell to);

/* Converts a run to a JSON object, with its loss curves if `curves` is true; NULL when out of memory. */
json_t *ch_run_object(const ch_run_record *run, bool curves);
/* Returns an object with every member of a run that is not an object, under its path: "config.attention.type". NULL
 * when out of memory. */
json_t *ch_flat_run(const ch_run_record *run);

#endif
