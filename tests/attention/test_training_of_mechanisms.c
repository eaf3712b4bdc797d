/* Short training runs on real text: every preset and every module learns, and knocking starts as if it were not there. */
#include "train/training.h"

#include <omp.h>

#include "harness/combinations.h"
#include "train/presets.h"

enum { STEPS = 40, CHARACTERS = 128 };

/* --- Shakespeare, a token a character --- */

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
  ch_source source = {.train = characters, .fingerprint = "characters"};
  ch_trainer *trainer = NULL;
  assert_ok(ch_trainer_create(config, &options, &source, &trainer, &failure));
  return trainer;
}

/* The mean of the last losses against the first, which is that of guessing. */
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

static void every_preset_learns(void **state) {
  (void)state;
  const ch_preset *preset;
  for (int i = 0; (preset = ch_preset_at(i)); i++) {
    ch_shape_wishes wishes = {.vocab = CHARACTERS, .layers = 2, .hidden = 32, .heads = 4, .context = 32};
    ch_config config;
    assert_ok(ch_base_shape(&wishes, &config, &failure));
    assert_ok(ch_preset_apply(preset->name, &config, &failure));
    assert_learns(preset->name, &config, i % 2);
  }
}

#define LATENT "'kv_lora_rank': 12, 'qk_nope_head_dim': 8, 'qk_rope_head_dim': 4, 'v_head_dim': 8"
#define SIZES "'vocab_size': 128, 'hidden_size': 32, 'intermediate_size': 48, 'head_dim': 8"

static ch_config parsed(const combination *from) {
  ch_config config;
  assert_ok(ch_config_parse(from->json, from->json, &config, &failure));
  return config;
}

static void every_module_learns(void **state) {
  (void)state;
  static combination_list list;
  static const char *const grouped = SIZES ", 'num_key_value_heads': 2";
  add_combination(&list, grouped, "gqa", "'qk_norm': true, 'head_norm': true");
  add_combination(&list, grouped, "gqa",
                  "'head_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 1}");
  add_combination(&list, grouped, "gqa",
                  "'qk_norm': true, 'head_mix': {'on': ['k', 'v'], 'component_heads': 3}");
  add_combination(&list, grouped, "gqa", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}");
  add_combination(&list, grouped, "gqa",
                  "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v'], 'decay_to_identity': true}");
  add_combination(&list, grouped, "gqa", "'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}");
  add_combination(&list, grouped, "gqa", "'knocking': {'type': 'gate', 'on': ['v']}");
  add_combination(&list, grouped, "gta", "'knocking': {'type': 'mlp', 'on': ['v']}");
  add_combination(&list, grouped, "gta", "'head_mix': {'on': ['v'], 'component_heads': 1}");
  add_combination(&list, grouped, "diff", "'diff_lambda': 'per_pair'");
  add_combination(&list, grouped, "diff", "'head_mix': {'on': ['k', 'v'], 'component_heads': 1}");
  add_combination(&list, SIZES, "mla", LATENT ", 'q_lora_rank': 16, 'layer_group_size': 2");
  add_combination(&list, SIZES, "mla", LATENT ", 'gate_embedding_dim': 8");
  add_combination(&list, SIZES, "mla",
                  LATENT ", 'gate_embedding_dim': 8, 'gate_op': 'add', "
                         "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}");
  add_combination(&list, SIZES, "mfa", "'q_lora_rank': 16, 'q_a_norm': true, 'qk_norm': true");
  add_combination(&list, SIZES, "mfa_kr", "'qk_norm': true, 'knocking': {'type': 'mlp', 'on': ['k']}");
  add_combination(&list, SIZES, "talking", "'mix_weights': false");
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

static double first_loss(const ch_config *config) {
  ch_trainer *trainer = new_trainer(config, 1, false);
  double loss = take_step(trainer).loss;
  ch_trainer_free(trainer);
  return loss;
}

/* KHA: at the start the transforms are identities, and the other tensors start from their own names. */
static void knocking_starts_as_if_it_were_not_there(void **state) {
  (void)state;
  static const struct {
    const char *type, *attention, *knocking;
  } cases[] = {
      {"gqa", "'qk_norm': true", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"},
      {"gqa", "'qk_norm': false", "'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}"},
      {"gqa", "'qk_norm': true", "'knocking': {'type': 'gate', 'on': ['q', 'k', 'v']}"},
      {"gta", "'head_norm': true", "'knocking': {'type': 'mlp', 'on': ['q', 'v']}"},
      {"mla", LATENT, "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"},
      {"mla", LATENT ", 'gate_embedding_dim': 8", "'knocking': {'type': 'linear', 'on': ['q', 'k', 'v']}"},
      {"mfa", "'q_a_norm': true", "'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}"},
      {"mfa_kr", "'q_a_norm': true", "'knocking': {'type': 'linear', 'on': ['q', 'k']}"},
      {"diff", "'qk_norm': true", "'knocking': {'type': 'mlp', 'on': ['q', 'k', 'v']}"},
      {"talking", "'qk_norm': true", "'knocking': {'type': 'gate', 'on': ['q', 'k', 'v']}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    combination_list list = {.count = 0};
    crossing both[1];
    cross((const char *const[]){cases[i].attention, NULL}, (const char *const[]){cases[i].knocking, NULL},
          both, 1);
    add_combination(&list, SIZES, cases[i].type, cases[i].attention);
    add_combination(&list, SIZES, cases[i].type, both[0].text);
    ch_config plain = parsed(&list.items[0]), knocking = parsed(&list.items[1]);
    double without = first_loss(&plain), with = first_loss(&knocking);
    if (!(fabs(with - without) <= 1e-5))
      fail_msg("%s: %.9g, without %.9g", list.items[1].json, with, without);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_preset_learns),
                                     cmocka_unit_test(every_module_learns),
                                     cmocka_unit_test(knocking_starts_as_if_it_were_not_there)};
  omp_set_num_threads(1); /* models this small are not worth two */
  return cmocka_run_group_tests(tests, open_text, close_text);
}
