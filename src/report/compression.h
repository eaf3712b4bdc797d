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
  const char *cache_types; /* element types of cache_bytes_per_token: "q8_0"; NULL: 16 bits */
  int64_t weight_bytes;    /* bytes of the model's weight files */
  bool measured;           /* true if loss and perplexity were measured on the held-out text */
  double loss, perplexity; /* loss in nats per token */
  double decode_tokens_per_second;
} ch_compression_figures;

typedef struct ch_compression_report {
  const char *command, *version, *model, *out, *method;
  char created[32];
  const char *dtype; /* name of the new matrices' element type */
  ch_compression_figures before, after;
  /* mea: figures of the original model with an 8-bit cache; cache_types NULL: not measured */
  ch_compression_figures eight_bit;
  double goal;             /* share of the cache to save; 0: none requested */
  const char *cache_types; /* element types chosen for `goal`; NULL: none */
  /* figures of the original model with the widest types that reach `goal`; cache_types NULL: none do */
  ch_compression_figures types_alone;
  int64_t decode_depth; /* tokens in the cache when decoding was timed */
  const char *text;     /* file of the held-out text, on which losses are measured, or NULL */
  int64_t text_tokens;
  bool text_kept_back;     /* true if `text` is the last part of the calibration text */
  const char *calibration; /* file of the calibration text; NULL: data-free */
  int64_t calibration_tokens;
  double calibration_loss;
  double ratio;                      /* requested share of attention parameters to remove; 0 for mea */
  const char *ranks, *weighting;     /* names of the rules; NULL: none */
  const int64_t *component_heads;    /* [layers]: h' of each layer; NULL except for mea */
  int64_t layers, groups;            /* number of layers, number of key-value heads G of the original model */
  const ch_sensitivity *sensitivity; /* loss changes of single layers, or NULL */
  const ch_compressed_model *compressed;
  double seconds;
  ch_machine machine;
} ch_compression_report;

/* Converts a report to JSON; NULL when out of memory. */
json_t *ch_compression_to_json(const ch_compression_report *report);
/* Writes in one or two sentences what was saved and how the perplexity changed. */
void ch_compression_sentence(const ch_compression_report *report, ch_text *text);
/* Returns the length at which the bars of a profile are cut, so that a few long bars do not hide all others: 1.2
 * times the 90th percentile of the lengths. Returns 0, so that no bar is cut, unless the longest bar is more than
 * three times that long. */
double ch_compression_profile_end(const ch_sensitivity *sensitivity);
/* Writes the figures before and after, the profile, the errors of each matrix and the sentence, for a terminal. */
void ch_compression_write(const ch_compression_report *report, ch_text *text);
/* Writes a self-contained page (compression_page.c). */
ch_status ch_compression_page(const ch_compression_report *report, ch_text *html, ch_error *error);

#endif
