/* Tests sets of images from directories and files: roles, splits, sets that do not fit the model, augmentation. */
#include "images_testing.h"

#include "base/random.h"
#include "images/augment.h"

#define SHAPES TEST_DATA "/images"

static void directories_train_on_some_files_and_validate_on_others(void **state) {
  (void)state;
  ch_image_set *set;
  ch_image_info info;
  must(ch_image_set_open(SHAPES "/shapes-cifar", 0.05, &set, &failure));
  ch_image_set_describe(set, &info);
  assert_true(info.format == CH_IMAGES_CIFAR10 && info.channels == 3 && info.size == 32 &&
              info.classes == 10);
  assert_true(info.count[CH_IMAGES_TRAIN] == 640 && info.count[CH_IMAGES_VALIDATION] == 100);
  for (int i = 0; i < 640; i++) assert_int_equal(ch_image_set_label(set, CH_IMAGES_TRAIN, i), i % 10);
  must(ch_image_set_fit(set, 3, 32, 10, &failure));
  ch_image_set_close(set);
  must(ch_image_set_open(SHAPES "/shapes-idx", 0.05, &set, &failure));
  ch_image_set_describe(set, &info);
  assert_true(info.format == CH_IMAGES_IDX && info.channels == 1 && info.size == 12 && info.classes == 6);
  assert_true(info.count[CH_IMAGES_TRAIN] == 600 && info.count[CH_IMAGES_VALIDATION] == 120);
  assert_int_equal(ch_image_set_label(set, CH_IMAGES_VALIDATION, 119), 119 % 6);
  ch_image_set_close(set);
}

/* Tests splits of one file. The first pixel of image i is i. */
static void one_file_is_divided_evenly_and_completely(void **state) {
  (void)state;
  new_directory();
  unsigned char *data = make_cifar(100, 1);
  put_file("images.bin", data, 100 * CIFAR_RECORD);
  static const struct {
    double share;
    int validating;
  } cases[] = {{0.05, 5}, {0.3, 30}, {1, 100}, {1e-6, 1}, {0.5, 50}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    ch_image_set *set;
    ch_image_info info;
    int seen[100] = {0}, last = -1;
    must(ch_image_set_open(path_in("images.bin"), cases[k].share, &set, &failure));
    ch_image_set_describe(set, &info);
    assert_int_equal(info.count[CH_IMAGES_VALIDATION], cases[k].validating);
    assert_int_equal(info.count[CH_IMAGES_TRAIN], 100 - cases[k].validating);
    for (int split = 0; split < 2; split++)
      for (int64_t i = 0; i < info.count[split]; i++) {
        int number = ch_image_set_pixels(set, (ch_image_split)split, i)[0];
        assert_int_equal(ch_image_set_label(set, (ch_image_split)split, i), number % 10);
        seen[number]++;
        if (split && cases[k].validating > 1 && i)
          assert_in_range(number - last, 1, 100 / cases[k].validating + 1);
        if (split) last = number;
      }
    for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 1);
    ch_image_set_close(set);
  }
  free(data);
  remove_directory();
}

static void named_files_make_a_set_and_labels_come_with_their_images(void **state) {
  (void)state;
  ch_image_set *set;
  ch_image_info info;
  must(ch_image_set_open(SHAPES "/shapes-cifar/data_batch_2.bin.gz," SHAPES "/shapes-cifar/test_batch.bin.gz",
                         0.05, &set, &failure));
  ch_image_set_describe(set, &info);
  assert_true(info.count[0] == 320 && info.count[1] == 100);
  ch_image_set_close(set);
  must(ch_image_set_open(SHAPES "/shapes-idx/t10k-images-idx3-ubyte.gz", 1, &set, &failure));
  ch_image_set_describe(set, &info);
  assert_true(info.count[0] == 0 && info.count[1] == 120);
  ch_image_set_close(set);
  must(ch_image_set_open(SHAPES "/shapes-idx/train-images-idx3-ubyte.gz," SHAPES
                                "/shapes-idx/train-labels-idx1-ubyte",
                         0.5, &set, &failure));
  ch_image_set_describe(set, &info);
  assert_true(info.count[0] == 300 && info.count[1] == 300);
  ch_image_set_close(set);
}

static void the_content_decides_the_hash(void **state) {
  (void)state;
  new_directory();
  unsigned char *data = make_cifar(10, 1);
  uint64_t hashes[3];
  for (int i = 0; i < 3; i++) {
    ch_image_set *set;
    ch_image_info info;
    data[5 * CIFAR_RECORD + 700] += i == 2;
    put_file(i == 1 ? "renamed.bin" : "images.bin", data, 10 * CIFAR_RECORD);
    must(ch_image_set_open(path_in(i == 1 ? "renamed.bin" : "images.bin"), 0.1, &set, &failure));
    ch_image_set_describe(set, &info);
    hashes[i] = info.content;
    ch_image_set_close(set);
  }
  assert_true(hashes[0] == hashes[1] && hashes[0] != hashes[2]);
  free(data);
  remove_directory();
}

static void cifar_100_has_classes_and_groups_of_them(void **state) {
  (void)state;
  new_directory();
  unsigned char *data = make_cifar(60, 2);
  put_file("train.bin", data, 60 * CIFAR100_RECORD);
  put_file("test.bin", data, 60 * CIFAR100_RECORD);
  ch_image_set *set;
  ch_image_info info;
  must(ch_image_set_open(scratch, 0.05, &set, &failure));
  ch_image_set_describe(set, &info);
  assert_true(info.classes == 100 && info.count[0] == 60 && info.count[1] == 60);
  must(ch_image_set_fit(set, 3, 32, 100, &failure));
  assert_int_equal(ch_image_set_label(set, CH_IMAGES_VALIDATION, 57), 57);
  must(ch_image_set_fit(set, 3, 32, 20, &failure));
  assert_int_equal(ch_image_set_label(set, CH_IMAGES_VALIDATION, 57), 17);
  ch_image_set_close(set);
  free(data);
  remove_directory();
}

static void what_makes_no_set_is_refused(void **state) {
  (void)state;
  ch_image_set *set;
  new_directory();
  assert_refused(ch_image_set_open(scratch, 0.05, &set, &failure), "holds no images");
  put_file("notes.txt", "hello", 5);
  assert_refused(ch_image_set_open(scratch, 0.05, &set, &failure), "holds no images");
  assert_refused(ch_image_set_open(path_in("nowhere.bin"), 0.05, &set, &failure), "nowhere.bin");
  unsigned char *ten = make_cifar(5, 1), *hundred = make_cifar(5, 2);
  put_file("a.bin", ten, 5 * CIFAR_RECORD);
  put_file("b.bin", hundred, 5 * CIFAR100_RECORD);
  assert_refused(ch_image_set_open(scratch, 0.05, &set, &failure), "a set must be of one kind");
  must(ch_image_set_open(path_in("a.bin"), 0.05, &set, &failure));
  assert_refused(ch_image_set_fit(set, 1, 32, 10, &failure), "holds images of 3 channels and 32 x 32 pixels");
  assert_refused(ch_image_set_fit(set, 3, 28, 10, &failure), "\"image_size\" 28");
  assert_refused(ch_image_set_fit(set, 3, 32, 4, &failure),
                 "image 4 has label 4, but the model's \"num_classes\" is 4");
  must(ch_image_set_fit(set, 3, 32, 5, &failure));
  must(ch_image_set_fit(set, 3, 64, 5, &failure)); /* every pixel is repeated twice in each direction */
  assert_refused(ch_image_set_fit(set, 3, 48, 5, &failure), "a multiple of the images' side");
  ch_image_set_close(set);
  size_t size;
  unsigned char *images = make_idx_images(5, 6, &size);
  put_file("train-images-idx3-ubyte", images, size);
  assert_refused(ch_image_set_open(path_in("train-images-idx3-ubyte"), 0.05, &set, &failure),
                 "has no file of labels");
  free(ten), free(hundred), free(images);
  remove_directory();
}

/* --- augmentation ------------------------------------------------------------------------------------------- */

enum { SIZE = 6, CHANNELS = 2, COUNT = CHANNELS * SIZE * SIZE };

/* Finds the shift and mirroring that turn x into `seen`, by trying all. Returns false if there are none. */
static bool explain(const unsigned char *x, const float *seen, int crop, int *down, int *right,
                    bool *mirror) {
  for (int variant = 0; variant < 2 * (2 * crop + 1) * (2 * crop + 1); variant++) {
    *mirror = variant % 2, *down = variant / 2 % (2 * crop + 1) - crop,
    *right = variant / 2 / (2 * crop + 1) - crop;
    bool same = true;
    for (int i = 0; same && i < COUNT; i++) {
      int line = i / SIZE % SIZE - *down, column = (*mirror ? SIZE - 1 - i % SIZE : i % SIZE) - *right;
      bool within = line >= 0 && line < SIZE && column >= 0 && column < SIZE;
      float value = within ? (float)x[(i / (SIZE * SIZE) * SIZE + line) * SIZE + column] / 127.5f - 1 : -1;
      same = seen[i] - value < 1e-6f && value - seen[i] < 1e-6f;
    }
    if (same) return true;
  }
  return false;
}

static void images_are_mirrored_and_shifted_by_chance_and_in_no_other_way(void **state) {
  (void)state;
  unsigned char x[COUNT];
  for (int i = 0; i < COUNT; i++) x[i] = (unsigned char)(20 + 3 * i);
  static const ch_augmentation both = {.flip = true, .crop = 2};
  int mirrored = 0, places[5][5] = {{0}};
  for (uint64_t n = 0; n < 2000; n++) {
    float first[COUNT], again[COUNT];
    int down, right;
    bool mirror;
    ch_image_augment(x, CHANNELS, SIZE, 1, &both, 7, n, first);
    ch_image_augment(x, CHANNELS, SIZE, 1, &both, 7, n, again);
    assert_memory_equal(first, again, sizeof first);
    if (!explain(x, first, 2, &down, &right, &mirror)) fail_msg("image %d is no crop of itself", (int)n);
    mirrored += mirror;
    places[down + 2][right + 2]++;
  }
  assert_in_range(mirrored, 900, 1100);
  for (int i = 0; i < 25; i++) assert_in_range(places[i / 5][i % 5], 45, 120);
}

static void without_augmentation_images_stay_as_they_are(void **state) {
  (void)state;
  unsigned char x[COUNT];
  float plain[COUNT], augmented[COUNT];
  for (int i = 0; i < COUNT; i++) x[i] = (unsigned char)(i == 0 ? 0 : i == 1 ? 255 : 3 * i);
  ch_image_normalise(x, CHANNELS, SIZE, 1, plain);
  ch_image_augment(x, CHANNELS, SIZE, 1, &(ch_augmentation){0}, 1, 2, augmented);
  assert_memory_equal(plain, augmented, sizeof plain);
  assert_true(plain[0] == -1 && plain[1] > 0.999999f && plain[1] < 1.000001f);
}

/* Enlarging while normalising or augmenting must give the same bits as starting from the larger image. */
static void enlarged_images_have_every_pixel_several_times(void **state) {
  (void)state;
  enum { TIMES = 3, SIDE = TIMES * SIZE };
  static const ch_augmentation both = {.flip = true, .crop = 4};
  unsigned char x[CHANNELS * SIZE * SIZE], large[CHANNELS * SIDE * SIDE];
  float expected[CHANNELS * SIDE * SIDE], got[CHANNELS * SIDE * SIDE];
  for (int i = 0; i < CHANNELS * SIZE * SIZE; i++) x[i] = (unsigned char)(7 * i);
  for (int c = 0; c < CHANNELS; c++)
    for (int a = 0; a < SIDE; a++)
      for (int b = 0; b < SIDE; b++)
        large[(c * SIDE + a) * SIDE + b] = x[(c * SIZE + a / TIMES) * SIZE + b / TIMES];
  ch_image_normalise(large, CHANNELS, SIDE, 1, expected);
  ch_image_normalise(x, CHANNELS, SIZE, TIMES, got);
  assert_memory_equal(got, expected, sizeof got);
  for (uint64_t n = 0; n < 50; n++) {
    ch_image_augment(large, CHANNELS, SIDE, 1, &both, 7, n, expected);
    ch_image_augment(x, CHANNELS, SIZE, TIMES, &both, 7, n, got);
    assert_memory_equal(got, expected, sizeof got);
  }
}

static void a_permutation_has_every_number_once(void **state) {
  (void)state;
  for (uint64_t n = 1; n < 300; n += n < 20 ? 1 : 37) {
    char seen[300] = {0};
    for (uint64_t i = 0; i < n; i++) {
      uint64_t place = ch_random_permute(i, n, 99);
      assert_true(place < n && !seen[place]);
      seen[place] = 1;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(directories_train_on_some_files_and_validate_on_others),
      cmocka_unit_test(one_file_is_divided_evenly_and_completely),
      cmocka_unit_test(named_files_make_a_set_and_labels_come_with_their_images),
      cmocka_unit_test(the_content_decides_the_hash),
      cmocka_unit_test(cifar_100_has_classes_and_groups_of_them),
      cmocka_unit_test(what_makes_no_set_is_refused),
      cmocka_unit_test(images_are_mirrored_and_shifted_by_chance_and_in_no_other_way),
      cmocka_unit_test(without_augmentation_images_stay_as_they_are),
      cmocka_unit_test(enlarged_images_have_every_pixel_several_times),
      cmocka_unit_test(a_permutation_has_every_number_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
