/* What machine a measurement was made on. */
#ifndef CH_TRAIN_MACHINE_H
#define CH_TRAIN_MACHINE_H

#include "train/compare_results.h"

/* Fills in what can be learned; what cannot is left empty or 0. */
void ch_machine_describe(ch_machine *machine);
/* A new object; NULL when memory is out. */
json_t *ch_machine_to_json(const ch_machine *machine);

#endif
