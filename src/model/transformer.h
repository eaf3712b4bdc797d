/* The model that a config describes: its tensors, and its graph for a shape. Decoders of text; encoders of
   images (vit.h). */
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
  CH_HEAD_LOSS, /* root [N, 1]: cross entropy of every token against CH_INPUT_TARGETS; images: [sequences, 1]
                          against CH_INPUT_LABELS */
  CH_HEAD_SCORES, /* images: root [sequences, 2], the loss and the place of the label among the logits; text:
                          CH_HEAD_LOSS */
  CH_HEAD_RANKS,  /* text: root [N, 2], CH_HEAD_LOSS and the place of the target among the logits */
  /* text: root [N, hidden], what the final norm reads of every token */
  CH_HEAD_STATES,
  /* text: root [N, V], logits of CH_INPUT_STATES, rows of such a root, and nothing else: no tokens, no
     layers, no cache */
  CH_HEAD_OF_STATES
} ch_head;

typedef struct ch_model_graph {
  /* N = sequences * length; a sequence may be an image, whose length is 1: one thing to tell, whatever its
     tokens are */
  int64_t sequences, length;
  ch_dtype dtype;   /* CH_F32 or CH_F64 */
  ch_dtype compute; /* ch_graph's */
  ch_head head;
  bool trainable;       /* gradients of the parameters are wanted */
  bool cached;          /* keys and values go through a cache; queries see what it holds */
  ch_cache_types cache; /* what that cache stores */
  /* its tokens per sequence, for which layers that slide have a ring; 0: they store all tokens */
  int64_t capacity;
  int64_t context;        /* tokens that a text may have; 0: capacity or, without any, length */
  bool gates_known;       /* ch_builder's; graphs with a cache only */
  bool expand_gates;      /* ch_builder's, to compare with */
  int table_shares;       /* ch_builder's */
  bool documents;         /* attention stays inside documents: binds CH_INPUT_DOCUMENT_START */
  double label_smoothing; /* of CH_HEAD_LOSS over images */
  bool accumulation;      /* ch_plan_options' */
} ch_model_graph;

/* Returns true if a graph reads no more of the parameter than its value rounded to BF16. */
bool ch_reads_rounded(const ch_graph *graph, int parameter);

/* Builds the graph. Inputs to bind: CH_INPUT_TOKENS, CH_INPUT_POSITIONS (RoPE only), the targets and document
   starts if requested; for images CH_INPUT_PIXELS and the labels. *graph is NULL when out of memory; other
   failures are recorded in the graph. Pass it to ch_plan_create, which reports both. */
void ch_model_build(const ch_config *config, const ch_params *params, const ch_model_graph *shape,
                    ch_graph **graph, ch_node **root);

#endif
