/* The public functions that sweep over learning rates: they run a sweep, write its report next to the results, and
 * return its findings. */
#include <crosshead/sweep.h>

#include <stdlib.h>

#include "api/adapters.h"
#include "experiment/sweep.h"
#include "experiment/trial/settings.h"
#include "report/sweep_page.h"
#include "report/sweep_text.h"
#include "tensor/team.h"

void ch_sweep_defaults(ch_sweep_settings *settings) {
  *settings = (ch_sweep_settings){.lineup = ch_compare_usual.lineup,
                                  .training = ch_compare_usual.training,
                                  .workers = ch_compare_usual.workers,
                                  .lr = "3e-4,1e-3,3e-3,1e-2,3e-2"};
  settings->training.schedule = CH_TRAIN_CONSTANT;
  settings->training.evaluations = 30;
}

ch_status ch_sweep_check(const ch_sweep_settings *settings, ch_error *error) {
  if (!settings) return ch_refuse_null(error, "the settings");
  return ch_sweep_settings_check(settings, error);
}

static ch_status write_page(const ch_sweep_settings *settings, const ch_sweep *sweep, ch_error *error) {
  ch_text html = {0};
  return ch_api_report(settings->report.out, &html, ch_sweep_page_write(sweep, &html, error), error);
}

ch_status ch_sweep_rates(const ch_sweep_settings *settings, ch_sweep **sweep, ch_error *error) {
  if (sweep) *sweep = NULL;
  if (!settings) return ch_refuse_null(error, "the settings");
  ch_sweep *made = calloc(1, sizeof *made);
  if (!made) return ch_no_memory(error);
  const ch_team team = ch_team_of(settings->workers.threads);
  ch_team_before before = ch_team_enter(&team);
  ch_status status = ch_sweep_make(settings, write_page, made, error);
  ch_team_leave(before);
  if (status == CH_OK && sweep)
    *sweep = made;
  else
    ch_sweep_free(made);
  return status;
}

void ch_sweep_free(ch_sweep *sweep) {
  if (!sweep) return;
  ch_arena_free(&sweep->about.arena);
  free(sweep);
}

int32_t ch_sweep_count(const ch_sweep *sweep) {
  return sweep->count;
}

const ch_sweep_result *ch_sweep_run(const ch_sweep *sweep, int32_t index) {
  return index >= 0 && index < sweep->count ? &sweep->runs[index] : NULL;
}

const ch_sweep_choice *ch_sweep_choice_of(const ch_sweep *sweep, int32_t index) {
  return index >= 0 && index < sweep->mechanisms ? &sweep->choices[index] : NULL;
}

ch_status ch_sweep_json(const ch_sweep *sweep, char **json, ch_error *error) {
  return ch_api_json(ch_sweep_to_json(sweep), json, error);
}

ch_status ch_sweep_table(const ch_sweep *sweep, char **text, ch_error *error) {
  ch_text table = {0};
  ch_sweep_table_write(sweep, &table);
  return ch_api_text(&table, text, error);
}

ch_status ch_sweep_page(const ch_sweep *sweep, char **html, ch_error *error) {
  ch_text page = {0};
  return ch_api_page(&page, ch_sweep_page_write(sweep, &page, error), html, error);
}

ch_status ch_sweep_result_verdict(const ch_sweep_result *run, char **text, ch_error *error) {
  ch_text verdict = {0};
  ch_sweep_verdict(run, &verdict);
  return ch_api_text(&verdict, text, error);
}
