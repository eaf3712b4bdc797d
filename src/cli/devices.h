/* Names training devices and starts a process for each group of them. */
#ifndef CH_CLI_DEVICES_H
#define CH_CLI_DEVICES_H

#include <crosshead/compare.h>

/* Replaces *device by the list of devices, separated by commas. `each` of them train one run. A single name without a
   number, such as "cpu", is repeated `each` times. With `all`, "cuda" means all GPUs that PyTorch sees. If `each` is
   above 1, NULL becomes GPUs, or CPUs if PyTorch sees no GPU. The list is never freed. Fails if PyTorch sees fewer
   GPUs than `each`, or if the number of devices is not `each` (with `all`: not a multiple of `each`). */
ch_status ch_devices_name(const char *python, int64_t each, bool all, const char **device, ch_error *error);

/* Forks a process for each group of --ranks-per-run devices with --engine pytorch. Each process trains one run at a
 * time. The call returns in all processes. */
ch_status ch_devices_spread(ch_compare_workers *workers, ch_error *error);

#endif
