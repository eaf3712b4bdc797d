/* The projections' matrices that a method compresses, one by one, and the model built from the results. */
#ifndef CH_COMPRESS_MATRICES_H
#define CH_COMPRESS_MATRICES_H

#include "attention/mechanism.h"
#include "compress/compress.h"

typedef struct ch_matrix {
  int layer, row; /* its tensor in the model's parameter table */
  char name[CH_PROJECTION_NAME_SIZE];
  int64_t out, in;
} ch_matrix;

typedef struct ch_matrices {
  ch_matrix *rows; /* by layer, then as the layer has them */
  int count;
  char names[CH_MAX_PROJECTIONS][CH_PROJECTION_NAME_SIZE]; /* of the projections among them */
  int name_count;
  int64_t before; /* attention parameters that the ratio is of, */
  int64_t others; /* those of the model that stay as they are, */
  int64_t budget; /* and those that what becomes of `rows` may have for options->ratio */
} ch_matrices;

/* Lists every projection that options->keep does not name. Fails if the model has shared projections or
 * residuals (materialise them first), if a name is none of the model's, if nothing is left or the ratio is
 * out of reach. */
ch_status ch_matrices_list(const ch_model *model, const ch_compress_options *options, ch_matrices *matrices,
                           ch_error *error);
void ch_matrices_free(ch_matrices *matrices);
/* Returns the relative cost of decomposing a matrix, for progress. */
double ch_matrix_work(const ch_matrix *matrix);
/* Reads `count` elements of the matrix from element `first` on, as doubles. In models of more than
 * CH_LARGE_WEIGHTS it releases the mapped memory. */
void ch_matrix_read(const ch_model *model, const ch_matrix *matrix, int64_t first, int64_t count,
                    double *values);

/* Shapes that the new model's tensors will have where its configuration does not say them: the rank of the tensor,
 * and its first dimension. Names are copied. */
typedef struct ch_shape_list {
  ch_known_shapes known;
  int64_t capacity;
  ch_arena arena;
  bool failed; /* memory ran out */
} ch_shape_list;

void ch_shape_list_add(ch_shape_list *list, int rank, int64_t first, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void ch_shape_list_free(ch_shape_list *list);

/* Begins the new model: `config` (its model_type and what our own configs do not have are set here), tensors of other
   shapes in `shapes`, which it sorts. Tensors of the old one's names are reused; memory is allocated for all others. */
ch_status ch_compressed_begin(const ch_model *model, const ch_config *config, ch_shape_list *shapes,
                              const ch_compress_options *options, ch_compressed_model *compressed,
                              ch_error *error);
/* Writes elements of a tensor, rounded to its type, from element `first` on; and reads them back. */
ch_status ch_compressed_put(ch_compressed_model *compressed, const char *name, int64_t first, int64_t count,
                            const double *values, ch_error *error);
ch_status ch_compressed_get(const ch_compressed_model *compressed, const char *name, int64_t first,
                            int64_t count, double *values, ch_error *error);
/* Counts, once all is written. */
ch_status ch_compressed_end(const ch_matrices *matrices, ch_compressed_model *compressed, ch_error *error);

#endif
