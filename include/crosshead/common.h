/* The declarations that all headers of Crosshead share: the version that runs, memory, callbacks, element types, and
 * enums of several settings.
 *
 * Rules of every header:
 *
 * - A fallible function returns a ch_status and fills *error (may be NULL) with one sentence. On failure
 *   nothing is left to release and the objects passed in are unchanged, unless the function says otherwise.
 * - A struct of settings is filled by its _defaults function, then changed. Later versions may add members.
 * - A pointer may be NULL only where the function allows it. *_free and *_close allow it.
 * - Texts and arrays that a function allocates for the caller are released with ch_free.
 * - Shapes are written [outer, ..., inner], row-major. Units are in the comment of the member.
 * - Nothing prints, exits or keeps global state.
 *
 *   char *json;
 *   ch_info *info;
 *   if (ch_info_open("model", &info, NULL) == CH_OK) {
 *     if (ch_info_json(info, NULL, &json, NULL) == CH_OK) {
 *       puts(json);
 *       ch_free(json);
 *     }
 *     ch_info_free(info);
 *   } */
#ifndef CROSSHEAD_COMMON_H
#define CROSSHEAD_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crosshead/status.h>
#include <crosshead/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of the library that is running, e.g. "0.2.0"; static storage. CH_VERSION_STRING is the version
 * of the headers. */
CH_API const char *ch_version(void);

/* Checks the environment variables CROSSHEAD_ISA and CROSSHEAD_WORKERS. Fails with CH_ERROR_ARGUMENT if this
 * machine or the library does not know the value of one; the sentence names the possible values. Functions
 * that compute make this check too. */
CH_API ch_status ch_environment_check(ch_error *error);

/* Releases memory that this library allocated for the caller. NULL is fine. */
CH_API void ch_free(void *memory);

/* Called now and then during long work, in the thread that called the library. `done` of `total` units are
 * finished; the function's comment names the unit. Returning false cancels the work: the function then
 * returns CH_ERROR_INTERRUPTED unless it says otherwise. */
typedef bool (*ch_progress)(int64_t done, int64_t total, void *user);

/* Called about twenty times a second during long work, in the thread that called the library unless the function says
 * otherwise. Returning true cancels the work, as returning false from a ch_progress does. */
typedef bool (*ch_stop_test)(void *user);

/* Called when a new stage of long work starts; ch_progress then restarts from 0. `name`, such as "documents",
 * is valid until the next stage. */
typedef void (*ch_stage_sink)(const char *name, void *user);

/* Element types. */
typedef enum ch_precision {
  CH_PRECISION_DEFAULT = 0, /* the default of the setting: F32 unless its comment names another */
  CH_PRECISION_F32 = 1,
  CH_PRECISION_F16 = 2,
  CH_PRECISION_BF16 = 3,
  CH_PRECISION_Q8_0 = 4, /* 32 values share a scale: 8.5 bits each */
  CH_PRECISION_Q4_0 = 5, /* 32 values share a scale: 4.5 bits each */
  CH_PRECISION_Q6_K = 6, /* 256 values in 16 groups: 6.6 bits each; for weights alone */
  CH_PRECISION_Q4_K = 7, /* 256 values in 8 groups: 4.5 bits each; for weights alone */
  CH_PRECISION_F64 = 8   /* for ch_forward and the arithmetic of training alone: the slow reference */
} ch_precision;

/* The separator between two documents of a text file, in training and evaluation. */
typedef enum ch_document_separator {
  CH_DOCUMENTS_AUTO = 0,        /* "<|endoftext|>" if the first 64 MiB contain it, else nothing */
  CH_DOCUMENTS_MARKER = 1,      /* "<|endoftext|>" */
  CH_DOCUMENTS_BLANK_LINES = 2, /* one or more empty lines */
  CH_DOCUMENTS_NONE = 3         /* nothing: the whole text is one document */
} ch_document_separator;

/* The standard deviation of the initial weights; "init" in config.json. */
typedef enum ch_init {
  CH_INIT_DEFAULT = 0,  /* "default": 0.02 */
  CH_INIT_DEEPSEEK = 1, /* "deepseek": 0.006 (DeepSeek-V3, section 4.2) */
  CH_INIT_FAN_IN = 2    /* "fan_in": 1 / sqrt(inputs) */
} ch_init;

/* The rules by which initial weights and learning rates follow from the shapes of tensors;
 * "parametrization" in config.json. */
typedef enum ch_parametrization {
  CH_PARAMETRIZATION_STANDARD = 0, /* "standard": weights by ch_init, and one rate for all tensors */
  CH_PARAMETRIZATION_SPECTRAL = 1  /* "spectral": docs/parametrization.md */
} ch_parametrization;

#ifdef __cplusplus
}
#endif
#endif
