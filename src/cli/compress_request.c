/* Reads the arguments of crosshead compress: checks their combination, and parses ranges of layers and shares. */
#include "cli/compress_request.h"

#include <stdio.h>
#include <string.h>

#include "cli/precision.h"

const char *const ch_compress_method_names[] = {"mea", "masa", "svd-llm", "svd", "basis-sharing", NULL};
const char *const ch_compress_rank_names[] = {"share", "projection", "searched", NULL};
const char *const ch_compress_weighting_names[] = {"measured", "paper", NULL};

static ch_status wrong(ch_error *error, const char *method, const char *sentence) {
  return ch_fail(error, CH_ERROR_ARGUMENT, "--method %s %s", method, sentence);
}

/* Checks the options given with --cache, which chooses the method itself: fails for options of methods, and without
   --calibration. */
static ch_status check_goal(const ch_compress_arguments *a, ch_error *error) {
  static const char *const decided[] = {"method",  "component-heads", "layers", "budget",
                                        "profile", "ratio",           "keep",   "groups",
                                        "atoms",   "weighting",       "ranks",  "group-size"};
  for (size_t i = 0; i < sizeof decided / sizeof *decided; i++)
    if (ch_option_given(a, decided[i]))
      return ch_fail(error, CH_ERROR_ARGUMENT,
                     "--cache chooses the method itself; leave out --%s, or leave out --cache", decided[i]);
  if (a->calibration) return CH_OK;
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "--cache needs --calibration FILE, a text to measure each option on");
}

static ch_status check(const ch_compress_arguments *a, ch_error *error) {
  if (a->cache) return check_goal(a, error);
  if (!a->method)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "give --cache 50%% or --method mea for a smaller cache, or --method "
                   "masa, svd-llm, svd or basis-sharing for fewer parameters");
  if (strcmp(a->method, "mea") == 0) {
    if (a->ratio != 0)
      return wrong(error, a->method, "has no --ratio; give --component-heads N or --budget P%");
    if (a->keep || a->groups || a->atoms)
      return wrong(error, a->method, "has no --keep, --groups and --atoms; they are for the other methods");
    if (a->ranks || a->weighting || ch_option_given(a, "group-size"))
      return wrong(error, a->method,
                   "has no --ranks, --weighting and --group-size; they are for the other methods");
    if (!ch_option_given(a, "component-heads") && !a->budget)
      return wrong(error, a->method, "needs --component-heads N, or --budget P%");
    if ((a->budget || a->profile) && !a->calibration)
      return wrong(error, a->method,
                   "needs --calibration FILE for --budget and --profile, which measure on text");
    return CH_OK;
  }
  if (a->component_heads || a->layers || a->budget || a->profile)
    return wrong(error, a->method,
                 "needs --ratio R; --component-heads, --layers, --budget and --profile are for --method mea");
  if (a->ratio == 0)
    return wrong(error, a->method, "needs --ratio R, the share of attention parameters to save");
  if ((a->groups || a->atoms) && strcmp(a->method, "masa") != 0)
    return wrong(error, a->method, "has no --groups and --atoms; they are for --method masa");
  if (ch_option_given(a, "group-size") && strcmp(a->method, "basis-sharing") != 0)
    return wrong(error, a->method, "has no --group-size; it is for --method basis-sharing");
  if (a->weighting && strcmp(a->method, "masa") != 0 && (!a->ranks || strcmp(a->ranks, "searched") != 0))
    return wrong(error, a->method,
                 "weights errors only with --ranks searched; add that option, or leave out --weighting");
  bool whitens = strcmp(a->method, "svd-llm") == 0 || strcmp(a->method, "basis-sharing") == 0;
  if (whitens && a->data_free) return wrong(error, a->method, "needs typical inputs; leave out --data-free");
  if (whitens && !a->calibration)
    return wrong(error, a->method, "needs --calibration FILE, a text with typical inputs");
  return CH_OK;
}

/* Fails with "--layers needs a range like 0-11", for the model's number of layers. */
static ch_status no_range(const ch_compress_arguments *a, ch_error *error) {
  ch_model *model;
  CH_TRY(ch_model_open(a->positional[0], &model, error));
  ch_fail(error, CH_ERROR_ARGUMENT, "--layers needs a range like 0-%lld, not '%s'",
          (long long)ch_model_layers(model) - 1, a->layers);
  ch_model_close(model);
  return CH_ERROR_ARGUMENT;
}

/* Reads "11-34" or "11": layers from 0, both ends inclusive. */
static ch_status read_layers(const ch_compress_arguments *a, ch_compress_settings *settings,
                             ch_error *error) {
  long long first, last;
  int end = 0;
  const char *text = a->layers;
  if (!text) return CH_OK;
  bool one = sscanf(text, "%lld%n", &first, &end) == 1 && !text[end];
  bool two = !one && sscanf(text, "%lld-%lld%n", &first, &last, &end) == 2 && !text[end];
  if (!one && !two) return no_range(a, error);
  settings->first_layer = first;
  settings->last_layer = one ? first : last;
  return CH_OK;
}

/* Reads "50%", "50" or "0.5" of --`option` as a share above 0 and at most `most` percent. */
static ch_status read_share(const char *option, const char *text, double most, double *share,
                            ch_error *error) {
  char number[32];
  if (!text) return CH_OK;
  size_t length = strlen(text);
  if (length && text[length - 1] == '%') length--;
  snprintf(number, sizeof number, "%.*s", (int)(length < sizeof number ? length : sizeof number - 1), text);
  if (!ch_parse_number(number, share) || *share <= 0 || *share > most)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s needs a share above 0 and at most %g%%, not '%s'", option,
                   most, text);
  if (text[length] || *share >= 1) *share /= 100;
  return CH_OK;
}

/* Returns the index of a name in its list, or `otherwise` for NULL. */
static int place_of(const char *name, const char *const *names, int otherwise) {
  int place = 0;
  if (!name) return otherwise;
  while (strcmp(names[place], name) != 0) place++;
  return place;
}

ch_status ch_compress_read(const ch_compress_arguments *a, ch_compress_settings *settings, ch_error *error) {
  CH_TRY(check(a, error));
  ch_compress_defaults(settings);
  settings->method = (ch_compression)place_of(a->method, ch_compress_method_names, 0);
  settings->ranks = (ch_ranks)(1 + place_of(a->ranks, ch_compress_rank_names, -1));
  settings->weighting = (ch_error_weighting)place_of(a->weighting, ch_compress_weighting_names, 0);
  settings->group_size = a->group_size;
  if (ch_option_given(a, "component-heads")) settings->component_heads = a->component_heads;
  CH_TRY(read_layers(a, settings, error));
  CH_TRY(read_share("budget", a->budget, 100, &settings->budget, error));
  CH_TRY(read_share("cache", a->cache, 99, &settings->cache, error));
  settings->profile = a->profile;
  settings->ratio = a->ratio;
  settings->keep = a->keep;
  settings->groups = a->groups;
  settings->atoms = a->atoms;
  settings->calibration = a->calibration;
  settings->calibration_tokens = a->calibration_tokens;
  settings->data_free = a->data_free;
  settings->type = ch_precision_of(a->dtype);
  settings->report = true;
  settings->text = a->text;
  settings->name = a->out;
  return CH_OK;
}
