/* A set of labelled images from one file or many, divided into a part for training and a part for
 * validation. */
#ifndef CH_IMAGES_IMAGE_SET_H
#define CH_IMAGES_IMAGE_SET_H

#include "images/image_file.h"

typedef struct ch_image_set ch_image_set;
typedef enum ch_image_split { CH_IMAGES_TRAIN, CH_IMAGES_VALIDATION } ch_image_split;

/* Opens a directory, a file, or several files with commas between. Of a directory its *.bin and *ubyte files
   are used, also compressed (.gz); an IDX file's labels are found by name in its directory. Files whose names
   say "test" or "t10k" validate when there are others to train on; else the share `validation` of all images
   does, evenly spread (1: all of them). Errors name the file: none there, kinds or sizes mixed, labels
   missing, and what ch_image_file_parse says. */
ch_status ch_image_set_open(const char *names, double validation, ch_image_set **set, ch_error *error);
void ch_image_set_close(ch_image_set *set);

typedef struct ch_image_info {
  ch_image_format format;
  int64_t channels, size; /* of every image */
  int64_t classes;        /* those of the format; for IDX files one more than the largest label */
  int64_t count[2];       /* by split */
  int64_t bytes;          /* of all pixels and labels */
  uint64_t content;       /* a hash of them all */
} ch_image_info;

void ch_image_set_describe(const ch_image_set *set, ch_image_info *info);

/* Sets the number of classes: with 20, CIFAR-100's labels are its groups of classes. Fails if a label is not
   below it, or if the images of a model have other channels or a side that is not a whole multiple of
   these. */
ch_status ch_image_set_fit(ch_image_set *set, int64_t channels, int64_t size, int64_t classes,
                           ch_error *error);

/* Return image `index` of a split, [channels, size, size], and its label. */
const unsigned char *ch_image_set_pixels(const ch_image_set *set, ch_image_split split, int64_t index);
int ch_image_set_label(const ch_image_set *set, ch_image_split split, int64_t index);

#endif
