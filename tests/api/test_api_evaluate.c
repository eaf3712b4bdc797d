/* Tests evaluation through the public interface against the logits of a session and against
 * lm-evaluation-harness. */
#include <time.h>

#include "api_testing.h"

static ch_model *model;

static int open_model(void **state) {
  if (make_work(state) != 0) return -1;
  return ch_model_open(MODEL, &model, &error) == CH_OK ? 0 : -1;
}

static int close_model(void **state) {
  ch_model_close(model);
  return remove_work(state);
}

/* Returns -ln p of tokens first ... count - 1, from the logits of a session. Sets *greedy to true if each is the
   likeliest token. */
static double plain_nll(const int32_t *tokens, size_t first, size_t count, bool *greedy) {
  ch_session *session;
  const float *logits;
  double sum = 0;
  *greedy = true;
  must(ch_session_create(model, NULL, &session, &error));
  must(ch_session_feed_all(session, tokens, count, &logits, &error));
  int64_t v = ch_model_vocab_size(model);
  for (size_t i = first; i < count; i++) {
    double log_probability;
    ch_token_probability best;
    must(ch_log_probability(logits + (int64_t)(i - 1) * v, v, tokens[i], &log_probability, &error));
    must(ch_top_tokens(logits + (int64_t)(i - 1) * v, v, &best, 1, &error));
    *greedy = *greedy && best.token == tokens[i];
    sum -= log_probability;
  }
  ch_session_free(session);
  return sum;
}

static const char story[] =
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park.";

static void the_loss_of_a_text_is_that_of_its_tokens(void **state) {
  (void)state;
  int32_t tokens[128];
  size_t count;
  bool greedy;
  write_file(at("story.txt"), story);
  must(ch_encode(model, story, strlen(story), true, tokens, 128, &count, &error));
  double expected = plain_nll(tokens, 1, count, &greedy) / (double)(count - 1);
  char *json = NULL;
  progress_watch watch = {0};
  ch_evaluate_settings settings;
  ch_evaluate_defaults(&settings);
  settings.progress = watch_progress;
  settings.user = &watch;
  must(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error));
  json_t *figures = read_json(json);
  assert_int_equal(number_of(figures, "tokens"), count - 1);
  assert_true(fabs(number_of(figures, "loss") - expected) < 1e-5 * expected);
  assert_true(fabs(number_of(figures, "token_perplexity") - exp(expected)) < 1e-4 * exp(expected));
  assert_int_equal(number_of(figures, "bytes"), strlen(story));
  assert_int_equal(number_of(figures, "words"), 19);
  assert_true(watch.last == watch.total);
  json_decref(figures);

  /* With a limit, only the beginning of the text is measured. */
  settings.limit = 12;
  expected = plain_nll(tokens, 1, 12, &greedy) / 11;
  must(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error));
  figures = read_json(json);
  assert_int_equal(number_of(figures, "tokens"), 11);
  assert_true(fabs(number_of(figures, "loss") - expected) < 1e-5 * expected);
  assert_true(json_is_null(json_object_get(figures, "word_perplexity")));
  json_decref(figures);
}

static void a_cache_rounds_what_it_keeps(void **state) {
  (void)state;
  char *json;
  ch_evaluate_settings settings;
  ch_evaluate_defaults(&settings);
  write_file(at("story.txt"), story);
  must(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error));
  json_t *figures = read_json(json);
  double expected = number_of(figures, "loss");
  assert_null(json_object_get(figures, "cache_bytes_per_token"));
  json_decref(figures);
  settings.cache_values = CH_PRECISION_Q4_0; /* keys stay in F32 */
  must(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error));
  figures = read_json(json);
  double values = number_of(figures, "loss"), bytes = number_of(figures, "cache_bytes_per_token");
  assert_true(values != expected && fabs(values - expected) < 0.5);
  json_decref(figures);
  settings.cache_values = CH_PRECISION_DEFAULT;
  settings.cache = CH_PRECISION_Q4_0;
  must(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error));
  figures = read_json(json);
  double rounded = number_of(figures, "loss");
  assert_true(rounded != expected && fabs(rounded - expected) > 1e-4 && fabs(rounded - expected) < 0.5);
  assert_true(rounded != values && number_of(figures, "cache_bytes_per_token") < bytes);
  json_decref(figures);
}

/* The progress that an evaluation reported. */
typedef struct diary {
  char stages[128], samples[4][4096];
  int count, most;
  int64_t done;
} diary;

static void note_stage(const char *name, void *user) {
  diary *d = user;
  strcat(strcat(d->stages, name), ";");
  d->done = 0;
}

static bool note_progress(int64_t done, int64_t total, void *user) {
  diary *d = user;
  assert_true(done >= d->done && done <= total);
  d->done = done;
  return true;
}

static bool note_sample(const char *json, void *user) {
  diary *d = user;
  assert_true(d->count < 4);
  assert_null(strchr(json, '\n'));
  snprintf(d->samples[d->count++], sizeof d->samples[0], "%s", json);
  return d->count < d->most;
}

static void parts_and_items_are_told_as_they_come(void **state) {
  (void)state;
  char *json;
  diary d = {.most = 4}, one = {.most = 1}, text = {0};
  ch_evaluate_settings settings;
  ch_evaluate_defaults(&settings);
  settings.items = TEST_DATA "/tasks/lambada.jsonl";
  settings.progress = note_progress;
  settings.stage = note_stage;
  settings.sample = note_sample;
  settings.threads = 1;
  settings.user = &d;
  must(ch_evaluate_task(model, "lambada", &settings, &json, &error));
  ch_free(json);
  assert_string_equal(d.stages, "lambada_openai;"); /* the task's full name */
  assert_int_equal(d.count, 3);
  double right = 0;
  for (int i = 0; i < 3; i++) {
    json_t *sample = json_loads(d.samples[i], 0, NULL);
    assert_int_equal(number_of(sample, "doc_id"), i);
    right += number_of(sample, "acc");
    json_decref(sample);
  }
  assert_true(right == 1); /* one of three, as in a_task_gives_the_harness_s_figures */

  settings.user = &one;
  assert_int_equal(ch_evaluate_task(model, "lambada", &settings, &json, &error), CH_ERROR_INTERRUPTED);
  assert_int_equal(one.count, 1);

  settings.user = &text;
  write_file(at("story.txt"), story);
  must(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error));
  ch_free(json);
  assert_string_equal(text.stages, "whole text;documents;");
}

static void built_in_tasks_can_be_listed(void **state) {
  (void)state;
  const char *name, *description;
  int count = 0;
  bool lambada = false;
  for (; ch_task_builtin(count, &name, &description); count++) {
    json_t *object = json_loads(description, 0, NULL);
    assert_true(*name && *text_of(object, "about"));
    lambada |= strcmp(name, "lambada_openai") == 0;
    json_decref(object);
  }
  assert_true(lambada && count > 5);
  assert_false(ch_task_builtin(-1, &name, &description));
  assert_false(ch_task_builtin(count + 100, &name, &description));
}

/* Checks that every recorded evaluation becomes a separate run. */
static void an_evaluation_is_kept(void **state) {
  (void)state;
  char *json, kept[300], *beside = ch_runs_beside(at("model"));
  ch_runs *runs;
  int64_t id = 0;
  snprintf(kept, sizeof kept, "%s/" CH_RUNS_FILE, work);
  assert_string_equal(beside, kept);
  ch_free(beside);
  write_file(at("story.txt"), story);
  must(ch_evaluate_text(model, at("story.txt"), NULL, &json, &error));
  must(ch_runs_open(kept, CH_RUNS_CREATE, &runs, &error));
  must(ch_runs_record_evaluation(runs, model, json, NULL, &id, &error));
  assert_int_equal(id, 1);
  ch_run_labels labels = {.name = "text", .dataset = "story.txt"};
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* runs are distinguished by their millisecond */
  must(ch_runs_record_evaluation(runs, model, json, &labels, &id, &error));
  assert_int_equal(id, 2);
  ch_free(json);
  assert_int_equal(ch_runs_record_evaluation(runs, model, "no figures", &labels, &id, &error),
                   CH_ERROR_FORMAT);
  assert_int_equal(ch_runs_record_evaluation(runs, NULL, "{}", &labels, &id, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_runs_record(runs, MODEL, &labels, &id, &error), CH_ERROR_IO); /* no training log */
  ch_runs_close(runs);
  assert_int_not_equal(ch_runs_open(at("story.txt"), 0, &runs, &error), CH_OK);
  assert_null(runs);
  assert_int_equal(ch_runs_open(NULL, 0, &runs, &error), CH_ERROR_ARGUMENT);
}

static void continuations_are_as_likely_as_a_session_says(void **state) {
  (void)state;
  const char *context = "Once upon a time, there was a little girl named Lily";
  ch_continuation list[] = {{.context = context, .continuation = ". She loved to play"},
                            {.context = context, .continuation = ", who had a big red ball"},
                            {.context = context, .continuation = " zebra"},
                            {.context = "The dog was very", .continuation = ": it ate his hat"},
                            {.context = "", .continuation = "One day"}};
  enum { COUNT = sizeof list / sizeof *list };
  int compared = 0;
  must(ch_score_continuations(model, list, COUNT, NULL, &error));
  for (int i = 0; i < COUNT - 1; i++) {
    char whole[256];
    int32_t tokens[64], all[64];
    size_t before, count;
    bool greedy;
    snprintf(whole, sizeof whole, "%s%s", list[i].context, list[i].continuation);
    must(ch_encode(model, list[i].context, strlen(list[i].context), true, tokens, 64, &before, &error));
    must(ch_encode(model, whole, strlen(whole), true, all, 64, &count, &error));
    assert_int_equal(list[i].tokens, count > before ? count - before : 0);
    if (count <= before) continue; /* a token may span the boundary */
    /* The harness uses the tokens of the context, followed by the further tokens of the whole text. */
    for (size_t k = before; k < count; k++) tokens[k] = all[k];
    double nll = plain_nll(tokens, before, count, &greedy);
    if (!(fabs(list[i].log_likelihood + nll) < 1e-4))
      fail_msg("\"%s\": %g, and the session has %g (%zu of %zu)", list[i].continuation,
               list[i].log_likelihood, -nll, before, count);
    assert_int_equal(list[i].greedy, greedy);
    compared++;
  }
  assert_true(compared >= 3);
  assert_true(list[COUNT - 1].tokens > 0 && list[COUNT - 1].log_likelihood < 0);
}

/* Compares with the samples and log-likelihoods that lm-evaluation-harness logged. */
static void continuations_are_as_likely_as_the_harness_says(void **state) {
  (void)state;
  json_t *expected = json_load_file(TEST_DATA "/tasks/expected.json", 0, NULL), *tasks, *task, *sample;
  assert_non_null(expected);
  tasks = json_is_array(expected) ? expected : json_object_get(expected, "tasks");
  size_t t, s, compared = 0;
  json_array_foreach(tasks, t, task) json_array_foreach(json_object_get(task, "samples"), s, sample) {
    const json_t *arguments = json_object_get(sample, "arguments"),
                 *answers = json_object_get(sample, "resps");
    if (json_array_size(json_array_get(arguments, 0)) != 2) continue; /* a task of whole texts */
    ch_continuation list[16] = {{0}};
    size_t count = json_array_size(arguments);
    assert_true(count <= 16);
    for (size_t i = 0; i < count; i++) {
      list[i].context = json_string_value(json_array_get(json_array_get(arguments, i), 0));
      list[i].continuation = json_string_value(json_array_get(json_array_get(arguments, i), 1));
    }
    must(ch_score_continuations(model, list, count, NULL, &error));
    for (size_t i = 0; i < count; i++, compared++) {
      const json_t *answer = json_array_get(answers, i);
      double theirs = json_number_value(json_array_get(answer, 0));
      if (!(fabs(list[i].log_likelihood - theirs) < 1e-3))
        fail_msg("\"%s\": %g, and the harness has %g", list[i].continuation, list[i].log_likelihood, theirs);
      assert_int_equal(list[i].greedy, json_is_true(json_array_get(answer, 1)));
    }
  }
  assert_true(compared > 50);
  json_decref(expected);
}

static void a_task_gives_the_harness_s_figures(void **state) {
  (void)state;
  ch_evaluate_settings settings;
  ch_evaluate_defaults(&settings);
  settings.items = TEST_DATA "/tasks/lambada.jsonl";
  char *json;
  must(ch_evaluate_task(model, "lambada", &settings, &json, &error));
  json_t *figures = read_json(json);
  assert_string_equal(text_of(figures, "task"), "lambada");
  assert_int_equal(number_of(figures, "n"), 3);
  assert_true(fabs(number_of(figures, "acc") - 1.0 / 3) < 1e-12);
  assert_true(fabs(number_of(figures, "perplexity") / 7082.7856785908225 - 1) < 1e-3);
  json_decref(figures);
  settings.examples = 1;
  must(ch_evaluate_task(model, "lambada", &settings, &json, &error));
  figures = read_json(json);
  assert_true(fabs(number_of(figures, "perplexity") / 12677.46102483714 - 1) < 1e-3);
  json_decref(figures);
}

static bool never(int64_t done, int64_t total, void *user) {
  (void)done, (void)total, (void)user;
  return false;
}

static void written_answers_and_made_texts_have_their_figures(void **state) {
  (void)state;
  ch_evaluate_settings settings;
  ch_evaluate_defaults(&settings);
  settings.items = TEST_DATA "/tasks/written/nq_like.jsonl";
  settings.example_file = TEST_DATA "/tasks/written/nq_like_train.jsonl";
  settings.examples = 2;
  char *json;
  must(ch_evaluate_task(model, TEST_DATA "/tasks/written/nq_like.json", &settings, &json, &error));
  json_t *figures = read_json(json);
  assert_true(number_of(figures, "exact_match") == 0.5); /* from expected.json */
  assert_true(number_of(json_object_get(json_object_get(figures, "filters"), "remove_whitespace"),
                        "exact_match") == 0.5);
  json_decref(figures);
  ch_evaluate_defaults(&settings);
  settings.lengths = "400,512";
  settings.limit = 2;
  must(ch_evaluate_task(model, "ruler:fwe", &settings, &json, &error));
  figures = read_json(json);
  assert_int_equal(number_of(figures, "n"), 4);
  assert_int_equal(number_of(figures, "seed"), 1);
  assert_non_null(json_object_get(json_object_get(figures, "groups"), "512"));
  json_decref(figures);
  settings.progress = never;
  assert_int_equal(ch_evaluate_task(model, "ruler:fwe", &settings, &json, &error), CH_ERROR_INTERRUPTED);
  settings.progress = NULL;
  settings.seed = (uint64_t)1 << 32;
  assert_int_equal(ch_evaluate_task(model, "ruler:fwe", &settings, &json, &error), CH_ERROR_ARGUMENT);
  /* The default of 4096 tokens is too long for the model. */
  assert_int_equal(ch_evaluate_task(model, "ruler:fwe", NULL, &json, &error), CH_ERROR_ARGUMENT);
}

static void what_cannot_be_measured_is_refused(void **state) {
  (void)state;
  char *json = NULL;
  ch_evaluate_settings settings;
  ch_evaluate_defaults(&settings);
  write_file(at("story.txt"), story);
  assert_int_equal(ch_evaluate_text(NULL, at("story.txt"), NULL, &json, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_evaluate_text(model, NULL, NULL, &json, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_evaluate_text(model, at("missing.txt"), NULL, &json, &error), CH_ERROR_IO);
  settings.window = 100000;
  assert_int_equal(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "100000"));
  settings = (ch_evaluate_settings){.cache = CH_PRECISION_Q6_K};
  assert_int_equal(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error), CH_ERROR_ARGUMENT);
  settings = (ch_evaluate_settings){.compute = CH_PRECISION_F16};
  assert_int_equal(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error), CH_ERROR_ARGUMENT);
  settings = (ch_evaluate_settings){.stride = -1};
  assert_int_equal(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error), CH_ERROR_ARGUMENT);
  settings = (ch_evaluate_settings){0};
  assert_int_equal(ch_evaluate_task(model, "lambada", &settings, &json, &error), CH_ERROR_ARGUMENT);
  settings = (ch_evaluate_settings){.threads = -1};
  assert_int_equal(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error), CH_ERROR_ARGUMENT);
  settings = (ch_evaluate_settings){.items = TEST_DATA "/tasks/sciq.jsonl", .examples = 5};
  assert_int_equal(ch_evaluate_task(model, "sciq", &settings, &json, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(strncmp(error.message, "examples is 5, but there", 24), 0);
  assert_non_null(strstr(error.message, "more in example_file"));
  assert_string_equal(error.setting, "examples");
  assert_int_equal(ch_evaluate_images(model, TEST_DATA "/images/shapes-cifar", NULL, &json, &error),
                   CH_ERROR_ARGUMENT);
  settings = (ch_evaluate_settings){.items = TEST_DATA "/tasks/lambada.jsonl"};
  assert_int_not_equal(ch_evaluate_task(model, "no such task", &settings, &json, &error), CH_OK);
  ch_continuation empty = {.context = "One day", .continuation = ""}, missing = {.continuation = "One day"};
  assert_int_equal(ch_score_continuations(model, &empty, 1, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_score_continuations(model, &missing, 1, NULL, &error), CH_ERROR_ARGUMENT);
  must(ch_score_continuations(model, NULL, 0, NULL, &error));
  progress_watch watch = {.cancel_at = 1};
  settings = (ch_evaluate_settings){.progress = watch_progress, .user = &watch};
  assert_int_equal(ch_evaluate_text(model, at("story.txt"), &settings, &json, &error), CH_ERROR_INTERRUPTED);
  assert_null(json);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_loss_of_a_text_is_that_of_its_tokens),
      cmocka_unit_test(a_cache_rounds_what_it_keeps),
      cmocka_unit_test(parts_and_items_are_told_as_they_come),
      cmocka_unit_test(built_in_tasks_can_be_listed),
      cmocka_unit_test(an_evaluation_is_kept),
      cmocka_unit_test(continuations_are_as_likely_as_a_session_says),
      cmocka_unit_test(continuations_are_as_likely_as_the_harness_says),
      cmocka_unit_test(a_task_gives_the_harness_s_figures),
      cmocka_unit_test(written_answers_and_made_texts_have_their_figures),
      cmocka_unit_test(what_cannot_be_measured_is_refused),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
