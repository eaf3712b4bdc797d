/* Computes the perplexity of a text: cuts its tokens into windows, scores them, and turns the sums of losses into
 * perplexities per token, word and byte. */
#include "eval/perplexity.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "eval/windows.h"
#include "base/utf8.h"

/* --- words --------------------------------------------------------------------------------------------------- */

int64_t ch_count_words(const char *text, size_t size) {
  const unsigned char *p = (const unsigned char *)text, *end = p + size;
  int64_t words = 1;
  bool space = false;
  while (p < end) {
    uint32_t c = 0;
    size_t length = ch_utf8_decode(p, end, &c);
    bool now = length > 0 && ch_is_white_space(c);
    words += now && !space;
    space = now;
    p += length > 0 ? length : 1;
  }
  return words;
}

/* --- sums ---------------------------------------------------------------------------------------------------- */

/* Scores all windows. *nll becomes the sum of their losses, added in the order of `windows`, so that it does not depend
 * on the order in which they ran. */
static ch_status score_all(ch_scorer *scorer, const ch_windows *windows, const ch_evaluate_settings *settings,
                           double *nll, ch_error *error) {
  double *parts = malloc((size_t)windows->count * sizeof *parts + 1);
  ch_status status = CH_OK;
  if (!parts) status = ch_no_memory(error);
  status = ch_agree(settings->ranks, status, error);
  ch_scorer_share(scorer, settings->ranks);
  if (status == CH_OK)
    status = ch_scorer_run(scorer, windows->data, windows->count, parts, settings->progress, settings->user,
                           error);
  *nll = 0;
  for (int64_t i = 0; status == CH_OK && i < windows->count; i++) *nll += parts[i];
  free(parts);
  return status;
}

static ch_status check_settings(const ch_evaluate_settings *settings, ch_error *error) {
  if (settings->window < 2)
    return ch_fail(error, CH_ERROR_ARGUMENT, "the window is %lld tokens; it must be at least 2",
                   (long long)settings->window);
  if (settings->stride < 1 || settings->stride >= settings->window)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the stride is %lld; it must be at least 1 and less than the window of %lld",
                   (long long)settings->stride, (long long)settings->window);
  return CH_OK;
}

/* --- the whole text ------------------------------------------------------------------------------------------ */

ch_status ch_encode_joined(const ch_tokenizer *tokenizer, const ch_document *documents, int64_t count,
                           int32_t end_token, int64_t most, ch_ids *ids, ch_error *error) {
  ch_encoder *encoder = NULL;
  size_t limit = most > 0 ? ids->size + (size_t)most : SIZE_MAX;
  CH_TRY(ch_encoder_new(tokenizer, &encoder, error));
  ch_status status = CH_OK;
  for (int64_t i = 0; status == CH_OK && i < count && ids->size < limit; i++) {
    unsigned flags = CH_TEXT_SPECIAL | (i == 0 ? CH_TEXT_WHOLE : CH_TEXT_BARE);
    bool ended = i == 1 && ids->size > 0 && ids->data[ids->size - 1] == end_token; /* by the tokenizer */
    if (i > 0 && end_token >= 0 && !ended) status = ch_ids_put(ids, end_token, error);
    if (status == CH_OK)
      status = ch_encoder_encode(encoder, documents[i].text, documents[i].size, flags, ids, error);
  }
  ch_encoder_free(encoder);
  if (ids->size > limit) ids->size = limit;
  return status;
}

static ch_status cut_text(const ch_tokenizer *tokenizer, const ch_document *documents, int64_t count,
                          int32_t end_token, const ch_evaluate_settings *settings, ch_ids *ids,
                          ch_windows *windows, ch_error *error) {
  CH_TRY(ch_encode_joined(tokenizer, documents, count, end_token, settings->limit, ids, error));
  if (ids->size < 2)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "the text has %zu token%s; at least 2 are needed, because the first is not predicted",
                   ids->size, ids->size == 1 ? "" : "s");
  return ch_windows_strided(windows, ids->data, (int64_t)ids->size, settings->window, settings->stride,
                            error);
}

ch_status ch_token_perplexity_of(ch_scorer *scorer, const ch_tokenizer *tokenizer,
                                 const ch_document *documents, int64_t count, int32_t end_token,
                                 const ch_evaluate_settings *settings, ch_token_perplexity *result,
                                 ch_error *error) {
  CH_TRY(check_settings(settings, error));
  *result = (ch_token_perplexity){0};
  ch_ids ids = {0};
  ch_windows windows = {0};
  ch_status status = cut_text(tokenizer, documents, count, end_token, settings, &ids, &windows, error);
  CH_TRY_GOTO(ch_agree(settings->ranks, status, error));
  CH_TRY_GOTO(score_all(scorer, &windows, settings, &result->nll, error));
  result->tokens = (int64_t)ids.size - 1;
  result->loss = result->nll / (double)result->tokens;
  result->perplexity = exp(result->loss);
done:
  ch_windows_free(&windows);
  ch_ids_free(&ids);
  return status;
}

/* --- documents ----------------------------------------------------------------------------------------------- */

/* The tokens of all documents, each with its prefix: ids start[i] ... start[i + 1] - 1 are document i. */
typedef struct document_tokens {
  ch_ids ids;
  size_t *start; /* [count + 1] */
} document_tokens;

static ch_status encode_documents(const ch_tokenizer *tokenizer, const ch_document *documents, int64_t count,
                                  int32_t prefix, document_tokens *all, ch_error *error) {
  all->start = malloc(((size_t)count + 1) * sizeof *all->start);
  if (!all->start) return ch_no_memory(error);
  ch_encoder *encoder = NULL;
  CH_TRY(ch_encoder_new(tokenizer, &encoder, error));
  ch_status status = CH_OK;
  for (int64_t i = 0; status == CH_OK && i < count; i++) {
    all->start[i] = all->ids.size;
    status = ch_ids_put(&all->ids, prefix, error);
    if (status == CH_OK)
      status = ch_encoder_encode(encoder, documents[i].text, documents[i].size,
                                 CH_TEXT_BARE | CH_TEXT_SPECIAL, &all->ids, error);
  }
  all->start[count] = all->ids.size;
  ch_encoder_free(encoder);
  return status;
}

static ch_status cut_documents(const ch_tokenizer *tokenizer, const ch_document *documents, int64_t count,
                               int32_t prefix, const ch_evaluate_settings *settings, document_tokens *all,
                               ch_windows *windows, ch_document_perplexity *result, ch_error *error) {
  CH_TRY(encode_documents(tokenizer, documents, count, prefix, all, error));
  for (int64_t i = 0; i < count; i++) {
    int64_t tokens = (int64_t)(all->start[i + 1] - all->start[i]);
    if (tokens < 2) continue;
    CH_TRY(ch_windows_rolling(windows, all->ids.data + all->start[i], tokens, settings->window, error));
    result->documents++;
    result->tokens += tokens - 1;
    result->words += ch_count_words(documents[i].text, documents[i].size);
    result->bytes += (int64_t)documents[i].size;
  }
  if (result->documents > 0) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT, "the text has no document with a token in it");
}

ch_status ch_document_perplexity_of(ch_scorer *scorer, const ch_tokenizer *tokenizer,
                                    const ch_document *documents, int64_t count, int32_t prefix,
                                    const ch_evaluate_settings *settings, ch_document_perplexity *result,
                                    ch_error *error) {
  CH_TRY(check_settings(settings, error));
  *result = (ch_document_perplexity){0};
  document_tokens all = {0};
  ch_windows windows = {0};
  ch_status status =
      cut_documents(tokenizer, documents, count, prefix, settings, &all, &windows, result, error);
  CH_TRY_GOTO(ch_agree(settings->ranks, status, error));
  CH_TRY_GOTO(score_all(scorer, &windows, settings, &result->nll, error));
  result->word_perplexity = exp(result->nll / (double)result->words);
  result->byte_perplexity = exp(result->nll / (double)result->bytes);
  result->bits_per_byte = result->nll / (double)result->bytes / log(2);
done:
  ch_windows_free(&windows);
  ch_ids_free(&all.ids);
  free(all.start);
  return status;
}
