/* How much the loss changes when one layer alone has fewer key and value heads (MEA Figure 8), and what to choose
 * then. */
#ifndef CH_COMPRESS_SENSITIVITY_H
#define CH_COMPRESS_SENSITIVITY_H

#include "compress/text_pass.h"

enum { CH_MAX_HEAD_CHOICES = 128 };

typedef struct ch_sensitivity {
  int64_t layers, groups;             /* G */
  int64_t first, last;                /* layers that were looked at */
  int64_t heads[CH_MAX_HEAD_CHOICES]; /* h' that were tried, ascending */
  int choices;                        /* how many */
  double loss;                        /* of the model as it is */
  double *change;                     /* [layers, choices]: loss with that layer compressed, less `loss` */
  int64_t tokens;                     /* of the text */
} ch_sensitivity;

typedef struct ch_sensitivity_options {
  int64_t first, last;  /* layers to look at */
  const int64_t *heads; /* [choices] h' to try, ascending, each below G */
  int choices;
  int64_t window; /* ch_text_pass_options' */
  ch_compress_step *step;
  void *context;
  ch_rank_group *ranks; /* ch_text_pass_options' */
} ch_sensitivity_options;

/* calibration: if given, errors of outputs decide which components remain; or NULL. Layers outside first ... last
 * have 0. */
ch_status ch_sensitivity_measure(const ch_model *model, const ch_calibration *calibration,
                                 const int32_t *tokens, int64_t count, const ch_sensitivity_options *options,
                                 ch_sensitivity *sensitivity, ch_error *error);
void ch_sensitivity_free(ch_sensitivity *sensitivity);

/* heads [layers]: the `count` layers whose compression to choice `choice` costs least get that h', the others G. */
ch_status ch_choose_layers(const ch_sensitivity *sensitivity, int choice, int64_t count, int64_t *heads,
                           ch_error *error);
/* heads [layers]: an h' for every layer so that at least `saved` heads go in all (of keys, and as many of values),
 * the sum of changes being the least; or a sentence on how many can. */
ch_status ch_choose_heads(const ch_sensitivity *sensitivity, int64_t saved, int64_t *heads, ch_error *error);

#endif
