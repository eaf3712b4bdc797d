/* Properties that must hold for every combination. Each function checks one specimen and complains about
 * violations. */
#ifndef TESTS_ATTENTION_PROPERTIES_H
#define TESTS_ATTENTION_PROPERTIES_H

#include "infer/session.h"
#include "specimen.h"

/* forward.c */
void check_definition(laboratory *lab, const specimen *s);
void check_documents(laboratory *lab, const specimen *s);
/* gradients.c */
void check_gradients(laboratory *lab, const specimen *s);
/* decoding.c */
/* Creates a session. Complains and returns NULL if that fails. */
ch_session *specimen_session(const specimen *s, int64_t sequences, int64_t chunk, ch_dtype dtype);
/* Feeds tokens first ... first + count - 1 of sequences b ... b + n - 1 in one pass, and stores their logits at their
   places in `logits` [sequences, length, vocab]. `session` has n sequences. Complains and returns false on failure. The
   logits of other tokens are unchanged. */
bool feed_tokens(const specimen *s, ch_session *session, int64_t b, int64_t n, int64_t first, int64_t count,
                 double *logits);
void check_cached(laboratory *lab, const specimen *s);
void check_chunks(laboratory *lab, const specimen *s);
void check_rewinding(laboratory *lab, const specimen *s);
void check_decoding_form(laboratory *lab, const specimen *s);
void check_gate_forms(laboratory *lab, const specimen *s);
void check_pretended_depth(laboratory *lab, const specimen *s);
void check_batch(laboratory *lab, const specimen *s);
/* batches.c */
void check_uneven_batch(laboratory *lab, const specimen *s);
/* stored.c */
void check_stored_states(laboratory *lab, const specimen *s);
/* allocations.c */
void check_allocations(laboratory *lab, const specimen *s);
/* forms.c */
void check_forms(laboratory *lab, const specimen *s);
/* absorbed.c */
void check_absorbed(laboratory *lab, const specimen *s);
/* accounts.c */
void check_cache_size(laboratory *lab, const specimen *s);
void check_parameters(laboratory *lab, const specimen *s);
void check_files(laboratory *lab, const specimen *s);

#endif
