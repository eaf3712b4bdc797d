/* Prepares the images of a run: the sets, and the source of batches over them. data.json in the run's
 * directory records which images they are, so that a resumed run finds them again. */
#ifndef CH_TRAIN_IMAGE_DATA_H
#define CH_TRAIN_IMAGE_DATA_H

#include "config/config.h"
#include "images/image_set.h"
#include "train/options.h"
#include "train/batch_source.h"

typedef struct ch_image_data {
  ch_batch_source source; /* source for ch_trainer_create, valid as long as this ch_image_data */
  ch_image_info info;
  struct ch_image_source *parts;
} ch_image_data;

/* Opens the images in `names` (images/image_set.h) or, if it is NULL, those that the directory's record names.
   Without validation files, the share `validation` of the images validates. Release with ch_image_data_close,
   also after a failure. */
ch_status ch_image_data_open(const char *names, double validation, const char *directory, ch_image_data *data,
                             ch_error *error);
/* Prepares the source for a model, with the augmentation and seed of the options. Errors: images that do not fit
   the config, none left to train on. */
ch_status ch_image_data_prepare(ch_image_data *data, const ch_config *config, const ch_train_options *options,
                                ch_error *error);
/* Writes the record into the directory, which is created when missing. */
ch_status ch_image_data_record(const ch_image_data *data, const char *directory, ch_error *error);
/* Fails if the directory has no record or a record of other images. */
ch_status ch_image_data_check(const ch_image_data *data, const char *directory, ch_error *error);
/* Changes the seed that decides the order of the images and their augmentation. */
void ch_image_data_reseed(ch_image_data *data, uint64_t seed);
void ch_image_data_close(ch_image_data *data);

#endif
