/* Writes fitted laws and loss spikes as lines of text. */
#include "report/fit_text.h"

#include <stdio.h>
#include <string.h>

#include "laws/loss_spikes.h"
#include "report/sweep_text.h"

enum { MOST_SPIKES = 5 };

static void put_estimate(const char *name, const ch_estimate *e, ch_text *text) {
  ch_text_printf(text, "  %-22s ", name);
  ch_estimate_text(e, text);
  ch_text_puts(text, "\n");
}

static void put_spikes(const ch_stability *s, ch_text *text) {
  ch_text_printf(text, "  %-22s %lld", "spikes", (long long)s->spikes);
  for (int i = 0; i < s->kept && i < MOST_SPIKES; i++)
    ch_text_printf(text, "%s points %lld to %lld, %.3g high%s", i ? ";" : ":", (long long)s->list[i].first,
                   (long long)s->list[i].last, s->list[i].height,
                   s->list[i].recovered ? "" : ", not recovered");
  ch_text_printf(text, "%s\n  %-22s %s\n", s->spikes > MOST_SPIKES ? "; ..." : "", "verdict",
                 ch_stability_names[s->verdict]);
}

/* Writes each line of the warnings indented, and releases the warnings. */
static void put_warnings(ch_text *warnings, ch_text *text) {
  for (const char *line = warnings->data; line && *line; line = strchr(line, '\n') + 1)
    ch_text_printf(text, "  %.*s\n", (int)strcspn(line, "\n"), line);
  text->failed |= warnings->failed;
  ch_text_free(warnings);
}

static void put_curve(const ch_curve_fit *f, ch_text *text) {
  const ch_scaling_law *law = &f->law;
  char first[32], last[32], budget[32], name[64];
  ch_text warnings = {0};
  ch_text_printf(text, "%s: ", f->name);
  if (f->has_law) {
    ch_text_printf(text, "L(D) = (D_c/D)^alpha + L_0, fitted to %d %s from %s to %s\n", law->points,
                   ch_plural(law->points, "point", "points"),
                   ch_format_count(law->first, first, sizeof first),
                   ch_format_count(law->last, last, sizeof last));
    put_estimate("alpha", &law->alpha, text);
    put_estimate("D_c", &law->tokens, text);
    put_estimate("L_0", &law->floor, text);
    if (law->budget > 0) {
      snprintf(name, sizeof name, "loss at %s", ch_format_count(law->budget, budget, sizeof budget));
      put_estimate(name, &law->at, text);
    }
    ch_text_printf(text, "  %-22s %.3g", "noise", law->noise);
    if (law->noise_power > 0) ch_text_printf(text, " (grows with loss^%g)", law->noise_power);
    ch_text_printf(text, ", correlation %.2f, %d %s\n", law->correlation, law->outliers,
                   ch_plural(law->outliers, "outlier", "outliers"));
    ch_scaling_law_warnings(law, &warnings);
    put_warnings(&warnings, text);
  } else {
    ch_text_printf(text, "no law: %s\n", f->no_law);
  }
  put_spikes(&f->stability, text);
}

void ch_fits_write(const ch_fits *fits, ch_text *text) {
  for (int32_t i = 0; i < fits->count; i++) put_curve(&fits->curves[i], text);
}

void ch_size_law_write(const char *name, const ch_size_law *law, ch_text *text) {
  char size[32], budget[32], place[96];
  const char *const *names = ch_size_law_names(law->form);
  ch_text warnings = {0};
  ch_text_printf(text, "%s: L(N, D) = %s, fitted to %d models of %d sizes and %d numbers of tokens\n", name,
                 law->form == CH_SIZE_FORM_SUM ? "E + A/N^alpha + B/D^beta"
                                               : "((N_c/N)^(alpha_N/alpha_D) + D_c/D)^alpha_D",
                 law->points, law->sizes, law->lengths);
  if (law->form == CH_SIZE_FORM_SUM) put_estimate("E", &law->floor, text);
  put_estimate(names[0], &law->alpha_size, text);
  put_estimate(names[1], &law->size, text);
  put_estimate(names[2], &law->alpha_tokens, text);
  put_estimate(names[3], &law->tokens, text);
  if (law->at_size > 0) {
    snprintf(place, sizeof place, "loss at %s, %s", ch_format_count(law->at_size, size, sizeof size),
             ch_format_count(law->at_tokens, budget, sizeof budget));
    put_estimate(place, &law->at, text);
  }
  ch_text_printf(text, "  %-22s %.3g of the loss, %d %s\n", "noise", law->noise, law->outliers,
                 ch_plural(law->outliers, "outlier", "outliers"));
  ch_size_law_warnings(law, &warnings);
  put_warnings(&warnings, text);
}
