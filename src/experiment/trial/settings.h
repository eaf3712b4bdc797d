/* The settings of a comparison or sweep: their ranges, their defaults, and the file in the output directory that stores
 * them (compare.json, sweep.json). An experiment is continued only with the stored settings.
 * ch_compare_settings_check has the exceptions. */
#ifndef CH_EXPERIMENT_TRIAL_SETTINGS_H
#define CH_EXPERIMENT_TRIAL_SETTINGS_H

#include <crosshead/compare.h>

#include "experiment/lineup/comparison_plan.h"

/* The experiment: a comparison, or a sweep over learning rates (experiment/sweep.h), which ignores some settings such
   as `lr` and `tolerance`. */
typedef enum ch_experiment { CH_EXPERIMENT_COMPARISON, CH_EXPERIMENT_SWEEP } ch_experiment;

/* The defaults of a comparison. */
extern const ch_compare_settings ch_compare_usual;

/* Checks that all settings are given and in range. *whole (may be NULL) receives the settings, completed by values that
   follow from other settings. Messages name settings in braces, such as {tokens}. */
ch_status ch_compare_settings_complete(const ch_compare_settings *given, ch_experiment experiment,
                                       ch_compare_settings *whole, ch_error *error);

/* The settings file of an output directory. */
typedef struct ch_stored_settings {
  bool there; /* true if the file exists */
  /* Tokens (or epochs) that the comparison was started with, if it was given more now or earlier; else 0 */
  int64_t grown_from;
} ch_stored_settings;

/* Compares the settings, which must be complete, and the config files with the settings file, if it exists. The file
 * may have fewer mechanisms, or fewer tokens (epochs) with the constant schedule, and settings that the table marks as
 * free are not in it. Any other difference is CH_ERROR_ARGUMENT with the setting's name and both values. With
 * CH_MATCH_TIME the plan receives the budget and the steps that are stored in the file. */
ch_status ch_compare_settings_check(const ch_compare_settings *settings, ch_experiment experiment,
                                    ch_compare_plan *plan, ch_stored_settings *kept, ch_error *error);
/* Computes a hash of the settings that must be equal on all ranks. */
ch_status ch_compare_settings_hash(const ch_compare_settings *settings, ch_experiment experiment,
                                   const ch_compare_plan *plan, uint64_t *hash, ch_error *error);
/* Writes the settings file. */
ch_status ch_compare_settings_write(const ch_compare_settings *settings, ch_experiment experiment,
                                    const ch_compare_plan *plan, int64_t grown_from, ch_error *error);

#endif
