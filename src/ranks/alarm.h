/* How a rank that fails in the middle of common work tells the others, which look for it while they work or
 * wait.
 *
 * Work begins with ch_alarm_reset and ends with ch_alarm_agree, on every rank. A rank that fails raises the
 * alarm, one that hears it gives up what it does. Both come to the agreement, which also receives what was
 * sent. */
#ifndef CH_RANKS_ALARM_H
#define CH_RANKS_ALARM_H

#include "ranks/ranks.h"

typedef struct ch_alarm {
  ch_rank_group *ranks; /* NULL: nobody to tell */
  int tag;              /* of its messages, and of no others */
  bool raised, heard;   /* by this rank, and of another one */
  ch_transfer *out;     /* [ranks] */
  int32_t *raisers;     /* [ranks] */
} ch_alarm;

/* Release with ch_alarm_free. */
ch_status ch_alarm_create(ch_alarm *alarm, ch_rank_group *ranks, int tag, ch_error *error);
void ch_alarm_free(ch_alarm *alarm);
void ch_alarm_reset(ch_alarm *alarm);
/* Tells the others, once; not one that was heard. */
void ch_alarm_raise(ch_alarm *alarm);
/* Returns true if another rank has raised it. */
bool ch_alarm_rings(ch_alarm *alarm);
/* ch_ranks_agree of what the ranks did; that one gave up because it heard of another's failure is none of its
   own. */
ch_status ch_alarm_agree(ch_alarm *alarm, ch_status status, ch_error *error);

#endif
