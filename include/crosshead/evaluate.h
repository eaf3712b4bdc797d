/* Measures how good a model is: perplexity of a text, tasks, accuracy on images, log-likelihoods of
 * continuations. Link libcrosshead-train.
 *
 *   char *json;
 *   ch_error error;
 *   if (ch_evaluate_text(model, "book.txt", NULL, &json, &error) == CH_OK) {
 *     puts(json);
 *     ch_free(json);
 *   }
 *
 *   ch_continuation continuations[] = {{.context = "The sky is", .continuation = " blue"},
 *                                      {.context = "The sky is", .continuation = " green"}};
 *   if (ch_score_continuations(model, continuations, 2, NULL, NULL) == CH_OK)
 *     printf("%g\n", continuations[0].log_likelihood - continuations[1].log_likelihood); */
#ifndef CROSSHEAD_EVALUATE_H
#define CROSSHEAD_EVALUATE_H

#include <crosshead/model.h>
#include <crosshead/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called with an item of a task and the model's answers: one JSON object without line breaks, with the names
 * that lm-evaluation-harness logs (doc_id, doc, target, arguments, resps, acc, ...). It is valid during the
 * call. Returning false ends the evaluation with CH_ERROR_INTERRUPTED. */
typedef bool (*ch_sample_sink)(const char *json, void *user);

/* A value of ch_evaluate_settings.examples: as many as the task's description says. */
enum { CH_EXAMPLES_OF_TASK = -1 };

/* Fill with ch_evaluate_defaults, then change what should differ: members may be added in later versions. */
typedef struct ch_evaluate_settings {
  int64_t window; /* tokens that the model sees at once; 0 = the context, but at most 1024 for a text */
  int64_t stride; /* for a text: tokens from window to window; 0 = half the window */
  ch_document_separator documents; /* of a text */
  ch_precision compute;            /* arithmetic of large products: F32 (default) or BF16 */
  ch_precision cache;              /* for a text: read through a cache of this type; default: no cache */
  /* Types of keys, values and latents, if they differ; default: as `cache`, or F32 if only others are set. */
  ch_precision cache_keys, cache_values, cache_latents;
  /* For a task: the file or directory with its items. Tasks of RULER generate theirs: this may be the text
   * that hides the needles, or documents with questions; NULL = a built-in text. */
  const char *items;
  /* The number of items of a task, or images, from the first; 0 = all. For a text: the number of tokens, and
   * word and byte perplexity are not measured. */
  int64_t limit;
  /* For a task: solved examples before each question; CH_EXAMPLES_OF_TASK (default): as many as its
   * description says, most say none. */
  int32_t examples;
  const char *example_file; /* the file of these examples; NULL = the description or the items */
  /* For a task of RULER: the lengths of its texts in tokens, answers included, as numbers with commas between
   * ("4096,16k", where k is 1024); NULL = 4096. `limit` items are generated for each, 100 if it is 0. */
  const char *lengths;
  uint64_t seed;   /* random seed of these texts, below 2^32; default 1 */
  int32_t threads; /* 0 = as many as OpenMP gives (OMP_NUM_THREADS, else all cores) */
  /* One of several processes that measure a text or a task together (ranks.h): all make the same call,
   * each does a part, and all have the same figures, which are those of one process. Rank 0 calls the
   * callbacks; of the others, progress alone is called. Failures are those of all. Not for images. NULL: this
   * process alone. */
  ch_rank_group *ranks;
  ch_progress progress; /* or NULL; the unit is predicted tokens, or images */
  /* Or NULL: a text has the parts "whole text" and "documents"; that of a task has its name, that of images
   * is "images". */
  ch_stage_sink stage;
  ch_sample_sink sample; /* or NULL; for a task: called for every item in order, after all are answered */
  void *user;            /* argument of the three callbacks */
} ch_evaluate_settings;

CH_API void ch_evaluate_defaults(ch_evaluate_settings *settings);

/* Perplexities of the text file PATH under a model with a tokenizer: per token over the whole text, per word
 * and per byte over its documents; settings may be NULL. *json becomes the object of `crosshead eval --text
 * --json`: token_perplexity, loss, tokens, word_perplexity, byte_perplexity and the rest, with a cache
 * cache_bytes_per_token; NUL-terminated and the caller's, release it with ch_free. Errors: CH_ERROR_IO,
 * CH_ERROR_FORMAT (no text), CH_ERROR_ARGUMENT (settings out of range, a model of images or without
 * tokenizer, a text of fewer than two tokens), CH_ERROR_NUMERIC, CH_ERROR_INTERRUPTED when progress returned
 * false. */
CH_API ch_status ch_evaluate_text(const ch_model *model, const char *path,
                                  const ch_evaluate_settings *settings, char **json, ch_error *error);

/* Evaluates a task (`crosshead eval --task`): the name of a built-in one, or the path of a
 * description (.json). "ruler:vt@4096" is "ruler:vt" with settings->lengths "4096"; "ruler" is all tasks of
 * RULER, with the mean of their recalls and "groups" for each task and, where there are several, each length.
 * settings->items must be set, except for tasks of RULER; settings may be NULL for those. *json becomes the
 * object of `crosshead eval --task --json`: task, n, acc and the rest, each with _stderr, exact_match or
 * recall of a task whose answers the model writes; the caller's. Errors: as ch_evaluate_text; items that do
 * not fit the task are CH_ERROR_FORMAT and named by file and line. */
CH_API ch_status ch_evaluate_task(const ch_model *model, const char *task,
                                  const ch_evaluate_settings *settings, char **json, ch_error *error);

/* Fills the name and description of the built-in task `index`, from 0; the description is the JSON that
 * docs/tasks.md explains. Static storage. Returns false after the last. */
CH_API bool ch_task_builtin(int index, const char **name, const char **description);

/* Measures how well a model of images classifies those of PATH: files (CIFAR, IDX) with commas between, or a
 * directory, of which only the test files are used if it has both kinds; settings may be NULL. *json
 * becomes the object of `crosshead eval --images --json`: top1 and top5, the shares of images whose label is
 * the first choice or among the first five, loss (mean cross entropy), images and seconds; the caller's.
 * Errors: as ch_evaluate_text; CH_ERROR_ARGUMENT for a model of text. */
CH_API ch_status ch_evaluate_images(const ch_model *model, const char *path,
                                    const ch_evaluate_settings *settings, char **json, ch_error *error);

/* A continuation to score; zero-initialise it and set the two texts. */
typedef struct ch_continuation {
  /* NUL-terminated UTF-8; "" for none. Consecutive requests with the same context compute it once. */
  const char *context;
  const char *continuation; /* NUL-terminated UTF-8 */
  /* The logarithm (ln) of the probability of the continuation after the context: a sum over its tokens. */
  double log_likelihood;
  /* Tokens of the continuation. 0: the tokenizer merges it into the context; its probability then counts as
     1. */
  int64_t tokens;
  bool greedy; /* each of its tokens is the likeliest one */
} ch_continuation;

/* Scores continuations [count] by the rules of lm-evaluation-harness: white space at the end of a context
 * belongs to the continuation; if both together are longer than the window, the start of the context is cut
 * off. Errors: CH_ERROR_ARGUMENT for a model without tokenizer, texts that are NULL or an empty continuation,
 * CH_ERROR_FORMAT for a continuation longer than the window, CH_ERROR_NUMERIC, CH_ERROR_INTERRUPTED when
 * progress returned false. */
CH_API ch_status ch_score_continuations(const ch_model *model, ch_continuation *continuations, size_t count,
                                        const ch_evaluate_settings *settings, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif
