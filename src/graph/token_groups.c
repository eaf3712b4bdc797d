/* Groups tokens with a hash table over ids. The tokens of a group keep their order. */
#include "graph/token_groups.h"

#include <stdlib.h>
#include <string.h>

struct ch_token_groups {
  int64_t sequences, capacity;
  ch_id_groups *of; /* [sequences] groups of each sequence's tokens */
  int32_t *memory;  /* memory of the groups' arrays */
  int32_t *slots;   /* [table] hash table: group + 1, or 0 */
  int32_t *group;   /* [capacity] group of each token */
  int64_t table;    /* number of slots, a power of two */
};

static int64_t slot_of(const ch_token_groups *g, const int32_t *ids, int32_t id) {
  int64_t slot = (int64_t)((uint32_t)id * 2654435761u & (uint32_t)(g->table - 1));
  while (g->slots[slot] && ids[g->slots[slot] - 1] != id) slot = (slot + 1) & (g->table - 1);
  return slot;
}

static void group_sequence(ch_token_groups *g, int64_t sequence, const int32_t *tokens, int64_t count) {
  int32_t *ids = g->memory + sequence * (3 * g->capacity + 1), *first = ids + g->capacity,
          *order = first + g->capacity + 1;
  int32_t groups = 0;
  memset(g->slots, 0, (size_t)g->table * sizeof *g->slots);
  memset(first, 0, (size_t)(g->capacity + 1) * sizeof *first);
  for (int64_t t = 0; t < count; t++) {
    int64_t slot = slot_of(g, ids, tokens[t]);
    if (!g->slots[slot]) {
      ids[groups] = tokens[t];
      g->slots[slot] = ++groups;
    }
    g->group[t] = g->slots[slot] - 1;
    first[g->group[t] + 1]++;
  }
  for (int32_t i = 0; i < groups; i++) first[i + 1] += first[i];
  for (int64_t t = 0; t < count; t++) order[first[g->group[t]]++] = (int32_t)t;
  for (int32_t i = groups; i > 0; i--) first[i] = first[i - 1]; /* filling moved each entry to the next one */
  first[0] = 0;
  g->of[sequence] = (ch_id_groups){.count = groups, .id = ids, .first = first, .token = order};
}

static ch_status make(ch_token_groups **result, const ch_cache *cache, ch_error *error) {
  ch_token_groups *g = calloc(1, sizeof *g);
  if (g) {
    g->sequences = cache->sequences;
    g->capacity = cache->capacity;
    g->table = 1;
    while (g->table < 2 * cache->capacity) g->table *= 2;
    g->of = calloc((size_t)g->sequences, sizeof *g->of);
    g->memory = malloc((size_t)(g->sequences * (3 * g->capacity + 1)) * sizeof *g->memory);
    g->slots = malloc((size_t)g->table * sizeof *g->slots);
    g->group = malloc((size_t)g->capacity * sizeof *g->group);
  }
  if (!g || !g->of || !g->memory || !g->slots || !g->group) {
    ch_token_groups_free(g);
    return ch_no_memory(error);
  }
  *result = g;
  return CH_OK;
}

ch_status ch_token_groups_find(ch_token_groups **groups, const ch_cache *cache, int64_t more,
                               ch_error *error) {
  ch_token_groups *g = *groups;
  if (g && (g->sequences < cache->sequences || g->capacity != cache->capacity)) {
    ch_token_groups_free(g);
    *groups = g = NULL;
  }
  if (!g) CH_TRY(make(groups, cache, error));
  for (int64_t s = 0; s < cache->sequences; s++)
    group_sequence(*groups, s, ch_cache_tokens(cache, s), cache->length[s] + more);
  return CH_OK;
}

void ch_token_groups_free(ch_token_groups *groups) {
  if (!groups) return;
  free(groups->of);
  free(groups->memory);
  free(groups->slots);
  free(groups->group);
  free(groups);
}

const ch_id_groups *ch_token_groups_of(const ch_token_groups *groups) {
  return groups->of;
}
