/* Stops the other ranks when one fails in the middle of common work.
 *
 * Work begins with ch_alarm_reset and ends with ch_alarm_agree, on every rank. A rank that fails raises the alarm. The
 * others poll it while they work or wait, and abort. All ranks reach ch_alarm_agree. It also receives the remaining
 * messages of the alarm. */
#ifndef CH_RANKS_ALARM_H
#define CH_RANKS_ALARM_H

#include "ranks/ranks.h"

typedef struct ch_alarm {
  ch_rank_group *ranks; /* NULL: there are no other ranks */
  int tag;              /* tag of the alarm's messages, which no other messages use */
  bool raised, heard;   /* true if this rank raised the alarm; true if another rank's alarm arrived */
  ch_transfer *out;     /* [ranks] messages of this rank's alarm */
  int32_t *raisers;     /* [ranks] nonzero for ranks that raised the alarm */
} ch_alarm;

/* Creates an alarm. Release with ch_alarm_free. */
ch_status ch_alarm_create(ch_alarm *alarm, ch_rank_group *ranks, int tag, ch_error *error);
void ch_alarm_free(ch_alarm *alarm);
void ch_alarm_reset(ch_alarm *alarm);
/* Sends the alarm to the others, once. Does nothing if an alarm of another rank has arrived. */
void ch_alarm_raise(ch_alarm *alarm);
/* Returns true if another rank has raised the alarm. */
bool ch_alarm_rings(ch_alarm *alarm);
/* Agrees on the status of all ranks. Aborting because another rank failed does not count as this rank's
   failure. */
ch_status ch_alarm_agree(ch_alarm *alarm, ch_status status, ch_error *error);

#endif
