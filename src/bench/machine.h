/* Describes the machine of a measurement. */
#ifndef CH_BENCH_MACHINE_H
#define CH_BENCH_MACHINE_H

#include <jansson.h>

#include <crosshead/bench.h>

/* A new object; NULL when memory is out. */
json_t *ch_machine_to_json(const ch_machine *machine);

#endif
