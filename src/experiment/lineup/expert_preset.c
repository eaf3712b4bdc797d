/* The preset of experts for any mechanism ("kha-mlp+moe"), with the proportions of the KHA paper's models.
 *
 * One expert of sixteen is active (4 of 64, 8 of 128), but at least two, because loads are balanced without a loss. The
 * active experts together are at first as wide as the FFN that they replace; matching changes their width. */
#include "experiment/lineup/presets.h"

#include "config_file/config_json.h"

enum { USUAL_EXPERTS = 8, ONE_ACTIVE_OF = 16, LEAST_ACTIVE = 2 };

static ch_status experts(ch_config *config, int64_t number, const char *where, ch_error *error) {
  int64_t count = number ? number : USUAL_EXPERTS, active = count / ONE_ACTIVE_OF;
  if (ch_config_is_vision(config))
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is for models of text: those of images have no experts",
                   where);
  if (active < LEAST_ACTIVE) active = LEAST_ACTIVE < count ? LEAST_ACTIVE : count;
  config->moe = (ch_moe_config){.experts = count,
                                .active = active,
                                .expert_intermediate_size = config->intermediate_size / active,
                                .balance = CH_BALANCE_LOSS_FREE,
                                .balance_update = CH_BALANCE_RMS,
                                .aux_coefficient = config->moe.aux_coefficient,
                                .renormalise = true,
                                .scale = 1};
  return CH_OK;
}

const ch_preset ch_expert_preset = {
    "moe", "experts",
    "a mixture of experts in place of the FFN: 2 of 8 experts are active, or one in "
    "16 of more than 32",
    experts};
