/* A process for each device that trains. */
#ifndef CH_CLI_DEVICES_H
#define CH_CLI_DEVICES_H

#include <crosshead/compare.h>

/* With --engine pytorch: as many processes as --device names devices, which train a run each; this call returns in all of
   them. "cuda" becomes all GPUs that PyTorch sees. */
ch_status ch_devices_spread(ch_compare_workers *workers, ch_error *error);

#endif
