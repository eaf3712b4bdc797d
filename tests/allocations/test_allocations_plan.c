/* Tests that plans for a model directory and for mechanisms by name survive the failure of any allocation. */
#include "allocations/every_allocation.h"

#include <crosshead/common.h>
#include <crosshead/plan.h>

static ch_status plan_all(const char *directory, ch_error *error) {
  (void)directory;
  const char *const models[] = {TEST_DATA "/TinyStories-656K"};
  ch_device device;
  ch_capacity_settings settings;
  ch_capacity *capacity = NULL;
  char *text = NULL;
  CH_TRY(ch_device_read("l4", &device, error));
  ch_capacity_defaults(&settings);
  settings.models = models;
  settings.model_count = 1;
  settings.mechanisms = "gqa:3,mqa+masa-qkvo,egmla";
  settings.context = 100;
  settings.devices = &device;
  settings.device_count = 1;
  CH_TRY(ch_capacity_plan(&settings, &capacity, error));
  ch_status status = ch_capacity_text(capacity, &text, error);
  ch_free(text);
  text = NULL;
  if (status == CH_OK) status = ch_capacity_json(capacity, &text, error);
  ch_free(text);
  ch_capacity_free(capacity);
  return status;
}

static void plans(void **state) {
  (void)state;
  check_every_allocation("planning", plan_all, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plans),
  };
  return RUN_ON_ONE_THREAD(tests);
}
