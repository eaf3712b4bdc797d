/* Measures how much the loss changes when one layer alone has fewer key and value heads (MEA Figure 8), and
 * chooses heads by it. */
#ifndef CH_COMPRESS_SENSITIVITY_H
#define CH_COMPRESS_SENSITIVITY_H

#include "compress/text_pass.h"

enum { CH_MAX_HEAD_CHOICES = 128 };

typedef struct ch_sensitivity {
  int64_t layers, groups;             /* groups: key-value heads G of a layer */
  int64_t first, last;                /* first and last tried layer */
  int64_t heads[CH_MAX_HEAD_CHOICES]; /* [choices]: tried h', ascending */
  int choices;                        /* number of tried h' */
  double loss;                        /* loss of the unchanged model */
  double *change; /* [layers, choices]: loss with a single layer compressed, minus `loss` */
  int64_t tokens; /* predicted tokens of the text */
} ch_sensitivity;

typedef struct ch_sensitivity_options {
  int64_t first, last;  /* first and last layer to try */
  const int64_t *heads; /* [choices]: h' to try, ascending, each below G */
  int choices;
  int64_t window;         /* window as in ch_text_pass_options */
  ch_compress_step *step; /* progress callback, or NULL */
  void *context;          /* context of `step` */
  ch_rank_group *ranks;   /* ranks as in ch_text_pass_options */
} ch_sensitivity_options;

/* Measures how sensitive layers are to fewer heads. calibration may be NULL; if given, errors of outputs decide which
 * components remain. Layers outside first ... last have 0 in `change`. */
ch_status ch_sensitivity_measure(const ch_model *model, const ch_calibration *calibration,
                                 const int32_t *tokens, int64_t count, const ch_sensitivity_options *options,
                                 ch_sensitivity *sensitivity, ch_error *error);
void ch_sensitivity_free(ch_sensitivity *sensitivity);

/* Fills heads [layers]: h' of choice `choice` for the `count` layers whose compression costs least, G for the
 * others. */
ch_status ch_choose_layers(const ch_sensitivity *sensitivity, int choice, int64_t count, int64_t *heads,
                           ch_error *error);
/* Fills heads [layers] with an h' for every layer, so that at least `saved` heads are removed (of keys, and
 * as many of values) with the least sum of changes. If that is impossible, the error says how many can be. */
ch_status ch_choose_heads(const ch_sensitivity *sensitivity, int64_t saved, int64_t *heads, ch_error *error);

#endif
