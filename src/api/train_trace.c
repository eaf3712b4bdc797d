/* The trace of a run's second step: the first is like no other, for its memory is touched for the first time. */
#include "api/train_private.h"
#include "bench/speed.h"

void ch_training_trace(ch_training *t, int64_t steps_done) {
  const ch_train_options *options = ch_trainer_options(t->trainer);
  ch_engine *engine = ch_trainer_engine(t->trainer);
  if (!t->settings->trace) return;
  if (engine->profile) {
    engine->profile = NULL;
    t->traced =
        ch_trace_write(t->settings->trace, 1, &(ch_traced){"train", &t->profile}, NULL, &t->trace_error);
    ch_profile_release(&t->profile);
    return;
  }
  int64_t before = options->steps - t->began_step > 1 ? 1 : 0; /* steps before the one that is traced */
  if (steps_done != before) return;
  t->profile.keep_events = true;
  engine->profile = &t->profile;
}
