/* Hugging Face's names of a Vision Transformer's tensors. */
#include "io/tensor_names.h"

#include <stdio.h>
#include <string.h>

typedef struct rule {
  const char *theirs, *ours;
} rule;

static const rule outside[] = {{"embeddings.cls_token", "model.cls_token"},
                               {"embeddings.position_embeddings", "model.position_embeddings"},
                               {"embeddings.patch_embeddings.projection.weight", "model.patch_embed.weight"},
                               {"embeddings.patch_embeddings.projection.bias", "model.patch_embed.bias"},
                               {"layernorm.weight", "model.norm.weight"},
                               {"layernorm.bias", "model.norm.bias"}};

/* Names in a layer, without ".weight" or ".bias". */
static const rule inside[] = {{"attention.attention.query", "self_attn.q_proj"},
                              {"attention.attention.key", "self_attn.k_proj"},
                              {"attention.attention.value", "self_attn.v_proj"},
                              {"attention.output.dense", "self_attn.o_proj"},
                              {"attention.q_proj", "self_attn.q_proj"},
                              {"attention.k_proj", "self_attn.k_proj"},
                              {"attention.v_proj", "self_attn.v_proj"},
                              {"attention.o_proj", "self_attn.o_proj"},
                              {"intermediate.dense", "mlp.up_proj"},
                              {"output.dense", "mlp.down_proj"},
                              {"mlp.fc1", "mlp.up_proj"},
                              {"mlp.fc2", "mlp.down_proj"},
                              {"layernorm_before", "input_layernorm"},
                              {"layernorm_after", "post_attention_layernorm"}};

/* Returns the rest of `name` after `start`, or NULL if `name` does not begin with it. */
static const char *after(const char *name, const char *start) {
  size_t length = strlen(start);
  return strncmp(name, start, length) == 0 ? name + length : NULL;
}

static const char *name_in_layer(const char *rest, char buffer[CH_TENSOR_NAME_SIZE]) {
  size_t digits = strspn(rest, "0123456789");
  const char *part = rest + digits + 1, *suffix = strrchr(rest, '.');
  if (digits == 0 || digits > 6 || rest[digits] != '.' || suffix < part) return NULL;
  if (strcmp(suffix, ".weight") != 0 && strcmp(suffix, ".bias") != 0) return NULL;
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
    if (after(part, inside[i].theirs) == suffix) {
      snprintf(buffer, CH_TENSOR_NAME_SIZE, "model.layers.%.*s.%s%s", (int)digits, rest, inside[i].ours,
               suffix);
      return buffer;
    }
  return NULL;
}

const char *ch_tensor_name_of_vit(const char *name, char buffer[CH_TENSOR_NAME_SIZE]) {
  const char *rest = after(name, "vit.");
  if (!rest) return NULL;
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
    if (strcmp(rest, outside[i].theirs) == 0) return outside[i].ours;
  const char *layer = after(rest, "encoder.layer.");
  if (!layer) layer = after(rest, "layers.");
  return layer ? name_in_layer(layer, buffer) : NULL;
}
