/* A coordinate check for a terminal: a table and a sentence for each mechanism. */
#ifndef CH_REPORT_COORDINATES_TEXT_H
#define CH_REPORT_COORDINATES_TEXT_H

#include "base/text.h"
#include "experiment/coordinate_check.h"

/* Writes one mechanism's table. Each row is an activation with its sizes after the last step, the slope of its size
 * and the slope of its change. */
void ch_coordinates_model_table(const ch_coordinates *coordinates, int32_t model, ch_text *text);
/* Writes the tables of all mechanisms, their explanation, and a sentence for each mechanism. */
void ch_coordinates_table_write(const ch_coordinates *coordinates, ch_text *text);
/* Writes "+0.02, flat" or "+0.31, not flat". A slope that is not finite is written as "-": "-, not flat". */
void ch_coordinates_slope(double slope, bool flat, ch_text *text);
/* Explains the columns and names the settings of the check. */
void ch_coordinates_explain(const ch_coordinates *coordinates, ch_text *text);
/* Writes "mha: sizes are not flat for scores; all changes are flat." */
void ch_coordinates_sentence(const ch_coordinate_model *model, ch_text *text);

#endif
