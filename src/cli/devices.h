/* Names training devices and starts a process for each group of them. */
#ifndef CH_CLI_DEVICES_H
#define CH_CLI_DEVICES_H

#include <crosshead/compare.h>

/* Replaces *device by the list of devices, separated by commas. `each` of them train one run. "cuda" and "cpu" are
   repeated; with `all`, "cuda" means all GPUs that PyTorch sees. If `each` is above 1, NULL becomes GPUs, or CPUs if
   PyTorch sees no GPU. The list is never freed. Errors: fewer GPUs than `each`; a number of devices that is no
   multiple of `each`. */
ch_status ch_devices_name(const char *python, int64_t each, bool all, const char **device, ch_error *error);

/* Forks a process for each group of --ranks-per-run devices with --engine pytorch. Each trains one run at a
 * time. The call returns in all of them. */
ch_status ch_devices_spread(ch_compare_workers *workers, ch_error *error);

#endif
