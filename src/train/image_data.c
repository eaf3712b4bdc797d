/* Images at random access: the seed determines which image is at a place of the endless stream, and how
 * it is augmented. */
#define _GNU_SOURCE
#include "train/image_data.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/random.h"
#include "images/augment.h"
#include "text/text_file.h"
#include "train/data.h"

enum { MOST_RECORD_BYTES = 1 << 20 };

struct ch_image_source {
  char *names; /* absolute paths, separated by commas */
  double validation;
  ch_image_set *set;
  int64_t channels, size, times, count[2]; /* size: side of the files' images; the model's is size * times */
  ch_augmentation augmentation;
  uint64_t seed;
};

/* --- batches -------------------------------------------------------------------------------------------- */

/* Returns the index of the image at a place of the endless stream. Every epoch has its own order. */
static int64_t shuffled(const struct ch_image_source *p, int64_t place) {
  uint64_t count = (uint64_t)p->count[CH_IMAGES_TRAIN];
  ch_random random;
  ch_random_seed(&random, p->seed, (uint64_t)place / count);
  return (int64_t)ch_random_permute((uint64_t)place % count, count, ch_random_u64(&random));
}

static int64_t elements_of(const struct ch_image_source *p) {
  return p->channels * p->size * p->times * p->size * p->times;
}

static ch_status fill_train(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  const struct ch_image_source *p = context;
  int64_t elements = elements_of(p);
  (void)error;
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < batch->sequences; s++) {
    int64_t image = shuffled(p, first + s);
    batch->targets[s] = ch_image_set_label(p->set, CH_IMAGES_TRAIN, image);
    /* ~seed keeps the random numbers of augmentation independent of those of the order. */
    ch_image_augment(ch_image_set_pixels(p->set, CH_IMAGES_TRAIN, image), p->channels, p->size, p->times,
                     &p->augmentation, ~p->seed, (uint64_t)(first + s), batch->pixels + s * elements);
  }
  return CH_OK;
}

static ch_status fill_validation(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  const struct ch_image_source *p = context;
  int64_t elements = elements_of(p), count = p->count[CH_IMAGES_VALIDATION];
  (void)error;
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < batch->sequences; s++) {
    /* Past the end the last image repeats, without a label. */
    int64_t image = first + s < count ? first + s : count - 1;
    batch->targets[s] = first + s < count ? ch_image_set_label(p->set, CH_IMAGES_VALIDATION, image) : -1;
    ch_image_normalise(ch_image_set_pixels(p->set, CH_IMAGES_VALIDATION, image), p->channels, p->size,
                       p->times, batch->pixels + s * elements);
  }
  return CH_OK;
}

/* --- the record ----------------------------------------------------------------------------------------- */

/* Writes the names, separated by commas, as absolute paths. */
static ch_status absolute(const char *names, char **result, ch_error *error) {
  ch_text text = {0};
  char **paths;
  size_t count;
  CH_TRY(ch_text_paths(names, &paths, &count, error));
  for (size_t i = 0; i < count; i++) {
    char *path = realpath(paths[i], NULL);
    ch_text_printf(&text, "%s%s", i ? "," : "", path ? path : paths[i]);
    free(path);
  }
  free(paths);
  *result = text.failed ? NULL : text.data;
  if (!*result) ch_text_free(&text);
  return *result ? CH_OK : ch_no_memory(error);
}

/* Reads the directory's record; NULL if there is none or it cannot be read. */
static json_t *stored_record(const char *directory) {
  char *path = ch_path_join(directory, CH_DATA_RECORD);
  json_t *record = NULL;
  if (path && ch_json_read(path, MOST_RECORD_BYTES, &record, NULL) != CH_OK) record = NULL;
  free(path);
  return record;
}

/* Reads the record of the images that a run was started with. */
static ch_status read_record(const char *directory, struct ch_image_source *p, ch_error *error) {
  json_t *record = stored_record(directory);
  ch_status status = CH_OK;
  const json_t *names = json_object_get(record, "images"),
               *validation = json_object_get(record, "validation");
  if (!json_is_string(names) || !json_is_number(validation)) {
    status = ch_fail(error, CH_ERROR_ARGUMENT,
                     "%s does not name the images of an earlier run; give them with {data}", directory);
  } else {
    p->names = strdup(json_string_value(names));
    p->validation = json_number_value(validation);
    if (!p->names) status = ch_no_memory(error);
  }
  json_decref(record);
  return status;
}

ch_status ch_image_data_check(const ch_image_data *data, const char *directory, ch_error *error) {
  char content[24];
  json_t *record = stored_record(directory);
  const char *stored = json_string_value(json_object_get(record, "content"));
  snprintf(content, sizeof content, "%016" PRIx64, data->info.content);
  ch_status status = CH_OK;
  if (!stored || strcmp(stored, content) != 0)
    status = ch_fail(error, CH_ERROR_ARGUMENT,
                     "%s comes from other images than %s; continue with its own, or choose another directory",
                     directory, data->parts->names);
  json_decref(record);
  return status;
}

ch_status ch_image_data_record(const ch_image_data *data, const char *directory, ch_error *error) {
  char content[24];
  CH_TRY(ch_make_directory(directory, error));
  snprintf(content, sizeof content, "%016" PRIx64, data->info.content);
  json_t *record = json_pack("{si ss sf ss}", "version", 1, "images", data->parts->names, "validation",
                             data->parts->validation, "content", content);
  return ch_json_write(directory, CH_DATA_RECORD, record, JSON_INDENT(2) | JSON_REAL_PRECISION(12), error);
}

/* --- opening -------------------------------------------------------------------------------------------- */

ch_status ch_image_data_open(const char *names, double validation, const char *directory, ch_image_data *data,
                             ch_error *error) {
  *data = (ch_image_data){.parts = calloc(1, sizeof *data->parts)};
  struct ch_image_source *p = data->parts;
  if (!p) return ch_no_memory(error);
  p->validation = validation;
  CH_TRY(names ? absolute(names, &p->names, error) : read_record(directory, p, error));
  CH_TRY(ch_image_set_open(p->names, p->validation, &p->set, error));
  ch_image_set_describe(p->set, &data->info);
  return CH_OK;
}

ch_status ch_image_data_prepare(ch_image_data *data, const ch_config *config, const ch_train_options *options,
                                ch_error *error) {
  struct ch_image_source *p = data->parts;
  const ch_image_info *info = &data->info;
  CH_TRY(ch_image_set_fit(p->set, config->num_channels, config->image_size, config->num_classes, error));
  if (info->count[CH_IMAGES_TRAIN] < 1)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "%s has no image left to train on; give more, or a smaller {validation}", p->names);
  p->channels = info->channels;
  p->size = info->size;
  p->times = config->image_size / info->size;
  p->count[0] = info->count[0];
  p->count[1] = info->count[1];
  p->augmentation = (ch_augmentation){.flip = options->flip, .crop = options->crop};
  p->seed = options->seed;
  data->source = (ch_batch_source){.context = p,
                                   .train = fill_train,
                                   .validate = fill_validation,
                                   .validation_sequences = info->count[CH_IMAGES_VALIDATION]};
  snprintf(data->source.fingerprint, sizeof data->source.fingerprint, "%016" PRIx64 "-%lld-%lld",
           info->content, (long long)p->count[0], (long long)p->count[1]);
  return CH_OK;
}

void ch_image_data_reseed(ch_image_data *data, uint64_t seed) {
  data->parts->seed = seed;
}

void ch_image_data_close(ch_image_data *data) {
  if (!data->parts) return;
  ch_image_set_close(data->parts->set);
  free(data->parts->names);
  free(data->parts);
  *data = (ch_image_data){0};
}
