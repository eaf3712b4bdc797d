/* crosshead tokenizer train: trains a byte-level BPE vocabulary on text. */
#include <stdio.h>

#include <crosshead/tokenizer.h>

#include "base/progress.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "cli/interrupt.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *data, *out;
  int64_t vocab_size, min_count, threads;
  bool force;
} arguments;

static bool show_progress(const char *stage, double share, void *user) {
  ch_progress_line *line = user;
  ch_progress_show(line, false, "%s: %.0f %%", stage, 100 * share);
  return !ch_interrupted();
}

static void print_report(const arguments *a, const ch_tokenizer_report *report, double seconds) {
  char bytes[32], words[32];
  printf("%s: %d tokens from %sB of text with %s distinct words, in %.1f s\n", a->out, report->vocab_size,
         ch_format_count((double)report->text_bytes, bytes, sizeof bytes),
         ch_format_count((double)report->distinct_words, words, sizeof words), seconds);
  if (report->vocab_size < a->vocab_size)
    printf("no other pair of tokens occurs at least %lld times in the text: %d tokens instead of %lld\n",
           (long long)a->min_count, report->vocab_size, (long long)a->vocab_size);
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  ch_progress_line line;
  ch_tokenizer_report report;
  ch_tokenizer_train_settings settings;
  ch_tokenizer_train_defaults(&settings);
  settings.vocab_size = (int32_t)a->vocab_size;
  settings.min_count = a->min_count;
  settings.progress = show_progress;
  settings.user = &line;
  ch_interrupt_watch(CH_NOTHING_SAVED);
  ch_progress_begin(&line, stderr);
  ch_status status = ch_tokenizer_train(a->data, a->out, &settings, &report, error);
  ch_progress_end(&line);
  ch_interrupt_release();
  if (status == CH_OK) print_report(a, &report, ch_progress_seconds(&line));
  return status;
}

static const ch_option options[] = {
    CH_PATH_OPTION("data", offsetof(arguments, data), "TEXT",
                   "Text to learn from; several files are separated by commas.", .alias = "text",
                   .required = true),
    CH_COUNT_OPTION("vocab", offsetof(arguments, vocab_size), "N", CH_TOKENIZER_LEAST_VOCABULARY, 1 << 20,
                    "Vocabulary size: the end token, 256 bytes, and merges.", .alias = "vocab-size",
                    .default_value = "8192"),
    CH_PATH_OPTION("out", offsetof(arguments, out), "FILE", "File for the tokenizer.",
                   .default_value = "tokenizer.json", .writes = CH_WRITES_FILE),
    CH_COUNT_OPTION("min-count", offsetof(arguments, min_count), "N", 1, 1e15,
                    "Merge only pairs that occur at least N times.", .default_value = "2"),
    CH_THREADS_OPTION(offsetof(arguments, threads)),
    CH_FORCE_OPTION(offsetof(arguments, force)),
    {0}};

const ch_command ch_cmd_tokenizer_train = {
    .name = "tokenizer train",
    .positional = "",
    .summary = "Learn a vocabulary from text.",
    .description =
        "Trains byte-level BPE. The text is split into words as in GPT-2, words into bytes, and the most "
        "frequent pair of neighbouring tokens becomes a new token until the vocabulary is full. Equally "
        "frequent pairs are merged in the order of their bytes, so the result depends only on the text.\n\n"
        "The file is a tokenizer.json that Hugging Face's tokenizers read too. <|endoftext|> has the id 0 "
        "and separates documents in the text.",
    .examples = "crosshead tokenizer train --data book.txt --vocab 4096\n"
                "crosshead tokenizer train --data a.txt,b.txt --out runs/tokenizer.json",
    CH_RUNS(options, arguments, run),
};
