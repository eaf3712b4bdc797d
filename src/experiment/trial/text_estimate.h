/* A text as a comparison would prepare it, without preparing it: for what can be known before. */
#ifndef CH_EXPERIMENT_TRIAL_TEXT_ESTIMATE_H
#define CH_EXPERIMENT_TRIAL_TEXT_ESTIMATE_H

#include "train/data.h"

/* Reads the text files once, to check them, and writes nothing. data->source gives random tokens; the numbers of
 * tokens are estimated from the bytes, or those of a token file. options: data, tokenizer, vocab_size, validation and
 * sequence count. Release with ch_data_close, also on failure. Errors: those of a text that cannot be read or is too
 * short, and of the tokenizer. */
ch_status ch_estimate_prepared_text(const ch_data_options *options, ch_data *data, ch_error *error);

#endif
