/* Measures attention of one token over gated latents (EG-MLA) in milliseconds per layer, for different numbers of ids
 * among the cached tokens. Ids are folded, tokens are expanded, or the cheaper of both is chosen for each id. There
 * are 12 heads with 64 rotated and 64 unrotated key dims and 64 value dims, and latents have 128 elements. Usage:
 * bench_gated [cached tokens]. Threads: OMP_NUM_THREADS; instruction set: CROSSHEAD_ISA. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "bench/timing.h"
#include "tensor/kernels.h"

enum {
  HEADS = 12,
  LATENT = 128,
  ROPE = 64,
  NOPE = 64,
  VALUE = 64,
  GATED = HEADS * (NOPE + VALUE),
  ROUNDS = 7
};

static void *reserve(int64_t count, size_t size) {
  void *memory = ch_pages_alloc((size_t)count * size);
  if (!memory) {
    fprintf(stderr, "bench_gated: no memory for %lld values\n", (long long)count);
    exit(1);
  }
  return memory;
}

static float *values(int64_t count, float shift) {
  float *made = reserve(count, sizeof *made);
  for (int64_t i = 0; i < count; i++) made[i] = (float)(i * 79 % 1009) / 1009 - 0.5f + shift;
  return made;
}

/* Groups tokens, in a scattered order, by id. With `single`, every second id occurs once and the others share the
   remaining tokens equally. Without it, all ids occur equally often. */
static ch_id_groups make_groups(int64_t tokens, int64_t ids, bool single, int32_t *memory) {
  int32_t *id = memory, *first = id + tokens, *token = first + tokens + 1;
  int64_t shared = single ? ids - ids / 2 : ids, rest = single ? tokens - ids / 2 : tokens, at = 0;
  for (int64_t g = 0, n = 0; g < ids; g++) {
    id[g] = (int32_t)g;
    first[g] = (int32_t)at;
    if (single && g % 2) {
      at++;
    } else {
      at += rest * (n + 1) / shared - rest * n / shared;
      n++;
    }
  }
  first[ids] = (int32_t)at;
  /* a permutation unless the prime 7919 divides `tokens` */
  for (int64_t t = 0; t < tokens; t++) token[t] = (int32_t)(t * 7919 % tokens);
  return (ch_id_groups){.count = ids, .id = id, .first = first, .token = token};
}

static ch_status attend(void *context, ch_error *error) {
  (void)error;
  ch_kernels_best(CH_F32)->gated_attend(context);
  return CH_OK;
}

static double best_milliseconds(ch_gated_attend *args, ch_gated_form form) {
  double seconds[ROUNDS];
  ch_timed_work work = {.context = args, .once = attend, .seconds = seconds};
  args->form = form;
  ch_time(&(ch_timing){.least = ROUNDS, .most = ROUNDS}, 1, &work, NULL);
  return 1e3 * ch_shortest_time(&work);
}

int main(int argc, char **argv) {
  const ch_kernels *k = ch_kernels_best(CH_F32);
  int64_t tokens = argc > 1 ? strtoll(argv[1], NULL, 10) : 16384;
  if (tokens < 16 || tokens > 1 << 20) {
    fprintf(stderr, "bench_gated: 16 to 1048576 cached tokens, not '%s'\n", argv[1]);
    return 2;
  }
  const ch_team team = ch_team_of(0);
  ch_gated_attend args = {.team = &team,
                          .sequences = 1,
                          .heads = HEADS,
                          .latent = LATENT,
                          .rope = ROPE,
                          .nope = NOPE,
                          .value = VALUE,
                          .q = values(HEADS * (NOPE + ROPE), 0),
                          .out = values(HEADS * VALUE, 0),
                          .scale = 1 / sqrt(NOPE + ROPE),
                          .kv_b = values(GATED * LATENT, 0),
                          .kv_b_dtype = CH_F32,
                          .gamma = values(GATED, 1),
                          .beta = values(GATED, 0),
                          .latents = {values(tokens * (LATENT + ROPE), 0), CH_F32, LATENT + ROPE, 0, 0},
                          .gates = {values(tokens * GATED, 0), CH_F32, GATED, 0, 0},
                          .moments = {values(tokens * 2, 1), CH_F32, 2, 0, 0}};
  int32_t *memory = reserve(3 * tokens + 1, sizeof *memory);
  args.scratch = reserve((int64_t)k->gated_attend_scratch(&args), 1);
  printf("%s, %d threads, %lld tokens\n%-28s %10s %10s %10s\n", k->name, ch_team_of(0).threads,
         (long long)tokens, "different ids", "folded", "expanded", "chosen");
  for (int single = 0; single < 2; single++)
    for (int64_t ids = tokens; ids >= 1; ids = ids == 1   ? 0
                                               : ids > 16 ? ids / (ids > tokens / 8 ? 2 : 8)
                                                          : 1) {
      if (single && (ids < 16 || ids == tokens)) continue;
      ch_id_groups groups = make_groups(tokens, ids, single, memory);
      args.groups = &groups;
      printf("%-8lld%-20s", (long long)ids, single ? " half of them once" : "");
      for (int form = 0; form < 3; form++)
        printf(" %7.2f ms", best_milliseconds(&args, (ch_gated_form[]){CH_GATED_FOLDED, CH_GATED_EXPANDED,
                                                                       CH_GATED_CHOSEN}[form]));
      putchar('\n');
    }
  return 0;
}
