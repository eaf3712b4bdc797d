/* The report of a compression: the contents of report.json, the page and the lines for a terminal. */
#ifndef CH_REPORT_COMPRESSION_H
#define CH_REPORT_COMPRESSION_H

#include <jansson.h>

#include "base/text.h"
#include "compress/compress.h"
#include "compress/sensitivity.h"
#include "experiment/findings/comparison_results.h"

/* A model's figures. */
typedef struct ch_compression_figures {
  int64_t parameters, parameters_attention;
  int64_t cache_elements_per_token, cache_bytes_per_token;
  const char *cache_types; /* of these bytes: "q8_0"; NULL: 16 bits */
  int64_t weight_bytes;    /* of its files */
  bool measured;           /* loss and perplexity, on the held-out text */
  double loss, perplexity;
  double decode_tokens_per_second;
} ch_compression_figures;

typedef struct ch_compression_report {
  const char *command, *version, *model, *out, *method;
  char created[32];
  const char *dtype; /* errors of the new matrices */
  ch_compression_figures before, after;
  /* mea: of the model as it was with an 8-bit cache; cache_types NULL: not known */
  ch_compression_figures eight_bit;
  double goal;             /* the share of the cache to save, or 0, */
  const char *cache_types; /* the type of elements that was chosen for it, NULL: none, */
  /* and of a type that reaches it without fewer heads; cache_types NULL: none does */
  ch_compression_figures types_alone;
  int64_t decode_depth;
  const char *text; /* the text of the perplexities, or NULL */
  int64_t text_tokens;
  bool text_kept_back;     /* it is the last part of the calibration text */
  const char *calibration; /* text, or NULL: data-free */
  int64_t calibration_tokens;
  double calibration_loss;
  double ratio;                      /* the requested ratio; all but mea */
  const char *ranks, *weighting;     /* the rules by name; NULL where there is none */
  const int64_t *component_heads;    /* [layers] mea: h' of each; else NULL */
  int64_t layers, groups;            /* G */
  const ch_sensitivity *sensitivity; /* or NULL */
  const ch_compressed_model *compressed;
  double seconds;
  ch_machine machine;
} ch_compression_report;

/* Converts a report to JSON; NULL when out of memory. */
json_t *ch_compression_to_json(const ch_compression_report *report);
/* Writes the loss of quality in a sentence. */
void ch_compression_sentence(const ch_compression_report *report, ch_text *text);
/* Returns where the bars of a profile end, so that a few long ones do not hide all others: some way beyond
 * nine tenths of them; 0 if no bar is three times as long as that. */
double ch_compression_profile_end(const ch_sensitivity *sensitivity);
/* Writes the figures before and after, the profile and errors by layer, for a terminal. */
void ch_compression_write(const ch_compression_report *report, ch_text *text);
/* Writes a self-contained page (compression_page.c). */
ch_status ch_compression_page(const ch_compression_report *report, ch_text *html, ch_error *error);

#endif
