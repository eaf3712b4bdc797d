/* A flag that a signal handler sets. */
#define _GNU_SOURCE
#include "cli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

/* oneDNN's sgemm keeps other things than a stack where the stack pointer points (its generated code uses that register
   for data), so a handler that ran on the thread's stack would overwrite memory that is in use. */
enum { STACK = 64 * 1024 };
static _Alignas(64) char own_stack[STACK];

/* `timeout` and some shells send a signal to the process and to its group: two that come together are one. */
static const long long together_ns = 250000000;

static volatile sig_atomic_t interrupted;
static atomic_llong first_ns;
static struct sigaction before[2];
static stack_t stack_before;
static bool watching;
static const int signals[2] = {SIGINT, SIGTERM};

static void on_signal(int number) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  long long now = (long long)t.tv_sec * 1000000000 + t.tv_nsec;
  if (!interrupted) {
    atomic_store(&first_ns, now);
    interrupted = number;
  } else if (now - atomic_load(&first_ns) > together_ns) {
    /* Takes effect when this handler returns. */
    signal(number, SIG_DFL);
    raise(number);
  }
}

void ch_interrupt_watch(void) {
  interrupted = 0;
  if (watching) return;
  stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof own_stack};
  sigaltstack(&stack, &stack_before);
  /* No SA_RESTART: a read that waits returns. */
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
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

int ch_interrupt_number(void) {
  return interrupted;
}

bool ch_stop_wanted(void *context) {
  (void)context;
  return ch_interrupted();
}

void ch_interrupt_release(void) {
  if (!watching) return;
  for (int i = 0; i < 2; i++) sigaction(signals[i], &before[i], NULL);
  sigaltstack(&stack_before, NULL);
  watching = false;
}
