/* The letter of a choice that a written answer names, by the harness's filter multi_choice_regex. */
#ifndef CH_EVAL_TASKS_ANSWER_CHOICE_H
#define CH_EVAL_TASKS_ANSWER_CHOICE_H

#include "eval/tasks/written_answer.h"

/* Checks that a field is a list of texts that letters can label. */
ch_status ch_answer_check_choices(const json_t *choices, ch_error *error);
/* Applies the step to a text. Returns a new text, or NULL with *error filled. `choices` must have passed
 * ch_answer_check_choices. */
json_t *ch_answer_choose(const ch_filter_step *step, ch_template_scope *scope, const json_t *text,
                         const json_t *choices, ch_error *error);

#endif
