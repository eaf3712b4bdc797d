/* Writes the results over several seeds, and the laws fitted to the curves. */
#include <math.h>
#include <stdio.h>

#include "report/compare_figures.h"
#include "report/page_private.h"
#include "experiment/findings/group_law.h"
#include "experiment/findings/verdict.h"

/* --- differences between seeds ----------------------------------------------------------------------------------- */

/* Writes "+0.0123 ± 0.0042", in percentage points if the models classify images. */
static void put_difference(const ch_difference *d, bool images, ch_text *html) {
  double unit = images ? 100 : 1;
  int decimals = images ? 2 : 4;
  ch_text_printf(html,
                 d->beyond_noise ? "<td class=\"best\">%+.*f <small>± %.*f</small></td>"
                                 : "<td>%+.*f <small>± %.*f</small></td>",
                 decimals, unit * d->mean, decimals, unit * (d->high - d->mean));
}

static void put_pairs(const ch_page *p, ch_text *html) {
  const ch_summary *s = p->summary;
  bool images = p->comparison->data.images;
  ch_text_puts(
      html, "<div class=\"scroll\" role=\"region\" aria-label=\"Differences, paired by seed\" "
            "tabindex=\"0\">\n<table class=\"pairs\">\n<thead>\n<tr><th scope=\"col\">row minus column</th>");
  for (int k = 0; k + 1 < s->count; k++) {
    ch_text_puts(html, "<th scope=\"col\">");
    ch_html_escape(s->groups[k].name, html);
    ch_text_puts(html, "</th>");
  }
  ch_text_puts(html, "</tr>\n</thead>\n<tbody>\n");
  for (int i = 1; i < s->count; i++) {
    ch_page_name_cell(p, i, false, html);
    for (int k = 0; k + 1 < s->count; k++) {
      const ch_difference *d = ch_difference_of(s, i, k);
      if (k < i && d->pairs > 1 && isfinite(d->high))
        put_difference(d, images, html);
      else
        ch_text_puts(html, "<td></td>");
    }
    ch_text_puts(html, "</tr>\n");
  }
  ch_text_puts(html, "</tbody>\n</table>\n</div>\n");
}

void ch_page_put_noise(const ch_page *p, ch_text *html) {
  if (p->summary->seeds < 2) return;
  ch_text sentence = {0};
  ch_page_figure(ch_figure_seeds(p->summary), html);
  if (p->summary->count < 2) return;
  ch_text_puts(html,
               "<section aria-labelledby=\"noise-heading\">\n<h2 id=\"noise-heading\">Which differences "
               "are larger than the noise</h2>\n<p class=\"note\">");
  ch_verdict_standings(p->summary, &sentence);
  if (sentence.size) ch_text_puts(&sentence, " ");
  const size_t before = sentence.size;
  ch_verdict_tokens(p->summary, p->comparison, &sentence);
  if (sentence.size > before) ch_text_puts(&sentence, " ");
  ch_verdict_noise(p->summary, p->comparison, &sentence);
  ch_page_escaped(&sentence, html);
  ch_text_puts(html, "</p>\n");
  put_pairs(p, html);
  ch_text_puts(html, "<p class=\"note\">Mean of the row minus mean of the column, over the seeds that both "
                     "have, ± what may be "
                     "chance. Bold: larger than the noise; the others are tied.</p>\n"
                     "</section>\n");
}

/* --- laws ---------------------------------------------------------------------------------------------------- */

/* Writes "0.420", and below it "0.400 to 0.450". */
static void put_estimate(const ch_estimate *e, bool tokens, ch_text *html) {
  const double ends[] = {e->value, e->low, e->high};
  char words[3][40];
  for (int i = 0; i < 3; i++)
    if (!isfinite(ends[i]))
      snprintf(words[i], sizeof words[i], "?");
    else if (ends[i] >= 1e15)
      snprintf(words[i], sizeof words[i], "%.1e", ends[i]);
    else if (tokens)
      ch_format_count(ends[i], words[i], sizeof words[i]);
    else
      snprintf(words[i], sizeof words[i], "%.3f", ends[i]);
  ch_text_printf(html, "<td>%s <small>%s to %s</small></td>", words[0], words[1], words[2]);
}

void ch_page_put_laws(const ch_page *p, ch_text *html) {
  ch_scaling_law law;
  bool begun = false;
  for (int i = 0; i < p->summary->count; i++) {
    if (!ch_group_law(&p->summary->groups[i], &p->comparison->training, &law)) continue;
    if (!begun)
      ch_text_puts(html,
                   "<section aria-labelledby=\"laws-heading\">\n<details class=\"laws\">"
                   "<summary id=\"laws-heading\">Fitted laws</summary>\n"
                   "<div class=\"scroll\" role=\"region\" aria-labelledby=\"laws-heading\" tabindex=\"0\">\n"
                   "<table>\n<thead>\n<tr><th scope=\"col\">mechanism</th><th scope=\"col\">α</th>"
                   "<th scope=\"col\">D<sub>c</sub></th><th scope=\"col\">L<sub>0</sub></th></tr>\n</thead>\n"
                   "<tbody>\n");
    begun = true;
    ch_page_name_cell(p, i, false, html);
    put_estimate(&law.alpha, false, html);
    put_estimate(&law.tokens, true, html);
    put_estimate(&law.floor, false, html);
    ch_text_puts(html, "</tr>\n");
  }
  if (begun)
    ch_text_puts(
        html,
        "</tbody>\n</table>\n</div>\n<p class=\"note\">L(D) = (D<sub>c</sub>/D)<sup>α</sup> + L<sub>0</sub> "
        "is fitted to the training losses after the warm-up, with 95 % intervals. If the learning rate falls "
        "during the runs, as with a cosine, the laws only compare the curves and say little about longer "
        "training.</p>\n</details>\n</section>\n");
}
