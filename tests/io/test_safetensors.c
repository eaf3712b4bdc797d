/* Tests safetensors: writing and reading, and the refusal of broken and hostile files. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "io/safetensors.h"

/* Returns a file in memory: header length, header, and `data_size` bytes that count up. The caller frees it. */
static unsigned char *make_file(const char *header, size_t data_size, size_t *size) {
  size_t length = strlen(header);
  *size = 8 + length + data_size;
  unsigned char *bytes = malloc(*size);
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
  memcpy(bytes + 8, header, length);
  for (size_t i = 0; i < data_size; i++) bytes[8 + length + i] = (unsigned char)i;
  return bytes;
}

static ch_status parse(const char *header, size_t data_size, ch_error *error) {
  size_t size;
  unsigned char *bytes = make_file(header, data_size, &size);
  ch_safetensors file;
  ch_status status = ch_safetensors_parse(bytes, size, "some.safetensors", &file, error);
  ch_safetensors_close(&file);
  free(bytes);
  return status;
}

static void matrices_in_blocks_keep_their_type(void **state) {
  (void)state;
  char directory[] = "/tmp/crosshead-test-XXXXXX";
  assert_non_null(mkdtemp(directory));
  char *path = ch_path_join(directory, "model.safetensors");
  unsigned char q4[2 * 2 * 18], q6[3 * 210], plain[3] = {1, 2, 3};
  for (size_t i = 0; i < sizeof q4; i++) q4[i] = (unsigned char)(7 * i);
  for (size_t i = 0; i < sizeof q6; i++) q6[i] = (unsigned char)(11 * i);
  ch_stored_tensor tensors[] = {{.name = "bytes", .tensor = {CH_U8, 1, {3}, plain}},
                                {.name = "four", .tensor = {CH_Q4_0, 2, {2, 64}, q4}},
                                {.name = "six", .tensor = {CH_Q6_K, 2, {3, 256}, q6}}};
  static const char *const given[] = {"{\"format\":\"pt\"}", "{}", NULL};
  for (int i = 0; i < 3; i++) {
    ch_error error = {0};
    ch_safetensors file;
    assert_int_equal(ch_safetensors_write(path, tensors, 3, given[i], &error), CH_OK);
    if (ch_safetensors_open(path, &file, &error) != CH_OK) fail_msg("%s", error.message);
    for (int t = 0; t < 3; t++) {
      const ch_stored_tensor *stored = ch_safetensors_find(&file, tensors[t].name);
      assert_int_equal(stored->tensor.dtype, tensors[t].tensor.dtype);
      assert_memory_equal(stored->tensor.shape, tensors[t].tensor.shape,
                          (size_t)stored->tensor.rank * sizeof(int64_t));
      assert_memory_equal(stored->tensor.data, tensors[t].tensor.data, ch_tensor_bytes(&stored->tensor));
    }
    assert_int_equal((uintptr_t)ch_safetensors_find(&file, "four")->tensor.data % 2, 0);
    ch_safetensors_close(&file);
  }
  unlink(path), rmdir(directory), free(path);
}

static void blocks_that_do_not_fit_are_refused(void **state) {
  (void)state;
  ch_error error = {0};
  /* "x" is not a tensor, so any value is allowed */
  assert_int_equal(parse("{\"__metadata__\":{\"w\":\"Q4_0\",\"x\":\"Q4_0\"},"
                         "\"w\":{\"dtype\":\"U8\",\"shape\":[2,18],\"data_offsets\":[0,36]}}",
                         36, &error),
                   CH_OK);
  static const char *const wrong[] = {"\"U8\",\"shape\":[2,20]", "\"U8\",\"shape\":[40]",
                                      "\"F32\",\"shape\":[1,10]", "\"Q4_0\",\"shape\":[2,20]"};
  for (int i = 0; i < 4; i++) {
    char header[200];
    snprintf(header, sizeof header,
             "{\"__metadata__\":{\"w\":\"Q4_0\"},\"w\":{\"dtype\":%s,\"data_offsets\":[0,40]}}", wrong[i]);
    assert_int_equal(parse(header, 40, &error), CH_ERROR_FORMAT);
    assert_non_null(strstr(error.message,
                           i < 3 ? "U8 [rows, bytes] with whole blocks of 18 bytes" : "has type \"Q4_0\""));
  }
}

static void a_written_file_reads_back(void **state) {
  (void)state;
  char directory[] = "/tmp/crosshead-test-XXXXXX";
  assert_non_null(mkdtemp(directory));
  char *path = ch_path_join(directory, "model.safetensors");
  float f[6] = {1, -2, 3.5f, 0, 1e-30f, 7};
  uint16_t h[3] = {0x3f80, 0, 0xffff};
  int64_t n[2] = {-1, INT64_MAX};
  unsigned char u[5] = {0, 255, 3, 4, 5};
  ch_stored_tensor tensors[] = {{.name = "odd \"name\" \xc3\xa9", .tensor = {CH_U8, 1, {5}, u}},
                                {.name = "w.bf16", .tensor = {CH_BF16, 1, {3}, h}},
                                {.name = "w.f32", .tensor = {CH_F32, 3, {1, 2, 3}, f}},
                                {.name = "empty", .tensor = {CH_F32, 2, {0, 4}, f}},
                                {.name = "scalar", .tensor = {CH_F32, 0, {0}, f}},
                                {.name = "ids", .tensor = {CH_I64, 1, {2}, n}}};
  enum { COUNT = sizeof tensors / sizeof *tensors };
  ch_error error = {0};
  assert_int_equal(ch_safetensors_write(path, tensors, COUNT, "{\"format\":\"pt\"}", &error), CH_OK);
  ch_safetensors file;
  if (ch_safetensors_open(path, &file, &error) != CH_OK) fail_msg("%s", error.message);
  assert_int_equal(file.count, COUNT);
  assert_string_equal(file.metadata, "{\"format\":\"pt\"}");
  for (int i = 0; i < COUNT; i++) {
    const ch_stored_tensor *read = ch_safetensors_find(&file, tensors[i].name);
    assert_non_null(read);
    assert_int_equal(read->tensor.dtype, tensors[i].tensor.dtype);
    assert_int_equal(read->tensor.rank, tensors[i].tensor.rank);
    assert_memory_equal(read->tensor.shape, tensors[i].tensor.shape,
                        sizeof(int64_t) * (size_t)read->tensor.rank);
    assert_memory_equal(read->tensor.data, tensors[i].tensor.data, ch_tensor_bytes(&read->tensor));
    assert_int_equal((uintptr_t)read->tensor.data % ch_dtype_size(read->tensor.dtype), 0);
  }
  assert_null(ch_safetensors_find(&file, "w.f33"));
  ch_safetensors_close(&file);
  unlink(path);
  rmdir(directory);
  free(path);
}

static void a_file_without_tensors_is_fine(void **state) {
  (void)state;
  ch_error error = {0};
  assert_int_equal(parse("{}", 0, &error), CH_OK);
  assert_int_equal(parse(" {\"__metadata__\":{}}  ", 0, &error), CH_OK);
  assert_int_equal(parse("{}", 4, &error), CH_ERROR_FORMAT);
}

#define T(shape, begin, end)                                                                                 \
  "{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

static void hostile_headers_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    const char *words;
  } cases[] = {
      {"", 0, "is not a JSON object"},
      {"[]", 0, "is not a JSON object"},
      {"null", 0, "is not a JSON object"},
      {"{", 0, "a tensor's name is needed"},
      {"{\"a\":", 0, "\"a\" is not described"},
      {"{\"a\":1}", 0, "\"a\" is not described"},
      {"{\"a\":{}", 0, "must have exactly"},
      {"{\"a\":{}}", 0, "must have exactly"},
      {"{\"a", 0, "a tensor's name is needed"},
      {"{\"a\\", 0, "a tensor's name is needed"},
      {"{\"\\u0000\":{}}", 0, "name is broken"},
      {"{\"\xff\":{}}", 0, "name is broken"},
      {"{\"a\" {}}", 0, "\"a\" is not described"},
      {"{} {}", 0, "after its JSON object"},
      {"{}x", 0, "after its JSON object"},
      {"{\"a\":" T("1", 0, 4) ",}", 4, "a tensor's name is needed"},
      {"{\"a\":" T("1", 0, 4) ";}", 4, "\",\" or \"}\""},
      {"{\"a\":" T("1", 0, 4) ",\"a\":" T("1", 4, 8) "}", 8, "\"a\" appears twice"},
      {"{\"a\":" T("1", 0, 4) ",\"\\u0061\":" T("1", 4, 8) "}", 8, "\"a\" appears twice"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ twice"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "not an object of strings"},
      {"{\"__metadata__\":\"a\"}", 0, "is not described"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "must have exactly"},
      {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
       "not valid JSON"},
      {"{\"a\":{\"dtype\":\"F9_E4M4\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "has type \"F9_E4M4\""},
      {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "do not fill whole bytes"},
      {"{\"a\":{\"dtype\":\"BOOL\",\"shape\":[5],\"data_offsets\":[0,4]}}", 4, "4 bytes of data where"},
      {"{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has type \"f32\""},
      {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "must have exactly"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,4]}}", 4, "has no \"shape\""},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offset\":[0,4]}}", 4, "has no \"data_offsets\""},
      {"{\"a\":" T("1,1,1,1,1", 0, 4) "}", 4, "has 5 dimensions"},
      {"{\"a\":" T("-1", 0, 4) "}", 4, "has -1 in its shape"},
      {"{\"a\":" T("1.0", 0, 4) "}", 4, "has 1.0 in its shape"},
      {"{\"a\":" T("\"1\"", 0, 4) "}", 4, "has \"1\" in its shape"},
      {"{\"a\":" T("true", 0, 4) "}", 4, "has true in its shape"},
      {"{\"a\":" T("[1]", 0, 4) "}", 4, "is not described"},
      {"{\"a\":" T("99999999999999999999", 0, 4) "}", 4, "has 1e20 in its shape"},
      {"{\"a\":" T("4611686018427387904,4", 0, 4) "}", 4, "overflows"},
      {"{\"a\":" T("4294967296,4294967296,0", 0, 0) "}", 0, "overflows"},
      {"{\"a\":" T("2305843009213693952", 0, 4) "}", 4, "overflows"},
      {"{\"a\":" T("2", 0, 4) "}", 4, "4 bytes of data where its shape and type need 8"},
      {"{\"a\":" T("1", 0, 8) "}", 8, "8 bytes of data where its shape and type need 4"},
      {"{\"a\":" T("1", 4, 0) "}", 4, "must rise from 0"},
      {"{\"a\":" T("1", -4, 0) "}", 4, "must rise from 0"},
      {"{\"a\":" T("1", 0, 4) "}", 3, "it is truncated"},
      {"{\"a\":" T("1", 4, 8) "}", 4, "it is truncated"},
      {"{\"a\":" T("1", 9223372036854775803, 9223372036854775807) "}", 4, "it is truncated"},
      {"{\"a\":" T("1", 0.0, 4) "}", 4, "has no \"data_offsets\""},
      {"{\"a\":" T("1", 0, 4) ",\"b\":" T("1", 0, 4) "}", 4, "overlaps"},
      {"{\"a\":" T("2", 0, 8) ",\"b\":" T("2", 4, 12) "}", 12, "overlaps"},
      {"{\"a\":" T("1", 0, 4) ",\"b\":" T("1", 8, 12) "}", 12, "leaves 4 unused bytes"},
      {"{\"a\":" T("1", 4, 8) "}", 8, "leaves 4 unused bytes"},
      {"{\"a\":" T("1", 0, 4) "}", 12, "8 bytes after the last tensor"},
      {"{\"a\":" T("0", 4, 4) ",\"b\":" T("1", 0, 4) ",\"c\":" T("0", 2, 2) "}", 4, "overlaps"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_error error = {0};
    ch_status status = parse(cases[i].header, cases[i].data, &error);
    if (status != CH_ERROR_FORMAT || !strstr(error.message, cases[i].words) ||
        !strstr(error.message, "some.safetensors"))
      fail_msg("status %d, \"%s\" where \"%s\" is needed, for %s", status, error.message, cases[i].words,
               cases[i].header);
  }
}

static void empty_tensors_may_share_a_place(void **state) {
  (void)state;
  ch_error error = {0};
  const char *header =
      "{\"b\":" T("1", 0, 4) ",\"a\":" T("0", 0, 0) ",\"c\":" T("3,0", 4, 4) ",\"d\":" T("0", 4, 4) "}";
  assert_int_equal(parse(header, 4, &error), CH_OK);
}

static void a_truncated_file_is_refused_at_every_length(void **state) {
  (void)state;
  size_t size;
  unsigned char *bytes = make_file("{\"a\":" T("2", 0, 8) ",\"b\":" T("1", 8, 12) "}", 12, &size);
  ch_error error;
  ch_safetensors file;
  assert_int_equal(ch_safetensors_parse(bytes, size, "whole", &file, &error), CH_OK);
  ch_safetensors_close(&file);
  for (size_t n = 0; n < size; n++) {
    unsigned char *part = malloc(n + !n); /* a block of its own, so that sanitizers see reads after its end */
    memcpy(part, bytes, n);
    assert_int_equal(ch_safetensors_parse(part, n, "part", &file, &error), CH_ERROR_FORMAT);
    free(part);
  }
  for (int i = 0; i < 8; i++) { /* header lengths of all sizes */
    unsigned char kept = bytes[i];
    bytes[i] = 0xff;
    assert_int_equal(ch_safetensors_parse(bytes, size, "long", &file, &error), CH_ERROR_FORMAT);
    bytes[i] = kept;
  }
  free(bytes);
}

static void any_single_byte_changed_does_no_harm(void **state) {
  (void)state;
  size_t size;
  unsigned char *bytes = make_file("{\"a\":" T("2", 0, 8) ",\"b\":" T("1", 8, 12) "}", 12, &size);
  for (size_t place = 0; place < size; place++)
    for (int value = 0; value < 256; value += 3) {
      unsigned char kept = bytes[place];
      bytes[place] = (unsigned char)value;
      ch_error error = {0};
      ch_safetensors file;
      ch_status status = ch_safetensors_parse(bytes, size, "changed", &file, &error);
      assert_true(status == CH_OK || (status == CH_ERROR_FORMAT && error.message[0]));
      ch_safetensors_close(&file);
      bytes[place] = kept;
    }
  free(bytes);
}

static long peak_kilobytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/* Parses a header of 24 MiB, in which `unit` is repeated between `before` and `after`. It must fail and need at most
   8 MiB of memory. */
static void assert_costs_no_memory(const char *before, const char *unit, const char *after) {
  size_t most = 24 << 20, n = strlen(before), step = strlen(unit);
  unsigned char *bytes = malloc(8 + most);
  char *header = (char *)bytes + 8;
  memcpy(header, before, n);
  for (; n + step + strlen(after) <= most; n += step) memcpy(header + n, unit, step);
  memcpy(header + n, after, strlen(after));
  n += strlen(after);
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)n >> 8 * i);
  ch_error error;
  ch_safetensors file;
  long before_peak = peak_kilobytes();
  assert_int_equal(ch_safetensors_parse(bytes, 8 + n, "large", &file, &error), CH_ERROR_FORMAT);
  assert_true(peak_kilobytes() - before_peak < 8 << 10);
  free(bytes);
}

static void hostile_headers_do_not_grow_memory(void **state) {
  (void)state;
  assert_costs_no_memory("{\"a\":{\"shape\":[", "0,", "0]}}");
  assert_costs_no_memory("{\"a\":{\"shape\":[", "{},", "{}]}}");
  assert_costs_no_memory("{\"a\":", "[", "");
  assert_costs_no_memory("{\"a", "\\u0061", "\":{}}");
  assert_costs_no_memory("{\"__metadata__\":{\"a\":\"b\"", ",\"a\":\"b\"", "}}");
}

static void a_missing_file_and_a_directory_are_io_errors(void **state) {
  (void)state;
  ch_error error;
  ch_safetensors file;
  assert_int_equal(ch_safetensors_open("/tmp/crosshead-there-is-no-such-file", &file, &error), CH_ERROR_IO);
  assert_int_equal(ch_safetensors_open("/tmp", &file, &error), CH_ERROR_IO);
  ch_safetensors_close(&file);
}

static int entries_of(const char *directory) {
  DIR *open = opendir(directory);
  int count = 0;
  while (readdir(open)) count++;
  closedir(open);
  return count - 2;
}

static void a_disk_that_fills_up_leaves_the_old_file(void **state) {
  (void)state;
  char directory[] = "/tmp/crosshead-test-XXXXXX";
  assert_non_null(mkdtemp(directory));
  char *path = ch_path_join(directory, "x.safetensors");
  enum { N = 1 << 18 };
  float *x = calloc(N, sizeof *x);
  ch_stored_tensor tensor = {.name = "x", .tensor = {CH_F32, 1, {1}, x}};
  ch_error error = {0};
  assert_int_equal(ch_safetensors_write(path, &tensor, 1, NULL, &error), CH_OK);
  /* A limit on the file size simulates a full disk. */
  struct rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = 65536;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  tensor.tensor.shape[0] = N;
  ch_status status = ch_safetensors_write(path, &tensor, 1, NULL, &error);
  setrlimit(RLIMIT_FSIZE, &old);
  assert_int_equal(status, CH_ERROR_IO);
  assert_non_null(strstr(error.message, "x.safetensors"));
  assert_int_equal(entries_of(directory), 1);
  ch_safetensors file;
  assert_int_equal(ch_safetensors_open(path, &file, &error), CH_OK);
  assert_int_equal(file.tensors[0].tensor.shape[0], 1);
  ch_safetensors_close(&file);
  char *nowhere = ch_path_join(directory, "absent/x.safetensors");
  assert_int_equal(ch_safetensors_write(nowhere, &tensor, 1, NULL, &error), CH_ERROR_IO);
  assert_non_null(strstr(error.message, "absent/x.safetensors"));
  free(nowhere);
  free(x);
  unlink(path);
  rmdir(directory);
  free(path);
}

static void reference_files_open(void **state) {
  (void)state;
  static const char *const names[] = {"data/reference/llama_gqa/model.safetensors",
                                      "data/reference/onnx_ops.safetensors",
                                      "data/reference/gguf_dequant.safetensors",
                                      "data/models/stories-qwen3-12L/model.safetensors",
                                      "vectors/gqa/tokens.safetensors",
                                      "vectors/gqa/expected.safetensors"};
  if (!ch_is_directory(SHARED_DATA)) {
    print_message("no shared data beside the checkout: reference files are not opened\n");
    skip();
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *path = ch_path_join(SHARED_DATA, names[i]);
    ch_error error;
    ch_safetensors file;
    if (ch_safetensors_open(path, &file, &error) != CH_OK) fail_msg("%s", error.message);
    assert_true(file.count > 0);
    ch_safetensors_close(&file);
    free(path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hostile_headers_do_not_grow_memory),
      cmocka_unit_test(a_written_file_reads_back),
      cmocka_unit_test(matrices_in_blocks_keep_their_type),
      cmocka_unit_test(blocks_that_do_not_fit_are_refused),
      cmocka_unit_test(a_file_without_tensors_is_fine),
      cmocka_unit_test(hostile_headers_are_refused),
      cmocka_unit_test(empty_tensors_may_share_a_place),
      cmocka_unit_test(a_truncated_file_is_refused_at_every_length),
      cmocka_unit_test(any_single_byte_changed_does_no_harm),
      cmocka_unit_test(a_missing_file_and_a_directory_are_io_errors),
      cmocka_unit_test(a_disk_that_fills_up_leaves_the_old_file),
      cmocka_unit_test(reference_files_open),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
