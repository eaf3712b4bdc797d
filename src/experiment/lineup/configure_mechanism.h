/* Configures one mechanism at a size, without a comparison. */
#ifndef CH_EXPERIMENT_LINEUP_CONFIGURE_MECHANISM_H
#define CH_EXPERIMENT_LINEUP_CONFIGURE_MECHANISM_H

#include <crosshead/compare.h>

#include "config/config.h"

/* Configures the one mechanism that the lineup names, with the shape of the model at `like` or, if `like` is NULL, with
 * the shape that a comparison would choose. ch_compare_config returns this configuration as JSON. */
ch_status ch_configure(const ch_compare_lineup *lineup, const char *like, ch_config *config, ch_error *error);

#endif
