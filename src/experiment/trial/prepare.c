/* Plans a comparison, times its models if they get equal training time, and settles it. */
#include "experiment/trial/prepare.h"

#include "experiment/trial/match_time.h"

ch_status ch_compare_prepare(const ch_compare_settings *settings, ch_experiment experiment, bool dry,
                             ch_comparison *comparison, ch_compare_setup *setup, ch_error *error) {
  CH_TRY(ch_compare_setup_plan(settings, experiment, dry, comparison, setup, error));
  if (setup->settings.lineup.match == CH_MATCH_TIME) CH_TRY(ch_compare_match_time(setup, error));
  return ch_compare_setup_settle(setup, error);
}
