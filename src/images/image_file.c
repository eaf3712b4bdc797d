/* Reads CIFAR and IDX files. Sizes and counts are checked before they are used. */
#include "images/image_file.h"

/* A CIFAR record has one or two labels, then 3 planes of 32 x 32. */
enum { CIFAR_SIZE = 32, CIFAR_PIXELS = 3 * CIFAR_SIZE * CIFAR_SIZE };
enum { CIFAR10_CLASSES = 10, CIFAR100_CLASSES = 100, CIFAR100_GROUPS = 20 };
/* An IDX file begins with two zeros, the element type (8: bytes) and the number of dimensions. The sizes of the
   dimensions follow, big endian. */
enum { IDX_BYTES = 8, IDX_IMAGE_HEADER = 16, IDX_LABEL_HEADER = 8, MOST_SIDE = 4096 };

const char *ch_image_format_name(ch_image_format format) {
  static const char *const names[] = {"CIFAR-10", "CIFAR-100", "IDX"};
  return names[format];
}

/* --- CIFAR ---------------------------------------------------------------------------------------------- */

/* Returns the index of the first record whose byte at `offset` is not below `limit`, or -1. */
static int64_t first_bad(const unsigned char *data, int64_t count, int64_t stride, int64_t offset,
                         int limit) {
  for (int64_t i = 0; i < count; i++)
    if (data[i * stride + offset] >= limit) return i;
  return -1;
}

static void view_cifar(const unsigned char *data, int64_t count, int labels, ch_image_file *file) {
  int64_t stride = labels + CIFAR_PIXELS;
  *file = (ch_image_file){.format = labels == 1 ? CH_IMAGES_CIFAR10 : CH_IMAGES_CIFAR100,
                          .count = count,
                          .channels = 3,
                          .size = CIFAR_SIZE,
                          .pixels = data + labels,
                          .labels = data + labels - 1,
                          .coarse = labels == 2 ? data : NULL,
                          .pixel_stride = stride,
                          .label_stride = stride};
}

static ch_status bad_label(const ch_image_file *file, const char *where, int64_t image, int label, int limit,
                           ch_error *error) {
  return ch_fail(error, CH_ERROR_FORMAT, "%s: image %lld has label %d, but %s has labels 0 to %d", where,
                 (long long)image, label, ch_image_format_name(file->format), limit - 1);
}

/* Parses CIFAR-10 or CIFAR-100. The file size decides between them, or if it fits both, the labels. */
static ch_status parse_cifar(const unsigned char *data, size_t size, const char *where, ch_image_file *file,
                             ch_error *error) {
  const int64_t one = 1 + CIFAR_PIXELS, two = 2 + CIFAR_PIXELS, bytes = (int64_t)size;
  bool ten = bytes % one == 0, hundred = bytes % two == 0;
  if (!ten && !hundred)
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s is not a file of images: it does not begin like an IDX file, and its %lld bytes are not a whole "
        "number of CIFAR records (%lld bytes each, or %lld of CIFAR-100); it may be truncated",
        where, (long long)bytes, (long long)one, (long long)two);
  if (ten && hundred) ten = first_bad(data, bytes / one, one, 0, CIFAR10_CLASSES) < 0;
  view_cifar(data, bytes / (ten ? one : two), ten ? 1 : 2, file);
  int64_t bad =
      first_bad(file->labels, file->count, file->label_stride, 0, ten ? CIFAR10_CLASSES : CIFAR100_CLASSES);
  if (bad >= 0)
    return bad_label(file, where, bad, file->labels[bad * file->label_stride],
                     ten ? CIFAR10_CLASSES : CIFAR100_CLASSES, error);
  if (ten) return CH_OK;
  bad = first_bad(data, file->count, two, 0, CIFAR100_GROUPS);
  return bad < 0 ? CH_OK : bad_label(file, where, bad, data[bad * two], CIFAR100_GROUPS, error);
}

/* --- IDX ------------------------------------------------------------------------------------------------ */

static int64_t big_endian(const unsigned char *p) {
  return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | (int64_t)p[3];
}

static bool begins_like_idx(const unsigned char *data, size_t size) {
  return size >= 4 && data[0] == 0 && data[1] == 0 && data[2] >= 8 && data[2] <= 14 && data[3] >= 1 &&
         data[3] <= 4;
}

static ch_status check_idx(const unsigned char *data, size_t size, int dimensions, const char *what,
                           const char *where, ch_error *error) {
  size_t header = 4 + 4 * (size_t)dimensions;
  if (!begins_like_idx(data, size) || data[2] != IDX_BYTES || data[3] != dimensions)
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s does not begin with 0x%08x, as an IDX file of %s (unsigned bytes, %d dimension%s) does", where,
        (unsigned)(IDX_BYTES << 8 | dimensions), what, dimensions, dimensions == 1 ? "" : "s");
  if (size < header)
    return ch_fail(error, CH_ERROR_FORMAT, "%s ends within its header of %zu bytes; it is truncated", where,
                   header);
  return CH_OK;
}

static ch_status parse_idx(const unsigned char *data, size_t size, const char *where, ch_image_file *file,
                           ch_error *error) {
  CH_TRY(check_idx(data, size, 3, "images", where, error));
  int64_t count = big_endian(data + 4), lines = big_endian(data + 8), columns = big_endian(data + 12);
  if (lines != columns || lines < 1 || lines > MOST_SIDE)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s holds images of %lld x %lld; they must be square, of 1 to %d pixels", where,
                   (long long)columns, (long long)lines, MOST_SIDE);
  int64_t expected = IDX_IMAGE_HEADER + count * lines * columns; /* at most 2^32 * 2^24 + 16: no overflow */
  if (count < 1 || (int64_t)size != expected)
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s has %zu bytes, but its header promises %lld images in %lld; it is truncated or damaged", where,
        size, (long long)count, (long long)expected);
  *file = (ch_image_file){.format = CH_IMAGES_IDX,
                          .count = count,
                          .channels = 1,
                          .size = lines,
                          .pixels = data + IDX_IMAGE_HEADER,
                          .pixel_stride = lines * columns};
  return CH_OK;
}

ch_status ch_image_file_take_labels(const void *data, size_t size, const char *where, ch_image_file *file,
                                    ch_error *error) {
  const unsigned char *bytes = data;
  CH_TRY(check_idx(bytes, size, 1, "labels", where, error));
  int64_t count = big_endian(bytes + 4);
  if ((int64_t)size != IDX_LABEL_HEADER + count)
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s has %zu bytes, but its header promises %lld labels in %lld; it is truncated or damaged", where,
        size, (long long)count, (long long)(IDX_LABEL_HEADER + count));
  if (count != file->count)
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s has %lld labels for %lld images; the two files do not belong together", where,
                   (long long)count, (long long)file->count);
  file->labels = bytes + IDX_LABEL_HEADER;
  file->label_stride = 1;
  return CH_OK;
}

/* --- CIFAR or IDX --------------------------------------------------------------------------------------- */

ch_status ch_image_file_parse(const void *data, size_t size, const char *where, ch_image_file *file,
                              ch_error *error) {
  *file = (ch_image_file){0};
  if (size == 0) return ch_fail(error, CH_ERROR_FORMAT, "%s is empty; it must hold images", where);
  if (begins_like_idx(data, size) && size % (1 + CIFAR_PIXELS) != 0 && size % (2 + CIFAR_PIXELS) != 0)
    return parse_idx(data, size, where, file, error);
  if (begins_like_idx(data, size) && parse_idx(data, size, where, file, NULL) == CH_OK) return CH_OK;
  return parse_cifar(data, size, where, file, error);
}
