/* The public functions of the coordinate check: they run the check, write its report next to the results, and return
 * its findings. */
#include <stdlib.h>

#include "api/adapters.h"
#include "experiment/coordinate_check.h"
#include "report/coordinates_page.h"
#include "report/coordinates_text.h"
#include "tensor/team.h"

void ch_coordinates_defaults(ch_coordinate_settings *settings) {
  *settings = (ch_coordinate_settings){.mechanisms = "mha,gqa,mqa",
                                       .widths = "64,128,256,512",
                                       .layers = 4,
                                       .parametrization = CH_PARAMETRIZATION_SPECTRAL,
                                       .batch = 4,
                                       .sequence = 64,
                                       .steps = 10,
                                       .seed = 1,
                                       .seeds = 3};
}

ch_status ch_coordinates_check(const ch_coordinate_settings *settings, ch_error *error) {
  if (!settings) return ch_refuse_null(error, "the settings");
  return ch_coordinates_settings_check(settings, error);
}

static ch_status write_page(const ch_coordinate_settings *settings, const ch_coordinates *made,
                            ch_error *error) {
  ch_text html = {0};
  ch_status status = ch_coordinates_page_write(made, &html, error);
  return ch_api_report(settings->report.out, &html, status, error);
}

ch_status ch_coordinates_measure(const ch_coordinate_settings *settings, ch_coordinates **coordinates,
                                 ch_error *error) {
  if (coordinates) *coordinates = NULL;
  if (!settings) return ch_refuse_null(error, "the settings");
  ch_coordinates *made = calloc(1, sizeof *made);
  if (!made) return ch_no_memory(error);
  const ch_team team = ch_team_of(settings->threads);
  ch_team_before before = ch_team_enter(&team);
  ch_status status = ch_coordinates_make(settings, made, error);
  ch_team_leave(before);
  if (status == CH_OK) status = write_page(settings, made, error);
  if (status == CH_OK && coordinates)
    *coordinates = made;
  else
    ch_coordinates_free(made);
  return status;
}

void ch_coordinates_free(ch_coordinates *coordinates) {
  if (!coordinates) return;
  ch_arena_free(&coordinates->about.arena);
  free(coordinates);
}

void ch_coordinates_grid(const ch_coordinates *coordinates, ch_coordinate_grid *grid) {
  *grid = coordinates->grid;
}

const ch_coordinate_model *ch_coordinates_model(const ch_coordinates *coordinates, int32_t index) {
  return index >= 0 && index < coordinates->grid.model_count ? &coordinates->models[index] : NULL;
}

ch_status ch_coordinates_json(const ch_coordinates *coordinates, char **json, ch_error *error) {
  return ch_api_json(ch_coordinates_to_json(coordinates), json, error);
}

ch_status ch_coordinates_table(const ch_coordinates *coordinates, char **text, ch_error *error) {
  ch_text table = {0};
  ch_coordinates_table_write(coordinates, &table);
  return ch_api_text(&table, text, error);
}

ch_status ch_coordinates_page(const ch_coordinates *coordinates, char **html, ch_error *error) {
  ch_text page = {0};
  return ch_api_page(&page, ch_coordinates_page_write(coordinates, &page, error), html, error);
}
