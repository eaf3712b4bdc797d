/* Fuzz target: tokenizers and token files. The first byte is the format of the rest: 'b' for a tokenizer.bin, 't' for a
 * token file, and any other byte for a tokenizer.json. An accepted file must work. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "text/corpus.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char sample[] = "Hello  world's\n\n12345 <|endoftext|> \xff\xe2\x96\x81 caf\xc3\xa9 e\xcc\x81 ";

/* Checks that ids are in range and decode, and that decoding them one by one gives the same text. */
static void check_ids(const ch_tokenizer *tokenizer, const ch_ids *ids) {
  ch_error error = {0};
  ch_text whole = {0}, streamed = {0};
  ch_decode_stream stream = {0};
  if (ch_tokenizer_put_text(tokenizer, ids->data, ids->size, false, &whole, &error) != CH_OK) abort();
  for (size_t i = 0; i < ids->size; i++)
    if (ch_decode_next(tokenizer, &stream, ids->data[i], false, &streamed, &error) != CH_OK) abort();
  ch_decode_finish(&stream, &streamed);
  if (whole.size != streamed.size || (whole.size && memcmp(whole.data, streamed.data, whole.size) != 0))
    abort();
  ch_text_free(&whole);
  ch_text_free(&streamed);
}

static void check_tokenizer(ch_tokenizer *tokenizer) {
  ch_ids ids = {0};
  ch_error error = {0};
  static const unsigned beginnings[] = {0, CH_TEXT_BEGINS, CH_TEXT_WHOLE, CH_TEXT_BARE};
  for (unsigned i = 0; i < 8; i++) {
    unsigned flags = beginnings[i / 2] | (i % 2 ? CH_TEXT_SPECIAL : 0);
    ids.size = 0;
    if (ch_tokenizer_encode(tokenizer, sample, sizeof sample - 1, flags, &ids, &error) == CH_OK)
      check_ids(tokenizer, &ids);
    else if (!error.message[0])
      abort();
  }
  int32_t bos = ch_tokenizer_bos(tokenizer), eos = ch_tokenizer_eos(tokenizer);
  if (bos >= ch_tokenizer_vocab_size(tokenizer) || eos >= ch_tokenizer_vocab_size(tokenizer)) abort();
  ch_ids_free(&ids);
}

static void check_corpus(const ch_corpus *corpus) {
  enum { SEQUENCES = 2, LENGTH = 16 };
  int32_t tokens[SEQUENCES * LENGTH], targets[SEQUENCES * LENGTH], starts[SEQUENCES * LENGTH];
  ch_corpus_info info;
  ch_error error = {0};
  ch_corpus_describe(corpus, &info);
  for (int i = 0; i < 8; i++) {
    ch_corpus_split split = i % 2 ? CH_SPLIT_TRAIN : CH_SPLIT_VALIDATION;
    if (ch_corpus_batch(corpus, split, 1, i, SEQUENCES, LENGTH, tokens, targets, i / 2 % 2 ? starts : NULL,
                        &error) != CH_OK)
      continue;
    for (int t = 0; t < SEQUENCES * LENGTH; t++)
      if (tokens[t] < 0 || tokens[t] >= info.vocab_size || targets[t] < -1 || targets[t] >= info.vocab_size)
        abort();
  }
}

static void fuzz_corpus(const uint8_t *data, size_t size) {
  char path[64];
  int fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  ch_corpus *corpus;
  ch_error error = {0};
  if (ch_corpus_open(path, &corpus, &error) == CH_OK)
    check_corpus(corpus);
  else if (!error.message[0])
    abort();
  ch_corpus_close(corpus);
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ch_tokenizer *tokenizer = NULL;
  ch_error error = {0};
  ch_status status = CH_OK;
  if (size == 0) return 0;
  if (data[0] == 't') {
    fuzz_corpus(data + 1, size - 1);
    return 0;
  }
  if (data[0] == 'b')
    status = ch_tokenizer_from_bin(data + 1, size - 1, "input", &tokenizer, &error);
  else
    status = ch_tokenizer_from_json((const char *)data + 1, size - 1, "input", &tokenizer, &error);
  if ((status == CH_OK) != (tokenizer != NULL) || (status != CH_OK && !error.message[0])) abort();
  if (tokenizer) check_tokenizer(tokenizer);
  ch_tokenizer_free(tokenizer);
  return 0;
}
