/* Model directories: config.json, model.safetensors (or shards with an index), tokenizer.json. */
#ifndef CH_IO_MODEL_FILES_H
#define CH_IO_MODEL_FILES_H

#include "io/safetensors.h"
#include "config/config.h"
#include "config/params.h"

/* A directory's weights, opened and matched against the parameter table. They do not change after opening. */
typedef struct ch_weights {
  ch_safetensors *shards;
  int shard_count;
  ch_tensor *tensors; /* [params->count], in table order; data points into the mappings or into `owned` */
  void *owned;        /* copied values: converted, transposed, misaligned in the file, or always_real */
  size_t owned_bytes;
} ch_weights;

/* The purpose for which the caller opens the weights. */
typedef enum ch_weights_mode {
  /* Inference: matrices stay mapped in their stored type, but F64 becomes F32, and MXFP4 becomes BF16. Vectors and
     always_real matrices are F32. */
  CH_WEIGHTS_MAPPED,
  /* all tensors are F32; matrices stored as F32 stay mapped unless they are transposed, misaligned or always_real */
  CH_WEIGHTS_F32,
  CH_WEIGHTS_F64 /* all tensors are double, for the reference path */
} ch_weights_mode;

/* Opens DIR/model.safetensors, or the shards in DIR/model.safetensors.index.json, and checks that they have exactly the
   tensors of `params` with their shapes. A Vision Transformer's tensors may have Hugging Face's names and shapes
   (io/tensor_names.h), and files of config->layout have those of the layout (io/tensor_layout.h). Some
   additional tensors are allowed: buffers of old files (rotary_emb.inv_freq, masks), and an lm_head.weight in a tied
   checkpoint, which replaces a missing embedding. Values that are copied, and so every vector, must be finite; matrices
   that stay mapped are not read. Errors name the file and the tensor. */
ch_status ch_weights_open(const char *directory, const ch_config *config, const ch_params *params,
                          ch_weights_mode mode, ch_weights *weights, ch_error *error);
void ch_weights_close(ch_weights *weights);
/* Releases mapped memory, like ch_map_forget. Memory that the weights own is not released. */
void ch_weights_forget(const ch_weights *weights, const void *data, size_t bytes);
/* Opens the files and reads their headers, the first half of loading. `tensors` stays NULL. */
ch_status ch_weights_find(const char *directory, ch_weights *weights, ch_error *error);

/* Reads a configuration like ch_config_read. If the directory has weights, corrects "tie_word_embeddings": a model
   whose files have a head with other values than the embedding is not tied. */
ch_status ch_config_read_stored(const char *path, ch_config *config, ch_error *error);

/* Declares the tensors of a model (ch_model_declare). If the model is of Crosshead's own types and `directory` exists,
   its files give the residuals, and the shapes that the configuration leaves open ("sharing.rank", and "sharing.atoms"
   of groups). */
ch_status ch_model_declare_stored(const char *directory, const ch_config *config, ch_params *params,
                                  ch_error *error);
/* Like ch_model_declare_stored, with the shapes of the tensors of a safetensors file whose names begin with
   `prefix`. */
ch_status ch_model_declare_saved(const char *path, const char *prefix, const ch_config *config,
                                 ch_params *params, ch_error *error);

/* Appends tensor `index` of a parameter table to the file, all its values as `dtype`. */
typedef ch_status ch_tensor_put(void *context, int index, ch_dtype dtype, ch_writer *writer, ch_error *error);
/* Creates the directory and writes only DIR/model.safetensors, under a temporary name and renamed. `put` writes each
   tensor, of type dtypes [params->count]. */
ch_status ch_weights_write(const char *directory, const ch_params *params, const ch_dtype *dtypes,
                           ch_tensor_put *put, void *context, ch_error *error);
/* Writes DIR/config.json in the layout of config->model_type, which is Crosshead's or a Hugging Face family's. Call it
   last: a directory without config.json is not a model. */
ch_status ch_config_store(const char *directory, const ch_config *config, ch_error *error);
typedef struct ch_model_writing {
  const ch_weights *read; /* weights in whose mappings the tensors are; written pages are released; or NULL */
  /* Called with the bytes written so far and the bytes of all tensors. A status other than CH_OK ends the writing. May
     be NULL. */
  ch_status (*step)(void *context, const char *what, double done, double total, ch_error *error);
  void *context;
} ch_model_writing;

/* Writes model.safetensors and config.json, under temporary names and renamed. tensors [params->count] have any float
   types and are stored as dtypes [params->count]. ch_model_write stores all of them as `dtype`. */
ch_status ch_model_write_as(const char *directory, const ch_config *config, const ch_params *params,
                            const ch_tensor *tensors, const ch_dtype *dtypes, const ch_model_writing *writing,
                            ch_error *error);
ch_status ch_model_write(const char *directory, const ch_config *config, const ch_params *params,
                         const ch_tensor *tensors, ch_dtype dtype, ch_error *error);

#endif
