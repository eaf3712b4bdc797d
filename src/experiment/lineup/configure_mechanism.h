/* The configuration of one mechanism at a size, without a comparison. */
#ifndef CH_EXPERIMENT_LINEUP_CONFIGURE_MECHANISM_H
#define CH_EXPERIMENT_LINEUP_CONFIGURE_MECHANISM_H

#include <crosshead/compare.h>

#include "config/config.h"

/* Configures the mechanism of a lineup. ch_compare_config returns the same as JSON. */
ch_status ch_configure(const ch_compare_lineup *lineup, const char *like, ch_config *config, ch_error *error);

#endif
