/* Compares documents that are packed into one sequence with each document alone: logits and gradients of models with
 * windows, sinks and states of constant size. Each document alone also passes through the cache. */
#include "infer/session.h"
#include "harness/trial.h"

enum { LENGTH = 150, LAYERS = 3 };

/* Lengths below and above those of a convolution, a window and a chunk. The last document ends with the sequence. */
static const int64_t lengths[] = {2, 9, 1, 3, 70, 25, 40};

enum { DOCUMENTS = sizeof lengths / sizeof *lengths };

#define TYPES(a, b, c) "'layer_types': ['" #a "_attention', '" #b "_attention', '" #c "_attention']"
#define GDN(more) "'linear_attention': {'type': 'gdn', 'heads': 2, 'head_dim': 5" more "}"

static const char *const models[] = {
    "'num_hidden_layers': 3",
    "'num_hidden_layers': 3, 'sliding_window': 6",
    "'num_hidden_layers': 3, 'sliding_window': 5, 'attention_sinks': 2, " TYPES(sliding, full, sliding),
    "'num_hidden_layers': 3, " TYPES(linear, linear, full) ", " GDN(""),
    "'num_hidden_layers': 3, " TYPES(linear, linear, linear) ", " GDN(", 'value_heads': 4, 'conv': 3"),
    "'num_hidden_layers': 3, 'sliding_window': 7, 'attention_sinks': 1, " TYPES(
        linear, sliding, full) ", " GDN(", 'conv': 0, 'negative_eigenvalues': true"),
};

enum { MODELS = sizeof models / sizeof *models };

static int64_t first_of(int document) {
  int64_t first = 0;
  for (int d = 0; d < document; d++) first += lengths[d];
  return first;
}

/* Sets the target of every token to the next token of its document. The last token of a document has no target. */
static void fill_targets(const specimen *s, int32_t *targets) {
  for (int d = 0; d < DOCUMENTS; d++)
    for (int64_t t = 0; t < lengths[d]; t++) {
      int64_t at = first_of(d) + t;
      targets[at] = t + 1 < lengths[d] ? s->tokens[at + 1] : -1;
    }
}

/* Adds the gradients of all tensors, one after the other, for tokens first ... first + length - 1 as one sequence. */
static void add_gradients(const specimen *s, int64_t first, int64_t length, const int32_t *targets,
                          const int32_t *starts, double *gradients) {
  ch_model_graph shape = {.sequences = 1,
                          .length = length,
                          .dtype = CH_F64,
                          .head = CH_HEAD_LOSS,
                          .trainable = true,
                          .documents = starts != NULL};
  void **places = calloc((size_t)s->params.count, sizeof *places);
  ch_runner *runner = NULL;
  ch_error error = {0};
  const void *losses = NULL;
  double *next = gradients;
  assert_non_null(places);
  for (int p = 0; p < s->params.count; next += ch_param_count(&s->params.rows[p++])) places[p] = next;
  ch_runner_call call = {.weights = s->wide,
                         .tokens = s->tokens + first,
                         .targets = targets + first,
                         .document_start = starts,
                         .gradients = places,
                         .accumulate = true,
                         .seed = 1};
  if (ch_runner_create(&engine, &s->config, &s->params, &shape, false, &runner, &error) != CH_OK ||
      ch_runner_run(runner, &call, &losses, &error) != CH_OK)
    fail_msg("%s", error.message);
  ch_runner_free(runner);
  free(places);
}

/* Compares the packed logits of one document with its logits alone, without a cache and through it: half of the tokens
   at once, the rest one by one. */
static void check_alone(const specimen *s, int document, const double *packed) {
  const int64_t first = first_of(document), length = lengths[document], count = length * s->vocab;
  ch_model_graph shape = {.sequences = 1, .length = length, .dtype = CH_F64, .head = CH_HEAD_LOGITS};
  double *alone = specimen_run(s, &engine, &shape, s->wide, s->tokens + first, NULL, count);
  assert_non_null(alone);
  expect_near(s, "logits of a document alone", count, packed + first * s->vocab, alone, s->largest, 1e-11);
  free(alone);
  ch_session_options options = {
      .sequences = 1, .context = length, .chunk = length, .cache = ch_cache_of(CH_F32)};
  ch_session *session = NULL;
  ch_error error = {0};
  if (ch_session_new(&s->config, &s->params, s->narrow, &options, &session, &error) != CH_OK)
    fail_msg("%s", error.message);
  for (int64_t t = 0, some; t < length; t += some) {
    const float *logits;
    some = t == 0 ? (length + 1) / 2 : 1;
    if (ch_session_feed_all(session, s->tokens + first + t, (size_t)some, &logits, &error) != CH_OK)
      fail_msg("%s", error.message);
    double *values = widened(logits, some * s->vocab);
    expect_near(s, "logits of a document through the cache", some * s->vocab, values,
                packed + (first + t) * s->vocab, s->largest, 5e-5);
    free(values);
  }
  ch_session_free(session);
}

static void check_gradients(const specimen *s, const int32_t *starts) {
  int64_t total = 0;
  for (int p = 0; p < s->params.count; p++) total += ch_param_count(&s->params.rows[p]);
  double *packed = calloc((size_t)total, sizeof *packed), *alone = calloc((size_t)total, sizeof *alone),
         largest = 0;
  int32_t targets[LENGTH];
  assert_true(packed && alone);
  fill_targets(s, targets);
  add_gradients(s, 0, LENGTH, targets, starts, packed);
  for (int d = 0; d < DOCUMENTS; d++) add_gradients(s, first_of(d), lengths[d], targets, NULL, alone);
  for (int64_t i = 0; i < total; i++) largest = fmax(largest, fabs(alone[i]));
  expect_near(s, "gradients of packed documents", total, packed, alone, largest, 1e-11);
  free(packed);
  free(alone);
}

static void packed_documents_are_documents_alone(void **state) {
  (void)state;
  int32_t starts[LENGTH];
  for (int d = 0; d < DOCUMENTS; d++)
    for (int64_t t = 0; t < lengths[d]; t++) starts[first_of(d) + t] = (int32_t)first_of(d);
  assert_int_equal(first_of(DOCUMENTS), LENGTH);
  for (int m = 0; m < MODELS; m++) {
    static combination_list list;
    specimen s;
    list.count = 0;
    add_combination_of(&list, 1, LENGTH, models[m], "gqa", "'num_value_heads': 2");
    if (!specimen_open(&list.items[0], &s)) fail_msg("the library does not know %s", list.items[0].json);
    assert_int_equal(s.config.num_hidden_layers, LAYERS);
    ch_model_graph shape = specimen_shape(&s, CH_F64, CH_HEAD_LOGITS);
    shape.documents = true;
    double *packed = specimen_run(&s, &engine, &shape, s.wide, s.tokens, starts, LENGTH * s.vocab);
    assert_non_null(packed);
    for (int d = 0; d < DOCUMENTS; d++) check_alone(&s, d, packed);
    check_gradients(&s, starts);
    free(packed);
    specimen_close(&s);
  }
  assert_int_equal(complaints(), 0);
}

/* Checks that the logits differ without document starts. Otherwise, comparing packed documents could not fail. */
static void without_their_starts_documents_are_one_text(void **state) {
  (void)state;
  for (int m = 0; m < MODELS; m++) {
    static combination_list list;
    specimen s;
    list.count = 0;
    add_combination_of(&list, 1, LENGTH, models[m], "gqa", "");
    if (!specimen_open(&list.items[0], &s)) fail_msg("the library does not know %s", list.items[0].json);
    const int64_t first = first_of(DOCUMENTS - 1);
    ch_model_graph whole = specimen_shape(&s, CH_F64, CH_HEAD_LOGITS), last = whole;
    last.length = LENGTH - first;
    double *text = specimen_run(&s, &engine, &whole, s.wide, s.tokens, NULL, LENGTH * s.vocab),
           *alone = specimen_run(&s, &engine, &last, s.wide, s.tokens + first, NULL, last.length * s.vocab),
           difference = 0;
    assert_true(text && alone);
    for (int64_t i = 0; i < s.vocab; i++)
      difference = fmax(difference, fabs(text[first * s.vocab + i] - alone[i]));
    assert_true(difference > 1e-3 * s.largest);
    free(text);
    free(alone);
    specimen_close(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(packed_documents_are_documents_alone),
      cmocka_unit_test(without_their_starts_documents_are_one_text),
  };
  return cmocka_run_group_tests(tests, open_engine, close_engine);
}
