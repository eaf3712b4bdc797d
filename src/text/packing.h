/* Best-fit packing of documents into windows of one length (MFA, appendix A.1; Ding et al. 2024).
 *
 * A document longer than a window is cut into whole windows and a rest. Each piece goes into the open window
 * with the least room that still holds it. Eight windows are open at a time (the paper's bin size). When none
 * has room, the fullest is filled with end tokens and closed. A document that fits a window is never cut. */
#ifndef CH_TEXT_PACKING_H
#define CH_TEXT_PACKING_H

#include <stdint.h>

#include "base/error.h"

enum { CH_PACKING_WINDOWS = 8 };

typedef struct ch_packer {
  int64_t length; /* tokens of a window */
  int32_t end_token;
  int32_t *windows;                 /* [CH_PACKING_WINDOWS, length] */
  int64_t used[CH_PACKING_WINDOWS]; /* tokens in each window so far */
  /* Takes a closed window [length]. */
  ch_status (*emit)(void *context, const int32_t *window, int64_t length, ch_error *error);
  void *context;
  int64_t padding; /* end tokens added to fill windows so far */
} ch_packer;

ch_status ch_packer_init(ch_packer *packer, int64_t length, int32_t end_token,
                         ch_status (*emit)(void *, const int32_t *, int64_t, ch_error *), void *context,
                         ch_error *error);
/* Adds a document's ids, the end token last. */
ch_status ch_packer_add(ch_packer *packer, const int32_t *ids, int64_t count, ch_error *error);
/* Closes every window that holds something. */
ch_status ch_packer_finish(ch_packer *packer, ch_error *error);
void ch_packer_free(ch_packer *packer);

#endif
