/* The public functions that compare mechanisms: they run a comparison, write its report next to the results, return its
 * findings, and forecast its time and memory. */
#include <crosshead/compare.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/adapters.h"
#include "api/compare_tasks.h"
#include "config_file/config_json.h"
#include "experiment/compare.h"
#include "experiment/lineup/configure_mechanism.h"
#include "experiment/forecast.h"
#include "experiment/findings/group_law.h"
#include "experiment/ladder.h"
#include "experiment/lineup/comparison_plan.h"
#include "experiment/lineup/presets.h"
#include "experiment/findings/comparison_json.h"
#include "experiment/trial/settings.h"
#include "laws/ladder_laws.h"
#include "report/forecast_text.h"
#include "report/page.h"
#include "report/comparison_text.h"
#include "experiment/findings/verdict.h"
#include "tensor/team.h"

bool ch_mechanism_name_at(int32_t index, ch_mechanism_name *name) {
  const ch_preset *preset = index < 0 ? NULL : ch_preset_at(index);
  if (preset) *name = (ch_mechanism_name){preset->name, preset->number, preset->summary};
  return preset != NULL;
}

/* --- a comparison ------------------------------------------------------------------------------------------------ */

void ch_compare_defaults(ch_compare_settings *settings) {
  *settings = ch_compare_usual;
}

ch_status ch_compare_check(const ch_compare_settings *settings, ch_error *error) {
  if (!settings) return ch_refuse_null(error, "the settings");
  return ch_compare_settings_complete(settings, CH_EXPERIMENT_COMPARISON, NULL, error);
}

static ch_status write_page(const ch_compare_settings *settings, const ch_comparison *comparison,
                            ch_error *error) {
  ch_text html = {0};
  return ch_api_report(settings->report.out, &html, ch_page_write(comparison, &html, error), error);
}

static const ch_compare_hooks outside = {
    .written = write_page, .ask = ch_compare_ask, .check = ch_compare_check_task};

ch_status ch_compare_mechanisms(const ch_compare_settings *settings, ch_comparison **comparison,
                                ch_error *error) {
  if (comparison) *comparison = NULL;
  if (!settings) return ch_refuse_null(error, "the settings");
  ch_comparison *made = calloc(1, sizeof *made);
  if (!made) return ch_no_memory(error);
  const ch_team team = ch_team_of(settings->workers.threads);
  ch_team_before before = ch_team_enter(&team);
  ch_status status =
      (settings->schedule.ladder ? ch_ladder_compare : ch_compare)(settings, &outside, made, error);
  ch_team_leave(before);
  if (status == CH_OK && comparison)
    *comparison = made;
  else
    ch_comparison_free(made);
  return status;
}

void ch_comparison_free(ch_comparison *comparison) {
  if (!comparison) return;
  ch_ladder_release(comparison->ladder);
  ch_arena_free(&comparison->arena);
  free(comparison);
}

/* --- before comparing -------------------------------------------------------------------------------------------- */

ch_status ch_compare_foresee(const ch_compare_settings *settings, ch_compare_forecast **forecast,
                             ch_error *error) {
  if (!settings || !forecast) return ch_refuse_null(error, settings ? "forecast" : "the settings");
  ch_compare_forecast *made = calloc(1, sizeof *made);
  *forecast = NULL;
  if (!made) return ch_no_memory(error);
  const ch_team team = ch_team_of(settings->workers.threads);
  ch_team_before before = ch_team_enter(&team);
  ch_status status = ch_forecast_make(settings, made, error);
  ch_team_leave(before);
  if (status == CH_OK)
    *forecast = made;
  else
    ch_compare_forecast_free(made);
  return status;
}

void ch_compare_forecast_free(ch_compare_forecast *forecast) {
  if (!forecast) return;
  ch_arena_free(&forecast->arena);
  free(forecast);
}

int32_t ch_compare_forecast_count(const ch_compare_forecast *forecast) {
  return forecast->count;
}

const ch_mechanism_forecast *ch_compare_forecast_of(const ch_compare_forecast *forecast, int32_t index) {
  return index >= 0 && index < forecast->count ? &forecast->models[index] : NULL;
}

const ch_mechanism_forecast *ch_compare_forecast_total(const ch_compare_forecast *forecast) {
  return &forecast->total;
}

ch_status ch_compare_forecast_text(const ch_compare_forecast *forecast, char **text, ch_error *error) {
  ch_text table = {0};
  ch_forecast_write(forecast, &table);
  return ch_api_text(&table, text, error);
}

ch_status ch_compare_forecast_json(const ch_compare_forecast *forecast, char **json, ch_error *error) {
  return ch_api_json(ch_forecast_to_json(forecast), json, error);
}

ch_status ch_compare_config(const ch_compare_lineup *lineup, const char *like, char **json, ch_error *error) {
  if (!lineup || !lineup->mechanisms || !json)
    return ch_refuse_null(error, json ? "the lineup's mechanism" : "the configuration pointer");
  ch_config config;
  ch_text text = {0};
  ch_status status = ch_configure(lineup, like, &config, error);
  if (status != CH_OK) return status;
  ch_config_write(&config, &text);
  return ch_api_text(&text, json, error);
}

/* --- findings ---------------------------------------------------------------------------------------------------- */

const ch_ladder_laws *ch_comparison_laws(const ch_comparison *comparison) {
  return comparison->ladder ? comparison->ladder->laws : NULL;
}

int32_t ch_comparison_count(const ch_comparison *comparison) {
  return comparison->count;
}

const ch_model_result *ch_comparison_run(const ch_comparison *comparison, int32_t index) {
  return index >= 0 && index < comparison->count ? &comparison->models[index] : NULL;
}

ch_status ch_comparison_recommended(const ch_comparison *comparison, const ch_model_result **run,
                                    ch_error *error) {
  ch_summary summary;
  ch_status status = ch_summarise(comparison, &summary, error);
  int pick = status == CH_OK ? summary.decision.pick : -1;
  *run = pick >= 0 ? summary.groups[pick].runs[0] : NULL;
  ch_arena_free(&summary.arena);
  return status;
}

static ch_comparison_choice choice_of(const ch_comparison *comparison, const ch_summary *summary, int group,
                                      const char **ties) {
  const ch_group *g = &summary->groups[group];
  const ch_standing *s = &summary->decision.standings[group];
  bool images = g->runs[0]->images;
  double unit = images ? 1 : summary->groups[0].quality;
  double more = images ? -1 : ch_group_more_tokens(g, &comparison->training, s->high);
  int tied[CH_COMPARE_MOST], count = ch_verdict_ties(summary, group, tied);
  for (int i = 0; i < count; i++) ties[i] = summary->groups[tied[i]].runs[0]->name;
  return (ch_comparison_choice){.name = g->runs[0]->name,
                                .cache_bytes_per_token = ch_group_cost(g),
                                .loss = g->quality,
                                .behind_low = s->low / unit,
                                .behind_high = s->high / unit,
                                .behind_tokens = more >= 0 ? more : NAN,
                                .tied_with = ties,
                                .tied_count = count};
}

/* Copies the decision, its choices, names and sentence into one block of memory. */
static ch_status copy_decision(const ch_comparison *comparison, const ch_summary *summary,
                               ch_comparison_decision **decision, ch_error *error) {
  const ch_decision *d = &summary->decision;
  size_t names = (size_t)summary->count, choices = (size_t)d->choice_count;
  ch_text sentence = {0};
  ch_verdict_sentence(summary, comparison, &sentence);
  ch_comparison_decision *copy =
      sentence.failed ? NULL
                      : malloc(sizeof *copy + choices * sizeof *copy->choices +
                               (choices + 1) * names * sizeof *copy->names + sentence.size + 1);
  if (copy) {
    ch_comparison_choice *listed = (ch_comparison_choice *)(copy + 1);
    const char **list = (const char **)(listed + choices);
    char *words = (char *)(list + (choices + 1) * names);
    memcpy(words, sentence.data, sentence.size + 1);
    for (size_t i = 0; i < choices; i++)
      listed[i] = choice_of(comparison, summary, d->choices[i], list + (i + 1) * names);
    *copy = (ch_comparison_decision){.kind = d->kind,
                                     .names = list,
                                     .name_count = ch_verdict_names(summary, list),
                                     .sentence = words,
                                     .seeds = summary->seeds,
                                     .choices = listed,
                                     .choice_count = d->choice_count};
    *decision = copy;
  }
  ch_text_free(&sentence);
  return copy ? CH_OK : ch_no_memory(error);
}

ch_status ch_comparison_verdict(const ch_comparison *comparison, ch_comparison_decision **decision,
                                ch_error *error) {
  ch_summary summary;
  ch_status status = ch_summarise(comparison, &summary, error);
  *decision = NULL;
  if (status == CH_OK) status = copy_decision(comparison, &summary, decision, error);
  ch_arena_free(&summary.arena);
  return status;
}

ch_status ch_comparison_json(const ch_comparison *comparison, char **json, ch_error *error) {
  return ch_api_json(ch_comparison_to_json(comparison), json, error);
}

ch_status ch_comparison_table(const ch_comparison *comparison, char **text, ch_error *error) {
  ch_text table = {0};
  ch_comparison_write(comparison, &table);
  return ch_api_text(&table, text, error);
}

ch_status ch_comparison_page(const ch_comparison *comparison, char **html, ch_error *error) {
  ch_text page = {0};
  return ch_api_page(&page, ch_page_write(comparison, &page, error), html, error);
}

const char *ch_verdict_kind_name(ch_verdict_kind kind) {
  return (unsigned)kind <= CH_VERDICT_UNDECIDED ? ch_verdict_kinds[kind] : "undecided";
}

const ch_ladder_law *ch_ladder_laws_at(const ch_ladder_laws *laws, int32_t index) {
  return index >= 0 && index < laws->count ? &laws->laws[index] : NULL;
}

int32_t ch_ladder_laws_count(const ch_ladder_laws *laws) {
  return laws->count;
}

const ch_ladder_crossing *ch_ladder_crossing_at(const ch_ladder_laws *laws, int32_t index) {
  return index >= 0 && index < laws->crossing_count ? &laws->crossings[index] : NULL;
}

void ch_ladder_basis_of(const ch_ladder_laws *laws, ch_ladder_basis *basis) {
  *basis = laws->basis;
}
