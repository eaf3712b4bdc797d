/* Fuzz target: files of loss curves, and the laws that are fitted to them. Every estimate must be inside its
 * interval. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "experiment/findings/curve_file.h"
#include "laws/loss_spikes.h"

enum { MOST_POINTS = 24 }; /* fits of more points are slow */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const ch_estimate *e) {
  if (!(e->low <= e->value && e->value <= e->high)) abort();
}

static void judge(const ch_loss_curve *curve) {
  ch_stability_watch watch;
  ch_scaling_law law;
  ch_stability_begin(&watch, curve->count);
  for (int i = 0; i < curve->count; i++)
    if (isfinite(curve->losses[i])) ch_stability_loss(&watch, curve->losses[i]);
  if (ch_stability_end(&watch, true).spikes > curve->count) abort();
  if (curve->count > MOST_POINTS) return;
  if (ch_scaling_law_fit(curve->tokens, curve->losses, curve->count, 1e9, &law, NULL) != CH_OK) return;
  check(&law.alpha);
  check(&law.floor);
  check(&law.at);
  if (law.tokens.value < INFINITY && law.tokens.value > 0) check(&law.tokens);
}

static void judge_models(const ch_sized_models *models) {
  ch_size_law law;
  for (int form = 0; form < 2 && models->count <= MOST_POINTS; form++) {
    if (ch_size_law_fit((ch_size_form)form, models->sizes, models->tokens, models->losses, models->count, 1e9,
                        1e9, &law, NULL) != CH_OK)
      return;
    check(&law.alpha_size);
    check(&law.alpha_tokens);
    check(&law.floor);
    check(&law.at);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  ch_arena arena = {0};
  ch_loss_curve *curves;
  ch_sized_models models;
  int count, file = memfd_create("curves", 0);
  if (file < 0) return 0;
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (size == 0 || write(file, data, size) == (ssize_t)size)
    for (int validation = 0; validation < 2; validation++) {
      if (ch_read_curves(path, validation, &arena, &curves, &count, NULL, NULL) == CH_OK)
        for (int i = 0; i < count; i++) judge(&curves[i]);
      if (ch_read_sized_models(path, validation, &arena, &models, NULL) == CH_OK) judge_models(&models);
    }
  ch_arena_free(&arena);
  close(file);
  return 0;
}
