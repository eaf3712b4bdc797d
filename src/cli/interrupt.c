/* A flag that a signal handler sets, and a thread that ends the program if its work does not end in time. */
#define _GNU_SOURCE
#include "cli/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

/* oneDNN's generated sgemm uses the stack pointer for data. A handler on the thread's stack would overwrite memory
   that is in use, so handlers run on own_stack. */
enum { STACK = 64 * 1024, SIGNALS = 4 };
static _Alignas(64) char own_stack[STACK];

/* `timeout` and some shells signal the process and its group. Signals within this time count as one. */
static const long long together_ns = 250000000;

static volatile sig_atomic_t interrupted;
static atomic_llong first_ns;
static struct sigaction before[SIGNALS];
static stack_t stack_before;
static bool watching;
/* Launchers and Slurm send SIGUSR1 and SIGUSR2 as warnings that the time of a job is nearly over. */
static const int signals[SIGNALS] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

static bool is_warning(int number) {
  return number == SIGUSR1 || number == SIGUSR2;
}

/* The thread that ends a program that does not react in time. */
enum { GRACE_NS = 1500000000, SECOND_NS = 1000000000, OWN_STACK = 256 * 1024 };
static struct {
  pthread_t thread;
  sem_t woken; /* posted by the first signal and by ch_interrupt_release */
  pthread_mutex_t deciding;
  bool running, released;
  void (*leave)(void);
} guard = {.deciding = PTHREAD_MUTEX_INITIALIZER};

static void on_signal(int number) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  long long now = (long long)t.tv_sec * 1000000000 + t.tv_nsec;
  bool first = !interrupted;
  if (first || is_warning(interrupted)) {
    atomic_store(&first_ns, now);
    interrupted = number;
    if (first && guard.running) sem_post(&guard.woken);
  } else if (!is_warning(number) && now - atomic_load(&first_ns) > together_ns) {
    /* the signal is delivered when this handler returns */
    signal(number, SIG_DFL);
    raise(number);
  }
}

static void *wait_and_leave(void *unused) {
  (void)unused;
  while (sem_wait(&guard.woken) != 0)
    ;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  long long ns = until.tv_nsec + (long long)GRACE_NS;
  until.tv_sec += ns / SECOND_NS;
  until.tv_nsec = ns % SECOND_NS;
  if (interrupted)
    while (sem_clockwait(&guard.woken, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
      ;
  pthread_mutex_lock(&guard.deciding);
  if (!guard.released) {
    if (guard.leave) guard.leave();
    _exit(128 + interrupted);
  }
  pthread_mutex_unlock(&guard.deciding);
  return NULL;
}

/* Starts the thread with all signals blocked. Without the thread, the program ends when its work polls the flag. */
static void start_guard(void) {
  sigset_t all, own;
  pthread_attr_t attributes;
  guard.released = false;
  if (sem_init(&guard.woken, 0, 0) != 0 || pthread_attr_init(&attributes) != 0) return;
  pthread_attr_setstacksize(&attributes, OWN_STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &own);
  guard.running = pthread_create(&guard.thread, &attributes, wait_and_leave, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &own, NULL);
  pthread_attr_destroy(&attributes);
}

static void end_guard(void) {
  if (!guard.running) return;
  pthread_mutex_lock(&guard.deciding);
  guard.released = true;
  pthread_mutex_unlock(&guard.deciding);
  sem_post(&guard.woken);
  pthread_join(guard.thread, NULL);
  guard.running = false;
  sem_destroy(&guard.woken);
}

void ch_interrupt_on_leaving(void (*leave)(void)) {
  guard.leave = leave;
}

void ch_interrupt_watch(ch_interrupt_end end) {
  interrupted = 0;
  if (watching) return;
  if (end == CH_NOTHING_SAVED) start_guard();
  stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof own_stack};
  sigaltstack(&stack, &stack_before);
  /* without SA_RESTART, a waiting read returns */
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < SIGNALS; i++) {
    sigaction(signals[i], NULL, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, NULL); /* respects nohup */
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
  for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
  sigaltstack(&stack_before, NULL);
  end_guard();
  watching = false;
}
