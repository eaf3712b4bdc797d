/* Status codes and the error object that every fallible function of Crosshead fills. */
#ifndef CROSSHEAD_STATUS_H
#define CROSSHEAD_STATUS_H

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
  CH_ERROR_NUMERIC = 6,     /* a loss, gradient or weight is not finite */
  CH_ERROR_INTERRUPTED = 7, /* a signal or the caller asked to stop; work so far is kept */
  CH_ERROR_FULL = 8         /* a cache or a context window has no room for more tokens */
} ch_status;

/* One sentence that says what was wrong, where, and what would be right. Owned by the caller. */
typedef struct ch_error {
  ch_status status;
  char message[1024];
} ch_error;

/* The name of a status code, e.g. "format". Never NULL; static storage. */
CH_API const char *ch_status_name(ch_status status);

#ifdef __cplusplus
}
#endif
#endif
