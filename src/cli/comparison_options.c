/* Converts the shared options to the settings of a comparison, and lists the mechanisms for --help. */
#include "cli/comparison_options.h"

#include <string.h>

static const char old_match[] = "all"; /* another name of "parameters" */
const char *const ch_lineup_matches[] = {[CH_MATCH_PARAMETERS] = "parameters",
                                         [CH_MATCH_ACTIVE] = "active",
                                         [CH_MATCH_FLOPS] = "flops",
                                         [CH_MATCH_TIME] = "time",
                                         [CH_MATCH_CACHE] = "cache",
                                         [CH_MATCH_NONE] = "none",
                                         old_match,
                                         NULL};
const char *const ch_lineup_inits[] = {
    [CH_INIT_DEFAULT] = "default", [CH_INIT_DEEPSEEK] = "deepseek", [CH_INIT_FAN_IN] = "fan_in", NULL};

const char *const ch_lineup_parametrizations[] = {
    [CH_PARAMETRIZATION_STANDARD] = "standard", [CH_PARAMETRIZATION_SPECTRAL] = "spectral", NULL};

const char *const ch_lineup_engines[] = {
    [CH_ENGINE_NATIVE] = "native", [CH_ENGINE_PYTORCH] = "pytorch", NULL};

/* Returns the index of a name in its list. */
static unsigned place_of(const char *name, const char *const *names) {
  unsigned place = 0;
  while (strcmp(names[place], name) != 0) place++;
  return place;
}

ch_compare_settings ch_lineup_settings(const ch_lineup *lineup) {
  ch_compare_settings settings = lineup->settings;
  settings.lineup.match = strcmp(lineup->match, old_match) == 0
                              ? CH_MATCH_PARAMETERS
                              : (ch_match)place_of(lineup->match, ch_lineup_matches);
  settings.lineup.init = (ch_init)place_of(lineup->init, ch_lineup_inits);
  settings.lineup.parametrization =
      (ch_parametrization)place_of(lineup->parametrization, ch_lineup_parametrizations);
  settings.training.schedule =
      strcmp(lineup->schedule, "constant") == 0 ? CH_TRAIN_CONSTANT : CH_TRAIN_COSINE;
  settings.workers.engine = (ch_training_engine)place_of(lineup->engine, ch_lineup_engines);
  settings.training.type = ch_precision_of(lineup->dtype);
  return settings;
}

/* Presets with the numbers in papers' tables. They are listed after all others. */
static const struct {
  const char *entry, *meaning;
} tabled[] = {
    {"masa-qkv:2, masa-qkv:4, masa-qkv:6, masa-qkv:8",
     "as in Table 2 of the MASA paper: with 12 layers 62.5, 50, 37.5 and "
     "25 % fewer attention parameters"},
    {"masa-qkvo:2, masa-qkvo:4, masa-qkvo:6, masa-qkvo:8",
     "the same with the output matrices: 83.3, 66.7, 50 and 33.3 % fewer"},
};

static bool list_tabled(int index, ch_text *entry, ch_text *meaning) {
  if (index < 0 || index >= (int)(sizeof tabled / sizeof *tabled)) return false;
  ch_text_puts(entry, tabled[index].entry);
  ch_text_puts(meaning, tabled[index].meaning);
  return true;
}

bool ch_lineup_list(int index, ch_text *entry, ch_text *meaning) {
  ch_mechanism_name mechanism;
  if (!ch_mechanism_name_at(index, &mechanism)) {
    int count = index;
    while (count > 0 && !ch_mechanism_name_at(count - 1, &mechanism)) count--;
    return list_tabled(index - count, entry, meaning);
  }
  ch_text_printf(entry, "%s%s", mechanism.name, mechanism.number ? "[:N]" : "");
  ch_text_puts(meaning, mechanism.summary);
  if (mechanism.number) ch_text_printf(meaning, "; N: %s", mechanism.number);
  return true;
}
