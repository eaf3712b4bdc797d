/* Describes the machine of a measurement. */
#ifndef CH_BENCH_MACHINE_H
#define CH_BENCH_MACHINE_H

#include <jansson.h>

#include <crosshead/bench.h>

/* Describes the machine of this process. */
ch_machine ch_machine_here(void);

/* Converts a description to a new JSON object; NULL if out of memory. */
json_t *ch_machine_to_json(const ch_machine *machine);

#endif
