/* Finds the files of a set, pairs images with labels, and divides them into training and validation. */
#include "images/image_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "text/hash.h"
#include "text/text_file.h"

enum { MOST_FILES = 256, CIFAR100_GROUPS = 20 };

typedef struct part {
  char *path;
  bool tests; /* true if the file's name has "test" or "t10k" */
  ch_file_bytes images, labels;
  ch_image_file file;
} part;

struct ch_image_set {
  part parts[MOST_FILES];
  int count;
  bool coarse;      /* true if the labels are CIFAR-100's groups of classes */
  int64_t images;   /* images of all parts */
  int64_t first[2]; /* index in `order` of each split's first image */
  int64_t split[2]; /* images of each split */
  uint32_t *order;  /* [images] indices of images through all parts; the training split comes first */
};

/* --- names ---------------------------------------------------------------------------------------------- */

/* Returns the length of a name without its .gz. */
static size_t stem_length(const char *name) {
  size_t length = strlen(name);
  return length > 3 && strcmp(name + length - 3, ".gz") == 0 ? length - 3 : length;
}

static bool stem_ends_with(const char *name, const char *end) {
  size_t length = stem_length(name), n = strlen(end);
  return length >= n && strncmp(name + length - n, end, n) == 0;
}

static bool is_labels(const char *name) {
  return strstr(name, "labels") && stem_ends_with(name, "ubyte");
}

/* Returns `name` with the last `from` in it replaced by `to`, in malloc'd memory; NULL if out of memory. */
static char *replaced(const char *name, const char *from, const char *to) {
  const char *place = NULL;
  for (const char *p = ch_path_name(name); (p = strstr(p, from)); p++) place = p;
  if (!place) return strdup(name);
  size_t size = strlen(name) + strlen(to) + 1;
  char *result = malloc(size);
  if (result) snprintf(result, size, "%.*s%s%s", (int)(place - name), name, to, place + strlen(from));
  return result;
}

/* Returns "…-labels-idx1-ubyte" for "…-images-idx3-ubyte.gz", with or without .gz, whichever exists. The
   caller frees it. Returns NULL if neither exists, or if out of memory. */
static char *labels_beside(const char *path) {
  char *renamed = replaced(path, "images", "labels");
  char *plain = renamed ? replaced(renamed, "idx3", "idx1") : NULL;
  free(renamed);
  if (!plain) return NULL;
  plain[stem_length(plain)] = 0;
  if (strcmp(plain, path) != 0 && ch_is_file(plain)) return plain;
  size_t size = strlen(plain) + 4;
  char *packed = malloc(size);
  if (packed) snprintf(packed, size, "%s.gz", plain);
  bool there = packed && strcmp(packed, path) != 0 && ch_is_file(packed);
  free(plain);
  if (there) return packed;
  free(packed);
  return NULL;
}

/* --- listing -------------------------------------------------------------------------------------------- */

static ch_status add_path(ch_image_set *set, const char *path, ch_error *error) {
  if (set->count == MOST_FILES)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s is one image file too many; the limit is %d", path,
                   MOST_FILES);
  part *p = &set->parts[set->count];
  const char *name = ch_path_name(path);
  *p = (part){.path = strdup(path), .tests = strstr(name, "test") || strstr(name, "t10k")};
  if (!p->path) return ch_no_memory(error);
  set->count++;
  return CH_OK;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const part *)a)->path, ((const part *)b)->path);
}

/* Adds a file of a directory. A compressed file is skipped if the uncompressed one exists too. */
static ch_status add_entry(ch_image_set *set, const char *directory, const char *name, ch_error *error) {
  char *path = ch_path_join(directory, name);
  if (!path) return ch_no_memory(error);
  char *unpacked = stem_length(path) < strlen(path) ? strndup(path, stem_length(path)) : NULL;
  bool twice = unpacked && ch_is_file(unpacked);
  ch_status status = twice || !ch_is_file(path) ? CH_OK : add_path(set, path, error);
  free(unpacked);
  free(path);
  return status;
}

static ch_status list_directory(ch_image_set *set, const char *directory, ch_error *error) {
  DIR *stream = opendir(directory);
  if (!stream) return ch_fail(error, CH_ERROR_IO, "cannot open %s: %s", directory, strerror(errno));
  ch_status status = CH_OK;
  for (const struct dirent *entry; status == CH_OK && (entry = readdir(stream));) {
    const char *name = entry->d_name;
    if ((stem_ends_with(name, ".bin") || stem_ends_with(name, "ubyte")) && !is_labels(name))
      status = add_entry(set, directory, name, error);
  }
  closedir(stream);
  qsort(set->parts, (size_t)set->count, sizeof *set->parts, by_path); /* nothing is open yet */
  if (status == CH_OK && set->count == 0)
    status = ch_fail(
        error, CH_ERROR_FORMAT,
        "%s holds no images: neither CIFAR batches (*.bin) nor IDX files (*ubyte), packed (.gz) or not",
        directory);
  return status;
}

static ch_status list_files(ch_image_set *set, const char *names, ch_error *error) {
  char **paths;
  size_t count;
  CH_TRY(ch_text_paths(names, &paths, &count, error));
  ch_status status = CH_OK;
  for (size_t i = 0; status == CH_OK && i < count; i++) {
    bool labels = is_labels(ch_path_name(paths[i])) && count > 1; /* open_labels finds them by name */
    if (!labels) status = add_path(set, paths[i], error);
  }
  free(paths);
  return status;
}

/* --- opening -------------------------------------------------------------------------------------------- */

static ch_status open_labels(part *p, ch_error *error) {
  char *path = labels_beside(p->path);
  if (!path)
    return ch_fail(error, CH_ERROR_IO,
                   "%s has no file of labels; its name must have \"labels\" for \"images\" "
                   "and \"idx1\" for \"idx3\"",
                   p->path);
  ch_status status = ch_file_bytes_open(path, &p->labels, error);
  if (status == CH_OK)
    status = ch_image_file_take_labels(p->labels.data, p->labels.size, path, &p->file, error);
  free(path);
  return status;
}

static ch_status open_part(ch_image_set *set, part *p, ch_error *error) {
  CH_TRY(ch_file_bytes_open(p->path, &p->images, error));
  CH_TRY(ch_image_file_parse(p->images.data, p->images.size, p->path, &p->file, error));
  if (p->file.format == CH_IMAGES_IDX) CH_TRY(open_labels(p, error));
  const ch_image_file *a = &set->parts[0].file, *b = &p->file;
  if (a->format != b->format || a->size != b->size)
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s holds %s images of %lld x %lld and %s holds %s images of %lld x %lld; a set must be of one kind",
        set->parts[0].path, ch_image_format_name(a->format), (long long)a->size, (long long)a->size, p->path,
        ch_image_format_name(b->format), (long long)b->size, (long long)b->size);
  set->images += b->count;
  return CH_OK;
}

/* Appends the indices of all images to set->order, from `at` on, of parts whose `tests` has the given value. Returns
   the new end. */
static int64_t put_role(const ch_image_set *set, bool tests, int64_t at) {
  uint32_t number = 0;
  for (int i = 0; i < set->count; number += (uint32_t)set->parts[i++].file.count)
    for (int64_t k = 0; set->parts[i].tests == tests && k < set->parts[i].file.count; k++)
      set->order[at++] = number + (uint32_t)k;
  return at;
}

/* Orders the images: `validating` of them, evenly spread over all, are for validation. */
static void spread(ch_image_set *set, int64_t validating) {
  int64_t train = 0, validation = set->images - validating;
  for (int64_t i = 0; i < set->images; i++) {
    bool chosen = (i + 1) * validating / set->images > i * validating / set->images;
    set->order[chosen ? validation++ : train++] = (uint32_t)i;
  }
  set->split[CH_IMAGES_TRAIN] = train;
}

static ch_status divide(ch_image_set *set, const char *names, double validation, ch_error *error) {
  bool trains = false, tests = false;
  for (int i = 0; i < set->count; i++) *(set->parts[i].tests ? &tests : &trains) = true;
  if (set->images > UINT32_MAX)
    return ch_fail(error, CH_ERROR_ARGUMENT, "%s holds more images than can be counted here", names);
  set->order = malloc((size_t)set->images * sizeof *set->order);
  if (!set->order) return ch_no_memory(error);
  if (trains && tests) {
    set->split[CH_IMAGES_TRAIN] = put_role(set, false, 0);
    put_role(set, true, set->split[CH_IMAGES_TRAIN]);
  } else {
    int64_t validating = (int64_t)(validation * (double)set->images + 0.5);
    if (validating < 1) validating = 1;
    spread(set, validating < set->images ? validating : set->images);
  }
  set->first[CH_IMAGES_VALIDATION] = set->split[CH_IMAGES_TRAIN];
  set->split[CH_IMAGES_VALIDATION] = set->images - set->split[CH_IMAGES_TRAIN];
  return CH_OK;
}

ch_status ch_image_set_open(const char *names, double validation, ch_image_set **result, ch_error *error) {
  *result = NULL;
  ch_image_set *set = calloc(1, sizeof *set);
  if (!set) return ch_no_memory(error);
  ch_status status =
      ch_is_directory(names) ? list_directory(set, names, error) : list_files(set, names, error);
  for (int i = 0; status == CH_OK && i < set->count; i++) status = open_part(set, &set->parts[i], error);
  if (status == CH_OK) status = divide(set, names, validation, error);
  if (status == CH_OK)
    *result = set;
  else
    ch_image_set_close(set);
  return status;
}

void ch_image_set_close(ch_image_set *set) {
  if (!set) return;
  for (int i = 0; i < set->count; i++) {
    ch_file_bytes_close(&set->parts[i].images);
    ch_file_bytes_close(&set->parts[i].labels);
    free(set->parts[i].path);
  }
  free(set->order);
  free(set);
}

/* --- contents ------------------------------------------------------------------------------------------- */

static const unsigned char *labels_of(const ch_image_set *set, const part *p) {
  return set->coarse ? p->file.coarse : p->file.labels;
}

/* Returns the largest label of a part; *where receives the index of an image that has it. */
static int most_label(const ch_image_set *set, const part *p, int64_t *where) {
  int most = -1;
  for (int64_t i = 0; i < p->file.count; i++) {
    int label = labels_of(set, p)[i * p->file.label_stride];
    if (label > most) *where = i, most = label;
  }
  return most;
}

static uint64_t content_of(const ch_image_set *set) {
  uint64_t hash = 0;
  for (int i = 0; i < set->count; i++) {
    hash = ch_hash_bytes(set->parts[i].images.data, set->parts[i].images.size, hash + set->parts[i].tests);
    hash = ch_hash_bytes(set->parts[i].labels.data, set->parts[i].labels.size, hash);
  }
  return hash;
}

void ch_image_set_describe(const ch_image_set *set, ch_image_info *info) {
  static const int classes[] = {10, 100, 0};
  const ch_image_file *file = &set->parts[0].file;
  *info = (ch_image_info){.format = file->format,
                          .channels = file->channels,
                          .size = file->size,
                          .classes = classes[file->format],
                          .count = {set->split[0], set->split[1]},
                          .content = content_of(set)};
  for (int i = 0; i < set->count; i++) {
    int64_t where;
    int labels = 1 + most_label(set, &set->parts[i], &where);
    if (labels > info->classes) info->classes = labels;
    info->bytes += (int64_t)(set->parts[i].images.size + set->parts[i].labels.size);
  }
}

ch_status ch_image_set_fit(ch_image_set *set, int64_t channels, int64_t size, int64_t classes,
                           ch_error *error) {
  const ch_image_file *file = &set->parts[0].file;
  if (channels != file->channels || size % file->size != 0)
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s holds images of %lld channel%s and %lld x %lld pixels, but the model's \"num_channels\" is %lld "
        "and its \"image_size\" %lld; channels must be equal, and \"image_size\" a multiple of the images' "
        "side",
        set->parts[0].path, (long long)file->channels, file->channels == 1 ? "" : "s", (long long)file->size,
        (long long)file->size, (long long)channels, (long long)size);
  set->coarse = file->format == CH_IMAGES_CIFAR100 && classes == CIFAR100_GROUPS;
  for (int i = 0; i < set->count; i++) {
    int64_t where = 0;
    int label = most_label(set, &set->parts[i], &where);
    if (label >= classes)
      return ch_fail(error, CH_ERROR_FORMAT,
                     "%s: image %lld has label %d, but the model's \"num_classes\" is %lld; it must be above "
                     "every label",
                     set->parts[i].path, (long long)where, label, (long long)classes);
  }
  return CH_OK;
}

/* Returns the part that has image `index` of a split. *within receives the image's index in that part. */
static const part *find(const ch_image_set *set, ch_image_split split, int64_t index, int64_t *within) {
  *within = set->order[set->first[split] + index];
  const part *p = set->parts;
  while (*within >= p->file.count) *within -= p++->file.count;
  return p;
}

const unsigned char *ch_image_set_pixels(const ch_image_set *set, ch_image_split split, int64_t index) {
  int64_t within;
  const part *p = find(set, split, index, &within);
  return p->file.pixels + within * p->file.pixel_stride;
}

int ch_image_set_label(const ch_image_set *set, ch_image_split split, int64_t index) {
  int64_t within;
  const part *p = find(set, split, index, &within);
  return labels_of(set, p)[within * p->file.label_stride];
}
