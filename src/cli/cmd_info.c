/* crosshead info MODEL_OR_CONFIG: what a model is and what it costs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "model/accounting.h"
#include "model/transformer.h"

typedef struct arguments {
  const char *positional[4];
  bool json;
  const char *cache_dtype;
  int64_t depth;
} arguments;

typedef struct subject {
  ch_config config;
  ch_account account;
  const char *cache_dtype;
  int64_t depth;
} subject;

/* --- for people ------------------------------------------------------------------------------------------------ */

static void put_model(const subject *s, ch_text *text) {
  static const char *const positions[] = {"RoPE", "ALiBi", "no positions"};
  static const char *const activations[] = {"SwiGLU", "GELU"};
  const ch_config *c = &s->config;
  ch_text_printf(text, "model      %s, attention %s%s%s\n", c->model_type, c->attention.type,
                 c->attention.qk_norm ? ", QK norm" : "", c->attention.head_norm ? ", head norm" : "");
  ch_text_printf(text,
                 "           %" PRId64 " layers of width %" PRId64 ", %" PRId64 " query and %" PRId64
                 " key-value heads of %" PRId64 "\n",
                 c->num_hidden_layers, c->hidden_size, c->num_attention_heads, c->num_key_value_heads,
                 c->head_dim);
  ch_text_printf(
      text, "           %s FFN of %" PRId64 ", vocabulary of %" PRId64 " (%s), %s, context %" PRId64 "\n",
      activations[c->hidden_act], c->intermediate_size, c->vocab_size,
      c->tie_word_embeddings ? "tied" : "untied", positions[c->position], c->max_position_embeddings);
}

static void put_parameters(const char *name, int64_t count, int64_t total, ch_text *text) {
  char shown[32];
  ch_text_printf(text, "  %-24s %16" PRId64 "   %-8s %5.1f %%\n", name, count,
                 ch_format_count((double)count, shown, sizeof shown), 100.0 * (double)count / (double)total);
}

static void put_flops(const char *name, double flops, ch_text *text) {
  char shown[32];
  ch_text_printf(text, "  %-24s %16.0f   %s\n", name, flops, ch_format_count(flops, shown, sizeof shown));
}

static void put_table(const subject *s, ch_text *text) {
  const ch_account *a = &s->account;
  put_model(s, text);
  ch_text_puts(text, "\nparameters\n");
  put_parameters("total", a->parameters_total, a->parameters_total, text);
  put_parameters("attention", a->parameters_attention, a->parameters_total, text);
  put_parameters("embedding", a->parameters_embedding, a->parameters_total, text);
  if (a->parameters_gate_embedding)
    put_parameters("gate embedding", a->parameters_gate_embedding, a->parameters_total, text);
  put_parameters("active", a->parameters_active, a->parameters_total, text);
  ch_text_printf(text, "\nKV cache a token\n  %-24s %16" PRId64 "\n", "elements",
                 a->cache_elements_per_token);
  ch_text_printf(text, "  %-24s %16" PRId64 "   %s\n", "bytes", a->cache_bytes_per_token, s->cache_dtype);
  ch_text_printf(text, "\nFLOPs a token, forward, context %" PRId64 "\n", s->depth);
  put_flops("attention projections", a->flops.attention_projections, text);
  put_flops("attention over context", a->flops.attention_context, text);
  put_flops("feed-forward", a->flops.feed_forward, text);
  put_flops("LM head", a->flops.lm_head, text);
  put_flops("total", a->flops.total, text);
  ch_text_printf(text, "\na layer's attention\n  %-24s %16" PRId64 "\n", "total effective rank",
                 a->total_effective_rank);
  ch_text_printf(text, "  %-24s %16" PRId64 "\n", "shared latent dimension", a->shared_latent_dim);
}

/* --- the command ----------------------------------------------------------------------------------------------- */

static ch_dtype dtype_of(const char *name) {
  return strcmp(name, "f32") == 0 ? CH_F32 : strcmp(name, "f16") == 0 ? CH_F16 : CH_BF16;
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  subject s = {.cache_dtype = a->cache_dtype, .depth = a->depth};
  ch_params params = {0};
  CH_TRY(ch_config_read(a->positional[0], &s.config, error));
  ch_status status = ch_model_declare(&s.config, &params, error);
  if (status == CH_OK)
    status = ch_account_model(&s.config, &params, s.depth, dtype_of(s.cache_dtype), &s.account, error);
  ch_params_free(&params);
  CH_TRY(status);
  ch_text text = {0};
  if (a->json)
    ch_account_json(&s.config, &s.account, s.depth, s.cache_dtype, &text);
  else
    put_table(&s, &text);
  if (text.failed)
    status = ch_fail(error, CH_ERROR_MEMORY, "no memory to print");
  else
    fwrite(text.data, 1, text.size, stdout);
  ch_text_free(&text);
  return status;
}

static const char *const cache_dtypes[] = {"bf16", "f16", "f32", NULL};

static const ch_option options[] = {{.name = "json",
                                     .type = CH_OPTION_FLAG,
                                     .offset = offsetof(arguments, json),
                                     .help = "Print one JSON object."},
                                    {.name = "cache-dtype",
                                     .type = CH_OPTION_CHOICE,
                                     .offset = offsetof(arguments, cache_dtype),
                                     .metavar = "TYPE",
                                     .default_value = "bf16",
                                     .choices = cache_dtypes,
                                     .help = "Element type of the cache for its size in bytes."},
                                    {.name = "depth",
                                     .type = CH_OPTION_COUNT,
                                     .offset = offsetof(arguments, depth),
                                     .metavar = "N",
                                     .default_value = "0",
                                     .max = 1e12,
                                     .help = "Tokens that attention looks back at, for the FLOPs."},
                                    {.name = NULL}};

const ch_command ch_cmd_info = {
    .name = "info",
    .positional = "MODEL_OR_CONFIG",
    .summary = "Show a model's parameters, cache size and arithmetic.",
    .description =
        "Reads the configuration of a model directory, or a configuration file alone, and counts what the "
        "model would hold and do: the weights are not read.",
    .examples = "crosshead info runs/gqa\ncrosshead info config.json --json --depth 4k",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};
