/* Fitted laws and spikes in lines. */
#include "report/fit_text.h"

#include <stdio.h>

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
                 ch_stability_name(s->verdict));
}

static void put_curve(const ch_fitted *f, ch_text *text) {
  const ch_scaling_law *law = &f->law;
  char first[32], last[32], budget[32], name[64];
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
  ch_text_printf(text,
                 "%s: L(N, D) = ((N_c/N)^(alpha_N/alpha_D) + D_c/D)^alpha_D, fitted to %d models of %d sizes "
                 "and %d numbers of tokens\n",
                 name, law->points, law->sizes, law->lengths);
  put_estimate("alpha_N", &law->alpha_size, text);
  put_estimate("N_c", &law->size, text);
  put_estimate("alpha_D", &law->alpha_tokens, text);
  put_estimate("D_c", &law->tokens, text);
  if (law->at_size > 0) {
    snprintf(place, sizeof place, "loss at %s, %s", ch_format_count(law->at_size, size, sizeof size),
             ch_format_count(law->at_tokens, budget, sizeof budget));
    put_estimate(place, &law->at, text);
  }
  ch_text_printf(text, "  %-22s %.3g of the loss, %d %s\n", "noise", law->noise, law->outliers,
                 ch_plural(law->outliers, "outlier", "outliers"));
  if (law->says_nothing)
    ch_text_puts(
        text, "  These models do not say how the loss depends on size or on tokens: more of them would.\n");
}
