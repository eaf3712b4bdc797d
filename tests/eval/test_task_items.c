/* Tests items of tasks from every form of file. Hostile and broken ones are refused with their line
 * number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "eval/tasks/items.h"
#include "eval/tasks/question.h"
#include "eval/tasks/task.h"

#define DATA TEST_DATA "/tasks/"

static char directory[] = "/tmp/items_XXXXXX";

static int make_directory(void **state) {
  (void)state;
  return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state) {
  (void)state;
  return rmdir(directory);
}

/* Returns the path of a file in the directory; it is valid until the next call. */
static const char *file_of(const char *name, const char *text, size_t size) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  assert_int_equal(ch_write_file(path, text, size, NULL), CH_OK);
  return path;
}

static ch_status read_text(const char *text, size_t size, const ch_item_forms *forms, int64_t most,
                           ch_items *items, ch_error *error) {
  static const ch_item_forms none;
  const char *path = file_of("items", text, size);
  ch_status status = ch_items_read(path, forms ? forms : &none, most, items, error);
  remove(path);
  return status;
}

/* Asserts that the fields, without "file", equal this JSON. */
static void assert_fields(const ch_items *items, int64_t index, const char *expected) {
  json_t *fields = json_copy(items->data[index].fields), *right = json_loads(expected, 0, NULL);
  json_object_del(fields, "file");
  if (!json_equal(fields, right))
    fail_msg("item %d is %s, not %s", (int)index, json_dumps(fields, 0), expected);
  json_decref(fields);
  json_decref(right);
}

typedef struct form_case {
  const char *text;
  int64_t count;
  const char *first, *last; /* fields of the first and of the last item, as JSON text */
  int64_t last_line;
} form_case;

static void files_are_read_in_the_form_they_have(void **state) {
  (void)state;
  static const form_case cases[] = {
      {"{\"a\": 1}\n{\"a\": 2}\n", 2, "{\"a\": 1}", "{\"a\": 2}", 2},
      {"\n{\"a\": 1}\r\n\r\n{\"a\": 2}", 2, "{\"a\": 1}", "{\"a\": 2}", 4},
      {"{\n \"a\":\n  [1]}\n{\"a\": 2}\n", 2, "{\"a\": [1]}", "{\"a\": 2}", 4},
      {"[{\"a\": 1},\n{\"a\": 2}]", 2, "{\"a\": 1}", "{\"a\": 2}", 2},
      {"\xef\xbb\xbf{\"a\": 1}", 1, "{\"a\": 1}", "{\"a\": 1}", 1},
      {"a,b\n1,2\n\n3,4\n", 2, "{\"a\": \"1\", \"b\": \"2\"}", "{\"a\": \"3\", \"b\": \"4\"}", 4},
      {"a\tb\r\n1\t2,5\r\n", 1, "{\"a\": \"1\", \"b\": \"2,5\"}", "{\"a\": \"1\", \"b\": \"2,5\"}", 2},
      {"a,b\n\"x, \"\"y\"\"\nz\",2\n,\n", 2, "{\"a\": \"x, \\\"y\\\"\\nz\", \"b\": \"2\"}",
       "{\"a\": \"\", \"b\": \"\"}", 4},
      /* A quote inside of a cell is read as by Python's csv module if the row then has as many columns as names. */
      {"a,b\n\"x \"y\" z\",2\n", 1, "{\"a\": \"x y\\\" z\\\"\", \"b\": \"2\"}",
       "{\"a\": \"x y\\\" z\\\"\", \"b\": \"2\"}", 2},
      /* Otherwise a quote inside of a cell is read as part of it. */
      {"a,b\n\"x \"y,\" z\",2\n", 1, "{\"a\": \"x \\\"y,\\\" z\", \"b\": \"2\"}",
       "{\"a\": \"x \\\"y,\\\" z\", \"b\": \"2\"}", 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_items items;
    ch_error error = {0};
    if (read_text(cases[i].text, strlen(cases[i].text), NULL, 0, &items, &error) != CH_OK)
      fail_msg("%s: %s", cases[i].text, error.message);
    assert_int_equal(items.count, cases[i].count);
    assert_fields(&items, 0, cases[i].first);
    assert_fields(&items, items.count - 1, cases[i].last);
    assert_int_equal(items.data[items.count - 1].line, cases[i].last_line);
    ch_items_free(&items);
    assert_int_equal(read_text(cases[i].text, strlen(cases[i].text), NULL, 1, &items, &error), CH_OK);
    assert_int_equal(items.count, 1);
    ch_items_free(&items);
  }
}

static void descriptions_say_how_to_read_files_without_names(void **state) {
  (void)state;
  json_t *names = json_loads("[\"q\", \"c\", \"c\"]", 0, NULL),
         *columns = json_loads("[\"q\", \"a\"]", 0, NULL);
  json_t *page = json_string("page");
  ch_items items;
  ch_error error = {0};
  const char *lines = "Q1\nx\ny\nQ2\nz\n\n";
  assert_int_equal(read_text(lines, strlen(lines), &(ch_item_forms){.lines = names}, 0, &items, &error),
                   CH_OK);
  assert_int_equal(items.count, 2);
  assert_fields(&items, 1, "{\"q\": \"Q2\", \"c\": [\"z\", \"\"]}");
  assert_int_equal(items.data[1].line, 4);
  ch_items_free(&items);
  const char *bare = "what,1\nwhy,2\n", *named = "a,q\n2,why\n";
  assert_int_equal(read_text(bare, strlen(bare), &(ch_item_forms){.columns = columns}, 0, &items, &error),
                   CH_OK);
  assert_int_equal(items.count, 2);
  assert_fields(&items, 0, "{\"q\": \"what\", \"a\": \"1\"}");
  ch_items_free(&items);
  assert_int_equal(read_text(named, strlen(named), &(ch_item_forms){.columns = columns}, 0, &items, &error),
                   CH_OK);
  assert_int_equal(items.count, 1);
  assert_fields(&items, 0, "{\"q\": \"why\", \"a\": \"2\"}");
  ch_items_free(&items);
  const char *pages = " \n = One = \n a \n = = b = = \n c\n = Two = \n d \n";
  assert_int_equal(read_text(pages, strlen(pages), &(ch_item_forms){.pages = page}, 0, &items, &error),
                   CH_OK);
  assert_int_equal(items.count, 2);
  assert_fields(&items, 0, "{\"page\": \" = One = \\n a \\n = = b = = \\n c\"}");
  assert_fields(&items, 1, "{\"page\": \" = Two = \\n d \\n\"}");
  ch_items_free(&items);
  json_decref(names);
  json_decref(columns);
  json_decref(page);
}

static void labels_and_directories_are_joined(void **state) {
  (void)state;
  ch_items items;
  ch_error error = {0};
  if (ch_items_read(DATA "piqa.jsonl", &(ch_item_forms){.labels = "-labels.lst"}, 0, &items, &error) != CH_OK)
    fail_msg("%s", error.message);
  assert_string_equal(json_string_value(json_object_get(items.data[0].fields, "label")), "1");
  assert_string_equal(json_string_value(json_object_get(items.data[1].fields, "file")), "piqa");
  ch_items_free(&items);
  if (ch_items_read(DATA "race", &(ch_item_forms){0}, 2, &items, &error) != CH_OK)
    fail_msg("%s", error.message);
  assert_int_equal(items.count, 2);
  assert_string_equal(json_string_value(json_object_get(items.data[1].fields, "file")), "high1");
  ch_items_free(&items);
}

typedef struct hostile {
  const char *text;
  size_t size;
  const char *message;
} hostile;

#define TEXT(t) t, sizeof(t) - 1

static void broken_files_are_refused_with_their_line(void **state) {
  (void)state;
  static const hostile cases[] = {
      {TEXT(""), "empty"},
      {TEXT(" \n\n"), "empty"},
      {TEXT("{\"a\": 1}\n{\"a\": \n"), "items:2 is not valid JSON"},
      {TEXT("{\"a\": 1}\n{\"a\": 2} x\n"), "items:2 is not valid JSON"},
      {TEXT("{\"a\": 1}\n5\n"), "items:2 is not valid JSON"},
      {TEXT("{\"a\": 1}\n[5]\n"), "items:2: an item must be a JSON object"},
      {TEXT("{\"a\": 1, \"a\": 2}"), "items:1 is not valid JSON"},
      {TEXT("[{\"a\": 1}, 5]"), "element 2"},
      {TEXT("[]"), "no item"},
      {TEXT("[{\"a\": 1}"), "items:1 is not valid JSON"},
      {TEXT("a,b\n1,2\n1,2,3\n"), "items:3 has 3 columns, but there are 2 names"},
      {TEXT("a,b\n\"1,2\n3,4\n"), "items:2 has 1 columns"},
      {TEXT("a,a\n1,2\n"), "two columns have the same name"},
      {TEXT("a,b\n"), "no item"},
      {TEXT("just some text\nand more\n"), "has an unknown format"},
      {TEXT("a,b\n1,\xff\n"), "items:2 is not UTF-8"},
      {TEXT("a,b\n1,\0\n"), "items:2 is not UTF-8"},
      {TEXT("\x1f\x8b\x08\x00"), "damaged or truncated gzip"},
      {TEXT("BZh91AY&SYxxxx"), "damaged or truncated bzip2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_items items;
    ch_error error = {0};
    if (read_text(cases[i].text, cases[i].size, NULL, 0, &items, &error) == CH_OK)
      fail_msg("case %zu is accepted", i);
    if (!strstr(error.message, cases[i].message)) fail_msg("case %zu: %s", i, error.message);
    assert_int_equal(items.count, 0);
  }
}

/* Asserts that creating questions fails with this message. */
static void assert_no_questions(const char *task_text, const char *text, const char *message) {
  ch_task *task;
  ch_items items;
  ch_question *questions;
  ch_arena arena = {0};
  ch_error error = {0};
  if (ch_task_parse(task_text, strlen(task_text), "task", &task, &error) != CH_OK)
    fail_msg("%s", error.message);
  ch_status status = read_text(text, strlen(text), &task->files, 0, &items, &error);
  if (status == CH_OK) status = ch_questions_make(task, &items, &(ch_fewshot){0}, &arena, &questions, &error);
  assert_int_not_equal(status, CH_OK);
  if (!strstr(error.message, message)) fail_msg("%s", error.message);
  ch_items_free(&items);
  ch_arena_free(&arena);
  ch_task_free(task);
}

static void items_that_do_not_fit_the_task_are_refused_with_their_line(void **state) {
  (void)state;
  static const char task[] = "{\"task\": \"t\", \"output_type\": \"multiple_choice\", \"metrics\": "
                             "[\"acc\"], \"forms\": [{\"fields\": [\"q\", "
                             "\"c.text\", \"a\"], \"doc_to_text\": \"{{ q }}\", \"doc_to_choice\": \"{{ "
                             "c.text }}\", \"doc_to_target\": \"{{ a "
                             "}}\"}]}";
  assert_no_questions(task, "{\"q\": \"x\"}", "items:1: not an item of t, which needs the fields q c.text a");
  assert_no_questions(
      task,
      "{\"q\": \"x\", \"c\": {\"text\": [\"y\"]}, \"a\": 0}\n{\"q\": \"x\", \"c\": {\"text\": "
      "[\"y\"]}, \"a\": 1}",
      "items:2: the right choice must be a number from 0 to 0");
  assert_no_questions(task, "{\"q\": 5, \"c\": {\"text\": [\"y\"]}, \"a\": 0}",
                      "items:1: doc_to_text is not a string");
  assert_no_questions(task, "{\"q\": \"x\", \"c\": {\"text\": []}, \"a\": 0}", "gives 0 choices");
  assert_no_questions(task, "{\"q\": \"x\", \"c\": {\"text\": [\"y\", 5]}, \"a\": 0}",
                      "a choice is not a string");
  assert_no_questions(task, "{\"q\": \"x\", \"c\": {\"text\": \"y\"}, \"a\": 0}", "gives 0 choices");
}

static void broken_descriptions_are_refused(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"{", "task"},
      {"{}", "\"task\" is missing"},
      {"{\"task\": \"t\", \"output_typ\": 1}", "did you mean \"output_type\""},
      {"{\"task\": \"t\", \"output_type\": \"choices\"}", "must be multiple_choice"},
      {"{\"task\": \"t\", \"output_type\": \"loglikelihood\", \"metrics\": [\"acc_norm\"]}", "does not have"},
      {"{\"task\": \"t\", \"output_type\": \"loglikelihood\", \"metrics\": [\"acc\"]}", "\"forms\" must be"},
      {"{\"task\": \"t\", \"output_type\": \"loglikelihood\", \"metrics\": [\"acc\"], \"forms\": "
       "[{\"fields\": [\"a\"]}]}",
       "doc_to_text"},
      {"{\"task\": \"t\", \"output_type\": \"loglikelihood\", \"metrics\": [\"acc\"], \"forms\": "
       "[{\"fields\": [\"a\"], "
       "\"doc_to_text\": \"{{ a \", \"doc_to_target\": \"b\"}]}",
       "doc_to_text, at character 6: "},
      {"{\"task\": \"t\", \"output_type\": \"loglikelihood\", \"metrics\": [\"acc\"], \"forms\": "
       "[{\"fields\": [\"a\"], "
       "\"doc_to_text\": \"\xc3\xa4\xe2\x82\xac{{ a \", \"doc_to_target\": \"b\"}]}",
       "doc_to_text, at character 8: "},
      {"{\"task\": \"t\", \"output_type\": \"loglikelihood\", \"metrics\": [\"acc\"], \"labels_file\": "
       "\"/etc/x\", "
       "\"forms\": []}",
       "another directory"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_task *task;
    ch_error error = {0};
    if (ch_task_parse(cases[i][0], strlen(cases[i][0]), "task", &task, &error) == CH_OK)
      fail_msg("%s", cases[i][0]);
    if (!strstr(error.message, cases[i][1])) fail_msg("%s: %s", cases[i][0], error.message);
  }
}

static void every_task_of_the_program_opens_by_its_names(void **state) {
  (void)state;
  const char *name, *text;
  int count = 0;
  for (; ch_task_builtin(count, &name, &text); count++) {
    ch_task *task;
    ch_error error = {0};
    if (ch_task_open(name, &task, &error) != CH_OK) fail_msg("%s", error.message);
    assert_string_equal(task->name, name);
    assert_true(task->about[0]);
    ch_task_free(task);
  }
  assert_true(count >= 17);
  static const char *const others[] = {"lambada", "siqa"};
  for (int i = 0; i < 2; i++) {
    ch_task *task;
    assert_int_equal(ch_task_open(others[i], &task, NULL), CH_OK);
    ch_task_free(task);
  }
  ch_task *task;
  ch_error error = {0};
  assert_int_equal(ch_task_open("helaswag", &task, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "did you mean hellaswag"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_are_read_in_the_form_they_have),
      cmocka_unit_test(descriptions_say_how_to_read_files_without_names),
      cmocka_unit_test(labels_and_directories_are_joined),
      cmocka_unit_test(broken_files_are_refused_with_their_line),
      cmocka_unit_test(items_that_do_not_fit_the_task_are_refused_with_their_line),
      cmocka_unit_test(broken_descriptions_are_refused),
      cmocka_unit_test(every_task_of_the_program_opens_by_its_names)};
  return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
