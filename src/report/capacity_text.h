/* Prints the results of `plan`, as tables and as JSON. */
#ifndef CH_REPORT_CAPACITY_TEXT_H
#define CH_REPORT_CAPACITY_TEXT_H

#include <jansson.h>

#include "base/text.h"
#include "planner/candidates.h"

/* Writes the sizes of the candidates, the smallest first, and the memory of a rank in training if the plan has ranks.
   Then writes, for each device, the candidates that are possible, the fastest first, and why others are excluded. */
void ch_capacity_write(const ch_capacity *capacity, ch_text *text);
/* Converts the memory of a rank in training to JSON; NULL when out of memory. */
json_t *ch_train_memory_to_json(const ch_train_memory *memory);
/* Converts a capacity to JSON; NULL when out of memory. */
json_t *ch_capacity_to_json(const ch_capacity *capacity);

#endif
