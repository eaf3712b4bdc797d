/* Crosshead: run language models with any attention mechanism from their directories. This header is all you
 * need to run a model; link libcrosshead (pkg-config crosshead).
 *
 *   static bool print(const char *text, size_t size, void *user) {
 *     return fwrite(text, 1, size, user) == size;
 *   }
 *
 *   ch_model *model = NULL;
 *   ch_session *session = NULL;
 *   ch_error error;
 *   if (ch_model_open("model", &model, &error) != CH_OK ||
 *       ch_session_create(model, NULL, &session, &error) != CH_OK ||
 *       ch_generate(session, "Once upon a time", 100, NULL, print, stdout, NULL, &error) != CH_OK)
 *     fprintf(stderr, "%s\n", error.message);
 *   ch_session_free(session);
 *   ch_model_close(model);
 *
 * From simple to advanced:
 *
 *   model.h      opens a directory
 *   info.h       a model's size and costs, computed from its configuration alone
 *   text.h       text to tokens and back
 *   generate.h   writes text, chooses tokens
 *   chat.h       messages to a prompt, by a model's chat template
 *   session.h    feeds tokens and returns logits; the key-value cache; profiles
 *   generation.h texts that join and leave at any time, for servers
 *   tokenizer.h  tokenizers without a model, and training one
 *   forward.h    one pass over given tokens or images: logits, loss, gradients
 *
 * common.h has the rules that all headers follow. Making models (training, evaluation, compression,
 * conversion) belongs to libcrosshead-train (pkg-config crosshead-train) and its headers, which
 * <crosshead/crosshead_train.h> lists. */
#ifndef CROSSHEAD_CROSSHEAD_H
#define CROSSHEAD_CROSSHEAD_H

#include <crosshead/chat.h>
#include <crosshead/common.h>
#include <crosshead/forward.h>
#include <crosshead/generate.h>
#include <crosshead/generation.h>
#include <crosshead/info.h>
#include <crosshead/model.h>
#include <crosshead/session.h>
#include <crosshead/text.h>
#include <crosshead/tokenizer.h>

#endif
