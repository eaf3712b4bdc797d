/* Error helpers. An internal function that can fail returns a ch_status, and its last parameter is a ch_error. */
#ifndef CH_BASE_ERROR_H
#define CH_BASE_ERROR_H

#include <crosshead/status.h>

/* Fills *error, unless error is NULL, with the status and a printf-style sentence. Returns status. The arguments may
   have any contents: control characters and bytes that are not UTF-8 become question marks, and words of more than
   160 bytes are cut in the middle. Braces in the format surround the name of a setting in its public struct: "{batch}
   is %lld", or "{%s} is %lld" with the name as an argument. error->message has the name without braces, and
   error->names has its position. Braces around anything but lower-case letters, digits and underscores are text. */
ch_status ch_fail(ch_error *error, ch_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reports that an allocation failed: CH_ERROR_MEMORY, "out of memory". If the user chose the size (weights, a
   cache), use ch_fail with the number of bytes instead. */
ch_status ch_no_memory(ch_error *error);
/* Fails with CH_ERROR_ARGUMENT: "WHAT is NULL". */
ch_status ch_refuse_null(ch_error *error, const char *what);

/* Copies the message of another error to *error, with `status`. Returns status. */
ch_status ch_fail_as(ch_error *error, ch_status status, const ch_error *cause);

/* Puts "prefix: ", such as the name of a file, before the message already in *error. Returns error's status. */
ch_status ch_fail_in(ch_error *error, const char *prefix);

#define CH_TRY(call)                                                                                         \
  do {                                                                                                       \
    ch_status ch_try_status = (call);                                                                        \
    if (ch_try_status != CH_OK) return ch_try_status;                                                        \
  } while (0)

/* Like CH_TRY, for functions that must release memory: jumps to the label `done` with `status` set. */
#define CH_TRY_GOTO(call)                                                                                    \
  do {                                                                                                       \
    status = (call);                                                                                         \
    if (status != CH_OK) goto done;                                                                          \
  } while (0)

#endif
