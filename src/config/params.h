/* The parameter table: one row per tensor of a model. It alone drives allocation, initialisation, optimizer
 * groups, files and counting. Each part of a model (a mechanism, a module, the FFN ...) declares its own
 * rows. */
#ifndef CH_CONFIG_PARAMS_H
#define CH_CONFIG_PARAMS_H

#include "base/arena.h"
#include "base/error.h"
#include "config/config.h"
#include "tensor/tensor.h"

typedef enum ch_param_kind { /* what `info` counts a tensor as */
                             CH_PARAM_ATTENTION,
                             CH_PARAM_EMBEDDING,
                             CH_PARAM_GATE_EMBEDDING,
                             CH_PARAM_FFN,
                             CH_PARAM_EXPERT, /* a matrix of an expert that tokens choose */
                             CH_PARAM_NORM,   /* norms outside attention */
                             /* of models of images */
                             CH_PARAM_PATCH,    /* patch embedding */
                             CH_PARAM_POSITION, /* positions and the class token */
                             CH_PARAM_CLASSIFIER
} ch_param_kind;

typedef enum ch_param_init {
  CH_PARAM_INIT_NORMAL,     /* truncated at 3 sigma; `std` below */
  CH_PARAM_INIT_CONSTANT,   /* `start` below */
  CH_PARAM_INIT_UNIFORM,    /* within sqrt(3) std of `start` */
  CH_PARAM_INIT_DECAY_RATE, /* of a gated delta rule: the logarithm of a number between 0 and 16 */
  CH_PARAM_INIT_DECAY_BIAS, /* softplus^-1 of a time step between 0.001 and 0.1, whose logarithm is uniform */
  /* row i of every [m, n] is 1, or `hot` below, at column floor(i n / m), plus a normal of `std`: the
     identity when m = n and std = 0 */
  CH_PARAM_INIT_ONE_HOT
} ch_param_init;

/* The role of a tensor. A parametrisation derives its initial standard deviation and learning rate from role
   and shape. */
typedef enum ch_param_role {
  CH_PARAM_VECTOR,       /* gains, biases and other vectors */
  CH_PARAM_HIDDEN,       /* a matrix [out, in] that multiplies hidden states, or atoms [S, out, in] of such */
  CH_PARAM_RESIDUAL,     /* as CH_PARAM_HIDDEN, and its products are added to the residual stream */
  CH_PARAM_GATE,         /* a hidden matrix after a lookup table; its products multiply hidden states */
  CH_PARAM_LOOKUP,       /* rows that begin the residual stream, looked up by a token or a place */
  CH_PARAM_TABLE,        /* other rows that are looked up, and go through a matrix */
  CH_PARAM_HEAD,         /* rows that make logits */
  CH_PARAM_TIED,         /* rows that begin the stream and make logits */
  CH_PARAM_MIX,          /* over heads, or within a head for all heads */
  CH_PARAM_COEFFICIENTS, /* [S] of atoms */
  /* [S] of atoms, for a matrix whose products are added to the residual stream */
  CH_PARAM_RESIDUAL_COEFFICIENTS,
  CH_PARAM_COEFFICIENT_MLP /* a matrix of the network that makes such coefficients */
} ch_param_role;

typedef struct ch_param {
  const char *name; /* the checkpoint's name, e.g. "model.layers.3.self_attn.q_proj.weight" */
  int rank;
  int64_t shape[CH_MAX_RANK];
  ch_param_kind kind;
  ch_param_init init;
  double std, start, hot; /* hot: what one-hot rows have in place of 1; 0: 1 */
  ch_param_role role;
  /* one of two matrices whose product, without a norm between them, replaces a dense one */
  bool factor;
  double input_scale;     /* the size of its inputs relative to the unit; 0: 1 */
  double lr_factor;       /* its learning rate is the run's times this */
  bool decay;             /* weight decay applies (matrices only) */
  bool decay_to_identity; /* it pulls to the identity matrix (each of them, with rank 3) instead of zero */
  bool always_real;       /* read as F32 (or F64) whatever the file holds: vectors, and matrices over heads */
  /* inference may read it as Q8_0 or Q4_0: it only multiplies tokens or is looked up by them */
  bool block_quantisable;
  bool frozen;        /* the loss has no gradient of it, and the optimizer leaves it alone */
  bool training_only; /* inference drops it for `stands_for` elements, which is what figures count */
  int64_t stands_for;
  int layers; /* of a dictionary's atoms: layers that they were declared for */
  int atoms;  /* of coefficients, or what gives them: the row of the atoms they combine */
} ch_param;

/* The shapes of tensors in files that are about to be opened, for sizes that a configuration leaves open. */
typedef struct ch_known_shape {
  const char *name;
  int rank;
  int64_t shape[CH_MAX_RANK];
} ch_known_shape;

typedef struct ch_known_shapes {
  ch_known_shape *rows; /* sorted by name */
  int64_t count;
} ch_known_shapes;

/* Returns the shape of a tensor in the files, or NULL if they have no such tensor, or there are no files. */
const ch_known_shape *ch_known_shape_of(const ch_known_shapes *shapes, const char *name);
/* For qsort of rows by name. */
int ch_known_shape_order(const void *a, const void *b);

typedef struct ch_params {
  ch_param *rows; /* index = parameter number everywhere */
  int count, capacity;
  int32_t *index; /* hash of names -> row + 1 */
  size_t index_size;
  ch_arena arena; /* names */
  /* memory ran out, a name was declared twice, or `problem` says what; check once after declaring */
  bool failed;
  char problem[256];
  const ch_known_shapes *known; /* or NULL: set before declaring, not needed after it */
} ch_params;

/* Records what is wrong with what is being declared, for ch_params_status; the first sentence wins. */
void ch_params_fail(ch_params *params, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns CH_OK, or the error with which declaring failed. */
ch_status ch_params_status(const ch_params *params, ch_error *error);

/* Appends a row; the name is a printf format. Returns its index, or -1 with `failed` set. Matrices decay,
   start normal with `std` and are CH_PARAM_HIDDEN; use the helpers below for norms and biases. */
int ch_params_matrix(ch_params *params, ch_param_kind kind, double std, int64_t rows, int64_t columns,
                     const char *name, ...) __attribute__((format(printf, 6, 7)));
/* Gives row `index` its role; nothing where `index` is -1. */
void ch_params_set_role(ch_params *params, int index, ch_param_role role);
/* Declares a vector that starts with all elements at `start`. */
int ch_params_vector(ch_params *params, ch_param_kind kind, double start, int64_t n, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
/* Returns the index of a name, or -1. */
int ch_params_find(const ch_params *params, const char *name);
int64_t ch_param_count(const ch_param *param);
/* Bytes of its elements as `dtype`, rounded up to a whole cache line. */
size_t ch_param_place_bytes(const ch_param *param, ch_dtype dtype);
/* Returns the elements that figures count for it: its own, or those of the matrix that inference uses
   instead. */
int64_t ch_param_figure(const ch_param *param);
void ch_params_free(ch_params *params);

#endif
