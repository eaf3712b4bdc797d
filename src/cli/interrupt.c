/* A flag that a signal handler sets. */
#define _GNU_SOURCE
#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted;
static struct sigaction before[2];
static bool watching;
static const int signals[2] = {SIGINT, SIGTERM};

static void on_signal(int number) {
  (void)number;
  interrupted = 1;
}

void ch_interrupt_watch(void) {
  interrupted = 0;
  if (watching) return;
  /* No SA_RESTART: a read that waits returns. SA_RESETHAND: the second signal is not caught. */
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; i++) {
    sigaction(signals[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL); /* nohup stays nohup */
  }
  watching = true;
}

bool ch_interrupted(void) {
  return interrupted != 0;
}

void ch_interrupt_release(void) {
  if (!watching) return;
  for (int i = 0; i < 2; i++) sigaction(signals[i], &before[i], NULL);
  watching = false;
}
