/* Counts the costs of a model: parameters, cache, FLOPs. They are counted from the parameter table, from the states
 * that the mechanism declares and from the graph that runs, so that the figures always match the code. */
#ifndef CH_MODEL_ACCOUNTING_H
#define CH_MODEL_ACCOUNTING_H

#include <crosshead/info.h>

#include "config/params.h"
#include "graph/cache.h"

/* Fills in the parameters_ members and sets the others to zero. */
void ch_account_parameters(const ch_config *config, const ch_params *params, ch_account *account);
/* Fills in all members. params: the config's table. depth: tokens of context. cache: the types of the cache. */
ch_status ch_account_model(const ch_config *config, const ch_params *params, int64_t depth,
                           ch_cache_types cache, ch_account *account, ch_error *error);
/* Appends the account as a JSON object, with its depth and the name of its cache types. name: the value of its first
   key, "name"; or NULL. */
void ch_account_json(const char *name, const ch_config *config, const ch_account *account, int64_t depth,
                     const char *cache_dtype, ch_text *json);

#endif
