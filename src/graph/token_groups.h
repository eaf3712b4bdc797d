/* Groups the tokens of a cache by id: work that depends on the id alone is done once per group. */
#ifndef CH_GRAPH_TOKEN_GROUPS_H
#define CH_GRAPH_TOKEN_GROUPS_H

#include "graph/cache.h"

/* The groups of a cache's tokens. Their memory is reused from run to run, unless the capacity changes or the cache has
   more sequences. */
typedef struct ch_token_groups ch_token_groups;

/* Groups the first `length` + `more` tokens of every sequence, in the order in which ids first appear. *groups
   is created on the first call. */
ch_status ch_token_groups_find(ch_token_groups **groups, const ch_cache *cache, int64_t more,
                               ch_error *error);
void ch_token_groups_free(ch_token_groups *groups);
/* Returns the groups of every sequence, valid until the next ch_token_groups_find. */
const ch_id_groups *ch_token_groups_of(const ch_token_groups *groups);

#endif
