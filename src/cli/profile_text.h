/* Where time went, as a table and as JSON: of every command that profiles. */
#ifndef CH_CLI_PROFILE_TEXT_H
#define CH_CLI_PROFILE_TEXT_H

#include <jansson.h>

#include "eval/speed.h"

/* `steps`: of what times and calls are to be told; limits: what shares are of. */
void ch_profile_print(const char *title, const ch_profile *profile, double steps,
                      const ch_speed_limits *limits);
json_t *ch_profile_json(const ch_profile *profile, double steps, const ch_speed_limits *limits);

#endif
