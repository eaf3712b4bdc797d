/* Signals become a flag while they are watched. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/interrupt.h"

static void a_watched_signal_is_a_flag_until_the_next_watch(void **state) {
  (void)state;
  ch_interrupt_watch();
  assert_false(ch_interrupted());
  raise(SIGTERM);
  assert_true(ch_interrupted());
  ch_interrupt_release();
  assert_true(ch_interrupted());
  ch_interrupt_watch();
  assert_false(ch_interrupted());
  ch_interrupt_release();
}

static int signal_that_ended(void (*work)(void)) {
  pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void interrupted_twice(void) {
  ch_interrupt_watch();
  raise(SIGINT);
  usleep(300000);
  raise(SIGINT);
}

static void interrupted_twice_at_once(void) {
  ch_interrupt_watch();
  raise(SIGINT);
  raise(SIGINT);
  if (!ch_interrupted()) raise(SIGKILL);
}

static void interrupted_after_release(void) {
  ch_interrupt_watch();
  ch_interrupt_release();
  raise(SIGINT);
}

static void ignored_before(void) {
  signal(SIGINT, SIG_IGN);
  ch_interrupt_watch();
  raise(SIGINT);
  raise(SIGINT);
  ch_interrupt_release();
  raise(SIGINT);
  if (ch_interrupted()) raise(SIGKILL);
}

static void a_second_signal_and_one_after_release_end_the_program(void **state) {
  (void)state;
  assert_int_equal(signal_that_ended(interrupted_twice), SIGINT);
  assert_int_equal(signal_that_ended(interrupted_twice_at_once), 0);
  assert_int_equal(signal_that_ended(interrupted_after_release), SIGINT);
}

static void an_ignored_signal_stays_ignored(void **state) {
  (void)state;
  assert_int_equal(signal_that_ended(ignored_before), 0);
}

static volatile sig_atomic_t on_own_stack;

static void note_the_stack(int number) {
  (void)number;
  stack_t stack;
  on_own_stack = sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) ? 1 : 0;
}

/* The handler must leave the thread's own stack alone: matrix products keep data below where it seems to end. */
static void a_handler_runs_on_a_stack_of_its_own(void **state) {
  (void)state;
  struct sigaction action;
  ch_interrupt_watch();
  assert_int_equal(sigaction(SIGINT, NULL, &action), 0);
  action.sa_handler = note_the_stack;
  assert_int_equal(sigaction(SIGINT, &action, NULL), 0);
  raise(SIGINT);
  ch_interrupt_release();
  assert_int_equal(on_own_stack, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_watched_signal_is_a_flag_until_the_next_watch),
      cmocka_unit_test(a_second_signal_and_one_after_release_end_the_program),
      cmocka_unit_test(an_ignored_signal_stays_ignored),
      cmocka_unit_test(a_handler_runs_on_a_stack_of_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
