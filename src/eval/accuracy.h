/* How well a model tells images apart: accuracies and loss over a set of them. */
#ifndef CH_EVAL_ACCURACY_H
#define CH_EVAL_ACCURACY_H

#include "images/image_set.h"
#include "infer/model.h"

/* Asked between batches with the images done and to do; false stops with CH_ERROR_INTERRUPTED. */
typedef bool (*ch_accuracy_progress)(void *context, int64_t done, int64_t total);

typedef struct ch_accuracy {
  int64_t images;
  double top1, top5; /* shares whose label is the first choice, or among the first five */
  double loss;       /* mean cross entropy */
} ch_accuracy;

/* Over a split of the set, which is fitted to the model; as they are, without augmentation. most: images at most, 0 for
   all. progress may be NULL. Errors: images that do not fit, CH_ERROR_NUMERIC when the loss is not finite. */
ch_status ch_accuracy_of(const ch_model *model, ch_image_set *set, ch_image_split split, int64_t most,
                         ch_accuracy_progress progress, void *context, ch_accuracy *accuracy,
                         ch_error *error);

#endif
