/* Fits a law to the mean loss curve of a mechanism over seeds. The law predicts how many more tokens a model needs to
 * reach a lower loss. */
#include "experiment/findings/group_law.h"
#include "laws/scaling_law.h"

#include <math.h>
#include <stdlib.h>

/* Averages the group's training losses after the warm-up. Returns the number of points. */
static int mean_losses(const ch_group *group, int64_t warmup, double *tokens, double *losses) {
  int count = group->runs[0]->curve_points, kept = 0;
  for (int i = 1; i < group->count; i++)
    if (group->runs[i]->curve_points < count) count = group->runs[i]->curve_points;
  for (int p = 0; p < count; p++) {
    tokens[kept] = (double)group->runs[0]->curve[p].tokens;
    losses[kept] = 0;
    for (int i = 0; i < group->count; i++) losses[kept] += group->runs[i]->curve[p].loss / group->count;
    if (group->runs[0]->curve[p].tokens > warmup) kept++;
  }
  return kept;
}

bool ch_group_law(const ch_group *group, const ch_comparison_training *training, ch_scaling_law *law) {
  int64_t warmup = training->steps ? training->warmup * (training->tokens / training->steps) : 0;
  size_t room = (size_t)group->runs[0]->curve_points + 1;
  double *tokens = malloc(room * sizeof *tokens), *losses = malloc(room * sizeof *losses);
  ch_error error;
  bool fine = tokens && losses;
  int count = fine ? mean_losses(group, warmup, tokens, losses) : 0;
  fine = fine && ch_fit_scaling_law(tokens, losses, count, 0, law, &error) == CH_OK;
  free(tokens);
  free(losses);
  return fine;
}

double ch_group_more_tokens(const ch_group *group, const ch_comparison_training *training, double gap) {
  ch_scaling_law law;
  double tokens = (double)group->runs[0]->tokens_trained;
  if (!(tokens > 0) || !isfinite(gap) || !ch_group_law(group, training, &law)) return -1;
  double above = ch_predict_loss(&law, tokens) - law.floor.value; /* the term (D_c / D)^alpha of the law */
  return above > gap ? pow(1 - gap / above, -1 / law.alpha.value) - 1 : INFINITY;
}
