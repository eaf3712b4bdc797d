/* crosshead tokenize: converts lines of text to lines of token ids, and back. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crosshead/tokenizer.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/parse.h"
#include "cli/interrupt.h"
#include "cli/output.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  bool decode, whole, add_special, no_special, skip_special;
} arguments;

typedef struct conversion {
  const arguments *arguments;
  const char *path;
  ch_tokenizer *tokenizer;
  ch_encoder *encoder;
  FILE *input;
  char *line; /* buffer of getline */
  size_t line_capacity, line_number;
  ch_ids ids;
  ch_text out;
} conversion;

/* --- one text ----------------------------------------------------------------------------------------------- */

static void put_id(ch_text *out, int32_t id) {
  char digits[12], *p = digits + sizeof digits;
  do *--p = (char)('0' + id % 10);
  while ((id /= 10) > 0);
  ch_text_put(out, p, (size_t)(digits + sizeof digits - p));
}

static ch_status encode_text(conversion *c, const char *text, size_t size, ch_error *error) {
  unsigned flags = (c->arguments->no_special ? 0 : CH_TEXT_SPECIAL) |
                   (c->arguments->add_special ? CH_TEXT_WHOLE : CH_TEXT_BARE);
  c->ids.size = 0;
  CH_TRY(ch_encoder_encode(c->encoder, text, size, flags, &c->ids, error));
  for (size_t i = 0; i < c->ids.size; i++) {
    if (i > 0) ch_text_put(&c->out, " ", 1);
    put_id(&c->out, c->ids.data[i]);
  }
  return CH_OK;
}

static bool is_gap(char c) {
  return c == ' ' || c == '\t' || c == ',' || c == '\r' || c == '\n';
}

static ch_status not_an_id(const conversion *c, const char *word, const char *end, ch_error *error) {
  int length = 0;
  while (length < 32 && word + length < end && !is_gap(word[length])) length++;
  return ch_fail(error, CH_ERROR_FORMAT, "%s, line %zu: '%.*s' is not a token id; ids go from 0 to %d",
                 c->path, c->line_number, length, word, ch_tokenizer_vocab_size(c->tokenizer) - 1);
}

/* Reads ids separated by spaces or commas. */
static ch_status read_ids(conversion *c, const char *text, size_t size, ch_error *error) {
  const char *end = text + size;
  c->ids.size = 0;
  for (const char *p = text; p < end;) {
    if (is_gap(*p)) {
      p++;
      continue;
    }
    const char *word = p;
    int64_t id = 0;
    for (; p < end && *p >= '0' && *p <= '9' && id <= INT32_MAX; p++) id = id * 10 + (*p - '0');
    if (p == word || (p < end && !is_gap(*p)) || id >= ch_tokenizer_vocab_size(c->tokenizer))
      return not_an_id(c, word, end, error);
    if (!ch_ids_reserve(&c->ids, 1)) return ch_no_memory(error);
    c->ids.data[c->ids.size++] = (int32_t)id;
  }
  return CH_OK;
}

static ch_status decode_text(conversion *c, const char *text, size_t size, ch_error *error) {
  CH_TRY(read_ids(c, text, size, error));
  char *decoded = NULL;
  size_t length = 0;
  CH_TRY(ch_tokenizer_decode(c->tokenizer, c->ids.data, c->ids.size,
                             c->arguments->skip_special ? CH_TEXT_NO_SPECIAL : 0, &decoded, &length, error));
  ch_text_put(&c->out, decoded, length);
  ch_free(decoded);
  return CH_OK;
}

static ch_status convert_text(conversion *c, const char *text, size_t size, bool newline, ch_error *error) {
  c->out.size = 0;
  CH_TRY(c->arguments->decode ? decode_text(c, text, size, error) : encode_text(c, text, size, error));
  if (newline) ch_text_put(&c->out, "\n", 1);
  if (c->out.failed) return ch_no_memory(error);
  ch_output_put(c->out.data, c->out.size, false);
  return CH_OK;
}

/* --- the whole input ---------------------------------------------------------------------------------------- */

static ch_status read_error(const conversion *c, ch_error *error) {
  return ch_fail(error, CH_ERROR_IO, "cannot read %s: %s", c->path, strerror(errno));
}

static ch_status convert_lines(conversion *c, ch_error *error) {
  for (;;) {
    errno = 0;
    ssize_t size = getline(&c->line, &c->line_capacity, c->input);
    if (ch_interrupted())
      return ch_fail(error, CH_ERROR_INTERRUPTED, "interrupted after line %zu", c->line_number);
    if (size < 0) return ferror(c->input) ? read_error(c, error) : CH_OK;
    c->line_number++;
    if (size > 0 && c->line[size - 1] == '\n') size--;
    CH_TRY(convert_text(c, c->line, (size_t)size, true, error));
    if (!ch_output_alive()) return ch_output_check(error);
  }
}

static ch_status convert_whole(conversion *c, ch_error *error) {
  char buffer[1 << 16];
  ch_text text = {0};
  ch_status status = CH_OK;
  for (size_t got; (got = fread(buffer, 1, sizeof buffer, c->input)) > 0;) ch_text_put(&text, buffer, got);
  c->line_number = 1;
  if (ferror(c->input))
    status = read_error(c, error);
  else if (text.failed)
    status = ch_no_memory(error);
  else
    status = convert_text(c, text.data ? text.data : "", text.size, !c->arguments->decode, error);
  ch_text_free(&text);
  return status;
}

static ch_status open_input(conversion *c, ch_error *error) {
  if (strcmp(c->path, "-") == 0) {
    c->path = "standard input";
    c->input = stdin;
    return CH_OK;
  }
  if (ch_is_directory(c->path))
    return ch_fail(error, CH_ERROR_IO, "%s is a directory; a text file is needed", c->path);
  c->input = fopen(c->path, "rbe");
  return c->input ? CH_OK : ch_fail(error, CH_ERROR_IO, "cannot open %s: %s", c->path, strerror(errno));
}

static ch_status convert(conversion *c, ch_error *error) {
  const arguments *a = c->arguments;
  CH_TRY(ch_tokenizer_open(a->positional[0], &c->tokenizer, error));
  CH_TRY(ch_encoder_new(c->tokenizer, &c->encoder, error));
  CH_TRY(open_input(c, error));
  return a->whole ? convert_whole(c, error) : convert_lines(c, error);
}

static ch_status run(const void *given, ch_error *error) {
  const arguments *a = given;
  if (a->decode && (a->add_special || a->no_special))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s changes how text becomes ids; leave it out with --decode",
                   a->add_special ? "add-special" : "no-special");
  if (a->skip_special && !a->decode)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--skip-special changes how ids become text; it needs --decode");
  conversion c = {.arguments = a, .path = a->positional[1]};
  ch_interrupt_watch(CH_NOTHING_SAVED);
  ch_status status = convert(&c, error);
  ch_interrupt_release();
  if (c.input && c.input != stdin) fclose(c.input);
  free(c.line);
  ch_ids_free(&c.ids);
  ch_text_free(&c.out);
  ch_encoder_free(c.encoder);
  ch_tokenizer_free(c.tokenizer);
  return status;
}

static const ch_option options[] = {
    CH_FLAG_OPTION("decode", offsetof(arguments, decode), "Turn lines of ids into lines of text."),
    CH_FLAG_OPTION(
        "whole", offsetof(arguments, whole),
        "Treat the whole input as one text with its newlines (with --decode: as one list of ids)."),
    CH_FLAG_OPTION(
        "add-special", offsetof(arguments, add_special),
        "Add the special tokens that the tokenizer adds to a text by default, such as beginning of text."),
    CH_FLAG_OPTION("no-special", offsetof(arguments, no_special),
                   "Treat special tokens in the text, such as <|endoftext|>, as plain text."),
    CH_FLAG_OPTION("skip-special", offsetof(arguments, skip_special),
                   "With --decode: leave special tokens out of the text."),
    {0}};

const ch_command ch_cmd_tokenize = {
    .name = "tokenize",
    .positional = "MODEL_OR_TOKENIZER FILE",
    .summary = "Turn text into token ids, or ids into text.",
    .description =
        "The tokenizer is a model directory, a tokenizer.json of Hugging Face, or a tokenizer.bin of "
        "llama2.c; FILE is a "
        "text, - for standard input.\n\n"
        "Each line of the text becomes a line of space-separated ids; the newline itself is not "
        "part of the line. An "
        "empty line gives an empty line.",
    .examples = "crosshead tokenize runs/gqa story.txt >ids.txt\n"
                "crosshead tokenize runs/gqa ids.txt --decode\n"
                "echo 'Hello world' | crosshead tokenize tokenizer.json -",
    CH_RUNS(options, arguments, run),
};
