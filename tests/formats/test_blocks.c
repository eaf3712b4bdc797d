/* Tests ggml's blocks against an independent decoder, and Q8_0 in both directions. */
#include "formats_testing.h"

#include "base/random.h"
#include "formats/blocks.h"
#include "io/safetensors.h"
#include "tensor/encode_blocks.h"

static const struct {
  const char *name;
  ch_block_type type;
} types[] = {{"Q4_0", CH_BLOCK_Q4_0}, {"Q4_1", CH_BLOCK_Q4_1}, {"Q5_0", CH_BLOCK_Q5_0},
             {"Q5_1", CH_BLOCK_Q5_1}, {"Q8_0", CH_BLOCK_Q8_0}, {"IQ4_NL", CH_BLOCK_IQ4_NL},
             {"Q2_K", CH_BLOCK_Q2_K}, {"Q3_K", CH_BLOCK_Q3_K}, {"Q4_K", CH_BLOCK_Q4_K},
             {"Q5_K", CH_BLOCK_Q5_K}, {"Q6_K", CH_BLOCK_Q6_K}, {"IQ4_XS", CH_BLOCK_IQ4_XS}};

static const ch_tensor *tensor_of(const ch_safetensors *file, const char *type, const char *what) {
  char name[40];
  snprintf(name, sizeof name, "%s.%s", type, what);
  const ch_stored_tensor *stored = ch_safetensors_find(file, name);
  assert_non_null(stored);
  return &stored->tensor;
}

static void blocks_decode_bit_for_bit(void **state) {
  (void)state;
  ch_safetensors file;
  must(ch_safetensors_open(TEST_DATA "/formats/blocks.safetensors", &file, &problem));
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    const ch_tensor *blocks = tensor_of(&file, types[i].name, "blocks");
    const ch_tensor *values = tensor_of(&file, types[i].name, "values");
    const ch_block_format *format = ch_block_format_of(types[i].type);
    assert_string_equal(format->name, types[i].name);
    int64_t count = ch_tensor_count(values);
    assert_int_equal((size_t)(count / format->values) * format->bytes, ch_tensor_bytes(blocks));
    float *decoded = malloc((size_t)count * sizeof *decoded);
    assert_non_null(decoded);
    ch_blocks_decode(format, blocks->data, count, decoded);
    for (int64_t j = 0; j < count; j++)
      if (decoded[j] != ((const float *)values->data)[j])
        fail_msg("%s: value %lld", types[i].name, (long long)j);
    free(decoded);
  }
  ch_safetensors_close(&file);
}

static void half_floats_decode_with_subnormals_and_signs(void **state) {
  (void)state;
  static const unsigned char bits[] = {0x00, 0x3c, 0x01, 0x00, 0xff, 0x83,
                                       0xff, 0x7b, 0x00, 0x80, 0x00, 0xfc};
  float values[6];
  ch_blocks_decode(ch_block_format_of(CH_BLOCK_F16), bits, 6, values);
  assert_true(values[0] == 1 && values[1] == 0x1p-24f && values[2] == -1023 * 0x1p-24f && values[3] == 65504);
  assert_true(values[4] == 0 && signbit(values[4]) && isinf(values[5]));
}

static void floats_off_their_alignment_decode_alike(void **state) {
  (void)state;
  static const ch_block_type plain[] = {CH_BLOCK_F32, CH_BLOCK_F16, CH_BLOCK_BF16};
  enum { COUNT = 37 };
  for (int t = 0; t < 3; t++) {
    const ch_block_format *format = ch_block_format_of(plain[t]);
    uint32_t aligned[COUNT + 1];
    unsigned char bytes[4 * COUNT + 4];
    float expected[COUNT], got[COUNT];
    for (int i = 0; i < COUNT; i++) aligned[i] = 0x3c003c01u + 0x01230321u * (unsigned)i % 0x03ff03ffu;
    memcpy(bytes + 1, aligned, sizeof aligned - 4);
    ch_blocks_decode(format, (const unsigned char *)aligned, COUNT, expected);
    ch_blocks_decode(format, bytes + 1, COUNT, got);
    assert_memory_equal(expected, got, sizeof got);
  }
}

static void q8_0_keeps_values_within_half_a_step(void **state) {
  (void)state;
  float values[64], back[64];
  unsigned char blocks[68];
  for (int i = 0; i < 64; i++) values[i] = i < 32 ? 0 : sinf((float)(i * i)) * (float)i;
  ch_encode_blocks(CH_Q8_0, values, 64, blocks);
  ch_blocks_decode(ch_block_format_of(CH_BLOCK_Q8_0), blocks, 64, back);
  float most = 0;
  for (int i = 32; i < 64; i++) most = fmaxf(most, fabsf(values[i]));
  for (int i = 0; i < 64; i++)
    assert_true(fabsf(back[i] - values[i]) <= (i < 32 ? 0 : most / 127 * 0.5f + most * 0x1p-11f));
}

/* Returns the root mean square of the changes by encoding, divided by that of the values. */
static double loss_of(ch_dtype dtype, const float *values, int64_t count) {
  float *back = malloc((size_t)count * sizeof *back);
  void *blocks = malloc(ch_dtype_bytes(dtype, count));
  assert_true(back && blocks);
  ch_encode_blocks(dtype, values, count, blocks);
  ch_blocks_decode(ch_block_format_for(dtype), blocks, count, back);
  double lost = 0, all = 0;
  for (int64_t i = 0; i < count; i++) {
    lost += (back[i] - values[i]) * (back[i] - values[i]);
    all += values[i] * values[i];
  }
  free(back), free(blocks);
  return sqrt(lost / all);
}

static void what_is_encoded_stays_near(void **state) {
  (void)state;
  static const struct {
    ch_dtype dtype;
    double normal, shifted; /* largest losses of normal values and of values around 0.5 */
  } bounds[] = {
      {CH_Q8_0, 0.006, 0.006}, {CH_Q6_K, 0.018, 0.018}, {CH_Q4_K, 0.075, 0.05}, {CH_Q4_0, 0.09, 0.09}};
  enum { N = 64 * 256 };
  float *normal = malloc(N * sizeof *normal), *shifted = malloc(N * sizeof *shifted), zeros[256] = {0};
  ch_random random;
  ch_random_seed(&random, 3, 0);
  for (int i = 0; i < N; i++) {
    normal[i] = (float)ch_random_normal(&random);
    shifted[i] = 0.5f + 0.25f * (float)ch_random_normal(&random);
  }
  for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
    double first = loss_of(bounds[b].dtype, normal, N), second = loss_of(bounds[b].dtype, shifted, N);
    if (!(first < bounds[b].normal && second < bounds[b].shifted))
      fail_msg("%s loses %g and %g", ch_dtype_name(bounds[b].dtype), first, second);
    unsigned char blocks[512];
    float back[256];
    ch_encode_blocks(bounds[b].dtype, zeros, 256, blocks);
    ch_blocks_decode(ch_block_format_for(bounds[b].dtype), blocks, 256, back);
    for (int i = 0; i < 256; i++) assert_true(back[i] == 0);
  }
  free(normal), free(shifted);
}

static void unknown_types_are_refused(void **state) {
  (void)state;
  assert_null(ch_block_format_of(4)); /* Q4_2, withdrawn */
  assert_null(ch_block_format_of(UINT32_MAX));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_decode_bit_for_bit),
      cmocka_unit_test(half_floats_decode_with_subnormals_and_signs),
      cmocka_unit_test(floats_off_their_alignment_decode_alike),
      cmocka_unit_test(q8_0_keeps_values_within_half_a_step),
      cmocka_unit_test(what_is_encoded_stays_near),
      cmocka_unit_test(unknown_types_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
