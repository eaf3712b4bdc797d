/* Sessions inside the library. In addition to <crosshead/session.h>: sessions without a model directory, the cache,
   simulated contexts, scores of every token. */
#ifndef CH_INFER_SESSION_H
#define CH_INFER_SESSION_H

#include <crosshead/session.h>

#include "infer/end_tokens.h"
#include "model/runner.h"

typedef struct ch_session_options {
  int64_t sequences;     /* number of sequences */
  int64_t context;       /* maximum tokens of a sequence */
  int64_t chunk;         /* maximum tokens of a prefill pass */
  int threads;           /* maximum number of threads; 0: as ch_team_of */
  ch_cache_types cache;  /* types of the cache; all zero: F32 */
  ch_dtype compute;      /* arithmetic of large products (ch_model.compute) */
  bool precompute_gates; /* EG-MLA-A: true to tabulate the gates of the whole vocabulary at the start */
  bool expand_gates;     /* true to decode by expanding every gated latent: slower, for comparison */
} ch_session_options;

/* Sets the defaults: one sequence, the model's context (at most 4096), chunks of ch_prefill_tokens, F32
   cache. */
void ch_session_options_default(const ch_config *config, ch_session_options *options);
/* Creates a session without end tokens. config, params and weights [params->count] must outlive it; several
   sessions may share them. */
ch_status ch_session_new(const ch_config *config, const ch_params *params, const ch_tensor *weights,
                         const ch_session_options *options, ch_session **session, ch_error *error);

/* Computes the work memory of a pass over `length` tokens of each of options->sequences: creates its plan and
   discards it. */
ch_status ch_session_pass_bytes(const ch_config *config, const ch_params *params,
                                const ch_session_options *options, int64_t length, size_t *bytes,
                                ch_error *error);

/* Returns the bytes of the cache of a session with these options: ch_session_cache_bytes and the rows by token id. There is
   a row for each token of the cache, but at most one for each id; with precompute_gates one for every id. */
double ch_session_cache_needs(const ch_config *config, const ch_session_options *options);

/* Fills the cache with arbitrary states of `length` tokens, to measure the speed at that length without computing
   them. ids [id_count]: ids of the tokens, repeated, for caches that store ids; or NULL for random ones. */
ch_status ch_session_pretend(ch_session *session, int64_t length, uint64_t seed, const int32_t *ids,
                             int64_t id_count, ch_error *error);
/* Drops the tokens after the first `length`, for another measurement there. A ring has overwritten tokens by then, so
   its states are arbitrary. */
void ch_session_pretend_length(ch_session *session, int64_t length);
/* Returns V, the length of a row of logits. */
int64_t ch_session_vocab_size(const ch_session *session);
const ch_cache *ch_session_cache(const ch_session *session);

/* Returns the model of ch_session_create, or NULL for a session of ch_session_new. */
const ch_model *ch_session_model(const ch_session *session);
void ch_session_set_model(ch_session *session, const ch_model *model);

/* Returns the team of threads for which the session's passes are planned. The session never uses more threads. */
const ch_team *ch_session_team(const ch_session *session);

/* Receives the logits [count, V] after tokens first ... first + count - 1, valid during the call. */
typedef ch_status (*ch_score_sink)(int64_t first, int64_t count, const float *logits, void *user,
                                   ch_error *error);
/* Appends at most a chunk of tokens to a sequence and passes the logits after each of them to the sink. The head is
   computed for at most CH_SKINNY_ROWS rows at a time, so that the logits after the last token equal those of
   ch_session_feed_one bit for bit. Errors: those of ch_session_feed_one and of the sink. */
ch_status ch_session_feed_scored(ch_session *session, int32_t sequence, const int32_t *tokens, size_t count,
                                 ch_score_sink sink, void *user, ch_error *error);

/* Calls the session's progress callback after `done` of `total` tokens and returns its result. Without a callback,
   returns true. */
bool ch_session_goes_on(const ch_session *session, int64_t done, int64_t total);

#endif
