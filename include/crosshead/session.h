/* Sessions: sequences of tokens that a model reads, with the key-value cache they need.
 *
 *   const float *logits; // [V], of the token that follows
 *   int32_t prompt[] = {1, 403, 2501};
 *   ch_session *session;
 *   if (ch_session_create(model, NULL, &session, NULL) == CH_OK) {
 *     if (ch_session_feed(session, prompt, 3, &logits, NULL) == CH_OK) printf("%g\n", logits[0]);
 *     ch_session_free(session);
 *   }
 *
 * From simple to advanced: a session, feeding tokens, facts; then truncating, copying and forking, end
 * tokens, progress, profiles. */
#ifndef CROSSHEAD_SESSION_H
#define CROSSHEAD_SESSION_H

#include <crosshead/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- A session ---- */

/* One or more sequences of tokens and their key-value cache. A session belongs to one thread at a time; two
 * sessions, of one model or of two, may run at the same time. */
typedef struct ch_session ch_session;

/* The settings of a session. Fill with ch_session_defaults, then change what should differ: later versions may
 * add members. */
typedef struct ch_session_settings {
  /* tokens that each sequence has room for, prompt included; 0 (default) = the context length, at most 4096 */
  int64_t max_tokens;
  int32_t sequences; /* number of sequences, B below; default 1 */
  /* number of threads; 0 (default) = as many as OpenMP gives: OMP_NUM_THREADS, else all cores */
  int32_t threads;
  ch_precision cache; /* element type of the cache: F32 (default), F16, BF16, Q8_0 or Q4_0 */
  /* element types of cached keys, values and latents, if they differ; default: as `cache` */
  ch_precision cache_keys, cache_values, cache_latents;
  ch_precision compute; /* arithmetic of large products: F32 (default) or BF16 */
  /* Tabulate the embedding gates of all ids when the session is created. It decodes faster and needs a row of
   * memory per id. Models without such gates are CH_ERROR_CONFIG. */
  bool precompute_gates;
} ch_session_settings;

/* Fills in the defaults. */
CH_API void ch_session_defaults(ch_session_settings *settings);

/* Creates a session with empty sequences; release *session with ch_session_free. The cache is allocated here.
 * Work memory is allocated at the first feed of each number of tokens; feeding token after token allocates
 * nothing. The model must outlive the session. settings may be NULL for the defaults. Errors:
 * CH_ERROR_ARGUMENT for settings out of range, a model of images and one opened in F64; CH_ERROR_CONFIG for
 * settings that the model cannot have; CH_ERROR_MEMORY. */
CH_API ch_status ch_session_create(const ch_model *model, const ch_session_settings *settings,
                                   ch_session **session, ch_error *error);

/* Releases the session and its logits. NULL is fine. */
CH_API void ch_session_free(ch_session *session);

/* ---- Feeding tokens ---- */

/* Feeding tokens appends them to sequences and computes logits in F32: the score of every id as the next
 * token. *logits belongs to the session and is valid until the next call with it. Feeding a text at once or
 * token by token gives the same logits within rounding. Errors of the functions that feed: CH_ERROR_FULL when
 * a sequence would pass max_tokens; CH_ERROR_ARGUMENT for no tokens, an id outside 0 ... V - 1 or a sequence
 * outside 0 ... B - 1; CH_ERROR_MEMORY. After an error *logits must not be used, and the sequences hold what
 * they held before. Two exceptions: for CH_ERROR_INTERRUPTED see ch_session_set_progress, and sequences that
 * cannot go back (ch_session_truncate) are empty. */

/* Appends tokens [B, count] to all sequences; *logits [B, V] are those after each sequence's last token. Calls
 * the callback of ch_session_set_progress. */
CH_API ch_status ch_session_feed(ch_session *session, const int32_t *tokens, size_t count,
                                 const float **logits, ch_error *error);

/* Appends tokens [count] to one sequence; *logits [V] are those after its last token. Calls the callback of
 * ch_session_set_progress. */
CH_API ch_status ch_session_feed_one(ch_session *session, int32_t sequence, const int32_t *tokens,
                                     size_t count, const float **logits, ch_error *error);

/* Appends tokens [B, count] to all sequences; *logits [B, count, V] are those after every token. One pass
 * computes all, and its memory grows with count: feed a long text in parts of a few hundred tokens. */
CH_API ch_status ch_session_feed_all(ch_session *session, const int32_t *tokens, size_t count,
                                     const float **logits, ch_error *error);

/* Appends tokens [count], one to each of the first `count` sequences, which may hold different numbers of
 * tokens; *logits [count, V]. With at most 32 sequences the logits of a sequence do not depend on the others:
 * they are those it would have alone, bit for bit. With block-quantised weights, talking heads or embedding
 * gates they are the same within rounding. */
CH_API ch_status ch_session_step(ch_session *session, size_t count, const int32_t *tokens,
                                 const float **logits, ch_error *error);

/* Appends tokens [count], one to each of sequences [count]; *logits [count, V]. The logits are those of
 * ch_session_step. Fails with CH_ERROR_ARGUMENT also if a sequence is listed twice. */
CH_API ch_status ch_session_step_some(ch_session *session, const int32_t *sequences, size_t count,
                                      const int32_t *tokens, const float **logits, ch_error *error);

/* ---- Facts ---- */

/* Returns the number of tokens in the first sequence. */
CH_API int64_t ch_session_length(const ch_session *session);

/* Returns the number of tokens in one sequence; -1 for a sequence that does not exist. */
CH_API int64_t ch_session_sequence_length(const ch_session *session, int32_t sequence);

/* Returns the number of tokens that each sequence has room for. */
CH_API int64_t ch_session_capacity(const ch_session *session);

/* Returns the bytes that are allocated for the cache. The rows by token id of gated latents (EG-MLA) are not counted. */
CH_API uint64_t ch_session_cache_bytes(const ch_session *session);

/* Return the size of one token of a sequence in the cache, all layers together: elements, and bytes as
 * stored. */
CH_API int64_t ch_session_cache_token_elements(const ch_session *session);
CH_API int64_t ch_session_cache_token_bytes(const ch_session *session);

/* The memory of a session, in bytes. */
typedef struct ch_memory {
  uint64_t weights; /* bytes of the model's tensors: mapped files (shared between processes) and copies */
  /* bytes of the key-value cache: all layers, sequences and max_tokens. There is a row by token id for each token, but at
   * most one for each id of the vocabulary. With precompute_gates there is one for every id. */
  uint64_t cache;
  uint64_t workspace; /* bytes of activations, logits and scratch */
} ch_memory;

/* Computes the memory of a session with these settings (NULL = the defaults) without creating it. Errors:
 * those of ch_session_create. */
CH_API ch_status ch_memory_estimate(const ch_model *model, const ch_session_settings *settings,
                                    ch_memory *memory, ch_error *error);

/* ---- Truncating, copying, forking ---- */

/* Removes all tokens after the first `length` of every sequence; sequences that hold fewer are unchanged. A
 * negative length counts as 0. Layers with a sliding window of W tokens and n sinks hold the last W and the
 * first n: a sequence that has reached L > W + n tokens can go back to L - 1 tokens, or to n or fewer. Layers of
 * linear attention hold one state: a sequence can only go back to the beginning. Any other length is
 * CH_ERROR_ARGUMENT, and nothing changes. */
CH_API ch_status ch_session_truncate(ch_session *session, int64_t length, ch_error *error);

/* Empties all sequences. Their memory stays allocated. */
CH_API void ch_session_reset(ch_session *session);

/* Replaces sequence `to` by the first `length` tokens of sequence `from`, without computing them again. If `from`
 * and `to` are equal, the sequence is truncated. Errors: CH_ERROR_ARGUMENT for a sequence that does not exist, and
 * for a length that `from` does not hold or cannot go back to (ch_session_truncate). */
CH_API ch_status ch_session_copy(ch_session *session, int32_t from, int32_t to, int64_t length,
                                 ch_error *error);

/* Creates a second session with the same contents, settings and end tokens, but without progress callback and
 * profile; release *fork with ch_session_free. The two sessions share the model and nothing else. Later tokens give
 * the same logits in both, bit for bit. Errors: CH_ERROR_ARGUMENT for NULL, CH_ERROR_MEMORY. */
CH_API ch_status ch_session_fork(const ch_session *session, ch_session **fork, ch_error *error);

/* ---- End tokens ---- */

/* Returns the number of ids that end a text in this session. *ids [returned count] belongs to the session and is
 * valid until ch_session_set_end_tokens. */
CH_API size_t ch_session_end_tokens(const ch_session *session, const int32_t **ids);

/* Sets the end tokens, at most 16; the array is copied. With a count of 0 no token ends a text. Errors:
 * CH_ERROR_ARGUMENT for more, and for an id outside 0 ... V - 1. */
CH_API ch_status ch_session_set_end_tokens(ch_session *session, const int32_t *ids, size_t count,
                                           ch_error *error);

/* ---- Progress and profiles ---- */

/* Sets a callback that ch_session_feed and ch_session_feed_one call between their passes of some hundred tokens and,
 * within a long pass, about twenty times a second. ch_generate and its variants call it while they read a prompt. The
 * unit is tokens per sequence. When it returns false, a feed ends with CH_ERROR_INTERRUPTED; after the last token it
 * changes nothing. The tokens of complete passes stay (ch_session_length). If the interrupted pass moves a full
 * sliding window or a state of a fixed size, the sequences are empty instead. A generation ends with CH_END_STOPPED.
 * NULL (the default): no calls. */
CH_API void ch_session_set_progress(ch_session *session, ch_progress progress, void *user);

/* The time of every operation, with its arithmetic and the bytes that it reads and writes. One thread at a time
 * may use it. */
typedef struct ch_profile ch_profile;

/* Creates an empty profile; release *profile with ch_profile_free. keep_events: also record each call of an
 * operation, for a trace. Errors: CH_ERROR_MEMORY. */
CH_API ch_status ch_profile_new(bool keep_events, ch_profile **profile, ch_error *error);

/* Releases the profile. NULL is fine. */
CH_API void ch_profile_free(ch_profile *profile);

/* Makes the session add its operations to the profile, which must live until another one or NULL (the default)
 * is set. <crosshead/bench.h> shows a profile as a table, as JSON and as a trace.
 *
 *   ch_profile *profile;
 *   if (ch_profile_new(false, &profile, NULL) == CH_OK) {
 *     ch_session_profile(session, profile);
 *     // feed tokens
 *     ch_session_profile(session, NULL);
 *     ch_profile_free(profile);
 *   } */
CH_API void ch_session_profile(ch_session *session, ch_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
