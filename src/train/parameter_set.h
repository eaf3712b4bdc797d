/* The part of a model's weights, gradients and optimizer state that a rank holds in training. */
#ifndef CH_TRAIN_PARAMETER_SET_H
#define CH_TRAIN_PARAMETER_SET_H

#include "config/params.h"
#include "tensor/kernels.h"

/* The ways to store a tensor on several ranks that train one model. Every element has an owner: the rank that
   updates it and alone has its moments (ZeRO stage 1, Rajbhandari et al. 2020). */
typedef enum ch_keeping {
  CH_KEPT_WHOLE,   /* weight and gradient are whole on every rank; a rank owns a piece */
  CH_KEPT_ROUNDED, /* every rank has the whole weight in BF16; the owner of a piece also has it in F32 */
  CH_KEPT_COLUMNS, /* a rank has some columns of a lookup table's weight, gradient and moments */
  CH_KEEPINGS
} ch_keeping;

/* The elements of a tensor that a rank owns: `count` from `first` on. Of a table divided by columns, they are
   `columns` columns from column `first` on. */
typedef struct ch_parameter_piece {
  int64_t first, count, columns;
} ch_parameter_piece;

/* The tensors that are stored in one way: blocks of memory with the same layout, of which each rank owns an
   equal part. */
typedef struct ch_parameter_region {
  /* elements of all ranks; elements of one rank; if columns are divided, both are those of this rank */
  int64_t elements, part;
  /* [elements] weights and gradients; [part] masters, m and v. Masters are in `weights` unless these are rounded. */
  void *weights, *gradients, *masters, *m, *v;
} ch_parameter_region;

/* Bytes that a rank holds. masters: F32 copies of this rank's part of weights that graphs read in BF16. */
typedef struct ch_parameter_bytes {
  size_t weights, gradients, masters, moments;
} ch_parameter_bytes;

/* Weights, gradients and both moments of a model. */
typedef struct ch_parameter_set {
  const ch_params *params; /* parameter table, which must outlive the set */
  ch_dtype dtype;
  ch_tensor *weights, *gradients; /* [params->count]: weights that graphs read, gradients that they write */
  ch_tensor *masters, *m, *v;     /* [params->count]: this rank's pieces of master weights and moments */
  void **gradient_data;           /* [params->count]: data of `gradients`, for ch_run.gradients */
  int64_t *places;                /* [params->count]: first element of each tensor in its region */
  ch_parameter_piece *pieces;     /* [params->count]: pieces that this rank owns */
  ch_keeping *keeping;            /* [params->count] */
  int rank, ranks;
  double *table_squares; /* [ranks, squares_each]: sum of squares of each gradient column of divided tables */
  int64_t squares_each;  /* largest number of columns of divided tables on a rank */
  ch_parameter_region regions[CH_KEEPINGS];
  const ch_value_memory *memory; /* memory that holds the tensors */
} ch_parameter_set;

/* Creates the set of one of several ranks. keeping [params->count] is copied; NULL: all CH_KEPT_WHOLE. */
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
/* Returns a view of a whole tensor at `data`, in the set's type. */
ch_tensor ch_parameter_whole(const ch_parameter_set *set, int parameter, void *data);
/* Copies this rank's part of a whole tensor in the host's memory, of the set's type, into the set. */
void ch_parameter_set_put(const ch_parameter_set *set, const ch_kernels *kernels, const ch_team *team,
                          ch_parameter_group group, int parameter, const void *whole);
/* Copies the piece of `rank` into a whole tensor, both in the host's memory. */
void ch_parameter_piece_join(const ch_parameter_set *set, int parameter, int rank, const void *piece,
                             void *whole);

#endif
