/* Writes the results of a ladder in words and tables for a terminal. */
#include "report/ladder_text.h"

#include <math.h>

#include "base/table.h"
#include "laws/ladder_laws.h"
#include "report/ladder_cells.h"

enum { COUNT = 32 };

/* Writes the largest models' number of parameters, "10 M", to `text` and returns `text`. */
static const char *put_largest(const ch_ladder *ladder, char text[COUNT]) {
  return ch_format_count((double)ladder->sizes[ladder->rungs - 1], text, COUNT);
}

/* Writes "Test of the law: 3 of 3 losses at 10 M are in the interval predicted from the smaller sizes." */
static void put_test(const ch_ladder *ladder, ch_text *text) {
  int within = 0, known = 0;
  char size[COUNT];
  for (int m = 0; m < ladder->count; m++) {
    const ch_ladder_law *law = &ladder->laws->laws[m];
    if (isnan(law->top.low)) continue;
    known++;
    within += law->top.low <= law->top_loss && law->top_loss <= law->top.high;
  }
  if (!known)
    ch_text_printf(text, "The sizes below %s are too few to give the prediction an interval; add one.\n",
                   put_largest(ladder, size));
  else
    ch_text_printf(
        text,
        "Test of the law: %d of %d losses at %s are in the interval predicted from the smaller sizes.\n",
        within, known, put_largest(ladder, size));
}

static void put_crossings(const ch_ladder *ladder, ch_text *text) {
  for (int i = 0; i < ladder->laws->crossing_count; i++) {
    const ch_ladder_crossing *c = &ladder->laws->crossings[i];
    char parameters[COUNT];
    ch_text_printf(
        text, "%s overtakes %s at %.2g FLOPs, with models of about %s parameters",
        ladder->mechanisms[c->above].name, ladder->mechanisms[c->below].name, c->flops.value,
        ch_format_count(ch_ladder_parameters(ladder, c->above, c->flops.value), parameters, COUNT));
    if (c->flops.low > 0 && isfinite(c->flops.high))
      ch_text_printf(text, " (%.2g to %.2g FLOPs)", c->flops.low, c->flops.high);
    else if (c->flops.low > 0)
      ch_text_printf(text, " (%.2g FLOPs and more)", c->flops.low);
    else if (isfinite(c->flops.high))
      ch_text_printf(text, " (up to %.2g FLOPs)", c->flops.high);
    else if (!isnan(c->flops.low))
      ch_text_puts(text, " (these losses do not determine where)");
    if (isfinite(c->share)) ch_text_printf(text, ", in %.0f %% of the resampled fits", 100 * c->share);
    ch_text_puts(text, ".\n");
  }
}

void ch_ladder_sentences_write(const ch_ladder *ladder, ch_text *text) {
  const ch_ladder_basis *basis = &ladder->laws->basis;
  char first[COUNT], last[COUNT];
  const ch_estimate *floor = &ladder->laws->laws[0].floor;
  ch_text_printf(text,
                 "The law L = E + A C^-alpha of the loss against the FLOPs of training, fitted to %d sizes "
                 "from %s to %s",
                 ladder->rungs, ch_format_count((double)ladder->sizes[0], first, COUNT),
                 put_largest(ladder, last));
  if (basis->shares) ch_text_printf(text, " and to %d earlier points of each run", (int)basis->shares);
  if (basis->one_floor && !isnan(floor->low))
    ch_text_printf(text, ", with a common E of %.2f (%.2f to %.2f)", floor->value, floor->low, floor->high);
  else if (basis->one_floor)
    ch_text_printf(text, ", with a common E of %.2f", floor->value);
  else
    ch_text_puts(text, ", each mechanism with its own E");
  if (isfinite(basis->noise)) ch_text_printf(text, ". Losses differ from it by %.4f nats", basis->noise);
  ch_text_puts(text, ".\n");
  for (int m = ladder->count; m < ladder->count + ladder->diverged; m++)
    ch_text_printf(text, "Warning: %s diverged at a size of the ladder, so it has no law.\n",
                   ladder->mechanisms[m].name);
  put_test(ladder, text);
  put_crossings(ladder, text);
  for (int m = 0; m < ladder->count; m++)
    if (ladder->laws->laws[m].says_nothing)
      ch_text_printf(text,
                     "Warning: the law of %s says nothing: its losses do not bound alpha. Train longer, on "
                     "more text, or "
                     "add sizes.\n",
                     ladder->mechanisms[m].name);
}

void ch_ladder_write(const ch_ladder *ladder, ch_text *text) {
  ch_text_puts(text, "\n");
  ch_table losses = ch_ladder_losses(ladder), predictions = ch_ladder_predictions(ladder);
  ch_table_write(&losses, text);
  ch_text_puts(text, "\n");
  ch_table_write(&predictions, text);
  ch_text_puts(text, "\n");
  ch_ladder_sentences_write(ladder, text);
}
