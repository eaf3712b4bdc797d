/* Tests short training runs on real text: every preset and every module learns, and knocking starts as the identity. */
#include "train/training.h"

#include <omp.h>

#include "attention/registry.h"
#include "mechanisms/mechanism.h"
#include "config_file/config_json.h"
#include "experiment/lineup/presets.h"

enum { STEPS = 40, CHARACTERS = 128 };

/* --- Shakespeare, with characters as tokens --- */

static char *text;
static size_t text_size;

static ch_status characters(void *context, int64_t first, ch_batch *batch, ch_error *error) {
  (void)context;
  (void)error;
  for (int64_t i = 0; i < batch->sequences * batch->length; i++) {
    size_t at = (size_t)((first + i / batch->length) * 977 + i % batch->length) % (text_size - 1);
    batch->tokens[i] = text[at] & 127;
    batch->targets[i] = text[at + 1] & 127;
  }
  return CH_OK;
}

static int open_text(void **state) {
  (void)state;
  ch_error error = {0};
  if (ch_read_file(TEST_DATA "/../../data/tinyshakespeare.txt", 1 << 24, &text, &text_size, &error) == CH_OK)
    return 0;
  print_error("%s\n", error.message);
  return -1;
}

static int close_text(void **state) {
  (void)state;
  free(text);
  return 0;
}

static ch_trainer *new_trainer(const ch_config *config, int64_t steps, bool recompute) {
  ch_train_options options;
  ch_train_options_default(config, &options);
  options.steps = steps;
  options.batch = 4;
  options.sequence = 32;
  options.lr = 1e-2;
  options.warmup = steps / 8;
  options.seed = 3;
  options.recompute = recompute;
  ch_batch_source source = {.train = characters, .fingerprint = "characters"};
  ch_trainer *trainer = NULL;
  assert_ok(ch_trainer_create(config, &options, &source, &trainer, &failure));
  return trainer;
}

/* Checks that training starts near the loss of uniform guesses, and that the mean of the last five losses is more than
   1.2 below the first loss. */
static void assert_learns(const char *name, const ch_config *config, bool recompute) {
  ch_trainer *trainer = new_trainer(config, STEPS, recompute);
  double first = 0, last = 0;
  for (int step = 0; step < STEPS; step++) {
    ch_step_report report = take_step(trainer);
    if (!isfinite(report.loss) || !isfinite(report.grad_norm))
      fail_msg("%s: loss %g and gradient norm %g at step %d", name, report.loss, report.grad_norm, step);
    if (step == 0) first = report.loss;
    if (step >= STEPS - 5) last += report.loss / 5;
  }
  ch_trainer_free(trainer);
  if (fabs(first - log(CHARACTERS)) > 0.3) fail_msg("%s: starts at a loss of %g", name, first);
  if (!(last < first - 1.2)) fail_msg("%s: loss went from %g to %g only", name, first, last);
}

/* --- tests --- */

static ch_config preset_config(const ch_preset *preset) {
  ch_shape_wishes wishes = {.vocab = CHARACTERS, .layers = 2, .hidden = 32, .heads = 4, .context = 32};
  ch_config config;
  assert_ok(ch_base_shape(&wishes, &config, &failure));
  assert_ok(ch_preset_apply(preset->name, &config, &failure));
  return config;
}

static void every_preset_learns(void **state) {
  (void)state;
  const ch_preset *preset;
  for (int i = 0; (preset = ch_preset_at(i)); i++) {
    ch_config config = preset_config(preset);
    assert_learns(preset->name, &config, i % 2);
  }
}

#define SIZES "'vocab_size': 128, 'hidden_size': 32, 'intermediate_size': 48, 'head_dim': 8"

static ch_config parsed(const combination *from) {
  ch_config config;
  assert_ok(ch_config_parse(from->json, from->json, &config, &failure));
  return config;
}

/* Adds tested_mechanism.learns of every mechanism. */
static void add_all_modules(combination_list *list) {
  for (const tested_mechanism *const *m = tested_mechanisms(); *m; m++)
    for (const tried *t = (*m)->learns; t->attention; t++) {
      crossing sizes[1];
      cross((const char *const[]){SIZES, NULL}, (const char *const[]){t->sizes, NULL}, sizes, 1);
      add_combination(list, sizes[0].text, (*m)->name, t->attention);
    }
}

static void every_module_learns(void **state) {
  (void)state;
  static combination_list list;
  add_all_modules(&list);
  add_combination(&list,
                  SIZES ", 'moe': {'experts': 4, 'active': 2, 'shared': 1, 'expert_intermediate_size': 16, "
                        "'first_dense_layers': 1, 'balance': 'aux'}",
                  "gqa", "");
  add_combination(&list,
                  SIZES ", 'moe': {'experts': 4, 'active': 1, 'shared': 0, 'expert_intermediate_size': 32, "
                        "'first_dense_layers': 0, 'balance': 'loss_free'}",
                  "gqa", "");
  for (int i = 0; i < list.count; i++) {
    ch_config config = parsed(&list.items[i]);
    assert_learns(list.items[i].json, &config, i % 2);
  }
}

/* Checks all ways of sharing with a mechanism by head and a factorised one, and with modules after the projections. */
static void every_way_of_sharing_learns(void **state) {
  (void)state;
  static const char *const ways[] = {
      "'type': 'masa', 'atoms': 2",
      "'type': 'masa', 'atoms': 2, 'coefficients': 'mlp'",
      "'type': 'masa', 'atoms': 1, 'coefficients': 'mlp', 'common_dictionary': true",
      "'type': 'sequential', 'atoms': 2",
      "'type': 'repeat', 'atoms': 2",
      "'type': 'low_rank', 'rank': 6",
      NULL};
  static const struct {
    const char *type, *projections, *attention;
  } mechanisms[] = {
      {"gqa", "'q', 'k', 'v', 'o'", "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['v']}"},
      {"mfa_kr", "'q_a_proj', 'q_b_proj', 'k', 'v_reuse', 'o'", "'q_a_norm': true"}};
  for (int m = 0; m < 2; m++)
    for (int i = 0; ways[i]; i++) {
      char sharing[200];
      combination_list list = {.count = 0};
      snprintf(sharing, sizeof sharing, "'num_hidden_layers': 3, 'sharing': {%s, 'projections': [%s]}",
               ways[i], mechanisms[m].projections);
      crossing sizes[1];
      cross((const char *const[]){SIZES, NULL}, (const char *const[]){sharing, NULL}, sizes, 1);
      add_combination(&list, sizes[0].text, mechanisms[m].type, mechanisms[m].attention);
      ch_config config = parsed(&list.items[0]);
      assert_learns(list.items[0].json, &config, i % 2);
    }
}

static double first_loss(const ch_config *config) {
  ch_trainer *trainer = new_trainer(config, 1, false);
  double loss = take_step(trainer).loss;
  ch_trainer_free(trainer);
  return loss;
}

/* Checks that the first loss does not depend on knocking, for every type and all states that the mechanism allows.
   Other tensors start equal, because their initial values depend on their names. */
static void assert_starts_unknocked(const char *name, ch_config config) {
  static const ch_knocking_type types[] = {CH_KNOCKING_LINEAR, CH_KNOCKING_MLP, CH_KNOCKING_GATE};
  const ch_mechanism *mechanism = ch_mechanism_of(&config);
  config.attention.knocking = (ch_knocking){0};
  double without = first_loss(&config);
  for (int i = 0; i < 3; i++) {
    unsigned bit = types[i] == CH_KNOCKING_LINEAR ? CH_MODULE_KNOCK_LINEAR : CH_MODULE_KNOCK_OTHER;
    if (!(mechanism->modules & bit)) continue;
    config.attention.knocking = (ch_knocking){.type = types[i], .on = mechanism->knocks};
    assert_ok(ch_config_validate(&config, name, &failure));
    double with = first_loss(&config);
    if (!(fabs(with - without) <= 1e-5))
      fail_msg("%s, knocking %d: %.9g, without %.9g", name, (int)types[i], with, without);
  }
}

static void knocking_starts_as_if_it_were_not_there(void **state) {
  (void)state;
  static combination_list list;
  const ch_preset *preset;
  for (int i = 0; (preset = ch_preset_at(i)); i++)
    assert_starts_unknocked(preset->name, preset_config(preset));
  add_all_modules(&list);
  for (int i = 0; i < list.count; i++) assert_starts_unknocked(list.items[i].json, parsed(&list.items[i]));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_preset_learns),
                                     cmocka_unit_test(every_module_learns),
                                     cmocka_unit_test(every_way_of_sharing_learns),
                                     cmocka_unit_test(knocking_starts_as_if_it_were_not_there)};
  omp_set_num_threads(1); /* faster for such small models */
  return cmocka_run_group_tests(tests, open_text, close_text);
}
