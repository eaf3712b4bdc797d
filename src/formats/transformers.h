/* A model directory for transformers: weights, tokenizer, a config.json with "auto_map", and the PyTorch code
 * of exactly this model, so that AutoModelForCausalLM.from_pretrained(DIR,
 * trust_remote_code=True) loads it. */
#ifndef CH_FORMATS_TRANSFORMERS_H
#define CH_FORMATS_TRANSFORMERS_H

#include "base/json.h"
#include "formats/source.h"

/* Restores Crosshead's own model_type if transformers' class of the family supports less than Crosshead does,
   or if own_code requests it. own: its previous type. */
void ch_transformers_choose(ch_source *source, const ch_config *own, bool own_code);
/* Fails with CH_ERROR_CONFIG, and says what to do instead, if there is no PyTorch code for the model. A
   Hugging Face family uses transformers' own. */
ch_status ch_transformers_check(const ch_config *config, const char *where, ch_error *error);
/* The `finish` of a ch_source_writing: writes configuration_crosshead.py, modeling_crosshead.py and then
   config.json. */
ch_status ch_transformers_finish(const ch_source *source, const char *directory, ch_error *error);
/* Like ch_transformers_finish, without weights. */
ch_status ch_transformers_write_untrained(const ch_source *source, const char *directory, ch_error *error);
/* Returns true if a model leaves with code of ours: it is of no Hugging Face family. */
bool ch_has_pytorch_code(const ch_config *config);
/* Write the code of such a model and of its configuration. The caller releases it with ch_text_free. */
void ch_pytorch_code(const ch_config *config, const ch_params *params, ch_text *code);
void ch_pytorch_configuration(const ch_config *config, const ch_params *params, ch_text *code);

#endif
