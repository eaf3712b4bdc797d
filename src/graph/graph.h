/* The differentiable graph: its nodes, and the table of functions that defines an operation.
 *
 * A graph is built once for a shape (sequences and tokens of each), planned (graph/plan.h), and run
 * any number of times. Values are row-major matrices [rows, columns]; a row is a token (rows = sequences *
 * length) and the heads are consecutive columns. Parameters keep their own shape.
 *
 * Building never fails half way: an impossible node gives NULL, every builder accepts NULL inputs and returns
 * NULL, and ch_plan_create reports the first sentence recorded in graph->error. */
#ifndef CH_GRAPH_GRAPH_H
#define CH_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/error.h"
#include "tensor/tensor.h"

typedef struct ch_node ch_node;
typedef struct ch_graph ch_graph;
typedef struct ch_run ch_run;
typedef struct ch_stream_call ch_stream_call;
typedef struct ch_state_view ch_state_view;

/* A range of a value's columns. */
typedef struct ch_column_range {
  int64_t first, count;
} ch_column_range;

/* `width` columns of head h of a row, from column h * stride + offset on; stride 0: all heads have the same
   columns. */
typedef struct ch_head_slice {
  int64_t stride, offset, width;
} ch_head_slice;

/* An operation. Each has a file in graph/ops/ with its shape rule, forward, backward and cost. */
typedef struct ch_op {
  const char *name;
  /* Sets node->rank and node->shape from inputs and attributes, or fails with the reason. */
  ch_status (*shape)(ch_node *node, ch_error *error);
  /* Returns the elements (of the graph's type) that forward saves for backward besides the value; NULL: 0. */
  int64_t (*saved)(const ch_node *node);
  /* Returns the bytes of scratch that a call needs; NULL: 0. */
  size_t (*scratch)(const ch_run *run, const ch_node *node, bool backward);
  ch_status (*forward)(ch_run *run, const ch_node *node);
  /* Returns true if one call of forward_together can compute this node and others of the operation that read
     the same first input; NULL: never. The other inputs of all these nodes must be computed before. */
  bool (*joins)(const ch_node *node);
  ch_status (*forward_together)(ch_run *run, int count, const ch_node *const nodes[]);
  /* Writes the gradient of every input for which ch_run_gradient returns an address; NULL: the operation has no
     gradient. */
  ch_status (*backward)(ch_run *run, const ch_node *node);
  /* Values that backward reads: CH_READS_INPUT(i) for input i (one bit for all inputs from 30 on),
     CH_READS_OUTPUT for the node's value. */
  unsigned backward_reads;
  /* Returns the FLOPs (2 x multiply-adds) of one forward call; NULL: almost none. */
  double (*flops)(const ch_node *node);
  /* Returns the share of its parameters' bytes that a call reads, for operations that look up rows; NULL: 1. */
  double (*parameters_read)(const ch_node *node);
  /* Returns true if the operation rounds input i to BF16 before it uses it. Its results then have the same bits
     if it gets that value in BF16. NULL: never. */
  bool (*takes_rounded)(const ch_node *node, int i);
  bool cheap;    /* true if the planner may drop the value and compute it again for the backward pass */
  bool fused;    /* true if backward also computes the value: as the root of training, forward is skipped */
  bool late;     /* true if only backward passes read the value: it is computed just before the first one */
  bool stateful; /* true if the value is in the cache, not in the workspace (append) */
  /* Returns the states of all tokens, for stateful operations. */
  ch_state_view (*states)(const ch_run *run, const ch_node *node);
  /* Returns the bytes of workspace that a stateful value needs besides the cache; NULL: 0. */
  size_t (*staged)(const ch_node *node);
  /* Returns the type in which the cache stores the states, for stateful operations. */
  ch_dtype (*state_type)(const ch_node *node);
  /* Computes the value of a block of tokens from states of the cache (graph/stream.h); NULL: the operation
     works only on values of this run. */
  void (*stream)(const ch_stream_call *call);
  /* Like `stream`, for many tokens, with all threads; NULL: `stream` is used. */
  ch_status (*stream_many)(const ch_stream_call *call);
  bool stream_unrounded; /* true if stream_many needs inputs of the run's type, not rounded to BF16 */
  /* Returns the columns of streamed input i that the columns `wanted` need; NULL: the same columns. */
  ch_column_range (*stream_needs)(const ch_node *node, int i, ch_column_range wanted);
  /* Returns the columns of input i that are part of every head, for values whose heads are columns of their
     inputs. Attention reads these columns in place. */
  ch_head_slice (*stream_slice)(const ch_node *node, int i);
  bool stream_source; /* true if the value depends only on the tokens' places in the cache, not on an input */
  bool stream_raw;    /* true if streamed inputs come as the cache stores them: any type and stride */
  bool stream_whole;  /* true if all columns are read and computed or none, as in a norm over the row */
  bool reads_states; /* true if the operation reads streamed inputs and returns values of this run (attend) */
} ch_op;

enum { CH_MOST_TOGETHER = 8 };

#define CH_READS_INPUT(i) (1u << ((i) < 30 ? (i) : 30))
#define CH_READS_INPUTS 0x7fffffffu /* all inputs */
#define CH_READS_OUTPUT (1u << 31)

typedef enum ch_node_kind { CH_NODE_OP, CH_NODE_INPUT, CH_NODE_PARAM } ch_node_kind;

struct ch_node {
  ch_node_kind kind;
  const ch_op *op;
  const ch_graph *graph;
  int id;         /* position in the graph: inputs come before their users */
  int index;      /* CH_NODE_INPUT: slot; CH_NODE_PARAM: index of the parameter */
  ch_dtype dtype; /* type of the value: the graph's, CH_BF16 if rounded, or an input's */
  int rank;
  int64_t shape[CH_MAX_RANK];
  int inputs;
  ch_node **in;           /* [inputs] input nodes */
  const void *attributes; /* the op's own struct, in the graph's arena */
  size_t attributes_size;
  bool needs_gradient;
  bool streamed; /* true if the value covers all tokens in the cache; its reader computes it block by block */
  ch_node *next_user, *first_user; /* list of the nodes with the same first input, to find equal ones */
  const char *label;               /* name of the parameter, or NULL */
};

/* Input slots: the arrays that the caller binds for each run. They are int32 unless their type is named. */
typedef enum ch_input {
  CH_INPUT_TOKENS,         /* [rows] ids */
  CH_INPUT_POSITIONS,      /* [rows] position of each token */
  CH_INPUT_TARGETS,        /* [rows] next ids; -1: not predicted */
  CH_INPUT_DOCUMENT_START, /* [rows] first position each token sees */
  CH_INPUT_LABELS,         /* [sequences] class of each image; -1: not known */
  CH_INPUT_PIXELS,         /* F32 [sequences, channels, size, size] */
  CH_INPUT_STATES,         /* [rows, columns] of the graph's type: values of another run */
  CH_INPUT_COUNT
} ch_input;

struct ch_graph {
  ch_arena arena;
  ch_dtype dtype;            /* CH_F32 or CH_F64 */
  int64_t sequences, length; /* rows = sequences * length */
  ch_dtype compute;          /* CH_BF16 if factors of products are rounded to it, else the graph's type */
  bool trainable; /* true if gradients are computed; a weight is then rounded once for several products */
  double context; /* tokens that a query sees, for counting FLOPs; 0: only those of this run */
  ch_node **nodes;
  int count, capacity;
  ch_node *inputs[CH_INPUT_COUNT];
  ch_error error; /* first failure */
};

/* Creates an empty graph, or returns NULL if out of memory. */
ch_graph *ch_graph_create(ch_dtype dtype, int64_t sequences, int64_t length);
void ch_graph_free(ch_graph *graph);

/* Returns the integer input of a slot: one node for each slot. */
ch_node *ch_graph_input(ch_graph *graph, ch_input slot);
/* Returns the input CH_INPUT_STATES with `columns` columns. */
ch_node *ch_graph_states(ch_graph *graph, int64_t columns);
/* Returns the input CH_INPUT_PIXELS: the images of a run, one per sequence. */
ch_node *ch_graph_pixels(ch_graph *graph, int64_t channels, int64_t size);
/* Adds a parameter leaf; the model adds one per parameter. If `trainable`, its gradient is computed. */
ch_node *ch_graph_param(ch_graph *graph, int index, const char *name, int rank, const int64_t *shape,
                        bool trainable);
/* Returns a node of an operation and copies its attributes. Equal operations on equal inputs with equal
   attributes are one node, so that values that several layers share are computed once. Stateful operations are never
   merged. */
ch_node *ch_graph_node(ch_graph *graph, const ch_op *op, int inputs, ch_node *const *in,
                       const void *attributes, size_t attributes_size);
/* Records a failure, unless there is one already. Returns NULL for convenience. */
ch_node *ch_graph_fail(ch_graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Records that an allocation failed; returns NULL. */
ch_node *ch_graph_no_memory(ch_graph *graph);

/* Returns the number of tokens that a query sees, for counting FLOPs: graph->context, or the mean over a pass
   that starts with an empty cache. */
double ch_graph_context(const ch_graph *graph, bool causal);
/* Like ch_graph_context, for a layer in which a query sees at most `most` tokens; 0: any number. */
double ch_graph_context_within(const ch_graph *graph, bool causal, int64_t most);

int64_t ch_node_count(const ch_node *node);
/* Returns the product of all dimensions but the last. ch_node_columns returns the last. */
int64_t ch_node_rows(const ch_node *node);
int64_t ch_node_columns(const ch_node *node);
/* Shape rules. ch_shape_as_input sets the shape of input i, ch_shape_matrix sets [rows, columns]. */
ch_status ch_shape_as_input(ch_node *node, int i);
ch_status ch_shape_matrix(ch_node *node, int64_t rows, int64_t columns);

#endif
