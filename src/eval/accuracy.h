/* Measures how well a model classifies images: accuracies and loss over a set of them. */
#ifndef CH_EVAL_ACCURACY_H
#define CH_EVAL_ACCURACY_H

#include <crosshead/common.h>

#include "images/image_set.h"
#include "infer/model.h"

typedef struct ch_accuracy {
  int64_t images;
  /* shares of images whose label is the first choice, and is among the first five choices */
  double top1, top5;
  double loss; /* mean cross entropy */
} ch_accuracy;

/* Fits the set to the model and measures accuracy over a split of it, without augmentation. `most` is the maximum
 * number of images; 0 means all. `progress`, which may be NULL, is called between batches with the images done and in
 * total; false stops with CH_ERROR_INTERRUPTED. Errors: images that do not fit, CH_ERROR_NUMERIC when the loss is not
 * finite. */
ch_status ch_accuracy_of(const ch_model *model, ch_image_set *set, ch_image_split split, int64_t most,
                         ch_progress progress, void *user, ch_accuracy *accuracy, ch_error *error);

#endif
