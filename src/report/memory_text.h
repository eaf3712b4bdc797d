/* The memory of a rank in training, as JSON. */
#ifndef CH_REPORT_MEMORY_TEXT_H
#define CH_REPORT_MEMORY_TEXT_H

#include <crosshead/train.h>
#include <jansson.h>

/* NULL when out of memory. */
json_t *ch_train_memory_to_json(const ch_train_memory *memory);

#endif
