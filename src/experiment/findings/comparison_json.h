/* results.json: a comparison, with statistics over its seeds. */
#ifndef CH_EXPERIMENT_FINDINGS_COMPARISON_JSON_H
#define CH_EXPERIMENT_FINDINGS_COMPARISON_JSON_H

#include "experiment/findings/summary.h"

/* Returns the contents of results.json, or NULL when out of memory. The caller releases them with json_decref. */
json_t *ch_comparison_to_json(const ch_comparison *comparison);
/* Returns the part of results.json that other experiments also have: command, version, time of creation, data,
 * training, machine, engine and devices. */
json_t *ch_experiment_to_json(const ch_comparison *about);

#endif
