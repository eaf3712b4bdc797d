/* Raises, detects and clears an alarm. An alarm is one message of one byte to each other rank. */
#include "ranks/alarm.h"

#include <stdlib.h>

ch_status ch_alarm_create(ch_alarm *alarm, ch_rank_group *ranks, int tag, ch_error *error) {
  size_t count = (size_t)ch_rank_count(ranks);
  *alarm = (ch_alarm){.ranks = ranks, .tag = tag};
  if (!ranks) return CH_OK;
  alarm->out = calloc(count, sizeof *alarm->out);
  alarm->raisers = calloc(count, sizeof *alarm->raisers);
  if (alarm->out && alarm->raisers) return CH_OK;
  ch_alarm_free(alarm);
  return ch_no_memory(error);
}

void ch_alarm_free(ch_alarm *alarm) {
  free(alarm->out);
  free(alarm->raisers);
  *alarm = (ch_alarm){0};
}

void ch_alarm_reset(ch_alarm *alarm) {
  alarm->raised = alarm->heard = false;
}

void ch_alarm_raise(ch_alarm *alarm) {
  static const char nothing = 0;
  if (!alarm->ranks || alarm->raised || alarm->heard) return;
  alarm->raised = true;
  for (int rank = 0; rank < ch_rank_count(alarm->ranks); rank++)
    if (rank != ch_own_rank(alarm->ranks))
      ch_ranks_send(alarm->ranks, rank, alarm->tag, &nothing, sizeof nothing, &alarm->out[rank]);
}

bool ch_alarm_rings(ch_alarm *alarm) {
  if (alarm->ranks && !alarm->heard) alarm->heard = ch_ranks_message_waits(alarm->ranks, alarm->tag);
  return alarm->heard;
}

/* Receives the remaining messages of all alarms, so that none is mistaken for an alarm of later work. */
static void silence(ch_alarm *alarm) {
  int self = ch_own_rank(alarm->ranks), count = ch_rank_count(alarm->ranks);
  alarm->raisers[self] = alarm->raised;
  ch_ranks_gather(alarm->ranks, alarm->raisers, sizeof *alarm->raisers);
  for (int rank = 0; rank < count; rank++) {
    char nothing;
    ch_transfer in = {0};
    if (rank == self || !alarm->raisers[rank]) continue;
    ch_ranks_receive(alarm->ranks, rank, alarm->tag, &nothing, sizeof nothing, &in);
    ch_ranks_wait(alarm->ranks, &in, NULL, NULL);
  }
  for (int rank = 0; rank < count; rank++) ch_ranks_wait(alarm->ranks, &alarm->out[rank], NULL, NULL);
}

ch_status ch_alarm_agree(ch_alarm *alarm, ch_status status, ch_error *error) {
  if (!alarm->ranks) return status;
  if (status == CH_ERROR_INTERRUPTED && alarm->heard && !alarm->raised) status = CH_OK;
  status = ch_agree(alarm->ranks, status, error);
  if (status != CH_OK) silence(alarm);
  return status;
}
