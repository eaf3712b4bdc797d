/* Tests that tasks and tokenizers survive the failure of any allocation. */
#include "allocations/every_allocation.h"
#include "eval/tasks/question.h"
#include "text/bpe_train.h"
#include "text/tokenizer.h"

/* --- tasks -------------------------------------------------------------------------------------------------- */

static const char task_text[] =
    "{\"task\":\"t\",\"output_type\":\"multiple_choice\",\"metrics\":[\"acc\"],\"forms\":[{\"fields\":[\"q\","
    "\"c\"],"
    "\"doc_to_text\":\"{% set x = q | regex_replace('a+', 'b') %}{% for w in x.split() %}{{ w | upper }}"
    "{% if w in c %}!{% else %}{{ loop_end or [1, 2][0] }}{% endif %} {% endfor %}\","
    "\"doc_to_choice\":\"{{ c | map('trim') + ['[1, {\\\\'k\\\\': 2.5}]' | literal | length | string] }}\","
    "\"doc_to_target\":\"{{ -(0 - a) }}\",\"description\":\"{{ q[1:3] ~ 7 }} {{ c.keys() if false else "
    "c | join('-') | replace('-', '+') }}\"}]}";

static const char items_text[] = "{\"q\": \"aa bb\", \"c\": [\" x\", \"y\"], \"a\": 1, \"loop_end\": 0}\n"
                                 "{\"q\": \"cc aa\", \"c\": [\"z\", \"y \"], \"a\": 0, \"loop_end\": \"\"}\n";
static char *items_path;

static ch_status ask_questions(const char *directory, ch_error *error) {
  (void)directory;
  ch_task *task = NULL;
  ch_items items = {0};
  ch_arena arena = {0};
  ch_question *questions;
  ch_status status = ch_task_parse(task_text, sizeof task_text - 1, "task.json", &task, error);
  if (status == CH_OK) status = ch_items_read(items_path, &task->files, 0, &items, error);
  ch_fewshot fewshot = {.count = 1, .pool = &items, .own = true};
  if (status == CH_OK) status = ch_questions_make(task, &items, &fewshot, &arena, &questions, error);
  ch_arena_free(&arena);
  ch_items_free(&items);
  ch_task_free(task);
  return status;
}

static void tasks(void **state) {
  (void)state;
  char path[] = "/tmp/crosshead-test-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0 && write(file, items_text, sizeof items_text - 1) == (ssize_t)sizeof items_text - 1);
  close(file);
  items_path = path;
  check_every_allocation("questions of a task", ask_questions, false);
  unlink(path);
}

/* --- tokenizers --------------------------------------------------------------------------------------------- */

static ch_status use_tokenizer(const char *path, ch_error *error) {
  static const char text[] = "Once upon a time 12345  caf\xc3\xa9 <s>";
  ch_tokenizer *tokenizer = NULL;
  ch_ids ids = {0};
  ch_text back = {0};
  ch_status status = ch_tokenizer_open(path, &tokenizer, error);
  if (status == CH_OK)
    status =
        ch_tokenizer_encode(tokenizer, text, sizeof text - 1, CH_TEXT_BARE | CH_TEXT_SPECIAL, &ids, error);
  if (status == CH_OK) status = ch_tokenizer_put_text(tokenizer, ids.data, ids.size, false, &back, error);
  if (status == CH_OK && back.failed) status = ch_fail(error, CH_ERROR_MEMORY, "no memory for the text");
  ch_text_free(&back);
  ch_ids_free(&ids);
  ch_tokenizer_free(tokenizer);
  return status;
}

static ch_status use_pieces(const char *directory, ch_error *error) {
  (void)directory;
  return use_tokenizer(TEST_DATA "/text/spm.bin", error);
}

static char *tokenizer_path; /* path of a trained tokenizer, for use_merges */

static ch_status use_merges(const char *directory, ch_error *error) {
  (void)directory;
  return use_tokenizer(tokenizer_path, error);
}

static ch_status train_tokenizer(const char *directory, ch_error *error) {
  const char *texts[] = {items_path};
  ch_tokenizer_train_settings settings = {.vocab_size = 270, .min_count = 2};
  ch_tokenizer_report report;
  char out[256];
  snprintf(out, sizeof out, "%s/tokenizer.json", directory);
  return ch_bpe_train(texts, 1, NULL, &settings, out, &report, error);
}

static void tokenizers(void **state) {
  (void)state;
  char path[] = "/tmp/crosshead-test-XXXXXX", made[] = "/tmp/crosshead-test-XXXXXX", json[256];
  int file = mkstemp(path);
  ch_error error = {0};
  for (int i = 0; i < 20; i++) assert_true(write(file, "once upon a time there was\n", 27) == 27);
  close(file);
  items_path = path;
  assert_non_null(mkdtemp(made));
  assert_int_equal(train_tokenizer(made, &error), CH_OK);
  snprintf(json, sizeof json, "%s/tokenizer.json", made);
  tokenizer_path = json;
  check_every_allocation("training a tokenizer", train_tokenizer, false);
  check_every_allocation("a tokenizer of merges", use_merges, false);
  check_every_allocation("a tokenizer of pieces", use_pieces, false);
  left_files(made);
  rmdir(made);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tasks),
      cmocka_unit_test(tokenizers),
  };
  return RUN_ON_ONE_THREAD(tests);
}
