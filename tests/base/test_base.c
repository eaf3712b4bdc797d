/* Tests error messages, text helpers, random numbers, files and arenas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/random.h"
#include "base/text.h"

static void messages_stay_on_one_line(void **state) {
  (void)state;
  ch_error error;
  assert_int_equal(ch_fail(&error, CH_ERROR_FORMAT, "%s has no %s", "a\nfile", "\033[31mname\x7f"),
                   CH_ERROR_FORMAT);
  assert_string_equal(error.message, "a?file has no ?[31mname?");
  ch_fail_in(&error, "at\tthe end, \xc3\xa9");
  assert_string_equal(error.message, "at?the end, \xc3\xa9: a?file has no ?[31mname?");
}

static int utf8_errors(const char *text) {
  int errors = 0;
  for (int bytes; *text; text += bytes > 0 ? bytes : 1) {
    unsigned char c = (unsigned char)*text;
    bytes = c < 0x80 ? 1 : c >= 0xe0 ? 3 : 2;
    for (int i = 1; i < bytes; i++) errors += ((unsigned char)text[i] & 0xc0) != 0x80;
    errors += (c & 0xc0) == 0x80;
  }
  return errors;
}

static void long_names_are_shortened_in_messages(void **state) {
  (void)state;
  ch_error error = {0};
  char name[3001], expected[512];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  snprintf(expected, sizeof expected, "%.100s...%.49s: tensor %.100s...%.50s is missing", name, name, name,
           name);
  ch_fail(&error, CH_ERROR_FORMAT, "tensor %s is missing", name);
  ch_fail_in(&error, name);
  assert_string_equal(error.message, expected);
  snprintf(expected, sizeof expected, "%.160s fits", name);
  ch_fail(&error, CH_ERROR_FORMAT, "%.160s fits", name);
  assert_string_equal(error.message, expected);
  /* No character is split when a name or a whole message is shortened. */
  for (int shift = 0; shift < 3; shift++) {
    char text[2400] = "";
    for (int i = 0; i < 700; i++) strcat(text, i % 90 == 89 ? " " : "\xe2\x82\xac");
    ch_fail(&error, CH_ERROR_FORMAT, "%.*s%s %s", shift, "xx", text, text);
    assert_int_equal(utf8_errors(error.message), 0);
    assert_non_null(strstr(error.message, "..."));
    assert_true(strlen(error.message) < sizeof error.message);
  }
  ch_fail(&error, CH_ERROR_FORMAT, "a \xe2\x82 b \xff c \xe2\x80\xae d \xc2\x9b");
  assert_string_equal(error.message, "a ?? b ? c ? d ?");
}

static void counts_are_read_as_people_write_them(void **state) {
  (void)state;
  int64_t n;
  assert_true(ch_parse_count("10M", &n) && n == 10000000);
  assert_true(ch_parse_count("1.5k", &n) && n == 1500);
  assert_true(ch_parse_count("2MiB", &n) && n == 2097152);
  const char *const bad[] = {"", "-1", "1.5", "10Q", "nan", "1e400", " 3", "0x", "M"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(ch_parse_count(bad[i], &n));
}

static void durations_are_read_as_people_write_them(void **state) {
  (void)state;
  double seconds;
  assert_true(ch_parse_duration("90s", &seconds) && seconds == 90);
  assert_true(ch_parse_duration("30m", &seconds) && seconds == 1800);
  assert_true(ch_parse_duration("1.5h", &seconds) && seconds == 5400);
  assert_true(ch_parse_duration("1h30m5s", &seconds) && seconds == 5405);
  assert_true(ch_parse_duration("2d", &seconds) && seconds == 172800);
  const char *const bad[] = {"", "90", "m", "-5m", " 5m", "5 m", "5min", "5m3", "nanm", "1e400s", "5x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(ch_parse_duration(bad[i], &seconds));
}

static void a_near_name_is_suggested_and_a_far_one_is_not(void **state) {
  (void)state;
  const char *const names[] = {"hidden_size", "num_hidden_layers", NULL};
  assert_string_equal(ch_nearest_name("hiden_size", names), "hidden_size");
  assert_null(ch_nearest_name("zzz", names));
  const char *const mechanisms[] = {"mha", "gqa", "mla", "train", NULL};
  assert_string_equal(ch_nearest_name("MHA", mechanisms), "mha");
  assert_string_equal(ch_nearest_name("gaq", mechanisms), "gqa");
  assert_string_equal(ch_nearest_name("trian", mechanisms), "train");
  assert_null(ch_nearest_name("flash", mechanisms));
  assert_null(ch_nearest_name("version", mechanisms));
  assert_string_equal(ch_plural(1, "matrix", "matrices"), "matrix");
  assert_string_equal(ch_plural(0, "matrix", "matrices"), "matrices");
}

static void random_numbers_repeat_and_have_the_right_moments(void **state) {
  (void)state;
  ch_random a, b;
  ch_random_seed(&a, 1, 2);
  ch_random_seed(&b, 1, 2);
  double sum = 0, square = 0;
  enum { N = 100000 };
  for (int i = 0; i < N; i++) {
    double x = ch_random_normal(&a);
    assert_true(x == ch_random_normal(&b));
    sum += x;
    square += x * x;
  }
  assert_true(sum / N < 0.02 && sum / N > -0.02);
  assert_true(square / N > 0.97 && square / N < 1.03);
  ch_random_seed(&b, 1, 3);
  assert_true(ch_random_u64(&a) != ch_random_u64(&b));
}

static void a_device_or_a_directory_is_never_replaced_by_a_file(void **state) {
  (void)state;
  char directory[] = "/tmp/crosshead-test-XXXXXX";
  assert_non_null(mkdtemp(directory));
  char *pipe = ch_path_join(directory, "pipe");
  assert_int_equal(mkfifo(pipe, 0600), 0);
  ch_error error;
  assert_int_equal(ch_write_file(pipe, "abc", 3, &error), CH_ERROR_IO);
  assert_non_null(strstr(error.message, "special file"));
  assert_false(ch_is_file(pipe));
  assert_int_equal(ch_write_file(directory, "abc", 3, &error), CH_ERROR_IO);
  assert_non_null(strstr(error.message, "a directory"));
  assert_true(ch_is_directory(directory));
  unlink(pipe);
  rmdir(directory);
  free(pipe);
}

static void a_written_file_appears_whole_or_not_at_all(void **state) {
  (void)state;
  char directory[] = "/tmp/crosshead-test-XXXXXX";
  assert_non_null(mkdtemp(directory));
  char *path = ch_path_join(directory, "file");
  ch_error error;
  ch_writer writer;
  assert_int_equal(ch_writer_open(&writer, path, &error), CH_OK);
  assert_int_equal(ch_writer_put(&writer, "abc", 3, &error), CH_OK);
  assert_false(ch_is_file(path));
  assert_int_equal(ch_writer_commit(&writer, &error), CH_OK);
  char *text;
  assert_int_equal(ch_read_file(path, 100, &text, NULL, &error), CH_OK);
  assert_string_equal(text, "abc");
  free(text);
  assert_int_equal(ch_read_file(path, 2, &text, NULL, &error), CH_ERROR_FORMAT);
  assert_int_equal(ch_make_directory(path, &error), CH_ERROR_IO);
  ch_map map;
  assert_int_equal(ch_map_open(directory, &map, &error), CH_ERROR_IO);
  unlink(path);
  rmdir(directory);
  free(path);
}

/* A file of sysfs is shorter than its size says, like a file that shrinks while it is read. */
static void a_file_that_ends_too_early_is_an_error(void **state) {
  (void)state;
  static const char path[] = "/sys/kernel/uevent_seqnum";
  char *text;
  ch_error error;
  if (access(path, R_OK) != 0) skip();
  assert_int_equal(ch_read_file(path, 1 << 20, &text, NULL, &error), CH_ERROR_IO);
  assert_non_null(strstr(error.message, " bytes; nothing may change it while it is read"));
}

/* Writes pieces that are shorter and longer than the write buffer. */
static void a_large_file_holds_what_was_put(void **state) {
  (void)state;
  enum { BYTES = 7654321 };
  char directory[] = "/tmp/crosshead-test-XXXXXX";
  assert_non_null(mkdtemp(directory));
  char *path = ch_path_join(directory, "file");
  unsigned char *bytes = malloc(BYTES);
  assert_non_null(bytes);
  for (size_t i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(i * 2654435761u >> 24);
  ch_error error;
  ch_writer writer;
  assert_int_equal(ch_writer_open(&writer, path, &error), CH_OK);
  for (size_t at = 0, piece = 1; at < BYTES; at += piece, piece = 3 * piece + 1) {
    if (piece > BYTES - at) piece = BYTES - at;
    assert_int_equal(ch_writer_put(&writer, bytes + at, piece, &error), CH_OK);
    if (at + piece == BYTES) break;
  }
  assert_int_equal(ch_writer_commit(&writer, &error), CH_OK);
  ch_map map;
  assert_int_equal(ch_map_open(path, &map, &error), CH_OK);
  assert_int_equal(map.size, BYTES);
  assert_memory_equal(map.data, bytes, BYTES);
  ch_map_close(&map);
  unlink(path);
  rmdir(directory);
  free(bytes);
  free(path);
}

static void an_arena_gives_aligned_zeroed_memory(void **state) {
  (void)state;
  ch_arena arena = {0};
  for (size_t bytes = 1; bytes < 200000; bytes = bytes * 3 + 1) {
    unsigned char *p = ch_arena_alloc(&arena, bytes);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(p[i], 0);
    memset(p, 0xff, bytes);
  }
  assert_string_equal(ch_arena_printf(&arena, "%d.%s", 7, "x"), "7.x");
  assert_null(ch_arena_alloc(&arena, SIZE_MAX));
  ch_arena_free(&arena);
}

static void a_path_has_a_short_name(void **state) {
  (void)state;
  static const char *const cases[][2] = {{"configs/mine.json", "mine"},
                                         {"models/mine/config.json", "mine"},
                                         {"models/mine//", "mine"},
                                         {"mine", "mine"},
                                         {"a.b/c.d", "c.d"},
                                         {"config.json", "config"},
                                         {".json", ".json"},
                                         {"/", ""},
                                         {"", ""},
                                         {"x//config.json", "x"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char stem[16];
    ch_path_stem(cases[i][0], stem, sizeof stem);
    assert_string_equal(stem, cases[i][1]);
  }
  char cut[4];
  ch_path_stem("configs/long.json", cut, sizeof cut);
  assert_string_equal(cut, "lon");
}

static void moments_and_spans_are_written_as_people_read_them(void **state) {
  (void)state;
  char buffer[CH_UTC_SIZE];
  assert_string_equal(ch_format_utc(0, buffer), "1970-01-01T00:00:00Z");
  assert_string_equal(ch_format_utc(951782399, buffer), "2000-02-28T23:59:59Z");
  assert_string_equal(ch_format_utc(951782400, buffer), "2000-02-29T00:00:00Z");
  assert_string_equal(ch_format_duration(59, buffer, sizeof buffer), "59s");
  assert_string_equal(ch_format_duration(3725, buffer, sizeof buffer), "1h02m");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_path_has_a_short_name),
      cmocka_unit_test(messages_stay_on_one_line),
      cmocka_unit_test(long_names_are_shortened_in_messages),
      cmocka_unit_test(counts_are_read_as_people_write_them),
      cmocka_unit_test(durations_are_read_as_people_write_them),
      cmocka_unit_test(a_near_name_is_suggested_and_a_far_one_is_not),
      cmocka_unit_test(random_numbers_repeat_and_have_the_right_moments),
      cmocka_unit_test(a_device_or_a_directory_is_never_replaced_by_a_file),
      cmocka_unit_test(a_written_file_appears_whole_or_not_at_all),
      cmocka_unit_test(a_file_that_ends_too_early_is_an_error),
      cmocka_unit_test(a_large_file_holds_what_was_put),
      cmocka_unit_test(an_arena_gives_aligned_zeroed_memory),
      cmocka_unit_test(moments_and_spans_are_written_as_people_read_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
