/* All tasks of RULER as one: "ruler", or with a length "ruler@4k". */
#ifndef CH_API_EVALUATE_RULER_H
#define CH_API_EVALUATE_RULER_H

#include <crosshead/evaluate.h>

bool ch_is_ruler_suite(const char *task);
/* The object of ch_evaluate_task with the mean recall of all tasks; "groups" has a row for each task, and for each length where
   there are several. */
ch_status ch_evaluate_ruler(const ch_model *model, const char *task, const ch_evaluate_settings *settings,
                            char **json, ch_error *error);

#endif
