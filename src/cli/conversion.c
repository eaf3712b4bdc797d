/* How far import and export are. */
#include "cli/conversion.h"

#include "base/progress.h"

void ch_show_conversion(void *line, double share) {
  ch_progress_show_share(line, "converting", share, ch_progress_seconds(line));
}
