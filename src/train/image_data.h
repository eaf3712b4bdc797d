/* The images of a run made ready: the sets, and the source of batches over them. What they are is written to the run's
 * directory (data.json), so that a resumed run finds them again. */
#ifndef CH_TRAIN_IMAGE_DATA_H
#define CH_TRAIN_IMAGE_DATA_H

#include "config/config.h"
#include "images/image_set.h"
#include "train/options.h"
#include "train/source.h"

typedef struct ch_image_data {
  ch_source source; /* ready for ch_trainer_create; its context is this ch_image_data's */
  ch_image_info info;
  struct ch_image_source *parts;
} ch_image_data;

/* Opens the images that `names` says (images/image_set.h); NULL: those that the directory's record names. A share of them
   validates where no files do. Release with ch_image_data_close, also after a failure. */
ch_status ch_image_data_open(const char *names, double validation, const char *directory, ch_image_data *data,
                             ch_error *error);
/* Makes the source for a model: its augmentation and seed are those of the options. Errors: images that do not fit the
   config, none left to train on. */
ch_status ch_image_data_prepare(ch_image_data *data, const ch_config *config, const ch_train_options *options,
                                ch_error *error);
/* Writes the record into the directory, which is created when missing. */
ch_status ch_image_data_record(const ch_image_data *data, const char *directory, ch_error *error);
/* An error when the directory's record is of other images. */
ch_status ch_image_data_check(const ch_image_data *data, const char *directory, ch_error *error);
/* From now on another seed decides on the order of the images and on what is done to them. */
void ch_image_data_reseed(ch_image_data *data, uint64_t seed);
void ch_image_data_close(ch_image_data *data);

#endif
