/* Training on one machine, which agrees with itself. */
#include "train/agreement.h"

static ch_status own_counts(void *context, ch_status status, ch_step_counts *counts, ch_error *error) {
  (void)context;
  (void)counts;
  (void)error;
  return status;
}

static ch_status own_sums(void *context, ch_status status, ch_step_sums *sums, const ch_parameter_set *set,
                          ch_error *error) {
  (void)context;
  (void)sums;
  (void)set;
  (void)error;
  return status;
}

ch_agreement ch_agreement_alone(void) {
  return (ch_agreement){.counts = own_counts, .sums = own_sums};
}
