/* What stands before the first step of a comparison: the plan, the text or images made ready, and how all models are
 * trained. */
#ifndef CH_TRAIN_COMPARE_SETUP_H
#define CH_TRAIN_COMPARE_SETUP_H

#include "train/compare.h"
#include "train/compare_plan.h"
#include "train/data.h"
#include "train/image_data.h"

typedef struct ch_compare_setup {
  const ch_compare_options *options;
  const ch_compare_events *events;
  ch_comparison *comparison; /* described: everything but the models' results */
  ch_compare_plan plan;
  ch_data data;              /* of a comparison on text, */
  ch_image_data images;      /* or on images */
  ch_train_options training; /* of every model */
} ch_compare_setup;

/* Everything up to the first step: checks or writes the directory's settings, makes the text ready, plans the models.
   All four must outlive the setup; `events` is not NULL. Release with ch_compare_setup_close, also on failure. */
ch_status ch_compare_setup_open(const ch_compare_options *options, const ch_compare_events *events,
                                ch_comparison *comparison, ch_compare_setup *setup, ch_error *error);
void ch_compare_setup_close(ch_compare_setup *setup);

/* Of the next runs: initial weights, order of the text, what happens to images. */
void ch_compare_take_seed(ch_compare_setup *setup, uint64_t seed);

bool ch_compare_on_images(const ch_compare_setup *setup);

#endif
