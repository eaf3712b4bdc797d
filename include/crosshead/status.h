/* Status codes and the error object that every fallible function of Crosshead fills.
 *
 *   ch_model *model;
 *   ch_error error;
 *   if (ch_model_open("model", &model, &error) != CH_OK)
 *     fprintf(stderr, "%s: %s\n", ch_status_name(error.status), error.message); */
#ifndef CROSSHEAD_STATUS_H
#define CROSSHEAD_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define CH_API
#else
#define CH_API __attribute__((visibility("default")))
#endif

/* The kind of an error. The numbers are stable: they may be stored and compared across versions. */
typedef enum ch_status {
  CH_OK = 0,
  CH_ERROR_ARGUMENT = 1,    /* the caller passed something impossible */
  CH_ERROR_IO = 2,          /* the operating system refused to read or write */
  CH_ERROR_FORMAT = 3,      /* a file is truncated, damaged or in another format */
  CH_ERROR_CONFIG = 4,      /* a configuration contradicts itself or is not supported */
  CH_ERROR_MEMORY = 5,      /* an allocation failed */
  CH_ERROR_NUMERIC = 6,     /* a logit, loss, gradient or weight is not finite */
  CH_ERROR_INTERRUPTED = 7, /* a callback stopped the work; the function's comment says what is saved */
  CH_ERROR_FULL = 8         /* a cache, a context or a buffer has no room for more tokens */
} ch_status;

/* A setting's name inside a message. */
typedef struct ch_error_name {
  short at, length; /* offset of the name in the message, and its length, in bytes */
} ch_error_name;

/* The caller's record of a failure. Its sentence says what was wrong, where, and what would be right:
 * "eval_every is -2; it must be at least 0". It names settings as their structs do; a front end that has
 * other names for them shows ch_error_spell's sentence. Functions fill it only when they fail. */
typedef struct ch_error {
  ch_status status;       /* status that the function returned */
  char message[1024];     /* one sentence, NUL-terminated UTF-8 without control characters */
  char setting[32];       /* the first setting that the message names: "eval_every"; "" if it names none */
  int name_count;         /* number of elements of `names` in use */
  ch_error_name names[8]; /* [name_count] positions of settings' names in the message, from left to right */
} ch_error;

/* Writes a front end's spelling of a setting to `out`, NUL-terminated and at most `size` bytes: "--eval-every"
 * for "eval_every". */
typedef void (*ch_setting_speller)(const char *setting, char *out, size_t size, void *user);

/* Copies the message to out [size], NUL-terminated, with the settings that it names spelt by `spell`. Cuts it
 * off where `size`, 1 or more, does not suffice. Text that the message quotes, such as a file's name, stays
 * as it is. */
CH_API void ch_error_spell(const ch_error *error, ch_setting_speller spell, void *user, char *out,
                           size_t size);

/* Returns the name of a status code, e.g. "format"; "unknown" for any other number. Static storage. */
CH_API const char *ch_status_name(ch_status status);

#ifdef __cplusplus
}
#endif
#endif
