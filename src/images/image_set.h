/* A set of labelled images from one file or many, divided into a part for training and a part for
 * validation. */
#ifndef CH_IMAGES_IMAGE_SET_H
#define CH_IMAGES_IMAGE_SET_H

#include "images/image_file.h"

typedef struct ch_image_set ch_image_set;
typedef enum ch_image_split { CH_IMAGES_TRAIN, CH_IMAGES_VALIDATION } ch_image_split;

/* Opens a directory, a file, or several files separated by commas. In a directory, its *.bin and *ubyte files are used,
   also compressed (.gz). An IDX file's labels are found by name in its directory. If there are files with "test" or
   "t10k" in their names and others, the former are for validation. Otherwise the share `validation` of all images is
   for validation: at least one image, and evenly spread. Fails if there are no files, if formats or sizes are mixed, if
   labels are missing, and like ch_image_file_parse. Errors name the file. */
ch_status ch_image_set_open(const char *names, double validation, ch_image_set **set, ch_error *error);
void ch_image_set_close(ch_image_set *set);

typedef struct ch_image_info {
  ch_image_format format;
  int64_t channels, size; /* channels and side of every image */
  int64_t classes;        /* classes of the format; for IDX files one more than the largest label */
  int64_t count[2];       /* images of each split */
  int64_t bytes;          /* bytes of all files, decompressed */
  uint64_t content;       /* hash of all images and labels */
} ch_image_info;

void ch_image_set_describe(const ch_image_set *set, ch_image_info *info);

/* Checks that a model with these channels, image size and classes fits the set. With 20 classes, CIFAR-100's labels
   are its groups of classes from here on. Fails if a label is not below `classes`, if the channels differ, or if
   `size` is not a multiple of the images' side. */
ch_status ch_image_set_fit(ch_image_set *set, int64_t channels, int64_t size, int64_t classes,
                           ch_error *error);

/* Returns image `index` of a split, [channels, size, size]. */
const unsigned char *ch_image_set_pixels(const ch_image_set *set, ch_image_split split, int64_t index);
/* Returns the label of image `index` of a split. */
int ch_image_set_label(const ch_image_set *set, ch_image_split split, int64_t index);

#endif
