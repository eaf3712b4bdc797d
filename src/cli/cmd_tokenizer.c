/* crosshead tokenizer train: a byte-level BPE vocabulary from text. */
#include <stdio.h>
#include <stdlib.h>

#include "base/progress.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "cli/interrupt.h"
#include "text/bpe_train.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  const char *data, *out;
  int64_t vocab_size, min_count;
} arguments;

static bool show_progress(void *user, const char *stage, double done, double total) {
  ch_progress_line *line = user;
  ch_progress_show(line, false, "%s: %.0f %%", stage, total > 0 ? 100 * done / total : 100);
  return !ch_interrupted();
}

static void print_report(const arguments *a, const ch_bpe_report *report, double seconds) {
  char bytes[32], words[32];
  printf("%s: %d tokens from %sB of text with %s distinct words, in %.1f s\n", a->out, report->vocab_size,
         ch_format_count((double)report->text_bytes, bytes, sizeof bytes),
         ch_format_count((double)report->distinct_words, words, sizeof words), seconds);
  if (report->vocab_size < a->vocab_size)
    printf("the text has no more pairs that occur %lld times: %d tokens instead of %lld\n",
           (long long)a->min_count, report->vocab_size, (long long)a->vocab_size);
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  char **paths = NULL;
  size_t count = 0;
  ch_progress_line line;
  ch_bpe_report report;
  CH_TRY(ch_text_paths(a->data, &paths, &count, error));
  ch_bpe_settings settings = {.vocab_size = (int32_t)a->vocab_size,
                              .min_count = a->min_count,
                              .progress = {.report = show_progress, .user = &line}};
  ch_interrupt_watch();
  ch_progress_begin(&line, stderr);
  ch_status status = ch_bpe_train((const char *const *)paths, count, &settings, a->out, &report, error);
  ch_progress_end(&line);
  ch_interrupt_release();
  free(paths);
  if (status == CH_OK) print_report(a, &report, ch_progress_seconds(&line));
  return status;
}

static const ch_option options[] = {{.name = "data",
                                     .type = CH_OPTION_PATH,
                                     .offset = offsetof(arguments, data),
                                     .metavar = "TEXT",
                                     .required = true,
                                     .help = "Text to learn from; several files with commas between."},
                                    {.name = "vocab-size",
                                     .type = CH_OPTION_COUNT,
                                     .offset = offsetof(arguments, vocab_size),
                                     .metavar = "N",
                                     .default_value = "8192",
                                     .min = CH_BPE_FIRST_MERGE,
                                     .max = 1 << 20,
                                     .help = "Tokens: the end token, the 256 bytes, and merges."},
                                    {.name = "out",
                                     .type = CH_OPTION_PATH,
                                     .offset = offsetof(arguments, out),
                                     .metavar = "FILE",
                                     .default_value = "tokenizer.json",
                                     .help = "Where the tokenizer is written."},
                                    {.name = "min-count",
                                     .type = CH_OPTION_COUNT,
                                     .offset = offsetof(arguments, min_count),
                                     .metavar = "N",
                                     .default_value = "2",
                                     .min = 1,
                                     .max = 1e15,
                                     .help = "Merge only pairs that occur so often."},
                                    {.name = NULL}};

const ch_command ch_cmd_tokenizer_train = {
    .name = "tokenizer train",
    .positional = "",
    .summary = "Learn a vocabulary from text.",
    .description = "Trains byte-level BPE: the text is cut into words as GPT-2 does it, words into bytes, "
                   "and the most frequent "
                   "pair of neighbouring tokens becomes a new token, again and again. Of equally frequent "
                   "pairs the one with the "
                   "greatest bytes goes first, so that the result depends on the text alone.\n\n"
                   "The file is a tokenizer.json that Hugging Face's tokenizers read too. <|endoftext|> has "
                   "the id 0; where it "
                   "stands in the text, it parts documents.",
    .examples = "crosshead tokenizer train --data book.txt --vocab-size 4096\n"
                "crosshead tokenizer train --data a.txt,b.txt --out runs/tokenizer.json",
    .options = options,
    .arguments_size = sizeof(arguments),
    .run = run,
};
