/* A synthetic comparison for the tests of the report. */
#ifndef CH_TESTS_REPORT_SAMPLE_H
#define CH_TESTS_REPORT_SAMPLE_H

#include <math.h>
#include <string.h>

#include "experiment/findings/comparison_results.h"

enum { SAMPLE_POINTS = 60, SAMPLE_EVALUATIONS = 12 };

static ch_model_result sample_model(ch_arena *arena, const char *name, int64_t kv_heads, double loss,
                                    double train, double decode) {
  ch_model_result model = {.name = name,
                           .directory = name,
                           .mechanism = "gqa",
                           .layers = 4,
                           .hidden_size = 128,
                           .heads = 8,
                           .key_value_heads = kv_heads,
                           .head_dim = 16,
                           .intermediate_size = 448 - 10 * kv_heads,
                           .parameters = 1000448 + kv_heads * 64,
                           .cache_elements_per_token = 4 * 2 * 16 * kv_heads,
                           .cache_bytes_per_token = 2 * 4 * 2 * 16 * kv_heads,
                           .validation_loss = loss,
                           .train_tokens_per_second = train,
                           .decode_tokens_per_second = decode,
                           .tokens_trained = 2000000,
                           .seed = 1};
  model.curve_points = SAMPLE_POINTS;
  model.validation_points = SAMPLE_EVALUATIONS;
  ch_curve_point *curve = ch_arena_alloc(arena, SAMPLE_POINTS * sizeof *curve);
  ch_curve_point *validation = ch_arena_alloc(arena, SAMPLE_EVALUATIONS * sizeof *validation);
  model.curve = curve;
  model.validation_curve = validation;
  for (int i = 0; i < SAMPLE_POINTS; i++) {
    double share = (i + 1.0) / SAMPLE_POINTS;
    curve[i] = (ch_curve_point){(int64_t)(2000000 * share),
                                loss - 0.1 + 3.6 * exp(-6 * share) + 0.05 * sin(37.0 * i + kv_heads)};
  }
  for (int i = 0; i < SAMPLE_EVALUATIONS; i++) {
    double share = (i + 1.0) / SAMPLE_EVALUATIONS;
    validation[i] = (ch_curve_point){(int64_t)(2000000 * share), loss + 3.6 * (exp(-6 * share) - exp(-6.0))};
  }
  return model;
}

/* Creates the first `count` of mha, gqa:4, gqa:2 and mqa. Release it with ch_arena_free(&c->arena). */
static void sample_comparison(ch_comparison *c, int count) {
  *c = (ch_comparison){.command = "crosshead compare --data plays.txt --out demo",
                       .version = "0.1.0",
                       .created = "2026-11-20T06:40:00Z",
                       .data = {.file = "texts/plays.txt",
                                .bytes = 1115394,
                                .train_tokens = 361000,
                                .validation_tokens = 40300,
                                .vocab_size = 1024,
                                .tokenizer = "trained on this text"},
                       .training = {.tokens = 2000000,
                                    .steps = 489,
                                    .batch = 16,
                                    .sequence = 256,
                                    .warmup = 24,
                                    .eval_tokens = 40300,
                                    .lr = 2e-3,
                                    .weight_decay = 0.1,
                                    .schedule = "cosine",
                                    .seed = 1},
                       .machine = {"A Processor", "Linux 6.1 x86_64", "f32 avx512", 2, 2, (int64_t)8 << 30},
                       .tolerance = 0.01,
                       .planned = count,
                       .count = count};
  c->models = ch_arena_alloc(&c->arena, 4 * sizeof *c->models);
  c->models[0] = sample_model(&c->arena, "mha", 8, 3.4012, 14210, 9120);
  c->models[1] = sample_model(&c->arena, "gqa:4", 4, 3.4101, 15010, 9820);
  c->models[2] = sample_model(&c->arena, "gqa:2", 2, 3.4254, 15920, 10455);
  c->models[3] = sample_model(&c->arena, "mqa", 1, 3.4587, 16130, 10800);
}

#endif
