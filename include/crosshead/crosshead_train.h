/* Crosshead: train, compare and convert models. Everything that libcrosshead-train offers (pkg-config
 * crosshead-train) besides running them (<crosshead/crosshead.h>).
 *
 *   train.h     training on a text
 *   batches.h   the batches of a run, for training elsewhere
 *   engine.h    who computes the steps
 *   compare.h   attention mechanisms trained side by side
 *   sweep.h     learning rates that are stable, and where losses go
 *   fit.h       scaling laws and loss spikes of curves
 *   ladder.h    laws of the loss against compute, over models of several sizes
 *   compress.h  smaller and plainer models from trained ones
 *   bench.h     speed compared with the machine's limits, profiles, traces
 *   plan.h      what fits into a memory, and how fast it will be
 *   evaluate.h  perplexity of a text, tasks, accuracy on images, log-likelihoods of continuations
 *   quantize.h  matrices in fewer bits
 *   convert.h   GGUF files, llama2.c checkpoints and Hugging Face directories, in and out
 *   ranks.h     processes that train together, over MPI
 *   runs.h      what was trained and evaluated, kept in a file
 *
 * common.h has the rules that all headers follow. */
#ifndef CROSSHEAD_CROSSHEAD_TRAIN_H
#define CROSSHEAD_CROSSHEAD_TRAIN_H

#include <crosshead/batches.h>
#include <crosshead/bench.h>
#include <crosshead/compare.h>
#include <crosshead/compress.h>
#include <crosshead/convert.h>
#include <crosshead/curve.h>
#include <crosshead/documents.h>
#include <crosshead/engine.h>
#include <crosshead/evaluate.h>
#include <crosshead/fit.h>
#include <crosshead/ladder.h>
#include <crosshead/initial.h>
#include <crosshead/plan.h>
#include <crosshead/quantize.h>
#include <crosshead/ranks.h>
#include <crosshead/runs.h>
#include <crosshead/sweep.h>
#include <crosshead/train.h>

#endif
