/* Tests single image files: CIFAR and IDX files are read, gzip files are unpacked, and broken files are refused. */
#include "images_testing.h"

static void cifar_records_are_read(void **state) {
  (void)state;
  ch_image_file file;
  for (int labels = 1; labels <= 2; labels++) {
    unsigned char *data = make_cifar(30, labels);
    size_t record = (size_t)labels + 3072;
    must(ch_image_file_parse(data, 30 * record, "batch", &file, &failure));
    assert_int_equal(file.format, labels == 1 ? CH_IMAGES_CIFAR10 : CH_IMAGES_CIFAR100);
    assert_true(file.count == 30 && file.channels == 3 && file.size == 32);
    for (int i = 0; i < 30; i++) {
      assert_int_equal(file.labels[i * file.label_stride], labels == 1 ? i % 10 : i);
      if (labels == 2) assert_int_equal(file.coarse[i * file.label_stride], i % 20);
      assert_int_equal(file.pixels[i * file.pixel_stride], i);
      assert_int_equal(file.pixels[i * file.pixel_stride + 3071], i + 2);
    }
    free(data);
  }
}

/* Tests files whose sizes are whole numbers of records of both kinds. */
static void labels_tell_the_kinds_apart_where_sizes_do_not(void **state) {
  (void)state;
  ch_image_file file;
  unsigned char *ten = make_cifar(CIFAR100_RECORD, 1), *hundred = make_cifar(CIFAR_RECORD, 2);
  size_t size = (size_t)CIFAR_RECORD * CIFAR100_RECORD;
  must(ch_image_file_parse(ten, size, "batch", &file, &failure));
  assert_true(file.format == CH_IMAGES_CIFAR10 && file.count == CIFAR100_RECORD);
  must(ch_image_file_parse(hundred, size, "batch", &file, &failure));
  assert_true(file.format == CH_IMAGES_CIFAR100 && file.count == CIFAR_RECORD);
  free(ten), free(hundred);
}

static void broken_cifar_files_are_refused(void **state) {
  (void)state;
  ch_image_file file;
  unsigned char *data = make_cifar(4, 1);
  assert_refused(ch_image_file_parse(data, 0, "batch", &file, &failure), "batch is empty");
  assert_refused(ch_image_file_parse(data, 3072, "batch", &file, &failure),
                 "3072 bytes are not a whole number");
  assert_refused(ch_image_file_parse(data, 4 * CIFAR_RECORD - 1, "batch", &file, &failure),
                 "it may be truncated");
  data[2 * CIFAR_RECORD] = 10;
  assert_refused(ch_image_file_parse(data, 4 * CIFAR_RECORD, "batch", &file, &failure),
                 "batch: image 2 has label 10, but CIFAR-10 has labels 0 to 9");
  free(data);
  data = make_cifar(4, 2);
  data[CIFAR100_RECORD + 1] = 100;
  assert_refused(ch_image_file_parse(data, 4 * CIFAR100_RECORD, "batch", &file, &failure),
                 "image 1 has label 100, but CIFAR-100 has labels 0 to 99");
  data[CIFAR100_RECORD + 1] = 99, data[3 * CIFAR100_RECORD] = 20;
  assert_refused(ch_image_file_parse(data, 4 * CIFAR100_RECORD, "batch", &file, &failure),
                 "image 3 has label 20");
  free(data);
}

static void idx_files_are_read(void **state) {
  (void)state;
  ch_image_file file;
  size_t size, label_size;
  unsigned char *images = make_idx_images(7, 5, &size), *labels = make_idx_labels(7, 4, &label_size);
  must(ch_image_file_parse(images, size, "images", &file, &failure));
  assert_true(file.format == CH_IMAGES_IDX && file.count == 7 && file.channels == 1 && file.size == 5);
  assert_int_equal(file.pixels[6 * file.pixel_stride], 6);
  must(ch_image_file_take_labels(labels, label_size, "labels", &file, &failure));
  assert_int_equal(file.labels[6 * file.label_stride], 2);
  free(images), free(labels);
}

static void broken_idx_files_are_refused(void **state) {
  (void)state;
  ch_image_file file;
  size_t size, label_size;
  unsigned char *images = make_idx_images(7, 5, &size), *labels = make_idx_labels(7, 4, &label_size);
  assert_refused(ch_image_file_parse(images, size - 1, "images", &file, &failure), "truncated or damaged");
  assert_refused(ch_image_file_parse(images, 12, "images", &file, &failure),
                 "ends within its header of 16 bytes");
  assert_refused(ch_image_file_parse(labels, label_size, "labels", &file, &failure),
                 "does not begin with 0x00000803, as an IDX file of images");
  images[2] = 13; /* the element type of floats */
  assert_refused(ch_image_file_parse(images, size, "images", &file, &failure),
                 "does not begin with 0x00000803");
  images[2] = 8, images[11] = 6;
  assert_refused(ch_image_file_parse(images, size, "images", &file, &failure),
                 "images of 5 x 6; they must be square");
  images[11] = 5, put_big_endian(images + 4, 0);
  assert_refused(ch_image_file_parse(images, 16, "images", &file, &failure), "promises 0 images");
  put_big_endian(images + 4, 0xffffffffu);
  assert_refused(ch_image_file_parse(images, size, "images", &file, &failure), "promises 4294967295 images");
  put_big_endian(images + 4, 7);
  must(ch_image_file_parse(images, size, "images", &file, &failure));
  assert_refused(ch_image_file_take_labels(images, size, "labels", &file, &failure),
                 "does not begin with 0x00000801, as an IDX file of labels");
  assert_refused(ch_image_file_take_labels(labels, label_size - 1, "labels", &file, &failure),
                 "truncated or damaged");
  assert_refused(ch_image_file_take_labels(labels, 6, "labels", &file, &failure),
                 "within its header of 8 bytes");
  put_big_endian(labels + 4, 6);
  assert_refused(ch_image_file_take_labels(labels, label_size - 1, "labels", &file, &failure),
                 "6 labels for 7 images");
  free(images), free(labels);
}

static void packed_files_are_inflated_or_refused(void **state) {
  (void)state;
  ch_file_bytes bytes;
  must(ch_file_bytes_open(TEST_DATA "/images/shapes-cifar/test_batch.bin.gz", &bytes, &failure));
  assert_int_equal(bytes.size, 100 * CIFAR_RECORD);
  assert_int_equal(bytes.data[0], 0);
  assert_int_equal(bytes.data[CIFAR_RECORD], 1);
  ch_file_bytes_close(&bytes);
  ch_map map;
  must(ch_map_open(TEST_DATA "/images/shapes-cifar/test_batch.bin.gz", &map, &failure));
  static const size_t sizes[] = {2, 5, 10, 18, 1000, 9000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    assert_refused(ch_file_bytes_of(map.data, sizes[i], "packed", &bytes, &failure),
                   "damaged or truncated gzip file");
    ch_file_bytes_close(&bytes);
  }
  unsigned char *twice = malloc(2 * map.size);
  memcpy(twice, map.data, map.size), memcpy(twice + map.size, map.data, map.size);
  must(ch_file_bytes_of(twice, 2 * map.size, "packed", &bytes, &failure));
  assert_int_equal(bytes.size, 200 * CIFAR_RECORD);
  ch_file_bytes_close(&bytes);
  twice[500] ^= 0x40;
  assert_refused(ch_file_bytes_of(twice, map.size, "packed", &bytes, &failure),
                 "damaged or truncated gzip file");
  ch_file_bytes_close(&bytes);
  free(twice);
  ch_map_close(&map);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cifar_records_are_read),
      cmocka_unit_test(labels_tell_the_kinds_apart_where_sizes_do_not),
      cmocka_unit_test(broken_cifar_files_are_refused),
      cmocka_unit_test(idx_files_are_read),
      cmocka_unit_test(broken_idx_files_are_refused),
      cmocka_unit_test(packed_files_are_inflated_or_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
