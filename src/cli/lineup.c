/* From shared options to what a comparison is asked for. */
#include "cli/lineup.h"

#include <string.h>

#include "train/presets.h"

const char *const ch_lineup_matches[] = {"all", "active", NULL};

void ch_lineup_ask(const void *arguments, const ch_lineup *l, ch_compare_options *asked) {
  asked->mechanisms = l->mechanisms;
  asked->tokenizer = l->tokenizer;
  asked->shape = (ch_shape_wishes){
      .params = l->params, .vocab = l->vocab, .layers = l->layers, .hidden = l->hidden, .heads = l->heads};
  if (strcmp(l->match, "active") == 0) asked->shape.counted = CH_COUNT_ACTIVE;
  for (int i = 0; ch_init_names[i]; i++)
    if (strcmp(l->init, ch_init_names[i]) == 0) asked->shape.init = (ch_init)i;
  asked->tokens = l->tokens;
  asked->sequence = l->sequence;
  asked->dtype = ch_compute_type(l->dtype);
  asked->warmup = ch_option_given(arguments, "warmup") ? l->warmup : -1;
  asked->seed = (uint64_t)l->seed;
}

bool ch_lineup_list(int index, ch_text *entry, ch_text *meaning) {
  const ch_preset *preset = ch_preset_at(index);
  if (!preset) return false;
  ch_text_printf(entry, "%s%s", preset->name, preset->number ? "[:N]" : "");
  ch_text_puts(meaning, preset->summary);
  if (preset->number) ch_text_printf(meaning, "; N: %s", preset->number);
  return true;
}
