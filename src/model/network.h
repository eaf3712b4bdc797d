/* One feed-forward network, with or without a gate, with any activation. */
#ifndef CH_MODEL_NETWORK_H
#define CH_MODEL_NETWORK_H

#include "attention/mechanism.h"

/* A kind of feed-forward network: W_down (f(W_gate x) * W_up x) if it is gated, W_down f(W_up x) if not. */
typedef struct ch_ffn_kind {
  const char *name;  /* value of "hidden_act" in config.json */
  const char *title; /* name for people: "SwiGLU" */
  bool gated;
  bool clamped; /* true for SwiGLU with the config's clamps (graph/ops.h), without `activation` and `gate` */
  ch_node *(*activation)(ch_graph *graph, ch_node *x);           /* f */
  ch_node *(*gate)(ch_graph *graph, ch_node *gate, ch_node *up); /* f(gate) * up in one operation, or NULL */
} ch_ffn_kind;

/* Returns the names of all kinds, NULL-terminated. The first is the default of text models. */
const char *const *ch_ffn_names(void);
/* Returns the kind of a validated config. */
const ch_ffn_kind *ch_ffn_of(const ch_config *config);
/* The name of SwiGLU, "silu". Experts without clamps must be of this kind. */
extern const char ch_ffn_swiglu[];
/* Returns the clamps in the config. They apply only to clamped networks. */
ch_swiglu_clamps ch_ffn_clamps(const ch_config *config);

/* Declares one network of a kind and width: the tensors
   "model.layers.{i}.mlp.{part}{gate,up,down}_proj.weight", without the gate if the kind has none, and their
   ".bias" if `biased`. counted: the kind under which `info` counts the parameters. */
void ch_network_declare(ch_declaration *declaration, const ch_ffn_kind *kind, ch_param_kind counted,
                        const char *part, int64_t width, bool biased);
/* Builds the network of the tensors with this `part`. */
ch_node *ch_network(ch_builder *builder, const ch_ffn_kind *kind, ch_node *x, const char *part);
/* Returns the leaf of "model.layers.{i}.mlp.{name}.weight", or NULL and a graph error if it was not
   declared. */
ch_node *ch_ffn_param(ch_builder *builder, const char *name);
/* Returns the leaf of "model.layers.{i}.mlp.{name}.bias", or NULL and a graph error if it was not declared. */
ch_node *ch_ffn_bias(ch_builder *builder, const char *name);

#endif
