/* Runs batches of images through a forward pass that returns each image's loss and the rank of its label. */
#include "eval/accuracy.h"

#include <math.h>
#include <stdlib.h>

#include "images/augment.h"
#include "model/runner.h"

enum { BATCH = 64, COLUMNS = 2 };

typedef struct evaluation {
  const ch_model *model;
  const ch_image_set *set;
  ch_image_split split;
  int64_t size;     /* side of the files' images; the model's image size is a multiple of it */
  int64_t elements; /* elements of an image */
  ch_engine engine;
  ch_runner *runner;
  float *pixels; /* [BATCH, elements] */
  int32_t labels[BATCH];
} evaluation;

/* Fills the batch with the images from `first` on. Slots past the last image repeat it without a label. */
static void fill_images(evaluation *e, int64_t first, int64_t count) {
  const ch_config *c = &e->model->config;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < BATCH; i++) {
    int64_t image = first + i < count ? first + i : count - 1;
    e->labels[i] = first + i < count ? ch_image_set_label(e->set, e->split, image) : -1;
    ch_image_normalise(ch_image_set_pixels(e->set, e->split, image), c->num_channels, e->size,
                       c->image_size / e->size, e->pixels + i * e->elements);
  }
}

static ch_status add_batch(evaluation *e, ch_accuracy *sums, ch_error *error) {
  const void *value;
  ch_runner_call call = {.weights = e->model->weights.tensors, .pixels = e->pixels, .targets = e->labels};
  CH_TRY(ch_runner_run(e->runner, &call, &value, error));
  const float *rows = value;
  for (int i = 0; i < BATCH; i++) {
    float place = rows[COLUMNS * i + 1];
    sums->loss += (double)rows[COLUMNS * i];
    sums->top1 += place == 0;
    sums->top5 += place >= 0 && place < 5;
  }
  return CH_OK;
}

static ch_status run_accuracy(evaluation *e, int64_t count, ch_progress progress, void *user,
                              ch_accuracy *accuracy, ch_error *error) {
  *accuracy = (ch_accuracy){.images = count};
  for (int64_t first = 0; first < count; first += BATCH) {
    if (progress && !progress(first, count, user))
      return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted after %lld of %lld images", (long long)first,
                     (long long)count);
    fill_images(e, first, count);
    CH_TRY(add_batch(e, accuracy, error));
  }
  accuracy->loss /= (double)count;
  accuracy->top1 /= (double)count;
  accuracy->top5 /= (double)count;
  if (isfinite(accuracy->loss)) return CH_OK;
  return ch_fail(error, CH_ERROR_NUMERIC, "the loss is not finite; a weight is damaged or too large");
}

ch_status ch_accuracy_of(const ch_model *model, ch_image_set *set, ch_image_split split, int64_t most,
                         ch_progress progress, void *user, ch_accuracy *accuracy, ch_error *error) {
  const ch_config *c = &model->config;
  ch_image_info info;
  if (!ch_config_is_vision(c))
    return ch_fail(error, CH_ERROR_ARGUMENT, "this model, a \"%s\", is for text, not images", c->model_type);
  CH_TRY(ch_image_set_fit(set, c->num_channels, c->image_size, c->num_classes, error));
  ch_image_set_describe(set, &info);
  int64_t count = most > 0 && most < info.count[split] ? most : info.count[split];
  evaluation e = {.model = model, .set = set, .split = split};
  e.size = info.size;
  e.elements = c->num_channels * c->image_size * c->image_size;
  ch_model_graph shape = {.sequences = BATCH, .length = 1, .dtype = CH_F32, .head = CH_HEAD_SCORES};
  ch_status status = CH_OK;
  e.pixels = malloc((size_t)(BATCH * e.elements) * sizeof *e.pixels);
  if (!e.pixels) return ch_no_memory(error);
  CH_TRY_GOTO(ch_engine_init(&e.engine, CH_F32, error));
  e.engine.compute = model->compute;
  CH_TRY_GOTO(ch_runner_create(&e.engine, c, &model->params, &shape, false, &e.runner, error));
  status = run_accuracy(&e, count, progress, user, accuracy, error);
done:
  ch_runner_free(e.runner);
  ch_engine_free(&e.engine);
  free(e.pixels);
  return status;
}
