/* Crosshead: train, compare and convert models. This header includes all headers of libcrosshead-train (pkg-config
 * crosshead-train). <crosshead/crosshead.h> runs models.
 *
 *   ch_comparison *comparison;
 *   ch_compare_settings settings;
 *   ch_error error;
 *   ch_compare_defaults(&settings);
 *   settings.text.data = "book.txt";
 *   settings.report.out = "comparison"; // gets report.html
 *   settings.lineup.mechanisms = "mha,gqa:4,mla";
 *   if (ch_compare_mechanisms(&settings, &comparison, &error) != CH_OK) puts(error.message);
 *
 * From simple to advanced. One model:
 *
 *   train.h     trains a model on a text or on images
 *   evaluate.h  perplexity of a text, tasks, accuracy on images, log-likelihoods of continuations
 *   quantize.h  stores matrices in fewer bits
 *   compress.h  smaller and plainer models from trained ones
 *   convert.h   GGUF files, llama2.c checkpoints and Hugging Face directories, in and out
 *   bench.h     speed compared with the machine's limits, tables and traces of profiles
 *
 * Many models:
 *
 *   compare.h   trains attention mechanisms side by side
 *   sweep.h     finds the largest stable learning rates, extrapolates losses
 *   plan.h      what fits into a memory, and how fast it will be
 *   runs.h      a file of what was trained and evaluated
 *
 * The parts that these use:
 *
 *   fit.h       scaling laws and loss spikes of curves
 *   ladder.h    laws of the loss against compute, over models of several sizes
 *   ranks.h     processes that train together, over MPI
 *   batches.h   the batches of a run, for training elsewhere
 *
 * common.h has the rules that all headers follow. */
#ifndef CROSSHEAD_CROSSHEAD_TRAIN_H
#define CROSSHEAD_CROSSHEAD_TRAIN_H

#include <crosshead/batches.h>
#include <crosshead/bench.h>
#include <crosshead/compare.h>
#include <crosshead/compress.h>
#include <crosshead/convert.h>
#include <crosshead/evaluate.h>
#include <crosshead/fit.h>
#include <crosshead/ladder.h>
#include <crosshead/plan.h>
#include <crosshead/quantize.h>
#include <crosshead/ranks.h>
#include <crosshead/runs.h>
#include <crosshead/sweep.h>
#include <crosshead/train.h>

#endif
