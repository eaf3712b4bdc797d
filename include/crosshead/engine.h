/* Who computes the steps of training. */
#ifndef CROSSHEAD_ENGINE_H
#define CROSSHEAD_ENGINE_H

/* PyTorch trains in a process of its own, `python -m crosshead.worker RUN`, on a GPU or on the CPU. Text, batches, initial
 * weights, options and checkpoints are the same for both, and either continues a run of the other. */
typedef enum ch_training_engine { CH_ENGINE_NATIVE = 0, CH_ENGINE_PYTORCH = 1 } ch_training_engine;

#endif
