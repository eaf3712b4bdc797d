/* Configures one mechanism for `crosshead config`: with the shape that a comparison would choose, or that of another
 * model. It shares names and matching with comparisons, so that both give the same configuration. */
#include "experiment/lineup/configure_mechanism.h"

#include "config_file/config_json.h"
#include "experiment/lineup/comparison_plan.h"
#include "text/tokenizer.h"

/* Sets the size of the vocabulary and the ids of beginning and end from a tokenizer. */
static ch_status take_tokenizer(const char *path, ch_config *config, ch_error *error) {
  ch_tokenizer *tokenizer;
  CH_TRY(ch_tokenizer_open(path, &tokenizer, error));
  config->vocab_size = ch_tokenizer_vocab_size(tokenizer);
  config->bos_token_id = ch_tokenizer_bos(tokenizer);
  config->eos_token_id = ch_tokenizer_eos(tokenizer);
  ch_tokenizer_free(tokenizer);
  return CH_OK;
}

/* Sets the ids of a tokenizer that a comparison trains (text/bpe_train.h): it has an end of text and no beginning. */
static void name_trained_tokens(ch_config *config) {
  config->bos_token_id = -1;
  config->eos_token_id = 0;
}

/* Replaces layers, width and heads by those that `wishes` gives or that follow from its number of parameters. */
static ch_status resize(const ch_shape_wishes *wishes, ch_config *base, ch_error *error) {
  ch_shape_wishes whole = *wishes;
  ch_config sized;
  whole.vocab = base->vocab_size;
  whole.context = base->max_position_embeddings;
  if (!wishes->params) {
    if (!wishes->layers) whole.layers = base->num_hidden_layers;
    if (!wishes->hidden) whole.hidden = base->hidden_size;
    if (!wishes->heads && whole.hidden % base->num_attention_heads == 0)
      whole.heads = base->num_attention_heads;
  }
  CH_TRY(ch_base_shape(&whole, &sized, error));
  base->num_hidden_layers = sized.num_hidden_layers;
  base->hidden_size = sized.hidden_size;
  base->num_attention_heads = base->num_key_value_heads = sized.num_attention_heads;
  base->head_dim = sized.head_dim;
  ch_set_matched_width(base, sized.intermediate_size);
  return CH_OK;
}

/* Fills `base` with the shape of another model, and *target with the parameters that the mechanism should have. */
static ch_status shape_like(const char *path, const ch_shape_wishes *wishes, ch_config *base, int64_t *target,
                            ch_error *error) {
  ch_config like;
  bool sized = wishes->params || wishes->layers || wishes->hidden || wishes->heads;
  CH_TRY(ch_config_read(path, &like, error));
  CH_TRY(ch_config_needs_text(&like, "config", error));
  ch_shape_of(&like, base);
  base->rms_norm_eps = like.rms_norm_eps;
  base->rope_theta = like.rope_theta;
  base->bos_token_id = like.bos_token_id;
  base->eos_token_id = like.eos_token_id;
  base->init = wishes->init;
  base->parametrization = wishes->parametrization;
  if (wishes->context) base->max_position_embeddings = wishes->context;
  if (wishes->vocab) base->vocab_size = wishes->vocab;
  if (wishes->vocab) name_trained_tokens(base);
  like.vocab_size = base->vocab_size;
  if (sized) CH_TRY(resize(wishes, base, error));
  *target = wishes->params;
  return *target ? CH_OK : ch_count_parameters(sized ? base : &like, ch_counted_by(wishes), target, error);
}

static ch_status configure_like(const char *name, const char *like, const ch_shape_wishes *wishes,
                                ch_config *config, ch_error *error) {
  int64_t target, parameters;
  CH_TRY(shape_like(like, wishes, config, &target, error));
  CH_TRY(wishes->match == CH_MATCH_CACHE ? ch_preset_apply_cache(name, wishes->cache, config, error)
                                         : ch_preset_apply(name, config, error));
  return ch_match_parameters(config, &name, 1, ch_counted_by(wishes), target, &parameters, error);
}

static ch_status check_sizes(const ch_compare_lineup *s, ch_error *error) {
  const struct {
    const char *name;
    int64_t value, most;
  } sizes[] = {{"parameters", s->parameters, INT64_C(1) << 50},
               {"layers", s->layers, 1000},
               {"hidden", s->hidden, 65536},
               {"heads", s->heads, 4096},
               {"vocab", s->vocab, 4000000},
               {"sequence", s->sequence, 1048576},
               {"cache_per_token", s->cache_per_token, INT64_C(1) << 50}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].value < 0 || sizes[i].value > sizes[i].most)
      return ch_fail(error, CH_ERROR_ARGUMENT, "{%s} is %lld; it must be from 1 to %lld", sizes[i].name,
                     (long long)sizes[i].value, (long long)sizes[i].most);
  if ((s->match == CH_MATCH_CACHE) == (s->cache_per_token > 0)) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 s->cache_per_token ? "{cache_per_token} is for {match} cache; give both or neither"
                                    : "{match} cache needs {cache_per_token}; give both or neither");
}

static ch_status configure(const ch_compare_lineup *lineup, const char *like, ch_compare_plan *plan,
                           ch_config *config, ch_error *error) {
  ch_shape_wishes wishes = ch_compare_wishes(lineup);
  ch_config tokens = {.bos_token_id = -1, .eos_token_id = -1};
  int64_t params;
  CH_TRY(ch_compare_plan_names(lineup->mechanisms, plan, error));
  CH_TRY(check_sizes(lineup, error));
  if (plan->count != 1 || plan->models[0].from_file)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "'%.64s' is not the name of one mechanism; give one name, such as mla or gqa:4",
                   lineup->mechanisms);
  if (lineup->tokenizer && lineup->vocab)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{vocab} and {tokenizer} both give the vocabulary; leave one of them out");
  if (lineup->tokenizer) CH_TRY(take_tokenizer(lineup->tokenizer, &tokens, error));
  if (lineup->tokenizer) wishes.vocab = tokens.vocab_size;
  if (like) {
    CH_TRY(configure_like(plan->models[0].name, like, &wishes, config, error));
  } else {
    CH_TRY(ch_compare_plan_size(plan, &wishes, CH_COMPARE_USUAL_PARAMS, &params, error));
    if (!wishes.vocab) wishes.vocab = ch_base_vocabulary(params, INT64_MAX);
    CH_TRY(ch_compare_plan_shapes(plan, &wishes, CH_COMPARE_USUAL_PARAMS, error));
    *config = plan->models[0].config;
    name_trained_tokens(config);
  }
  if (lineup->tokenizer) config->bos_token_id = tokens.bos_token_id;
  if (lineup->tokenizer) config->eos_token_id = tokens.eos_token_id;
  return ch_config_validate(config, plan->models[0].name, error);
}

ch_status ch_configure(const ch_compare_lineup *lineup, const char *like, ch_config *config,
                       ch_error *error) {
  ch_compare_plan plan;
  ch_status status = configure(lineup, like, &plan, config, error);
  ch_compare_plan_free(&plan);
  return status;
}
