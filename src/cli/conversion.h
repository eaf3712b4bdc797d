/* How far import and export are. */
#ifndef CH_CLI_CONVERSION_H
#define CH_CLI_CONVERSION_H

/* A hook of long work: shows the share that is done; the context is a ch_progress_line. */
void ch_show_conversion(void *line, double share);

#endif
