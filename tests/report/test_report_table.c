/* Tests the table for the terminal, and the rule that chooses a mechanism. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "report/sample.h"
#include "experiment/findings/verdict.h"
#include "report/comparison_columns.h"
#include "report/comparison_text.h"
#include "report/page.h"

#define LOOSE                                                                                                \
  "Warning: The laws fitted to mha, gqa:4, gqa:2 and mqa say nothing: the curves are too short "             \
  "or too noisy for the 3 parameters of a law.\n"
#define CHANCE " The risk is unknown with one seed; three would bound it."

static void the_table_is_aligned_and_sorted_with_the_best_marked(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_text text = {0};
  sample_comparison(&comparison, 4);
  ch_model_result first = comparison.models[0]; /* the requested order must not matter */
  comparison.models[0] = comparison.models[3];
  comparison.models[3] = first;
  ch_comparison_write(&comparison, &text);
  assert_string_equal(
      text.data,
      "Take gqa:2 for now: 512 bytes of cache per token, 0.7 % behind the lowest loss of 4." CHANCE "\n"
      "Smaller caches: mqa at 256 bytes (1.7 % behind).\n"
      "\n"
      "                    validation                  cache per token                 speed\n"
      "mechanism    loss   perplexity   parameters   elements   16-bit   training   decoding\n"
      "             nats                                         bytes   tokens/s   tokens/s\n"
      "mha        3.4012*       30.00*   1,000,960      1,024    2,048     14,210      9,120\n"
      "gqa:4      3.4101        30.27    1,000,704        512    1,024     15,010      9,820\n"
      "gqa:2      3.4254        30.73    1,000,576        256      512     15,920     10,455\n"
      "mqa        3.4587        31.78    1,000,512        128*     256*    16,130*    10,800*\n"
      "\n"
      "gqa:2  grouped-query attention: query heads share key-value heads; key-value heads: 2\n"
      "mqa    multi-query attention: one key-value head for all query heads\n"
      "\n"
      "* best of its column. The rule: of the models with a loss at most 1 % above the lowest, take "
      "the one with the smallest cache; at each smaller cache, the lowest loss.\n"
      "Equal (by parameters): parameters 1.0 M, tokens 2.0 M. Different: training time 2m04s to "
      "2m21s, cache elements per token 128 to 1.0 k.\n" LOOSE);
  ch_text_free(&text);
  ch_arena_free(&comparison.arena);
}

static void what_is_equal_and_what_differs_is_said(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_text text = {0};
  sample_comparison(&comparison, 3);
  for (int i = 0; i < 3; i++) {
    comparison.models[i].flops_context = 200000 + 1e5 * i;
    comparison.models[i].flops_head = 50000;
    comparison.models[i].tokens_trained = (int64_t)(comparison.models[i].train_tokens_per_second * 10);
  }
  comparison.match = CH_MATCH_TIME;
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data,
                         "Equal (by time): parameters 1.0 M, training time 10.0 s. Different: tokens "
                         "142 k to 159 k, FLOPs per token 250 k to 450 k, cache elements per token 256 to "
                         "1.0 k.\n"));
  assert_non_null(strstr(text.data, "       cost         training\n"));
  assert_non_null(strstr(text.data, "      FLOPs    tokens   time\n"));
  assert_non_null(strstr(text.data, " 9,820     350,000   150,100   10.0\n"));
  ch_text_free(&text);
  comparison.budget_seconds = 9.5; /* other programs took the rest */
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data, "training time 9.5 s by plan, measured 10.0 s. Different: tokens"));
  ch_text_free(&text);
  for (int i = 0; i < 3; i++)
    comparison.models[i].parameters_active = comparison.models[i].parameters - 100000 * i;
  comparison.match = CH_MATCH_PARAMETERS;
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data, "Different: active parameters 801 k to 1.0 M, tokens"));
  ch_text_free(&text);
  for (int i = 0; i < 3; i++) {
    comparison.models[i].parameters_active = 1000500;
    comparison.models[i].parameters += 100000 * i;
  }
  comparison.match = CH_MATCH_ACTIVE;
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data, "Equal (by active): active parameters 1.0 M, training time"));
  ch_text_free(&text);
  comparison.match = CH_MATCH_CACHE;
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data,
                         "Equal (by cache): active parameters 1.0 M, training time 10.0 s, cache "
                         "elements per token 256 to 1.0 k. Different: parameters 1.0 M to 1.2 M, tokens"));
  ch_text_free(&text);
  ch_arena_free(&comparison.arena);
}

static void long_paths_become_short_names(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_text text = {0};
  sample_comparison(&comparison, 2);
  comparison.models[0].name = "/home/somebody/experiments/attention/wide-heads.json";
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data, "\nwide-heads "));
  assert_null(strstr(text.data, "somebody"));
  ch_text_free(&text);
  ch_arena_free(&comparison.arena);
}

static void spikes_are_said_where_there_are_any(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_text text = {0};
  sample_comparison(&comparison, 3);
  ch_comparison_write(&comparison, &text);
  assert_null(strstr(text.data, "spikes"));
  ch_text_free(&text);
  comparison.models[1].loss_spikes = 12;
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data, "\nLoss spikes while training: mha 0, gqa:4 12, gqa:2 0.\n"));
  ch_text_free(&text);
  comparison.models[2].loss_spikes = -1; /* not known */
  ch_comparison_write(&comparison, &text);
  assert_null(strstr(text.data, "spikes"));
  ch_text_free(&text);
  ch_arena_free(&comparison.arena);
}

static void speeds_have_their_spread_and_unsteady_ones_no_star(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_text text = {0};
  sample_comparison(&comparison, 3);
  for (int i = 0; i < 3; i++) comparison.models[i].decode_spread = 40 + i;
  comparison.models[2].decode_unsteady = true;
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data, " 14,210    9,120 ± 40\n"));
  /* no star: the unsteady speed may be the best */
  assert_non_null(strstr(text.data, " 15,010    9,820 ± 41\n"));
  assert_non_null(strstr(text.data, " 15,920*  10,455 ± 42?\n"));
  assert_non_null(strstr(text.data, "\n± of a speed: "));
  assert_non_null(strstr(text.data, "\n? not steady: "));
  ch_text_free(&text);
  comparison.models[2].decode_unsteady = false;
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data, "10,455 ± 42*\n"));
  assert_null(strstr(text.data, "not steady"));
  ch_text_free(&text);
  ch_arena_free(&comparison.arena);
}

static ch_summary summarised(const ch_comparison *comparison) {
  ch_summary summary;
  ch_error error;
  assert_int_equal(ch_summarise(comparison, &summary, &error), CH_OK);
  return summary;
}

static void assert_sentence(const ch_comparison *comparison, const char *expected) {
  ch_text text = {0};
  ch_summary summary = summarised(comparison);
  ch_verdict_sentence(&summary, comparison, &text);
  assert_string_equal(text.data, expected);
  ch_text_free(&text);
  ch_arena_free(&summary.arena);
}

static int taken(const ch_comparison *comparison) {
  ch_summary summary = summarised(comparison);
  int take = summary.decision.pick;
  ch_arena_free(&summary.arena);
  return take;
}

/* Turns the sample's models into image models. */
static void make_images(ch_comparison *comparison) {
  static const double top1[] = {0.615, 0.6093, 0.6065, 0.58};
  comparison->data.images = true;
  for (int i = 0; i < comparison->count; i++) {
    ch_model_result *model = &comparison->models[i];
    model->images = true;
    model->top1 = top1[i];
    model->top5 = top1[i] + 0.3;
    model->parameters_attention = 400000 >> i;
  }
}

static void images_are_compared_by_their_accuracies(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_text text = {0};
  sample_comparison(&comparison, 4);
  make_images(&comparison);
  comparison.models[2].validation_loss = 3; /* the lowest loss is not what counts */
  ch_comparison_write(&comparison, &text);
  assert_string_equal(
      text.data,
      "Take gqa:2 for now: 100,000 parameters of attention, 0.8 points behind the highest accuracy of "
      "4." CHANCE "\n"
      "Fewer parameters: mqa at 50,000 parameters of attention (3.5 points behind).\n"
      "\n"
      "                accuracy validation              parameters                  speed\n"
      "mechanism  top-1   top-5     loss         all   attention   training   inference\n"
      "               %       %     nats                           images/s    images/s\n"
      "mha        61.50*  91.50*  3.4012   1,000,960     400,000     14,210       9,120\n"
      "gqa:4      60.93   90.93   3.4101   1,000,704     200,000     15,010       9,820\n"
      "gqa:2      60.65   90.65   3.0000*  1,000,576     100,000     15,920      10,455\n"
      "mqa        58.00   88.00   3.4587   1,000,512      50,000*    16,130*     10,800*\n"
      "\n"
      "gqa:2  grouped-query attention: query heads share key-value heads; key-value heads: 2\n"
      "mqa    multi-query attention: one key-value head for all query heads\n"
      "\n"
      "* best of its column. The rule: of the models with a top-1 accuracy at most 1 point below the "
      "highest, take "
      "the one with the fewest parameters of attention.\n"
      "Equal (by parameters): parameters 1.0 M, images 2.0 M. Different: training time 2m04s to "
      "2m21s.\n" LOOSE);
  ch_text_free(&text);
  comparison.tolerance = 0.001;
  assert_int_equal(taken(&comparison), 0);
  ch_arena_free(&comparison.arena);
}

static void long_names_widen_their_column(void **state) {
  (void)state;
  ch_comparison comparison;
  ch_text text = {0};
  sample_comparison(&comparison, 2);
  comparison.models[1].name = "configs/ünusual-mechanism.json";
  ch_comparison_write(&comparison, &text);
  assert_non_null(strstr(text.data, "\nmha"
                                    "                "
                                    "3.4012*"));
  assert_non_null(strstr(text.data, "\nünusual-mechanism  3.4101 "));
  ch_text_free(&text);
  ch_arena_free(&comparison.arena);
}

static void the_verdict_follows_the_tolerance(void **state) {
  (void)state;
  ch_comparison comparison;
  sample_comparison(&comparison, 4);
  comparison.tolerance = 0;
  assert_sentence(&comparison,
                  "Take mha for now: 2,048 bytes of cache per token, the lowest loss of 4." CHANCE
                  "\nSmaller caches: gqa:4 at 1,024 bytes (0.3 % behind), gqa:2 at 512 bytes (0.7 % "
                  "behind), mqa at 256 bytes (1.7 % behind).");
  comparison.tolerance = 0.005;
  assert_int_equal(taken(&comparison), 1);
  comparison.tolerance = 0.02;
  assert_sentence(
      &comparison,
      "Take mqa for now: 256 bytes of cache per token, 1.7 % behind the lowest loss of 4." CHANCE);
  ch_arena_free(&comparison.arena);
}

static void of_equal_caches_the_lower_loss_is_taken(void **state) {
  (void)state;
  ch_comparison comparison;
  sample_comparison(&comparison, 4);
  comparison.models[1].cache_elements_per_token = comparison.models[2].cache_elements_per_token;
  assert_int_equal(taken(&comparison), 1);
  comparison.models[2].cache_elements_per_token = 341;
  comparison.models[2].validation_loss = 3.402;
  comparison.models[1].cache_elements_per_token = 512;
  assert_sentence(&comparison,
                  "Take gqa:2 for now: 682 bytes of cache per token, 0.02 % behind the lowest loss of "
                  "4." CHANCE "\nSmaller caches: mqa at 256 bytes (1.7 % behind).");
  ch_arena_free(&comparison.arena);
}

static void one_model_or_none_is_no_comparison(void **state) {
  (void)state;
  ch_comparison comparison;
  sample_comparison(&comparison, 1);
  assert_sentence(&comparison, "Take mha: it is the only model, with a validation loss of 3.4012.");
  ch_text text = {0};
  ch_comparison_write(&comparison, &text);
  assert_null(strstr(text.data, "3.4012*"));
  ch_text_free(&text);
  comparison.count = 0;
  assert_sentence(&comparison, "No model is trained yet.");
  ch_arena_free(&comparison.arena);
}

/* Gives the sample three seeds. A seed's effect has a part common to all models and a part of each model. */
static void give_seeds(ch_comparison *comparison, double deviation) {
  static const double common[] = {0, 0.05, -0.02},
                      own[4][3] = {{0, 0, 0}, {0, -1, 1}, {1, 0, -1}, {-1, 1, 0}};
  int count = comparison->count;
  ch_model_result *runs = ch_arena_alloc(&comparison->arena, (size_t)(3 * count) * sizeof *runs);
  for (int i = 0; i < 3 * count; i++) {
    runs[i] = comparison->models[i % count];
    runs[i].seed = (uint64_t)(i / count + 1);
    runs[i].validation_loss += common[i / count] + deviation * own[i % count][i / count];
    runs[i].train_seconds = 60;
  }
  comparison->models = runs;
  comparison->count = comparison->planned = 3 * count;
  comparison->training.seeds = 3;
}

static char *table_of(const ch_comparison *comparison) {
  ch_text text = {0};
  ch_comparison_write(comparison, &text);
  assert_false(text.failed);
  return text.data;
}

static void assert_part(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("'%s' is not in:\n%s", part, text);
}

static void with_seeds_the_answer_comes_first_and_intervals_follow(void **state) {
  (void)state;
  ch_comparison comparison;
  sample_comparison(&comparison, 4);
  give_seeds(&comparison, 0.001);
  char *text = table_of(&comparison);
  static const char take[] =
      "Take gqa:2: 512 bytes of cache per token, 0.6 to 0.8 % behind the best of 4 (3 seeds, 95 % "
      "confidence).\n"
      "Smaller caches: mqa at 256 bytes (1.6 to 1.8 % behind).\n"
      "Larger caches: mha at 2,048 bytes (the best), gqa:4 at 1,024 bytes (0.2 to 0.3 % behind).\n\n";
  assert_int_equal(strncmp(text, take, sizeof take - 1), 0);
  assert_part(text, "\nLoss above the best, 95 % interval: mha 0 %, gqa:4 0.2 to 0.3 %, gqa:2 0.6 to "
                    "0.8 %, mqa 1.6 to 1.8 %.\n");
  assert_part(text, "\nMore training closes these gaps: at most ");
  assert_part(text, " more tokens for gqa:4, at most "); /* mha has no gap */
  assert_part(text,
              "\nEach statement has 95 % confidence (Hsu's comparison with the best, paired by seed). Chance "
              "moves the loss of a run by about 0.0010 (standard deviation, 6 degrees of freedom).\n");
  free(text);
  ch_arena_free(&comparison.arena);
  /* Ten times the noise still gives an answer, with its risk. */
  sample_comparison(&comparison, 4);
  give_seeds(&comparison, 0.01);
  text = table_of(&comparison);
  assert_part(text, "Take gqa:2: 512 bytes of cache per token, at most 1.");
  assert_part(text,
              "\nLarger caches buy nothing measurable: gqa:4 (1,024 bytes) and mha (2,048 bytes) are tied "
              "with gqa:2.\n");
  free(text);
  comparison.until_decided = true;
  text = table_of(&comparison);
  assert_part(text, "95 % confidence, over all looks at the seeds (Hsu");
  free(text);
  ch_arena_free(&comparison.arena);
}

/* Asserts that the page of a comparison within a budget contains `words` and not `others`, which may be NULL. */
static void assert_page(double cache_budget, const char *words, const char *others) {
  ch_comparison comparison;
  ch_text html = {0};
  ch_error error;
  sample_comparison(&comparison, 4);
  give_seeds(&comparison, 0.001);
  comparison.cache_budget = cache_budget;
  assert_int_equal(ch_page_write(&comparison, &html, &error), CH_OK);
  assert_part(html.data, words);
  if (others && strstr(html.data, others)) fail_msg("'%s' is on the page", others);
  ch_text_free(&html);
  ch_arena_free(&comparison.arena);
}

static void the_page_says_what_the_text_says(void **state) {
  (void)state;
  assert_page(0, " more tokens for gqa:4, at most ", NULL);
  assert_page(0, "Rings mark the choices, and a line joins them.", NULL);
  assert_page(300, "A ring marks the choice.", "a line joins");
  assert_page(300, "Take mqa: 256 bytes of cache per token (budget 300), 1.6 to 1.8 % behind the best of 4",
              NULL);
  assert_page(100, "No model fits 100 bytes of cache per token: the smallest, mqa, needs 256.",
              "A ring marks");
}

static void numbers_are_grouped_by_thousands(void **state) {
  (void)state;
  static const struct {
    int decimals;
    double value;
    const char *text;
  } cases[] = {{0, 0, "0"},
               {0, 999, "999"},
               {0, 1000, "1,000"},
               {0, 1234567, "1,234,567"},
               {2, 1234.5, "1,234.50"},
               {4, 0.12345, "0.1235"},
               {0, -1234, "-1,234"},
               {2, 1e300, "1e+300"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_column column = {.decimals = cases[i].decimals};
    char buffer[64];
    assert_string_equal(ch_column_format(&column, cases[i].value, buffer, sizeof buffer), cases[i].text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_table_is_aligned_and_sorted_with_the_best_marked),
      cmocka_unit_test(what_is_equal_and_what_differs_is_said),
      cmocka_unit_test(spikes_are_said_where_there_are_any),
      cmocka_unit_test(speeds_have_their_spread_and_unsteady_ones_no_star),
      cmocka_unit_test(images_are_compared_by_their_accuracies),
      cmocka_unit_test(long_names_widen_their_column),
      cmocka_unit_test(the_verdict_follows_the_tolerance),
      cmocka_unit_test(of_equal_caches_the_lower_loss_is_taken),
      cmocka_unit_test(one_model_or_none_is_no_comparison),
      cmocka_unit_test(long_paths_become_short_names),
      cmocka_unit_test(with_seeds_the_answer_comes_first_and_intervals_follow),
      cmocka_unit_test(the_page_says_what_the_text_says),
      cmocka_unit_test(numbers_are_grouped_by_thousands),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
