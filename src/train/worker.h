/* Hands the training of a run to PyTorch, in a process `python -m crosshead.worker RUN`, and reports its
 * progress as a native run would. */
#ifndef CH_TRAIN_WORKER_H
#define CH_TRAIN_WORKER_H

#include "train/run.h"

/* The files of a run that a worker trains: its settings, and the folder with the model's code. */
#define CH_WORKER_SETTINGS "worker.json"
#define CH_WORKER_CODE "pytorch"

/* The worker's surroundings. */
typedef struct ch_worker {
  /* the interpreter; NULL: CROSSHEAD_PYTHON, that of an active virtual environment, python3 */
  const char *python;
  const char *device;  /* "cuda:0", "cpu", …; with commas: devices that train the run together;
                            NULL: PyTorch's accelerator, else the CPU */
  const char *text;    /* directory with the prepared text, or the record of the images */
  int64_t micro_batch; /* sequences computed at a time; 0: the most that fit into memory */
  bool shard;          /* each device holds a part of the model */
  bool prepare;        /* write its files and do not start it */
} ch_worker;

/* Returns the interpreter to start if settings name this one (or NULL); the caller's, NULL when out of
 * memory. */
char *ch_find_python(const char *given);

/* Trains the run in `directory` to its end: writes the worker's files there, starts it, and passes what it
   reports to `events`. checkpoint.safetensors must hold the trainer's state. Then the trainer loads the
   worker's last checkpoint. Errors: CH_ERROR_INTERRUPTED, when events->interrupted returned true and the
   worker has saved a checkpoint; CH_ERROR_NUMERIC, CH_ERROR_MEMORY and CH_ERROR_IO as the worker says, and
   CH_ERROR_IO when it cannot be started or dies. *began: it completed a step. */
ch_status ch_worker_train(const ch_worker *worker, ch_trainer *trainer, const char *directory,
                          const ch_train_events *events, bool *began, ch_error *error);

/* A model whose steps are to be timed, and what was found. */
typedef struct ch_worker_forecast {
  const ch_config *config;
  const ch_train_options *options;
  double seconds;       /* of a step */
  int64_t memory_bytes; /* of each device */
} ch_worker_forecast;

/* Times steps of models on the worker's first device, with arbitrary weights and tokens, where `devices` train a run
   together; their communication is not timed. A CPU computes one short sequence, and the rest follows from FLOPs. Files
   are written below TMPDIR and removed. Errors: as ch_worker_train, before it trains. */
ch_status ch_worker_measure(const ch_worker *worker, int64_t devices, ch_worker_forecast *models, int count,
                            ch_stop_test stop, void *stop_context, ch_error *error);

#endif
