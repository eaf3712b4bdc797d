/* The settings of a comparison: their ranges, the values of those that are left open, and compare.json, which stores
 * those that a directory was started with. A comparison is continued only with the same. */
#ifndef CH_EXPERIMENT_TRIAL_SETTINGS_H
#define CH_EXPERIMENT_TRIAL_SETTINGS_H

#include <crosshead/compare.h>

#include "experiment/lineup/comparison_plan.h"

/* Who trains: a comparison, or a sweep over learning rates (experiment/sweep.h), of which `lr`, `seeds` and `tolerance`
   do not count. */
typedef enum ch_experiment { CH_EXPERIMENT_COMPARISON, CH_EXPERIMENT_SWEEP } ch_experiment;

/* The defaults of a comparison. */
extern const ch_compare_settings ch_compare_usual;

/* Checks ranges and that nothing is missing; *whole (may be NULL) becomes the settings with every value that follows
   from others alone. Sentences name settings as the command line does. */
ch_status ch_compare_settings_complete(const ch_compare_settings *given, ch_experiment experiment,
                                       ch_compare_settings *whole, ch_error *error);

/* The contents of the directory's file of settings. */
typedef struct ch_stored_settings {
  bool there;
  /* Tokens (or epochs) that the comparison was started with, if the settings give it more, or earlier ones did; else
   * 0. */
  int64_t grown_from;
} ch_stored_settings;

/* Compares the settings and the config files with the directory's file of settings. kept->there: the file
 * exists and has the same settings, or fewer mechanisms, or fewer tokens (epochs) with the constant schedule.
 * Any other difference is CH_ERROR_ARGUMENT with the option's name and both values. The settings must be
 * complete. With CH_MATCH_TIME the plan gets the budget and the steps stored in the file. */
ch_status ch_compare_settings_check(const ch_compare_settings *settings, ch_experiment experiment,
                                    ch_compare_plan *plan, ch_stored_settings *kept, ch_error *error);
/* Computes a hash of the settings that decide what is trained. */
ch_status ch_compare_settings_hash(const ch_compare_settings *settings, ch_experiment experiment,
                                   const ch_compare_plan *plan, uint64_t *hash, ch_error *error);
/* Writes that file. */
ch_status ch_compare_settings_write(const ch_compare_settings *settings, ch_experiment experiment,
                                    const ch_compare_plan *plan, int64_t grown_from, ch_error *error);

#endif
