/* Declarations that the files of libcrosshead's public functions share. */
#ifndef CH_INFER_API_H
#define CH_INFER_API_H

#include <crosshead/crosshead.h>

#include "infer/generate.h"
#include "infer/model.h"

/* Derives a cache's types from four settings: the type of the cache, and the types of keys, values and latents, which
   take precedence. */
ch_status ch_api_cache_types(const ch_precision asked[1 + CH_STATE_ROLES], ch_cache_types *types,
                             ch_error *error);
/* Sets *dtype to the type in which large products are computed: `fallback` for CH_PRECISION_DEFAULT. */
ch_status ch_api_compute_type(ch_precision asked, ch_dtype fallback, ch_dtype *dtype, ch_error *error);
/* Converts a newly loaded model to the form that ch_model_settings selects. */
ch_status ch_api_choose_form(ch_model *model, bool keep_dictionary, ch_error *error);
/* Sets *roles, the states that the model's cache holds, as bits of ch_cache_role. */
ch_status ch_api_cache_roles(const ch_config *config, unsigned *roles, ch_error *error);
/* Checks a session's settings (NULL = the defaults) and converts them to options. */
ch_status ch_api_session_options(const ch_model *model, const ch_session_settings *settings,
                                 ch_session_options *options, ch_error *error);
/* Creates a session as ch_session_create does, from options. */
ch_status ch_api_session_open(const ch_model *model, const ch_session_options *options, ch_session **session,
                              ch_error *error);
/* Computes the memory of weights and cache, without the workspace. */
ch_status ch_api_memory_of(const ch_model *model, const ch_session_options *options, ch_memory *memory,
                           ch_error *error);
/* Fails if the model has no tokenizer. */
ch_status ch_api_need_tokenizer(const ch_model *model, ch_error *error);

#endif
