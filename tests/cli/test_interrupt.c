/* Tests signals that are watched: the first sets a flag, and a later one ends the program. Calls that cannot be
 * cancelled are left if nothing is saved. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/interrupt.h"

static void a_watched_signal_is_a_flag_until_the_next_watch(void **state) {
  (void)state;
  ch_interrupt_watch(CH_SAVES_WORK);
  assert_false(ch_interrupted());
  raise(SIGTERM);
  assert_true(ch_interrupted());
  ch_interrupt_release();
  assert_true(ch_interrupted());
  ch_interrupt_watch(CH_SAVES_WORK);
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
  ch_interrupt_watch(CH_SAVES_WORK);
  raise(SIGINT);
  usleep(300000);
  raise(SIGINT);
}

static void interrupted_twice_at_once(void) {
  ch_interrupt_watch(CH_SAVES_WORK);
  raise(SIGINT);
  raise(SIGINT);
  if (!ch_interrupted()) raise(SIGKILL);
}

static void interrupted_after_release(void) {
  ch_interrupt_watch(CH_SAVES_WORK);
  ch_interrupt_release();
  raise(SIGINT);
}

static void ignored_before(void) {
  signal(SIGINT, SIG_IGN);
  ch_interrupt_watch(CH_SAVES_WORK);
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

/* The handler must not run on the thread's own stack, because oneDNN's matrix products use the stack pointer for
   data. */
static void a_handler_runs_on_a_stack_of_its_own(void **state) {
  (void)state;
  struct sigaction action;
  ch_interrupt_watch(CH_SAVES_WORK);
  assert_int_equal(sigaction(SIGINT, NULL, &action), 0);
  action.sa_handler = note_the_stack;
  assert_int_equal(sigaction(SIGINT, &action, NULL), 0);
  raise(SIGINT);
  ch_interrupt_release();
  assert_int_equal(on_own_stack, 1);
}

static const char *marked; /* a file that leaving deletes */

static void leave_mark(void) {
  unlink(marked);
}

static int end_of_a_call_that_cannot_be_cancelled(ch_interrupt_end end, const char *mark) {
  pid_t child = fork();
  if (child == 0) {
    marked = mark;
    ch_interrupt_on_leaving(leave_mark);
    ch_interrupt_watch(end);
    raise(SIGTERM);
    for (int i = 0; i < 40; i++) usleep(100000);
    ch_interrupt_release();
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void a_call_that_cannot_be_cancelled_is_left_where_nothing_is_saved(void **state) {
  (void)state;
  char mark[] = "/tmp/crosshead-interrupt-XXXXXX";
  int file = mkstemp(mark);
  assert_true(file >= 0);
  close(file);
  assert_int_equal(end_of_a_call_that_cannot_be_cancelled(CH_SAVES_WORK, mark), 0);
  assert_int_equal(access(mark, F_OK), 0);
  assert_int_equal(end_of_a_call_that_cannot_be_cancelled(CH_NOTHING_SAVED, mark), 128 + SIGTERM);
  assert_int_equal(access(mark, F_OK), -1);
}

static void a_command_that_ends_in_time_is_not_left(void **state) {
  (void)state;
  ch_interrupt_on_leaving(NULL);
  for (int i = 0; i < 3; i++) {
    ch_interrupt_watch(CH_NOTHING_SAVED);
    if (i > 0) raise(SIGINT);
    assert_int_equal(ch_interrupted(), i > 0);
    ch_interrupt_release();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_watched_signal_is_a_flag_until_the_next_watch),
      cmocka_unit_test(a_second_signal_and_one_after_release_end_the_program),
      cmocka_unit_test(an_ignored_signal_stays_ignored),
      cmocka_unit_test(a_handler_runs_on_a_stack_of_its_own),
      cmocka_unit_test(a_call_that_cannot_be_cancelled_is_left_where_nothing_is_saved),
      cmocka_unit_test(a_command_that_ends_in_time_is_not_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
