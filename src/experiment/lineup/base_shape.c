/* Chooses the shape that compared models share from a number of parameters. docs/compare.md describes the rule. */
#include <math.h>
#include <stdio.h>

#include "attention/registry.h"
#include "config_file/config_json.h"
#include "experiment/lineup/match_size.h"
#include "experiment/lineup/presets.h"

enum { LEAST_VOCABULARY = 512, MOST_VOCABULARY = 32768, LEAST_LAYERS = 2, WIDEST = 16384 };

/* The usual ratio of width to layers in small language models. */
static const double usual_aspect = 48;

int64_t ch_base_vocabulary(int64_t params, int64_t text_bytes) {
  double most = fmin(1.5 * sqrt((double)params), (double)text_bytes / 512);
  int64_t size = LEAST_VOCABULARY;
  while (size * 2 <= MOST_VOCABULARY && (double)size * 2 <= most) size *= 2;
  return size;
}

/* Returns the number of heads. In models wider than 512 whose width is a multiple of 64, heads have 64 columns. Other
 * models have 8 heads (4 below width 64), or fewer if the width does not divide into that many heads of an even size.
 * Small models have several heads too, so that there is something to share. */
static int64_t usual_heads(int64_t hidden) {
  if (hidden > 512 && hidden % 64 == 0) return hidden / 64;
  for (int64_t heads = hidden < 64 ? 4 : 8; heads > 1; heads /= 2)
    if (hidden % (2 * heads) == 0) return heads;
  return 1;
}

/* Returns the next width to try: after 32 come 64 and multiples of 64 up to 512, then steps of 256. */
static int64_t next_width(int64_t hidden) {
  if (hidden < 64) return 64;
  return hidden + (hidden < 512 ? 64 : 256);
}

/* Returns the number of layers of width D, at least two, whose parameters come nearest to `params`. A block has about
 * 12 D^2 parameters with an FFN of width 8/3 D. */
static int64_t usual_layers(int64_t params, int64_t vocab, int64_t hidden) {
  double blocks = (double)(params - vocab * hidden) / (12.0 * (double)hidden * (double)hidden);
  return blocks > LEAST_LAYERS ? (int64_t)(blocks + 0.5) : LEAST_LAYERS;
}

/* Returns true if the parameters suffice for an FFN of half the width in each layer. */
static bool fits(int64_t params, int64_t vocab, int64_t hidden, int64_t layers) {
  double attention = 4.0 * (double)hidden * (double)hidden, ffn = 1.5 * (double)hidden * (double)hidden;
  return (double)vocab * (double)hidden + (double)layers * (attention + ffn) <= (double)params;
}

static int64_t usual_width(const ch_shape_wishes *wishes) {
  int64_t best = 0;
  double nearest = INFINITY;
  for (int64_t hidden = 32; hidden <= WIDEST; hidden = next_width(hidden)) {
    int64_t layers = wishes->layers ? wishes->layers : usual_layers(wishes->params, wishes->vocab, hidden);
    if (!fits(wishes->params, wishes->vocab, hidden, layers)) continue;
    double distance = fabs(log((double)hidden / (double)layers / usual_aspect));
    /* If the number of layers is given, the best width is the one whose usual number of layers is nearest. */
    if (wishes->layers)
      distance = fabs(log((double)usual_layers(wishes->params, wishes->vocab, hidden) / (double)layers));
    if (distance >= nearest) continue;
    nearest = distance;
    best = hidden;
  }
  return best;
}

/* Returns the patch size that divides the image's side and comes nearest to 64 patches. */
static int64_t usual_patch(int64_t size) {
  int64_t best = 1;
  for (int64_t patch = 1; patch <= size; patch++)
    if (size % patch == 0 &&
        fabs(log(8.0 * (double)patch / (double)size)) < fabs(log(8.0 * (double)best / (double)size)))
      best = patch;
  return best;
}

/* Returns the number of parameters outside the blocks per element of the width: those of the vocabulary or, for images,
   of patches, class token, positions and classes. */
static int64_t rows_outside(const ch_shape_wishes *wishes) {
  int64_t size = wishes->image.size, patch = wishes->image.patch;
  if (!size) return wishes->vocab;
  return wishes->image.channels * patch * patch + (size / patch) * (size / patch) + wishes->image.classes + 5;
}

static ch_status too_small(const ch_shape_wishes *wishes, ch_error *error) {
  int64_t layers = wishes->layers ? wishes->layers : LEAST_LAYERS,
          hidden = wishes->hidden ? wishes->hidden : 32;
  int64_t least = wishes->vocab * hidden + layers * 6 * hidden * hidden;
  char asked[32], needed[32];
  if (wishes->image.size)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{parameters} %s is too small for %lld layers of width %lld; give at least %s",
                   ch_format_count((double)wishes->params, asked, sizeof asked), (long long)layers,
                   (long long)hidden,
                   ch_format_count(ceil((double)least / 1000) * 1000, needed, sizeof needed));
  return ch_fail(
      error, CH_ERROR_ARGUMENT,
      "{parameters} %s is too small for %lld layers of width %lld with a vocabulary of %lld tokens; "
      "give at least "
      "%s, or a smaller {vocab}",
      ch_format_count((double)wishes->params, asked, sizeof asked), (long long)layers, (long long)hidden,
      (long long)wishes->vocab, ch_format_count(ceil((double)least / 1000) * 1000, needed, sizeof needed));
}

static ch_status choose_shape(const ch_shape_wishes *wishes, ch_config *config, ch_error *error) {
  config->hidden_size = wishes->hidden ? wishes->hidden : usual_width(wishes);
  if (!config->hidden_size) return too_small(wishes, error);
  config->num_hidden_layers =
      wishes->layers ? wishes->layers : usual_layers(wishes->params, wishes->vocab, config->hidden_size);
  if (wishes->params && !fits(wishes->params, wishes->vocab, config->hidden_size, config->num_hidden_layers))
    return too_small(wishes, error);
  config->num_attention_heads = wishes->heads ? wishes->heads : usual_heads(config->hidden_size);
  if (config->hidden_size % config->num_attention_heads != 0)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{heads} %lld does not divide the width, %lld; choose another {heads} or {hidden}",
                   (long long)config->num_attention_heads, (long long)config->hidden_size);
  config->head_dim = config->hidden_size / config->num_attention_heads;
  if (config->head_dim % 2 != 0 && config->position == CH_POSITION_ROPE)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "{heads} %lld makes heads of %lld, an odd size, which rotary positions do not support; "
                   "give fewer heads",
                   (long long)config->num_attention_heads, (long long)config->head_dim);
  return CH_OK;
}

static ch_status text_shape(const ch_shape_wishes *wishes, ch_config *config, ch_error *error) {
  ch_config_defaults(config);
  config->vocab_size = wishes->vocab;
  config->max_position_embeddings = wishes->context;
  config->tie_word_embeddings = true;
  CH_TRY(choose_shape(wishes, config, error));
  config->intermediate_size = (config->hidden_size * 8 / 3 + 15) / 16 * 16;
  return CH_OK;
}

static ch_status image_shape(const ch_shape_wishes *wishes, ch_config *config, ch_error *error) {
  ch_shape_wishes whole = *wishes;
  if (!whole.image.patch) whole.image.patch = usual_patch(whole.image.size);
  if (whole.image.size % whole.image.patch != 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "{patch} %lld must divide the images' side of %lld pixels",
                   (long long)whole.image.patch, (long long)whole.image.size);
  whole.vocab = rows_outside(&whole);
  ch_config_defaults_for_images(config);
  config->image_size = whole.image.size;
  config->patch_size = whole.image.patch;
  config->num_channels = whole.image.channels;
  config->num_classes = whole.image.classes;
  CH_TRY(choose_shape(&whole, config, error));
  config->intermediate_size = 4 * config->hidden_size;
  return CH_OK;
}

ch_status ch_base_shape(const ch_shape_wishes *wishes, ch_config *config, ch_error *error) {
  CH_TRY(wishes->image.size ? image_shape(wishes, config, error) : text_shape(wishes, config, error));
  config->init = wishes->init;
  config->parametrization = wishes->parametrization;
  snprintf(config->attention.type, sizeof config->attention.type, "gqa");
  config->num_key_value_heads = config->num_attention_heads;
  return ch_config_validate(config, "the requested shape", error);
}

void ch_shape_of(const ch_config *from, ch_config *base) {
  bool own_sizes = ch_mechanism_of(from)->modules & CH_MODULE_OWN_SIZES;
  ch_config_defaults(base);
  base->vocab_size = from->vocab_size;
  base->hidden_size = from->hidden_size;
  base->intermediate_size = from->intermediate_size;
  base->num_hidden_layers = from->num_hidden_layers;
  base->num_attention_heads = base->num_key_value_heads = from->num_attention_heads;
  base->head_dim = own_sizes ? from->hidden_size / from->num_attention_heads : from->head_dim;
  base->max_position_embeddings = from->max_position_embeddings;
  base->tie_word_embeddings = from->tie_word_embeddings;
  base->mlp_bias = from->mlp_bias;
  base->moe = from->moe;
  base->position = from->position;
  snprintf(base->hidden_act, sizeof base->hidden_act, "%s", from->hidden_act);
  snprintf(base->norm, sizeof base->norm, "%s", from->norm);
  base->norm_placement = from->norm_placement;
  base->parallel_residual = from->parallel_residual;
  snprintf(base->attention.type, sizeof base->attention.type, "gqa");
}
