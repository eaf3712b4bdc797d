/* Estimates the text that a comparison would prepare, without preparing it. */
#ifndef CH_EXPERIMENT_TRIAL_TEXT_ESTIMATE_H
#define CH_EXPERIMENT_TRIAL_TEXT_ESTIMATE_H

#include "train/data.h"

/* Reads the text files once, to check them, and writes nothing. data->source gives arbitrary tokens. The numbers of
 * tokens are estimated from the bytes; those of a token file are exact. Of the options, data, validation_text,
 * tokenizer, vocab_size, validation and sequence are used. Release with ch_data_close, also on failure. Errors: a text
 * that cannot be read or is too short, and those of the tokenizer. */
ch_status ch_estimate_prepared_text(const ch_data_options *options, ch_data *data, ch_error *error);

#endif
