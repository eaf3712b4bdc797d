/* Who computes the steps of training. */
#ifndef CROSSHEAD_ENGINE_H
#define CROSSHEAD_ENGINE_H

#include <crosshead/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* PyTorch trains in a process of its own, `python -m crosshead.worker RUN`, on a GPU or on the CPU. Text,
 * batches, initial weights, options and checkpoints are the same for both, and either continues a run of the
 * other. */
typedef enum ch_training_engine { CH_ENGINE_NATIVE = 0, CH_ENGINE_PYTORCH = 1 } ch_training_engine;

/* The Python interpreter that is started where settings name `python` (NULL: none): that, CROSSHEAD_PYTHON,
 * that of an active virtual environment, or python3. The caller's, release it with ch_free; NULL when memory
 * is out. */
CH_API char *ch_python_of(const char *python);

#ifdef __cplusplus
}
#endif
#endif
