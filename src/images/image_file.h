/* One file of labelled images: CIFAR-10's and CIFAR-100's binary batches, and MNIST's IDX files, whose labels are in a
 * second file. */
#ifndef CH_IMAGES_IMAGE_FILE_H
#define CH_IMAGES_IMAGE_FILE_H

#include <stdint.h>

#include "base/file_bytes.h"

typedef enum ch_image_format { CH_IMAGES_CIFAR10, CH_IMAGES_CIFAR100, CH_IMAGES_IDX } ch_image_format;

/* Returns the name of a format: "CIFAR-10". */
const char *ch_image_format_name(ch_image_format format);

/* Views of the bytes: image i's pixels [channels, size, size] begin at pixels + i * pixel_stride, and its label is
   labels[i * label_stride]. */
typedef struct ch_image_file {
  ch_image_format format;
  int64_t count, channels, size;
  /* coarse: labels of CIFAR-100's 20 groups of classes, or NULL */
  const unsigned char *pixels, *labels, *coarse;
  int64_t pixel_stride, label_stride;
} ch_image_file;

/* Parses the bytes of an image file. IDX images have no labels until ch_image_file_take_labels. Fails for an empty or
   truncated file, another format, or labels that the format does not have. */
ch_status ch_image_file_parse(const void *data, size_t size, const char *where, ch_image_file *file,
                              ch_error *error);
/* Reads the labels of an IDX file from the bytes of its file of labels. */
ch_status ch_image_file_take_labels(const void *data, size_t size, const char *where, ch_image_file *file,
                                    ch_error *error);

#endif
