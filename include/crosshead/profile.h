/* Where the time of a session goes, operation by operation. <crosshead/bench.h> shows a profile as a table,
 * as JSON and as a trace. */
#ifndef CROSSHEAD_PROFILE_H
#define CROSSHEAD_PROFILE_H

#include <crosshead/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The time of every operation, with its arithmetic and the bytes that it reads and writes. It belongs to one
 * thread at a time. */
typedef struct ch_profile ch_profile;

/* An empty profile. keep_events: each call of an operation is recorded too, for a trace. */
CH_API ch_status ch_profile_new(bool keep_events, ch_profile **profile, ch_error *error);

/* NULL is fine. */
CH_API void ch_profile_free(ch_profile *profile);

/* From now on the session adds what it computes to the profile, which must live until another call; NULL (as
 * at first) = no profile. */
CH_API void ch_session_profile(ch_session *session, ch_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
