/* A trainer: a model's weights and optimizer state, updated by steps over a text or a set of images.
 *
 * train/run.h adds run directories, logs and signals. ch_trainer_create allocates the memory of steps and of the
 * planned evaluations. Two trainers with the same config, options, source and number of threads hold the same bits
 * after the same steps, also if one of them was saved and resumed in between. */
#ifndef CH_TRAIN_TRAINER_H
#define CH_TRAIN_TRAINER_H

#include "base/progress.h"
#include "model/runner.h"
#include "ranks/ranks.h"
#include "train/options.h"
#include "train/batch_source.h"

typedef struct ch_trainer ch_trainer;

/* Creates a trainer at step 0 with the initial weights of docs/train.md, whose random numbers depend on
   options->seed and each tensor's name alone. config, options and source are copied (source->context must outlive
   the trainer). options->micro_batch = 0 becomes the largest divisor of the batch whose activations need at most
   about 640 MiB (or 1). Errors: those of ch_train_options_check and of the config; CH_ERROR_MEMORY, with the needed
   bytes. */
ch_status ch_trainer_create(const ch_config *config, const ch_train_options *options,
                            const ch_batch_source *source, ch_trainer **trainer, ch_error *error);
/* Creates a trainer for a configuration whose shapes partly follow from the tensors of `stored`, a model directory
 * (ch_model_declare_stored) or a checkpoint file. */
ch_status ch_trainer_create_like(const char *stored, const ch_config *config, const ch_train_options *options,
                                 const ch_batch_source *source, ch_trainer **trainer, ch_error *error);
/* Optional settings of a new trainer; all zero is fine. */
typedef struct ch_trainer_start {
  ch_rank_group *ranks; /* ranks that train one model; NULL: this process alone */
  const char *stored;   /* source of shapes (ch_trainer_create_like); NULL: the configuration has them all */
  ch_stop_test stop;    /* called while the initial weights are drawn; may be NULL */
  void *stop_context;
} ch_trainer_start;

/* Creates one of several trainers that train one model together, one on each rank. Every rank creates one
 * with equal config, options and source, and then calls the functions of this header in equal order. Those
 * with a ch_error agree on their status, so that they fail on all ranks or on none. Rank i computes the
 * micro-batches whose number modulo the number of ranks is i, and has a part of the moments. Results have the
 * same bits for any number of ranks. Errors: CH_ERROR_ARGUMENT, if the ranks do not divide the micro-batches
 * of a step; CH_ERROR_INTERRUPTED, if `stop` returned true on a rank. */
ch_status ch_trainer_create_over(const ch_trainer_start *start, const ch_config *config,
                                 const ch_train_options *options, const ch_batch_source *source,
                                 ch_trainer **trainer, ch_error *error);
void ch_trainer_free(ch_trainer *trainer);
/* Computes the memory of the rank that needs the most, of `ranks` ranks, without creating a trainer.
   options->micro_batch must not be 0. `stored` is NULL or as in ch_trainer_create_like. */
ch_status ch_trainer_memory(const char *stored, const ch_config *config, const ch_train_options *options,
                            int ranks, ch_train_memory *memory, ch_error *error);

/* Replaces the initial weights by those of a model directory of the same shape (ours or Hugging Face's, any
   float type). It must be called before the first step. Errors name the file and the tensor. */
ch_status ch_trainer_load_weights(ch_trainer *trainer, const char *directory, ch_error *error);

/* The results of one step. */
typedef struct ch_step_report {
  int64_t step;   /* number of the step, from 1 */
  int64_t tokens; /* tokens (or images) trained on by all ranks so far, with this step, without padding */
  int64_t step_tokens;  /* tokens (or images) of this step, without padding */
  double loss;          /* mean over the step's predicted tokens, before the update */
  double lr, grad_norm; /* learning rate, and norm of the gradient before clipping */
  double seconds;       /* duration of this step */
  double balance_loss;  /* mixtures of experts: balance loss, which adds to the gradient and not to `loss` */
  int64_t expert_layers, experts; /* layers with experts, and experts of such a layer; 0: none */
  /* [expert_layers, experts]: tokens of the step that went to each expert, valid until the trainer's next step; NULL
     without experts */
  const int64_t *expert_load;
} ch_step_report;

/* Called about four times a second with the finished share of a step or an evaluation that lasts longer than a
   second. */
typedef void (*ch_share_sink)(void *context, double share);
/* Sets the sink of shares; it may be NULL. */
void ch_trainer_tell_share(ch_trainer *trainer, ch_share_sink sink, void *context);

/* Computes one optimizer step: the gradient of options->accumulate batches, agreement with other ranks,
 * clipping, AdamW. `stop` is called about twenty times a second, also within passes, and may be NULL. Errors
 * leave the weights and the step number unchanged: CH_ERROR_NUMERIC when the loss or a gradient is not finite
 * (the message names the step and, if there is one, the first such tensor), CH_ERROR_INTERRUPTED when `stop` returned
 * true, CH_ERROR_ARGUMENT when the run's last step is done or the step has no token to predict. */
ch_status ch_trainer_step(ch_trainer *trainer, ch_stop_test stop, void *stop_context, ch_step_report *report,
                          ch_error *error);

/* Computes the mean loss over the first options->eval_tokens tokens (or images; 0: all) of the validation data.
 * The result becomes a point of the validation curve, in place of an earlier one at the same step.
 * Errors: CH_ERROR_ARGUMENT without validation data, CH_ERROR_NUMERIC for a loss that is not finite,
 * CH_ERROR_INTERRUPTED when `stop` returned true. `stop` is called as by ch_trainer_step. */
ch_status ch_trainer_evaluate(ch_trainer *trainer, ch_stop_test stop, void *stop_context, double *loss,
                              ch_error *error);

/* Returns true if the source has validation data. */
bool ch_trainer_can_evaluate(const ch_trainer *trainer);
/* Returns "tokens" or "images", the unit of this header's counts of tokens. */
const char *ch_trainer_unit(const ch_trainer *trainer);

/* The result of an evaluation. */
typedef struct ch_validation_point {
  int64_t step;
  double loss; /* mean over the predicted tokens, or over the images */
  /* shares of images whose label has the highest score, or one of the five highest; -1 for text */
  double top1, top5;
} ch_validation_point;

/* The progress so far. The arrays belong to the trainer and grow with it. */
typedef struct ch_progress_record {
  int64_t step, steps;                   /* finished steps, and steps of the whole run */
  int64_t tokens;                        /* tokens (or images) trained on, without padding */
  double seconds;                        /* time in ch_trainer_step, over all resumptions */
  const double *losses;                  /* [step]: training loss of every step */
  const ch_validation_point *validation; /* [validation_points] evaluations */
  int64_t validation_points;
} ch_progress_record;

void ch_trainer_progress(const ch_trainer *trainer, ch_progress_record *record);

/* Writes the whole state as one safetensors file: weights, both moments, step, curves, options, config and
   the fingerprint of the source. The file is written under another name and renamed, so a crash leaves the
   old file or the new one. */
ch_status ch_trainer_save(const ch_trainer *trainer, const char *path, ch_error *error);
/* Loads a checkpoint into a trainer that was created with the same config, options and source. Errors name
   the file and the first difference; the trainer is then unusable. Options that do not decide the result may
   differ (evaluations, checkpoints, recompute), and options->steps of a constant schedule. */
ch_status ch_trainer_resume(ch_trainer *trainer, const char *path, ch_error *error);
/* Reads the options (micro_batch resolved), config and step of a checkpoint. Each pointer may be NULL. */
ch_status ch_checkpoint_read_options(const char *path, ch_train_options *options, ch_config *config,
                                     int64_t *step, ch_error *error);
/* Reads the fingerprint of the source that a checkpoint was trained on, cut to `size`. */
ch_status ch_checkpoint_read_source(const char *path, char *source, size_t size, ch_error *error);

/* Writes DIRECTORY/config.json and model.safetensors in the trainer's type, openable by every command. */
ch_status ch_trainer_export(const ch_trainer *trainer, const char *directory, ch_error *error);

/* Sets *least and *most to the smallest and the largest share of a layer's choices that an expert had in the last
   step. Returns false if there are no experts or no step was taken. */
bool ch_trainer_expert_shares(const ch_trainer *trainer, double *least, double *most);

/* Return the trainer's own objects, valid until it is freed: parameter table, weights [params->count] (of
 * ch_train_real(options); they change with every step), options (micro_batch and warmup resolved), config,
 * and the engine, whose `profile` a caller may set. */
const ch_params *ch_trainer_params(const ch_trainer *trainer);
const ch_tensor *ch_trainer_weights(const ch_trainer *trainer);
/* Reads the weights into the host's memory. Release with ch_host_tensors_free. */
ch_status ch_trainer_read_weights(const ch_trainer *trainer, ch_host_tensors *host, ch_error *error);
const ch_train_options *ch_trainer_options(const ch_trainer *trainer);
const ch_config *ch_trainer_config(const ch_trainer *trainer);
ch_engine *ch_trainer_engine(ch_trainer *trainer);
/* Returns the ranks that the trainer was created for, or NULL. */
ch_rank_group *ch_trainer_ranks(const ch_trainer *trainer);
/* Returns the bytes that this rank holds: weights, gradients, master weights, moments, exchange buffers and
 * activations. */
size_t ch_trainer_bytes(const ch_trainer *trainer);
/* Returns the FLOPs of one step, forward and backward (backward counted as twice the forward pass). */
double ch_trainer_step_flops(const ch_trainer *trainer);

#endif
