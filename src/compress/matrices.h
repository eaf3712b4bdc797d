/* The projections' matrices that a method compresses, one by one, and the model built from the results. */
#ifndef CH_COMPRESS_MATRICES_H
#define CH_COMPRESS_MATRICES_H

#include "attention/mechanism.h"
#include "compress/compress.h"

typedef struct ch_matrix {
  int layer, row; /* row: index of its tensor in the model's parameter table */
  char name[CH_PROJECTION_NAME_SIZE];
  int64_t out, in;
} ch_matrix;

typedef struct ch_matrices {
  ch_matrix *rows; /* [count], by layer, then in the order of the layer's tensors */
  int count;
  char names[CH_MAX_PROJECTIONS][CH_PROJECTION_NAME_SIZE]; /* [name_count]: names of the listed projections */
  int name_count;
  int64_t before; /* attention parameters that the ratio refers to */
  int64_t others; /* attention parameters of the model that are not compressed */
  int64_t budget; /* parameters that the compressed `rows` may have for options->ratio */
} ch_matrices;

/* Lists the matrices of every projection that options->keep does not name. Fails if the model has shared projections
 * or residuals (materialise them first), if options->keep names something that is not a projection, if no matrix is
 * left, or if the ratio is out of reach. */
ch_status ch_matrices_list(const ch_model *model, const ch_compress_options *options, ch_matrices *matrices,
                           ch_error *error);
void ch_matrices_free(ch_matrices *matrices);
/* Returns the relative cost of decomposing a matrix, for progress. */
double ch_matrix_work(const ch_matrix *matrix);
/* Reads `count` elements of the matrix from element `first` on, as doubles. In models of more than CH_LARGE_WEIGHTS
 * bytes it releases the mapped memory. */
void ch_matrix_read(const ch_model *model, const ch_matrix *matrix, int64_t first, int64_t count,
                    double *values);

/* Shapes of the new model's tensors that its configuration does not determine: the number of dimensions, and the size
 * of the first one. Names are copied. */
typedef struct ch_shape_list {
  ch_known_shapes known;
  int64_t capacity;
  ch_arena arena;
  bool failed; /* true if memory ran out */
} ch_shape_list;

void ch_shape_list_add(ch_shape_list *list, int rank, int64_t first, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void ch_shape_list_free(ch_shape_list *list);

/* Begins the new model with `config`, whose model_type it sets, and the shapes in `shapes`, which it sorts. Tensors
   whose names the old model has are reused; memory is allocated for all others. */
ch_status ch_compressed_begin(const ch_model *model, const ch_config *config, ch_shape_list *shapes,
                              const ch_compress_options *options, ch_compressed_model *compressed,
                              ch_error *error);
/* Writes elements of a tensor, rounded to its type, from element `first` on. ch_compressed_get reads them back. */
ch_status ch_compressed_put(ch_compressed_model *compressed, const char *name, int64_t first, int64_t count,
                            const double *values, ch_error *error);
ch_status ch_compressed_get(const ch_compressed_model *compressed, const char *name, int64_t first,
                            int64_t count, double *values, ch_error *error);
/* Counts the attention parameters of the finished model. Fails if they exceed the budget, which would be a bug. */
ch_status ch_compressed_end(const ch_matrices *matrices, ch_compressed_model *compressed, ch_error *error);

#endif
