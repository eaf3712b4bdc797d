/* Tests patches of images, and the ranks of labels among logits, on every table. */
#include "tensor/kernel_testing.h"
#include "team_testing.h"

typedef struct image_case {
  int64_t images, channels, size, patch;
  const float *x;
} image_case;

static void call_patches(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                         const void *data) {
  const image_case *c = data;
  (void)in, (void)scratch;
  kernels->patches(all_threads(), c->images, c->channels, c->size, c->patch, c->x, out[0]);
}

static void check_patches(ch_random *random, image_case c) {
  int64_t side = c.size / c.patch, count = c.images * c.channels * c.size * c.size, at = 0;
  double *x = random_values(random, count, 1), *expected = zeros(count), *bound = zeros(count);
  float *narrow = malloc((size_t)count * sizeof *narrow);
  assert_non_null(narrow);
  for (int64_t i = 0; i < count; i++) narrow[i] = (float)x[i];
  for (int64_t p = 0; p < c.images * side * side; p++)
    for (int64_t channel = 0; channel < c.channels; channel++)
      for (int64_t i = 0; i < c.patch * c.patch; i++) {
        int64_t image = p / (side * side), line = p / side % side * c.patch + i / c.patch;
        int64_t column = p % side * c.patch + i % c.patch;
        expected[at++] = x[((image * c.channels + channel) * c.size + line) * c.size + column];
      }
  c.x = narrow;
  kernel_check check = {.what = "patches",
                        .call = call_patches,
                        .data = &c,
                        .outputs = 1,
                        .out_size = {count},
                        .expected = {expected},
                        .bound = {bound}};
  run_check(&check);
  free(x), free(expected), free(bound), free(narrow);
}

static void patches_are_cut_out_of_images(void **state) {
  (void)state;
  ch_random random;
  ch_random_seed(&random, 71, 0);
  static const image_case cases[] = {{1, 1, 1, 1, NULL}, {3, 2, 6, 2, NULL},  {2, 3, 12, 4, NULL},
                                     {5, 1, 7, 7, NULL}, {9, 3, 32, 4, NULL}, {4, 2, 15, 3, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_patches(&random, cases[i]);
}

typedef struct rank_case {
  int64_t rows, classes;
  const int32_t *targets;
} rank_case;

static void call_ranks(const ch_kernels *kernels, void *const *in, void **out, void *scratch,
                       const void *data) {
  const rank_case *c = data;
  (void)scratch;
  kernels->target_ranks(all_threads(), c->rows, c->classes, in[0], c->targets, out[0]);
}

static void a_label_stands_behind_larger_and_earlier_equal_logits(void **state) {
  (void)state;
  static const double logits[] = {1, 3, 3, 0, 3, 1, 2, 0, 0, 0, 0, 0, 5, 5, 5, 5, -1, -2, -2, -3};
  static const int32_t targets[] = {3, 2, 0, -1, 2};
  static const double ranks[] = {3, 1, 0, -1, 2}, bound[5];
  rank_case c = {5, 4, targets};
  kernel_check check = {.what = "target_ranks",
                        .call = call_ranks,
                        .data = &c,
                        .inputs = 1,
                        .outputs = 1,
                        .in_size = {20},
                        .in = {logits},
                        .out_size = {5},
                        .expected = {ranks},
                        .bound = {bound}};
  run_check(&check);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(patches_are_cut_out_of_images),
      cmocka_unit_test(a_label_stands_behind_larger_and_earlier_equal_logits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
