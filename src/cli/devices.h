/* A process for each device that trains. */
#ifndef CH_CLI_DEVICES_H
#define CH_CLI_DEVICES_H

#include <crosshead/compare.h>

/* *device becomes the list of devices for runs that `each` devices train together: one name for each, with commas. "cuda" and
   "cpu" stand for several, "cuda" with `all` for all GPUs that PyTorch sees. NULL becomes GPUs, or CPUs where PyTorch sees none. The list lasts as long as the program. Errors: fewer GPUs than `each`, a list that is no whole groups. */
ch_status ch_devices_name(const char *python, int64_t each, bool all, const char **device, ch_error *error);

/* With --engine pytorch: a process for each group of --ranks-per-run devices, which trains a run at a time; this call returns in all of
   them. */
ch_status ch_devices_spread(ch_compare_workers *workers, ch_error *error);

#endif
