/* Reports the stages and the progress of a compression to the caller. */
#include "api/compress_private.h"

ch_status ch_compress_job_step(void *context, const char *what, double done, double total, ch_error *error) {
  enum { UNITS = 1000000 };
  ch_compress_job *c = context;
  if (c->stage != what && c->s->stage) c->s->stage(what, c->s->user);
  c->stage = what;
  if (ch_shared_stops(&c->shared)) return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted");
  if (ch_api_tell(&c->progress, (int64_t)(total > 0 ? UNITS * done / total : 0), UNITS)) return CH_OK;
  return ch_fail(error, CH_ERROR_INTERRUPTED, "cancelled");
}
