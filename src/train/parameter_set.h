/* Weights, gradients and optimizer state of a model in training: the part that a rank holds. */
#ifndef CH_TRAIN_PARAMETER_SET_H
#define CH_TRAIN_PARAMETER_SET_H

#include "config/params.h"
#include "tensor/kernels.h"

/* The ways to store a tensor on several ranks that train one model. Every element has an owner: the rank that
   updates it and alone has its moments (ZeRO stage 1, Rajbhandari et al. 2020). */
typedef enum ch_keeping {
  CH_KEPT_WHOLE, /* weight and gradient are whole on every rank; a rank owns a piece */
  /* as CH_KEPT_WHOLE, but the whole weight is rounded to BF16, which graphs read; the owner of a piece has it
   * in F32 */
  CH_KEPT_ROUNDED,
  CH_KEPT_COLUMNS, /* a lookup table: a rank has some of the columns, of weight, gradient and moments */
  CH_KEEPINGS
} ch_keeping;

/* The elements of a tensor that a rank owns: `count` from `first` on. If a table is divided by columns: those
   of `columns` columns from `first` on, in every row. */
typedef struct ch_parameter_piece {
  int64_t first, count, columns;
} ch_parameter_piece;

/* The tensors that are stored in one way: blocks of memory with the same layout, of which each rank owns an
   equal part. */
typedef struct ch_parameter_region {
  /* elements of all ranks, and of one; for tables divided by columns, both are what this rank holds */
  int64_t elements, part;
  void *weights, *gradients, *masters, *m,
      *v; /* the last three are of this rank's part; masters may be in weights */
} ch_parameter_region;

/* Bytes that a rank holds. */
typedef struct ch_parameter_bytes {
  size_t weights, gradients, /* as graphs read and write them */
      masters,               /* this rank's F32 of weights that graphs read in BF16 */
      moments;
} ch_parameter_bytes;

/* Weights, gradients and both moments of a model. */
typedef struct ch_parameter_set {
  const ch_params *params; /* must outlive the set */
  ch_dtype dtype;
  ch_tensor *weights, *gradients; /* [params->count] views: what graphs read, and where gradients go */
  ch_tensor *masters, *m, *v;     /* [params->count] views of this rank's pieces alone */
  void **gradient_data;           /* [params->count] the data of `gradients`, for ch_run.gradients */
  int64_t *places;                /* [params->count] elements of the region before each */
  ch_parameter_piece *pieces;     /* [params->count] what this rank owns */
  ch_keeping *keeping;            /* [params->count] */
  int rank, ranks;
  /* [ranks, squares_each] of columns of gradients, of each rank's tables one after the other */
  double *table_squares;
  int64_t squares_each;
  ch_parameter_region regions[CH_KEEPINGS];
  const ch_value_memory *memory; /* the memory that holds them */
} ch_parameter_set;

/* Creates the set of one of several ranks. keeping [params->count] is copied. */
ch_status ch_parameter_set_create_part(ch_parameter_set *set, const ch_params *params,
                                       const ch_kernels *kernels, int rank, int ranks,
                                       const ch_keeping *keeping, ch_error *error);
/* Returns true if a tensor is a lookup table of a gate, which can be divided by columns. */
bool ch_parameter_is_table(const ch_param *param);
/* Computes the memory of a set without allocating it. */
ch_parameter_bytes ch_parameter_bytes_of(const ch_params *params, ch_dtype dtype, int rank, int ranks,
                                         const ch_keeping *keeping);
ch_parameter_bytes ch_parameter_set_bytes(const ch_parameter_set *set);
/* Returns the piece of a tensor that `rank` owns. */
ch_parameter_piece ch_parameter_piece_of(const ch_parameter_set *set, int parameter, int rank);
void ch_parameter_set_free(ch_parameter_set *set);

/* The groups of a set's tensors. */
typedef enum ch_parameter_group { CH_WEIGHTS, CH_FIRST_MOMENTS, CH_SECOND_MOMENTS } ch_parameter_group;
/* Returns this rank's pieces [params->count] of a group. */
const ch_tensor *ch_parameter_pieces(const ch_parameter_set *set, ch_parameter_group group);
/* Returns a view of a whole tensor, in the set's type. */
ch_tensor ch_parameter_whole(const ch_parameter_set *set, int parameter, void *data);
/* Copies this rank's part of a whole tensor of the host, in the set's type. */
void ch_parameter_set_put(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                          ch_parameter_group group, int parameter, const void *whole);
/* Copies the piece of `rank` into a whole tensor, both in the host's memory. */
void ch_parameter_piece_join(const ch_parameter_set *set, int parameter, int rank, const void *piece,
                             void *whole);

#endif
