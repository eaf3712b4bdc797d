/* Trains a run with PyTorch in a process `python -m crosshead.worker RUN`, and reports its progress as for a native
 * run. */
#ifndef CH_TRAIN_WORKER_H
#define CH_TRAIN_WORKER_H

#include "train/run.h"

/* The files of a run that a worker trains: its settings, and the folder with the model's code. */
#define CH_WORKER_SETTINGS "worker.json"
#define CH_WORKER_CODE "pytorch"

/* The settings of a worker. */
typedef struct ch_worker {
  /* interpreter; NULL: CROSSHEAD_PYTHON, else that of an active virtual environment, else python3 */
  const char *python;
  /* "cuda:0", "cpu", …, or several devices, separated by commas, that train the run together; NULL: PyTorch's
     accelerator, else the CPU */
  const char *device;
  const char *text;    /* directory with the prepared text, or the record of the images */
  int64_t micro_batch; /* sequences computed at a time; 0: as many as fit into memory */
  bool shard;          /* true if each device holds a part of the model */
  bool prepare;        /* true to write the worker's files without starting the worker */
} ch_worker;

/* Returns the interpreter to start: `given`. If `given` is NULL, returns the value of CROSSHEAD_PYTHON, else bin/python
 * of the active virtual environment, else "python3". Release with free. NULL means out of memory. */
char *ch_find_python(const char *given);

/* Trains the run in `directory` to its end: writes the worker's files there, starts the worker, and passes its
   reports to `events`. With worker->prepare, only writes the files. checkpoint.safetensors must hold the trainer's
   state. At the end the trainer loads the worker's last checkpoint. Errors: CH_ERROR_INTERRUPTED, when
   events->interrupted returned true and the worker has saved a checkpoint; CH_ERROR_NUMERIC, CH_ERROR_MEMORY,
   CH_ERROR_CONFIG and CH_ERROR_IO as reported by the worker, and CH_ERROR_IO when the worker cannot be started or dies.
   *began becomes true if the worker completed a step. */
ch_status ch_worker_train(const ch_worker *worker, ch_trainer *trainer, const char *directory,
                          const ch_train_events *events, bool *began, ch_error *error);

/* A model whose steps are timed, and the results. */
typedef struct ch_worker_forecast {
  const ch_config *config;
  const ch_train_options *options;
  double seconds;       /* result: duration of a step */
  int64_t memory_bytes; /* result: memory of each device */
} ch_worker_forecast;

/* Times steps of models on the worker's first device, with arbitrary weights and tokens, for runs that `devices`
   train together. Communication is not timed. On a CPU only a short sequence is timed, and the time of a step is
   estimated by FLOPs. Files are written below TMPDIR and removed. Errors: as ch_worker_train before training. */
ch_status ch_worker_measure(const ch_worker *worker, int64_t devices, ch_worker_forecast *models, int count,
                            ch_stop_test stop, void *stop_context, ch_error *error);

#endif
