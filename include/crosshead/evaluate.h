/* Measures the quality of a model: perplexity of a text, tasks, accuracy on images, log-likelihoods of
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

/* Called with an item of a task and the model's answers: one NUL-terminated JSON object without line breaks, with the
 * names that lm-evaluation-harness logs (doc_id, doc, target, arguments, resps, acc, ...). The text is valid during
 * the call. Returning false ends the evaluation with CH_ERROR_INTERRUPTED. */
typedef bool (*ch_sample_sink)(const char *json, void *user);

/* The value of ch_evaluate_settings.examples that means the number in the task's description. */
enum { CH_EXAMPLES_OF_TASK = -1 };

/* The settings of an evaluation. Fill with ch_evaluate_defaults, then change what should differ: later versions
 * may add members. */
typedef struct ch_evaluate_settings {
  /* tokens that the model sees at once; 0 = the model's context, but at most 1024 for a text */
  int64_t window;
  /* for a text: tokens between the starts of two windows, fewer than `window`; 0 = half of `window` */
  int64_t stride;
  ch_document_separator documents; /* separator of the documents of a text; default CH_DOCUMENTS_AUTO */
  ch_precision compute;            /* arithmetic of large products: F32 (default) or BF16 */
  ch_precision cache; /* for a text: type of the cache that it is read through; default: no cache */
  /* for a text: types of cached keys, values and latents, if they differ; default: as `cache`, or F32 if `cache` is
   * not set but one of the three is */
  ch_precision cache_keys, cache_values, cache_latents;
  /* For a task: the file or directory with its items. Tasks of RULER generate them: `items` may then be the text
   * that hides the needles, or documents with questions; NULL = a built-in text. */
  const char *items;
  /* number of items of a task, or of images, starting with the first; 0 = all. For a text: number of tokens; word
   * and byte perplexity are then not measured. */
  int64_t limit;
  /* for a task: number of solved examples before each question; CH_EXAMPLES_OF_TASK (default) = the number in its
   * description, most often 0 */
  int32_t examples;
  /* for a task: file of the solved examples; NULL: they come from the description or the items */
  const char *example_file;
  /* For a task of RULER: the lengths of its texts in tokens, answers included, separated by commas ("4096,16k",
   * where k is 1024); NULL = 4096. `limit` items are generated for each length, 100 if it is 0. */
  const char *lengths;
  uint64_t seed; /* for a task of RULER: random seed of its texts, below 2^32; default 1 */
  /* number of threads; 0 (default) = as many as OpenMP gives: OMP_NUM_THREADS, else all cores */
  int32_t threads;
  /* The ranks of a job that measure a text or a task together (ranks.h), or NULL: this process alone. All ranks
   * make the same call and get the same figures, which are those of one process, or the same error. Each rank calls
   * its own callbacks. Not for images. */
  ch_rank_group *ranks;
  ch_progress progress; /* callback for progress in tokens (of a text, predicted tokens) or images; or NULL */
  /* Callback for stages, or NULL: "whole text" and "documents" of a text; the name of a task, and "making the
   * items" where it generates them; "images" of images. */
  ch_stage_sink stage;
  ch_sample_sink sample; /* for a task: callback for every item in order, after all are answered; or NULL */
  void *user;            /* argument of the callbacks */
} ch_evaluate_settings;

/* Fills in the defaults. */
CH_API void ch_evaluate_defaults(ch_evaluate_settings *settings);

/* Measures perplexities of the text file PATH: per token over the whole text, per word and per byte over its
 * documents. The model needs a tokenizer; settings may be NULL for the defaults. *json becomes the object of
 * `crosshead eval --text --json`: token_perplexity, loss, tokens, word_perplexity, byte_perplexity and the rest,
 * with a cache also cache_bytes_per_token. It is NUL-terminated and the caller's: release it with ch_free.
 * Errors: CH_ERROR_IO; CH_ERROR_FORMAT for a file that is not text; CH_ERROR_ARGUMENT for settings out of range,
 * a model of images, without tokenizer or opened in F64, and a text of fewer than two tokens; CH_ERROR_NUMERIC
 * for a loss that is not finite; CH_ERROR_MEMORY; CH_ERROR_INTERRUPTED when progress returned false. */
CH_API ch_status ch_evaluate_text(const ch_model *model, const char *path,
                                  const ch_evaluate_settings *settings, char **json, ch_error *error);

/* Evaluates a task (`crosshead eval --task`): the name of a built-in task, or the path of a description (.json).
 * "ruler:vt@4096" is "ruler:vt" with settings->lengths "4096". "ruler" is all tasks of RULER: its figures are
 * means over the tasks, with "groups" for each task and, if there are several, each length; settings->sample
 * must be NULL for it. settings->items must be set, except for tasks of RULER; settings may be NULL for those.
 * *json becomes the object of `crosshead eval --task --json`: task, n, and figures, each with its _stderr: acc
 * and the like, or exact_match or recall of a task whose answers the model writes. It is NUL-terminated and the
 * caller's: release it with ch_free. Errors: those of ch_evaluate_text, and CH_ERROR_FORMAT for items that do
 * not fit the task, with file and line. */
CH_API ch_status ch_evaluate_task(const ch_model *model, const char *task,
                                  const ch_evaluate_settings *settings, char **json, ch_error *error);

/* Sets *name and *description to those of the built-in task `index`, from 0; the description is the JSON that
 * docs/tasks.md explains. Both are in static storage. Returns false after the last. */
CH_API bool ch_task_builtin(int index, const char **name, const char **description);

/* Measures the accuracy of a model of images on those of PATH: files (CIFAR, IDX) separated by commas, or a
 * directory, of which only the test files count if it has both kinds; settings may be NULL for the defaults.
 * *json becomes the object of `crosshead eval --images --json`: top1 and top5, the shares of images whose label
 * is the first choice or among the first five, loss (mean cross entropy, nats), images and seconds. It is
 * NUL-terminated and the caller's: release it with ch_free. Errors: those of ch_evaluate_text, and
 * CH_ERROR_ARGUMENT for a model of text and for settings->ranks. */
CH_API ch_status ch_evaluate_images(const ch_model *model, const char *path,
                                    const ch_evaluate_settings *settings, char **json, ch_error *error);

/* A continuation to score. Zero-initialise it and set the two texts, which are the caller's. */
typedef struct ch_continuation {
  /* NUL-terminated UTF-8; "" for none. Consecutive elements with equal contexts compute the context once. */
  const char *context;
  const char *continuation; /* NUL-terminated UTF-8, not empty */
  double log_likelihood; /* result: ln of the continuation's probability after the context, over all tokens */
  /* result: number of tokens; 0 if the tokenizer merges the continuation into the context, whose probability
   * then counts as 1 */
  int64_t tokens;
  bool greedy; /* result: true if each of the tokens is the likeliest one */
} ch_continuation;

/* Scores continuations [count], whose results it fills, by the rules of lm-evaluation-harness: white space at the
 * end of a context belongs to the continuation; if both together are longer than the window, the start of the
 * context is cut off. settings may be NULL for the defaults; of them window, compute, threads, ranks and
 * progress count. Errors: CH_ERROR_ARGUMENT for settings out of range, a model of images, without tokenizer or
 * opened in F64, texts that are NULL and an empty continuation; CH_ERROR_FORMAT for a continuation longer than
 * the window; CH_ERROR_NUMERIC; CH_ERROR_MEMORY; CH_ERROR_INTERRUPTED when progress returned false. */
CH_API ch_status ch_score_continuations(const ch_model *model, ch_continuation *continuations, size_t count,
                                        const ch_evaluate_settings *settings, ch_error *error);

#ifdef __cplusplus
}
#endif
#endif
