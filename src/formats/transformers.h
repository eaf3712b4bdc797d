/* Writes what transformers needs to load a model directory that has weights and a tokenizer: a config.json with
 * "auto_map", and the PyTorch code of exactly this model. AutoModelForCausalLM.from_pretrained(DIR,
 * trust_remote_code=True) then loads it. A model of a Hugging Face family gets only its config.json. */
#ifndef CH_FORMATS_TRANSFORMERS_H
#define CH_FORMATS_TRANSFORMERS_H

#include "base/json.h"
#include "formats/source.h"

/* Restores `own`, the configuration that the source had before it was fitted to a Hugging Face family. Does so if
   own_code is true, or if own's model_type is "crosshead" and transformers' class of the family cannot load the model.
   A restored language model has model_type "crosshead", and so PyTorch code. */
void ch_transformers_choose(ch_source *source, const ch_config *own, bool own_code);
/* The `finish` of a ch_source_writing: writes configuration_crosshead.py, modeling_crosshead.py and then
   config.json. */
ch_status ch_transformers_finish(const ch_source *source, const char *directory, ch_error *error);
/* Creates the directory and writes the files of ch_transformers_finish into it, without weights. */
ch_status ch_transformers_write_untrained(const ch_source *source, const char *directory, ch_error *error);
/* Returns true if a model is exported with PyTorch code: a model of images, or one of no Hugging Face family. */
bool ch_has_pytorch_code(const ch_config *config);
/* Append PyTorch code to *code: ch_pytorch_code the model's, ch_pytorch_configuration that of its configuration class.
   ch_has_pytorch_code must hold. Release *code with ch_text_free. */
void ch_pytorch_code(const ch_config *config, const ch_params *params, ch_text *code);
void ch_pytorch_configuration(const ch_config *config, const ch_params *params, ch_text *code);

#endif
