/* Tests training through the public interface: callbacks, stopping and resuming, and a model that can be
 * run. */
#include "api_testing.h"

enum { STEPS = 8 };

/* Writes a text with a pattern that can be learned. */
static void write_text(void) {
  static char text[40000];
  static const char *const words[] = {"the cat ", "sat on ", "a mat ", "and ran ", "to the ", "old dog. "};
  uint32_t random = 1;
  while (strlen(text) + 40 < sizeof text) {
    random = random * 1664525u + 1013904223u;
    for (int i = 0; i < 3; i++) strcat(text, words[(random >> 28) % 4 + (uint32_t)i % 3]);
    strcat(text, "\n");
  }
  write_file(at("text.txt"), text);
  write_file(at("config.json"),
             "{\"model_type\": \"crosshead\", \"vocab_size\": 300, \"hidden_size\": 32,"
             " \"intermediate_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 2,"
             " \"num_key_value_heads\": 1, \"max_position_embeddings\": 32, \"tie_word_embeddings\": true,"
             " \"attention\": {\"type\": \"gqa\"}}");
}

static int begin(void **state) {
  if (make_work(state) != 0) return -1;
  write_text();
  return 0;
}

typedef struct diary {
  int64_t steps, evaluations, preparations, stop_after;
  bool stop_at_evaluation;
  double losses[STEPS + 1], validation_loss;
  ch_train_step last;
} diary;

static bool on_step(const ch_train_step *step, void *user) {
  diary *d = user;
  assert_true(step->step >= 1 && step->step <= STEPS && step->steps == STEPS);
  assert_true(step->loss > 0 && step->lr > 0 && step->grad_norm > 0 && step->tokens_per_second > 0);
  d->losses[step->step] = step->loss;
  d->last = *step;
  d->steps++;
  return !d->stop_after || step->step < d->stop_after;
}

static bool on_evaluation(const ch_train_evaluation *evaluation, void *user) {
  diary *d = user;
  assert_true(evaluation->step >= 1 && evaluation->loss > 0 && evaluation->top1 == -1 &&
              evaluation->least_expert == -1);
  d->evaluations++;
  d->validation_loss = evaluation->loss;
  return !d->stop_at_evaluation;
}

static bool on_preparation(const char *stage, double share, void *user) {
  diary *d = user;
  assert_true(*stage && share >= 0 && share <= 1);
  d->preparations++;
  return true;
}

static bool on_event(const ch_train_event *event, void *user) {
  switch (event->kind) {
  case CH_TRAIN_EVENT_PREPARATION:
    return on_preparation(event->as.preparation.stage, event->as.preparation.share, user);
  case CH_TRAIN_EVENT_STEP:
    return on_step(event->as.step.step, user);
  case CH_TRAIN_EVENT_EVALUATION:
    return on_evaluation(event->as.evaluation.evaluation, user);
  default:
    return true;
  }
}

static ch_train_settings usual(diary *d) {
  static char config[256], data[256];
  strcpy(config, at("config.json"));
  strcpy(data, at("text.txt"));
  ch_train_settings settings;
  ch_train_defaults(&settings);
  settings.model.config = config;
  settings.text.data = data;
  settings.training.steps = STEPS;
  settings.training.batch = 4;
  settings.training.sequence = 16;
  settings.optimizer.warmup = 2;
  settings.optimizer.lr = 5e-3;
  settings.training.seed = 3;
  settings.report.eval_every = 4;
  settings.event = on_event;
  settings.user = d;
  return settings;
}

static void same_files(const char *a, const char *b) {
  char command[600];
  snprintf(command, sizeof command, "cmp %s %s", a, b);
  assert_int_equal(system(command), 0);
}

static void a_run_tells_what_it_does_and_leaves_a_model(void **state) {
  (void)state;
  diary d = {0};
  ch_train_settings settings = usual(&d);
  char *json;
  must(ch_train(at("whole"), &settings, &json, &error));
  assert_int_equal(d.steps, STEPS);
  assert_int_equal(d.evaluations, 2);
  assert_true(d.preparations > 0);
  assert_int_equal(d.last.tokens, STEPS * 4 * 16);
  assert_true(d.losses[STEPS] < d.losses[1]);
  json_t *figures = read_json(json);
  assert_int_equal(number_of(figures, "steps"), STEPS);
  assert_int_equal(number_of(figures, "tokens"), STEPS * 4 * 16);
  assert_true(fabs(number_of(figures, "loss") - d.losses[STEPS]) < 1e-9);
  assert_true(fabs(number_of(figures, "validation_loss") - d.validation_loss) < 1e-9);
  json_decref(figures);

  ch_model *model;
  ch_session *session;
  must(ch_model_open(at("whole"), &model, &error));
  assert_true(ch_model_has_tokenizer(model) && !ch_model_takes_images(model));
  assert_int_equal(ch_model_layers(model), 2);
  assert_int_equal(ch_model_vocab_size(model), 300);
  must(ch_session_create(model, NULL, &session, &error));
  must(ch_generate(session, "the cat", 5, NULL, NULL, NULL, NULL, &error));
  ch_session_free(session);
  ch_model_close(model);
}

static void a_stopped_and_resumed_run_ends_with_the_same_bits(void **state) {
  (void)state;
  diary d = {.stop_after = 3}, rest = {.stop_at_evaluation = true}, end = {0};
  ch_train_settings settings = usual(&d);
  assert_int_equal(ch_train(at("parts"), &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_non_null(strstr(error.message, "step 3"));
  assert_null(strstr(error.message, "--"));
  assert_int_equal(d.steps, 3);
  assert_false(is_there(at("parts/model.safetensors")));

  /* Settings that decide the result come from the checkpoint, not from the call. */
  ch_train_defaults(&settings);
  settings.model.resume = true;
  settings.event = on_event;
  settings.user = &rest;
  assert_int_equal(ch_train(at("parts"), &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_int_equal(rest.steps, 1); /* the evaluation after step 4 stopped the run */
  assert_int_equal(rest.evaluations, 1);
  settings.user = &end;
  must(ch_train(at("parts"), &settings, NULL, &error));
  assert_int_equal(end.steps, STEPS - 4);
  same_files(at("whole/model.safetensors"), at("parts/model.safetensors"));
  same_files(at("whole/tokenizer.json"), at("parts/tokenizer.json"));

  /* Resuming a finished run does nothing. */
  end = (diary){0};
  must(ch_train(at("parts"), &settings, NULL, &error));
  assert_int_equal(end.steps, 0);
}

static void training_goes_on_from_the_weights_of_a_model(void **state) {
  (void)state;
  diary d = {0};
  ch_train_settings settings = usual(&d);
  char from[256];
  strcpy(from, at("whole"));
  settings.model.config = NULL;
  settings.model.init_from = from;
  must(ch_train(at("tuned"), &settings, NULL, &error));
  diary fresh = {0};
  settings = usual(&fresh);
  must(ch_train(at("fresh"), &settings, NULL, &error));
  assert_true(d.losses[1] < fresh.losses[1] - 0.05);
}

/* Stops after *user more steps of any model. */
static bool count_down(const ch_train_event *event, void *user) {
  int64_t *left = user;
  return event->kind != CH_TRAIN_EVENT_STEP || --*left != 0;
}

static ch_train_settings controlled(diary *d, char *model, char *control) {
  ch_train_settings settings = usual(d);
  strcpy(model, at("tuned"));
  strcpy(control, at("whole"));
  settings.model.config = NULL;
  settings.model.init_from = model;
  settings.model.control = control;
  return settings;
}

/* Checks that a run's control is bit for bit the model that training it alone on the same text with the same
   options gives. */
static void a_control_is_trained_as_the_model_is(void **state) {
  (void)state;
  diary d = {0};
  char model[256], control[256], *json;
  ch_train_settings settings = controlled(&d, model, control);
  must(ch_train(at("both"), &settings, &json, &error));
  assert_int_equal(d.steps, 2 * STEPS);
  json_t *figures = read_json(json), *other = json_object_get(figures, "control");
  assert_int_equal(number_of(other, "steps"), STEPS);
  assert_true(fabs(number_of(other, "loss") - d.losses[STEPS]) < 1e-9);
  assert_true(fabs(number_of(other, "validation_loss") - d.validation_loss) < 1e-9);
  assert_true(number_of(other, "loss") != number_of(figures, "loss"));
  json_decref(figures);
  settings.model.control = NULL;
  must(ch_train(at("model alone"), &settings, NULL, &error));
  settings.model.init_from = control;
  must(ch_train(at("control alone"), &settings, NULL, &error));
  char files[2][300];
  snprintf(files[0], sizeof files[0], "'%s'", at("model alone/model.safetensors"));
  snprintf(files[1], sizeof files[1], "'%s'", at("control alone/model.safetensors"));
  same_files(at("both/model.safetensors"), files[0]);
  same_files(at("both/control/model.safetensors"), files[1]);
}

static void a_run_with_a_control_can_be_stopped_in_either(void **state) {
  (void)state;
  diary d = {0};
  int64_t left = 3;
  char model[256], control[256], *json;
  ch_train_settings settings = controlled(&d, model, control);
  settings.event = count_down;
  settings.user = &left;
  assert_int_equal(ch_train(at("halves"), &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_non_null(strstr(error.message, "after step 3 of 8"));
  assert_false(is_there(at("halves/control")));
  ch_train_defaults(&settings);
  settings.model.resume = true; /* the control comes from the directory */
  settings.event = count_down;
  settings.user = &left;
  left = STEPS - 3 + 2;
  assert_int_equal(ch_train(at("halves"), &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_non_null(strstr(error.message, "after step 2 of 8"));
  assert_non_null(strstr(error.message, "control"));
  settings.model.control = model;
  assert_int_equal(ch_train(at("halves"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "control: the control of the run"));
  settings.model.control = NULL;
  left = STEPS + 1;
  must(ch_train(at("halves"), &settings, &json, &error));
  assert_int_equal(left, STEPS + 1 - (STEPS - 2));
  json_t *figures = read_json(json);
  assert_int_equal(number_of(json_object_get(figures, "control"), "steps"), STEPS);
  json_decref(figures);
  same_files(at("both/model.safetensors"), at("halves/model.safetensors"));
  same_files(at("both/control/model.safetensors"), at("halves/control/model.safetensors"));
}

static void a_finished_run_can_get_a_control(void **state) {
  (void)state;
  diary d = {0};
  char model[256], control[256];
  ch_train_settings settings = controlled(&d, model, control);
  settings.model.control = NULL;
  must(ch_train(at("later"), &settings, NULL, &error));
  settings.model.init_from = settings.text.data = NULL;
  settings.model.control = control;
  settings.model.resume = true;
  must(ch_train(at("later"), &settings, NULL, &error));
  assert_int_equal(d.steps, 2 * STEPS);
  same_files(at("both/control/model.safetensors"), at("later/control/model.safetensors"));
}

static void impossible_controls_are_refused_before_anything_is_written(void **state) {
  (void)state;
  static const struct {
    const char *control, *said;
    ch_status status;
  } cases[] = {{"nowhere", "nowhere", CH_ERROR_IO},
               {MODEL, "\"vocab_size\" of 2048, but the trained model has 300", CH_ERROR_ARGUMENT},
               {"another", "have different tokenizers", CH_ERROR_ARGUMENT}};
  diary d = {0};
  char model[256], control[256], command[900];
  ch_train_settings settings = controlled(&d, model, control);
  snprintf(command, sizeof command, "cp -r %s %s/another && echo ' ' >>%s/another/tokenizer.json", control,
           at(""), at(""));
  assert_int_equal(system(command), 0);
  for (int i = 0; i < 3; i++) {
    char path[256];
    snprintf(path, sizeof path, "%s", i == 1 ? MODEL : at(cases[i].control));
    settings.model.control = path;
    assert_int_equal(ch_train(at("none"), &settings, NULL, &error), cases[i].status);
    if (!strstr(error.message, cases[i].said)) fail_msg("\"%s\"", error.message);
    assert_false(is_there(at("none")));
  }
  settings = usual(&d);
  settings.model.control = control;
  assert_int_equal(ch_train(at("none"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(strncmp(error.message, "control needs init_from", 23), 0);
}

/* Figures from the events of a run, and requests to stop it. */
typedef struct notes {
  ch_train_start start;
  ch_train_evaluation last;
  double first_lr, last_lr;
  int64_t steps;
  bool stop, stop_when_started, started, refuses_tokens;
} notes;

static bool note_event(const ch_train_event *event, void *user) {
  notes *n = user;
  if (event->kind == CH_TRAIN_EVENT_PREPARATION)
    return !n->refuses_tokens || strcmp(event->as.preparation.stage, "tokenizing") != 0;
  if (event->kind == CH_TRAIN_EVENT_START) {
    n->start = *event->as.start.start;
    n->started = true;
  }
  if (event->kind == CH_TRAIN_EVENT_STEP) {
    n->last_lr = event->as.step.step->lr;
    if (n->steps++ == 0) n->first_lr = n->last_lr;
  }
  if (event->kind == CH_TRAIN_EVENT_EVALUATION) n->last = *event->as.evaluation.evaluation;
  return true;
}

static bool wants_stop(void *user) {
  const notes *n = user;
  return n->stop || (n->stop_when_started && n->started);
}

static ch_train_settings noting(notes *n) {
  ch_train_settings settings = usual(NULL);
  settings.event = note_event;
  settings.stop = wants_stop;
  settings.user = n;
  return settings;
}

static void a_model_of_images_is_trained_and_measured(void **state) {
  (void)state;
  notes n = {0};
  ch_train_settings settings = noting(&n);
  write_file(at("vit.json"),
             "{\"model_type\": \"crosshead_vit\", \"image_size\": 12, \"patch_size\": 3,"
             " \"num_channels\": 1, \"num_classes\": 6, \"hidden_size\": 16, \"intermediate_size\": 24,"
             " \"num_hidden_layers\": 1, \"num_attention_heads\": 2}");
  settings.model.config = at("vit.json");
  settings.text.data = NULL;
  settings.vision.images = TEST_DATA "/images/shapes-idx";
  settings.training.sequence = settings.training.steps = 0;
  settings.training.batch = 60;
  settings.training.epochs = 3;
  settings.vision.augment = CH_TRAIN_FLIP;
  settings.report.eval_tokens = 0; /* all 120 test images */
  char *json;
  must(ch_train(at("images"), &settings, &json, &error));
  json_t *figures = read_json(json);
  assert_true(n.start.images && !n.start.resumed && n.start.step == 0);
  assert_int_equal(n.start.tokens, 600);
  assert_int_equal(n.start.steps, 3 * 600 / 60);
  assert_int_equal(n.steps, n.start.steps);
  assert_int_equal(number_of(figures, "images"), 1800);
  assert_int_equal(number_of(figures, "parameters"), n.start.parameters);
  assert_true(n.last.top1 > 0 && n.last.top1 <= n.last.top5 && n.last.top5 <= 1);
  assert_true(number_of(figures, "top1") == n.last.top1);
  json_decref(figures);

  /* An evaluation of the model has the loss of the run's last evaluation. */
  ch_model *model;
  ch_session *session;
  ch_evaluate_settings how;
  must(ch_model_open(at("images"), &model, &error));
  assert_true(ch_model_takes_images(model));
  assert_int_equal(ch_model_layers(model), 1);
  must(ch_evaluate_images(model, TEST_DATA "/images/shapes-idx", NULL, &json, &error));
  figures = read_json(json);
  assert_int_equal(number_of(figures, "images"), 120);
  assert_true(fabs(number_of(figures, "loss") - n.last.loss) < 1e-5 * n.last.loss);
  assert_true(number_of(figures, "top1") == n.last.top1 && number_of(figures, "top5") == n.last.top5);
  json_decref(figures);
  ch_evaluate_defaults(&how);
  how.limit = 50;
  must(ch_evaluate_images(model, TEST_DATA "/images/shapes-idx", &how, &json, &error));
  figures = read_json(json);
  assert_int_equal(number_of(figures, "images"), 50);
  json_decref(figures);
  assert_int_equal(ch_evaluate_images(model, TEST_DATA "/images/none", NULL, &json, &error), CH_ERROR_IO);
  assert_int_equal(ch_session_create(model, NULL, &session, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_evaluate_text(model, at("text.txt"), NULL, &json, &error), CH_ERROR_ARGUMENT);
  ch_model_close(model);

  ch_runs *runs;
  int64_t id;
  must(ch_runs_open(at("runs.sqlite"), CH_RUNS_CREATE, &runs, &error));
  must(ch_runs_record(runs, at("images"), NULL, &id, &error));
  assert_int_equal(id, 1);
  must(ch_runs_record(runs, at("images"), NULL, &id, &error)); /* the same run */
  assert_int_equal(id, 1);
  ch_runs_close(runs);

  settings = noting(&n);
  settings.vision.images = settings.text.data; /* images for a model of text */
  settings.text.data = NULL;
  assert_int_equal(ch_train(at("none"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(strncmp(error.message, "images is for models of images", 30), 0);
}

static void a_run_can_be_stopped_within_its_first_step(void **state) {
  (void)state;
  notes n = {.stop = true, .stop_when_started = true};
  ch_train_settings settings = noting(&n);
  assert_int_equal(ch_train(at("early"), &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_false(n.started);
  assert_non_null(strstr(error.message, "before the first step"));
  n.stop = false; /* the next call begins again with the prepared text */
  assert_int_equal(ch_train(at("early"), &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_int_equal(n.steps, 0);
  assert_non_null(strstr(error.message, "step 0 of 8"));
  n.stop_when_started = false;
  settings.model.resume = true;
  must(ch_train(at("early"), &settings, NULL, &error));
  assert_true(n.start.resumed && n.start.step == 0);
  same_files(at("whole/model.safetensors"), at("early/model.safetensors"));
}

static void a_text_that_was_prepared_is_gone_on_with(void **state) {
  (void)state;
  notes n = {0};
  ch_train_settings settings = noting(&n);
  n.refuses_tokens = true;
  assert_int_equal(ch_train(at("prepared"), &settings, NULL, &error), CH_ERROR_INTERRUPTED);
  assert_true(is_there(at("prepared/tokenizer.json")));
  n.refuses_tokens = false;
  write_file(at("prepared/mine.txt"), "not of a run");
  assert_int_equal(ch_train(at("prepared"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  settings.model.resume = true;
  assert_int_equal(ch_train(at("prepared"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "no checkpoint to resume but holds mine.txt"));
  remove(at("prepared/mine.txt"));
  must(ch_train(at("prepared"), &settings, NULL, &error));
  assert_false(n.start.resumed);
}

static void what_decides_the_result_is_kept_when_a_run_goes_on(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    notes n = {0};
    ch_train_settings settings = noting(&n);
    settings.model.resume = true;
    if (i == 1) settings.optimizer.beta1 = 0.8;
    if (i == 2) settings.optimizer.beta2 = 0.8;
    if (i == 3) settings.optimizer.eps = 1e-6;
    if (i == 4) settings.optimizer.schedule = CH_TRAIN_CONSTANT;
    if (i == 5) settings.training.seed = 0;
    if (i == 6) settings.training.type = CH_PRECISION_F64;
    if (i == 7) settings.optimizer.weight_decay = 0;
    ch_status status = ch_train(at("whole"), &settings, NULL, &error);
    if (i == 0) must(status); /* unchanged settings */
    static const char *const named[] = {"",         "beta1", "beta2", "eps",
                                        "schedule", "seed",  "type",  "weight_decay"};
    if (i && (status != CH_ERROR_ARGUMENT || !strstr(error.message, named[i])))
      fail_msg("%s: %d, \"%s\"", named[i], status, error.message);
  }
}

static void recovering_has_defaults_of_its_own(void **state) {
  (void)state;
  notes n = {0};
  char from[256];
  strcpy(from, at("whole"));
  ch_train_settings settings = noting(&n);
  settings.model.config = NULL;
  settings.model.init_from = from;
  settings.model.recover = true;
  settings.optimizer.lr = 0;
  settings.optimizer.warmup = -1;
  settings.training.steps = 40;
  must(ch_train(at("recovered"), &settings, NULL, &error));
  assert_true(n.first_lr <= 1.6e-5 / 4 * 1.001); /* the first of four steps of warm-up */
  assert_true(n.last_lr < 1.6e-6 * 0.2);         /* towards zero, not to a tenth */
  settings.model.init_from = NULL;
  settings.model.config = at("config.json");
  assert_int_equal(ch_train(at("none"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(strncmp(error.message, "recover needs init_from", 23), 0);
}

static void a_trace_has_the_operations_of_one_step(void **state) {
  (void)state;
  notes n = {0};
  char *json = NULL;
  ch_train_settings settings = noting(&n);
  settings.report.trace = at("trace.json");
  must(ch_train(at("traced"), &settings, NULL, &error));
  json_t *trace = json_load_file(at("trace.json"), 0, NULL), *event;
  size_t i, found = 0;
  json_array_foreach(json_is_array(trace) ? trace : json_object_get(trace, "traceEvents"), i, event) {
    const char *name = json_string_value(json_object_get(event, "name"));
    found += name && strcmp(name, "adamw") == 0;
  }
  assert_int_equal(found, 1);
  json_decref(trace);
  settings.report.trace = at("missing/trace.json");
  assert_int_equal(ch_train(at("untraced"), &settings, &json, &error), CH_ERROR_IO);
  json_decref(read_json(json)); /* the run succeeded */
  assert_true(is_there(at("untraced/model.safetensors")));
}

static void impossible_runs_are_refused_before_anything_is_written(void **state) {
  (void)state;
  diary d = {0};
  for (int i = 0; i < 16; i++) {
    ch_train_settings settings = usual(&d);
    if (i == 0) settings.text.data = NULL;
    if (i == 1) settings.model.config = NULL;
    if (i == 2) settings.model.init_from = MODEL;
    if (i == 3) settings.training.tokens = 100;
    if (i == 4) settings.training.batch = -1;
    if (i == 5) settings.optimizer.lr = -1;
    if (i == 6) settings.training.type = CH_PRECISION_Q8_0;
    if (i == 7) settings.optimizer.schedule = (ch_train_schedule)9;
    if (i == 8) settings.text.validation = 1;
    if (i == 9) settings.optimizer.warmup = -2;
    if (i == 10) settings.text.documents = (ch_document_separator)9;
    if (i == 11) settings.training.epochs = 2;
    if (i == 12) settings.vision.augment = 8;
    if (i == 13) settings.workers.threads = -1;
    if (i == 14) settings.vision.label_smoothing = 0.1;
    if (i == 15) settings.report.eval_every = -2;
    *error.message = 0;
    if (ch_train(at("none"), &settings, NULL, &error) != CH_ERROR_ARGUMENT)
      fail_msg("case %d: \"%s\"", i, error.message);
    assert_true(*error.message);
    assert_null(strstr(error.message, "--")); /* messages of the library name settings, not options */
    assert_false(is_there(at("none")));
  }
  ch_train_settings settings = usual(&d);
  assert_int_equal(ch_train(at("whole"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_non_null(strstr(error.message, "not empty"));
  settings = usual(&d);
  settings.training.sequence = 4096;
  assert_int_equal(ch_train(at("none"), &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(strncmp(error.message, "sequence 4096 is longer", 23), 0);
  assert_string_equal(error.setting, "sequence");
  assert_int_equal(ch_train(NULL, &settings, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(ch_train(at("none"), NULL, NULL, &error), CH_ERROR_ARGUMENT);
  assert_int_equal(d.steps, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_tells_what_it_does_and_leaves_a_model),
      cmocka_unit_test(a_stopped_and_resumed_run_ends_with_the_same_bits),
      cmocka_unit_test(training_goes_on_from_the_weights_of_a_model),
      cmocka_unit_test(a_control_is_trained_as_the_model_is),
      cmocka_unit_test(a_run_with_a_control_can_be_stopped_in_either),
      cmocka_unit_test(a_finished_run_can_get_a_control),
      cmocka_unit_test(impossible_controls_are_refused_before_anything_is_written),
      cmocka_unit_test(a_model_of_images_is_trained_and_measured),
      cmocka_unit_test(a_run_can_be_stopped_within_its_first_step),
      cmocka_unit_test(a_text_that_was_prepared_is_gone_on_with),
      cmocka_unit_test(what_decides_the_result_is_kept_when_a_run_goes_on),
      cmocka_unit_test(recovering_has_defaults_of_its_own),
      cmocka_unit_test(a_trace_has_the_operations_of_one_step),
      cmocka_unit_test(impossible_runs_are_refused_before_anything_is_written),
  };
  return cmocka_run_group_tests(tests, begin, remove_work);
}
