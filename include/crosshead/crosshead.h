/* Crosshead: run language models with any attention mechanism from their directories. This header is all you
 * need to run a model; link libcrosshead (pkg-config crosshead).
 *
 *   model.h     a directory, opened
 *   info.h      what a model is and costs, by its configuration alone
 *   text.h      text to tokens and back
 *   tokenizer.h tokenizers without a model, and training one
 *   session.h   sequences of tokens, fed to the model, with their key-value cache
 *   generate.h  choosing tokens, writing text
 *   generation.h texts that join and leave at any time, for servers
 *   chat.h      messages to a prompt, by a model's chat template
 *   forward.h   one pass over given tokens or images: logits, loss, gradients
 *   profile.h   where a session's time goes
 *
 * common.h has the rules that all headers follow. Making models - training, evaluation, compression,
 * conversion - belongs to libcrosshead-train (pkg-config crosshead-train) and its headers, which
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
#include <crosshead/profile.h>
#include <crosshead/session.h>
#include <crosshead/text.h>
#include <crosshead/tokenizer.h>

#endif
