/* A model's chat templates, and the tokens that end a text or a turn. */
#ifndef CH_FORMATS_CHAT_METADATA_H
#define CH_FORMATS_CHAT_METADATA_H

#include "formats/gguf.h"
#include "formats/gguf_write.h"
#include "infer/end_tokens.h"
#include "io/chat_templates.h"

typedef struct ch_chat_metadata {
  ch_chat_templates templates;
  int32_t ends[CH_MAX_END_TOKENS]; /* [end_count] ids, the end of a text first */
  int end_count;
} ch_chat_metadata;

/* Reads the templates of a directory, and the end tokens in `config`, config.json and generation_config.json.
   Release with ch_chat_metadata_free, also after a failure. */
ch_status ch_chat_from_directory(const char *directory, const ch_config *config, ch_chat_metadata *chat,
                                 ch_error *error);
/* Reads "tokenizer.chat_template", "tokenizer.chat_template.NAME", and the ids that llama.cpp ends a text with: eos,
   eot, eom, the list of eos_token_ids, and special tokens whose names llama.cpp knows as ends. */
ch_status ch_chat_from_gguf(const ch_gguf *file, int64_t vocab_size, ch_chat_metadata *chat, ch_error *error);

/* Adds the templates. If there are end tokens other than `end`, the tokenizer's own, the first two become eot and eom,
   and the list of all end tokens is added. */
void ch_chat_put_gguf(const ch_chat_metadata *chat, int32_t end, ch_gguf_header *header);
/* Puts the templates into the text of a tokenizer_config.json. */
ch_status ch_chat_put_config(const ch_chat_metadata *chat, const char *where, ch_text *config,
                             ch_error *error);
/* Appends the default template, for a chat_template.jinja. */
void ch_chat_put_template(const ch_chat_metadata *chat, ch_text *jinja);
/* Appends a generation_config.json if several tokens end a text. A config.json has room for only one. */
void ch_chat_put_generation(const ch_chat_metadata *chat, const ch_config *config, ch_text *json);
void ch_chat_metadata_free(ch_chat_metadata *chat);

#endif
