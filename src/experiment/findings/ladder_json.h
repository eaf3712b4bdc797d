/* What a ladder found, as JSON. */
#ifndef CH_EXPERIMENT_FINDINGS_LADDER_JSON_H
#define CH_EXPERIMENT_FINDINGS_LADDER_JSON_H

#include "experiment/ladder.h"

/* {"laws": [...], "multipliers": [...], "ladder": {...}}, for results.json; NULL when memory is out. */
json_t *ch_ladder_to_json(const ch_ladder *ladder);

#endif
