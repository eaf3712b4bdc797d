/* Everything that all headers of Crosshead share: the version that runs, memory, progress, how numbers are
 * stored.
 *
 * Rules of every header: a fallible function returns a ch_status and fills *error (may be NULL) with one
 * sentence. On failure nothing is left to release and the objects passed in are as they were, unless the
 * function says otherwise. Nothing prints, exits or keeps global state. Shapes are written [outer, ...,
 * inner], row-major. */
#ifndef CROSSHEAD_COMMON_H
#define CROSSHEAD_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crosshead/status.h>
#include <crosshead/stop.h>
#include <crosshead/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is running, e.g. "0.2.0"; compare with CH_VERSION_STRING of the headers.
 * Static storage. */
CH_API const char *ch_version(void);

/* Fails with CH_ERROR_ARGUMENT, in a sentence that names the possible values, if an environment variable that
 * decides how to compute has a value that this machine or the library does not know: CROSSHEAD_ISA or
 * CROSSHEAD_WORKERS. Functions that open models or train check it themselves. */
CH_API ch_status ch_environment_check(ch_error *error);

/* Releases memory that this library handed out. NULL is fine. */
CH_API void ch_free(void *memory);

/* Long work calls it now and then, in the thread that called the library. `done` of `total` units are
 * finished; the documentation of the function names the unit. Returning false cancels the work: the
 * function then returns CH_ERROR_INTERRUPTED unless it says otherwise. */
typedef bool (*ch_progress)(int64_t done, int64_t total, void *user);

/* Told that a part of long work begins, of which ch_progress then counts anew: "documents". The name lasts
 * until the next part begins. */
typedef void (*ch_stage_sink)(const char *name, void *user);

/* How numbers are stored. */
typedef enum ch_precision {
  CH_PRECISION_DEFAULT = 0, /* the function's default: F32 for a cache and for arithmetic */
  CH_PRECISION_F32 = 1,
  CH_PRECISION_F16 = 2,
  CH_PRECISION_BF16 = 3,
  CH_PRECISION_Q8_0 = 4, /* 32 values share a scale: 8.5 bits each */
  CH_PRECISION_Q4_0 = 5, /* the same with 4.5 bits each */
  CH_PRECISION_Q6_K = 6, /* 256 values in 16 groups: 6.6 bits each; for weights alone */
  CH_PRECISION_Q4_K = 7, /* 256 values in 8 groups: 4.5 bits each; for weights alone */
  CH_PRECISION_F64 = 8   /* for ch_forward and the arithmetic of training alone: the slow reference */
} ch_precision;

#ifdef __cplusplus
}
#endif
#endif
