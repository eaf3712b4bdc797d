/* The small model of a preset for tests of training. */
#ifndef CH_TESTS_PRESET_CONFIG_H
#define CH_TESTS_PRESET_CONFIG_H

#include "training.h"

#include "experiment/lineup/presets.h"

static ch_config preset_config(const char *name) {
  ch_shape_wishes wishes = {
      .vocab = TEST_VOCABULARY, .layers = 2, .hidden = 32, .heads = 4, .context = TEST_CONTEXT};
  ch_config config;
  assert_ok(ch_base_shape(&wishes, &config, &failure));
  assert_ok(ch_preset_apply(name, &config, &failure));
  return config;
}

#endif
