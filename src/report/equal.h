/* Writes what is equal and what differs between the models of a comparison. */
#ifndef CH_REPORT_EQUAL_H
#define CH_REPORT_EQUAL_H

#include "base/text.h"
#include "experiment/findings/summary.h"

/* Writes a sentence about the equal quantities and one about those that differ: "Equal (by parameters): parameters
 * 60.0 k, tokens 20.1 k. Different: FLOPs per token 118 k to 140 k." Writes nothing for fewer than two models. */
void ch_equal_write(const ch_summary *summary, const ch_comparison *comparison, ch_text *text);

#endif
