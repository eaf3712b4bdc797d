/* The parameter table: one row per tensor of a model. It alone drives allocation, initialisation, optimizer
 * groups, files and counting. Each part of a model (a mechanism, a module, the FFN ...) declares its own
 * rows. */
#ifndef CH_CONFIG_PARAMS_H
#define CH_CONFIG_PARAMS_H

#include "base/arena.h"
#include "base/error.h"
#include "config/config.h"
#include "tensor/tensor.h"

/* The groups of tensors that `info` counts. */
typedef enum ch_param_kind {
  CH_PARAM_ATTENTION,
  CH_PARAM_EMBEDDING,
  CH_PARAM_GATE_EMBEDDING,
  CH_PARAM_FFN,
  CH_PARAM_EXPERT,    /* matrices of routed experts */
  CH_PARAM_NORM,      /* norms outside attention */
  CH_PARAM_PATCH,     /* models of images: the patch embedding */
  CH_PARAM_POSITION,  /* models of images: positions and the class token */
  CH_PARAM_CLASSIFIER /* models of images */
} ch_param_kind;

typedef enum ch_param_init {
  CH_PARAM_INIT_NORMAL,     /* `start` plus `std` times a normal truncated at 3 sigma */
  CH_PARAM_INIT_CONSTANT,   /* `start`; like CH_PARAM_INIT_NORMAL if `std` > 0 */
  CH_PARAM_INIT_UNIFORM,    /* uniform within sqrt(3) `std` of `start` */
  CH_PARAM_INIT_DECAY_RATE, /* gated delta rule: logarithm of a uniform number between 0 and 16 */
  CH_PARAM_INIT_DECAY_BIAS, /* gated delta rule: softplus^-1 of a log-uniform step between 0.001 and 0.1 */
  /* CH_PARAM_INIT_NORMAL, plus `hot` (or 1) at column floor(i n / m) of row i of every [m, n]: the identity if
     m = n and `start` = `std` = 0 */
  CH_PARAM_INIT_ONE_HOT
} ch_param_init;

/* The role of a tensor. A parametrisation derives its initial standard deviation and learning rate from role
   and shape. */
typedef enum ch_param_role {
  CH_PARAM_VECTOR, /* gains, biases and other vectors */
  CH_PARAM_HIDDEN, /* matrix [out, in] that multiplies hidden states, or atoms [S, out, in] of such matrices */
  CH_PARAM_RESIDUAL,     /* hidden matrix whose products are added to the residual stream */
  CH_PARAM_GATE,         /* hidden matrix after a lookup table; its products multiply hidden states */
  CH_PARAM_LOOKUP,       /* rows that begin the residual stream, looked up by token or position */
  CH_PARAM_TABLE,        /* other rows that are looked up; a matrix multiplies them */
  CH_PARAM_HEAD,         /* rows that compute logits */
  CH_PARAM_TIED,         /* rows that begin the residual stream and compute logits */
  CH_PARAM_MIX,          /* matrix over heads, or within a head for all heads */
  CH_PARAM_COEFFICIENTS, /* [S] coefficients of atoms */
  /* [S] coefficients of atoms of a matrix whose products are added to the residual stream */
  CH_PARAM_RESIDUAL_COEFFICIENTS,
  CH_PARAM_COEFFICIENT_MLP /* matrix of the network that computes coefficients */
} ch_param_role;

typedef struct ch_param {
  const char *name; /* name in checkpoints, for example "model.layers.3.self_attn.q_proj.weight" */
  int rank;
  int64_t shape[CH_MAX_RANK];
  ch_param_kind kind;
  ch_param_init init;
  double std, start, hot; /* parameters of `init`; hot = 0 means 1 */
  ch_param_role role;
  bool factor;            /* true for a factor of a dense matrix, if no norm is between the two factors */
  double input_scale;     /* typical size of the tensor's inputs; 0 means 1 */
  double lr_factor;       /* learning rate relative to the run's */
  bool decay;             /* true if weight decay applies (matrices only) */
  bool decay_to_identity; /* true if decay pulls to the identity (each matrix of rank 3) instead of zero */
  bool always_real; /* true if read as F32 or F64 whatever the file holds: vectors, matrices over heads */
  /* true if inference may read it block-quantised: it only multiplies tokens or is looked up by them */
  bool block_quantisable;
  bool frozen;        /* true if it has no gradient and the optimizer does not change it */
  bool training_only; /* true if inference computes a matrix from it and does not load it */
  int64_t stands_for; /* elements of the matrix that inference uses instead; counted by figures */
  int layers;         /* atoms: number of layers that they were declared for */
  int atoms;          /* coefficients or the network's embedding: row of the atoms that they combine */
} ch_param;

/* The shape of a tensor in the model's files, for sizes that a configuration leaves open. */
typedef struct ch_known_shape {
  const char *name;
  int rank;
  int64_t shape[CH_MAX_RANK];
} ch_known_shape;

typedef struct ch_known_shapes {
  ch_known_shape *rows; /* sorted by name */
  int64_t count;
} ch_known_shapes;

/* Returns the shape of a tensor in the files, or NULL if there is no such tensor. `shapes` may be NULL. */
const ch_known_shape *ch_known_shape_of(const ch_known_shapes *shapes, const char *name);
/* Compares two known shapes by name, for qsort. */
int ch_known_shape_order(const void *a, const void *b);

typedef struct ch_params {
  ch_param *rows; /* [count], by parameter number */
  int count, capacity;
  int32_t *index; /* [index_size] hash table of row + 1 by name; 0: free */
  size_t index_size;
  ch_arena arena; /* memory of the names */
  /* true when out of memory, if a name was declared twice, or after ch_params_fail; check once after declaring */
  bool failed;
  char problem[256];            /* error message of ch_params_fail, or "" */
  const ch_known_shapes *known; /* shapes in the model's files, used while declaring; or NULL */
} ch_params;

/* Records a problem of the declared parameters for ch_params_status. The first one is reported. */
void ch_params_fail(ch_params *params, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns CH_OK, or the error of a failed declaration. */
ch_status ch_params_status(const ch_params *params, ch_error *error);

/* Appends a matrix [rows, columns]; the name is a printf format. Returns its index, or -1 with `failed` set. It has
   CH_PARAM_INIT_NORMAL with `std`, weight decay and the role CH_PARAM_HIDDEN. */
int ch_params_matrix(ch_params *params, ch_param_kind kind, double std, int64_t rows, int64_t columns,
                     const char *name, ...) __attribute__((format(printf, 6, 7)));
/* Sets the role of row `index`. Does nothing if `index` is -1. */
void ch_params_set_role(ch_params *params, int index, ch_param_role role);
/* Appends a vector [n] with all elements `start` and the role CH_PARAM_VECTOR. Returns its index, or -1. */
int ch_params_vector(ch_params *params, ch_param_kind kind, double start, int64_t n, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
/* Returns the index of a name, or -1. */
int ch_params_find(const ch_params *params, const char *name);
/* Returns the number of elements. */
int64_t ch_param_count(const ch_param *param);
/* Returns the bytes of the elements as `dtype`, rounded up to whole cache lines. */
size_t ch_param_place_bytes(const ch_param *param, ch_dtype dtype);
/* Returns the number of elements that figures count: its own, or `stands_for` if it is training_only. */
int64_t ch_param_figure(const ch_param *param);
void ch_params_free(ch_params *params);

#endif
