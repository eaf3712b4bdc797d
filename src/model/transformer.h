/* The model of a config, a decoder of text or an encoder of images (vit.h): its tensors, and its graph for a shape. */
#ifndef CH_MODEL_TRANSFORMER_H
#define CH_MODEL_TRANSFORMER_H

#include "graph/cache.h"
#include "graph/graph.h"
#include "config/params.h"

/* Declares every tensor of the model that `config` describes, in checkpoint order. */
ch_status ch_model_declare(const ch_config *config, ch_params *params, ch_error *error);

typedef enum ch_head {
  CH_HEAD_LOGITS,      /* root [N, V]: logits of every token; images: [sequences, classes] */
  CH_HEAD_LAST_LOGITS, /* root [sequences, V]: logits of each sequence's last token */
  /* root [N, 1]: cross entropy of every token and its target; images: [sequences, 1] with labels */
  CH_HEAD_LOSS,
  /* images: root [sequences, 2]: the loss, and the rank of the label among the logits; text: as CH_HEAD_LOSS */
  CH_HEAD_SCORES,
  CH_HEAD_RANKS,  /* text: root [N, 2]: the loss, and the rank of the target among the logits */
  CH_HEAD_STATES, /* text: root [N, hidden]: input of the final norm */
  /* text: root [N, V]: logits of CH_INPUT_STATES, rows of a CH_HEAD_STATES. The graph has no tokens, layers or
     cache */
  CH_HEAD_OF_STATES
} ch_head;

typedef struct ch_model_graph {
  int64_t sequences, length; /* N = sequences * length; an image is a sequence of length 1 */
  ch_dtype dtype;            /* CH_F32 or CH_F64 */
  ch_dtype compute;          /* see ch_graph.compute */
  ch_head head;
  bool trainable;       /* true if the graph computes gradients of the parameters */
  bool cached;          /* true if keys and values go through a cache and queries attend to its contents */
  ch_cache_types cache; /* types of the cache */
  /* tokens per sequence of the cache, whose layers with a sliding window then have rings; 0: all layers store all
     tokens */
  int64_t capacity;
  int64_t context;        /* maximum tokens of a text; 0: `capacity` or, if that is 0, `length` */
  bool gates_known;       /* graphs with a cache: see ch_builder.gates_known */
  bool expand_gates;      /* for comparison: see ch_builder.expand_gates */
  int table_shares;       /* see ch_builder.table_shares */
  bool documents;         /* true if attention stays inside documents: binds CH_INPUT_DOCUMENT_START */
  double label_smoothing; /* label smoothing of CH_HEAD_LOSS for images */
  bool accumulation;      /* see ch_plan_options.accumulation */
} ch_model_graph;

/* Returns true if a graph reads the parameter, and always as its value rounded to BF16. */
bool ch_reads_rounded(const ch_graph *graph, int parameter);

/* Builds the graph. Inputs to bind: CH_INPUT_TOKENS, CH_INPUT_POSITIONS (RoPE and learned positions), the targets and
   document starts if requested; for images CH_INPUT_PIXELS and the labels. *graph is NULL when out of memory. Other
   failures are recorded in the graph. ch_plan_create reports both. */
void ch_model_build(const ch_config *config, const ch_params *params, const ch_model_graph *shape,
                    ch_graph **graph, ch_node **root);

#endif
