/* results.json: a comparison, with statistics over its seeds. */
#ifndef CH_EXPERIMENT_FINDINGS_COMPARISON_JSON_H
#define CH_EXPERIMENT_FINDINGS_COMPARISON_JSON_H

#include "experiment/findings/summary.h"

/* Returns the contents of results.json. The caller's (json_decref); NULL when out of memory. */
json_t *ch_comparison_to_json(const ch_comparison *comparison);
/* Returns the part of results.json that other experiments also have: command, version, data, training,
 * machine. */
json_t *ch_experiment_to_json(const ch_comparison *about);

#endif
