/* How widely weights spread when training starts. */
#ifndef CROSSHEAD_INITIAL_H
#define CROSSHEAD_INITIAL_H

/* The standard deviation of the initial weights; "init" in config.json. */
typedef enum ch_init {
  CH_INIT_DEFAULT = 0,  /* "default": 0.02 */
  CH_INIT_DEEPSEEK = 1, /* "deepseek": 0.006 (DeepSeek-V3, section 4.2) */
  CH_INIT_FAN_IN = 2    /* "fan_in": 1 / sqrt(inputs) */
} ch_init;

/* How initial weights and learning rates follow from the shapes of tensors; "parametrization" in
 * config.json. */
typedef enum ch_parametrization {
  CH_PARAMETRIZATION_STANDARD = 0, /* "standard": what "init" says, and one rate for all tensors */
  CH_PARAMETRIZATION_SPECTRAL = 1  /* "spectral": docs/parametrization.md */
} ch_parametrization;

#endif
