/* Reads the object "ruler" of a task's description, which holds RULER's own arguments under their names, and parses the
 * names of RULER's tasks. */
#include <string.h>

#include "eval/tasks/task_reading.h"

/* Reads a name and returns its index in `names` [NULL-terminated]; 0 if the key is missing. */
static int one_of(ch_task_reader *r, const json_t *object, const char *key, const char *const *names,
                  const char *what) {
  const char *name = ch_task_text(r, object, key, names[0]);
  for (int i = 0; name && names[i]; i++)
    if (strcmp(names[i], name) == 0) return i;
  ch_task_wrong(r, key, what);
  return 0;
}

static void read_needles(ch_task_reader *r, const json_t *object, ch_ruler *ruler) {
  static const char *const haystacks[] = {"noise", "essay", "needle", NULL};
  static const char *const contents[] = {"words", "numbers", "uuids", NULL};
  static const char *const keys[] = {"task",         "type_haystack", "type_needle_k", "type_needle_v",
                                     "num_needle_k", "num_needle_v",  "num_needle_q",  NULL};
  ch_task_check_keys(r, object, keys);
  ruler->type_haystack =
      (ch_ruler_haystack)one_of(r, object, "type_haystack", haystacks, "must be noise, essay or needle");
  ruler->type_needle_k =
      (ch_ruler_content)one_of(r, object, "type_needle_k", contents, "must be words, numbers or uuids");
  ruler->type_needle_v =
      (ch_ruler_content)one_of(r, object, "type_needle_v", contents, "must be words, numbers or uuids");
  if (!json_object_get(object, "type_needle_v")) ruler->type_needle_v = CH_RULER_NUMBERS;
  ruler->num_needle_k = (int)ch_task_count(r, object, "num_needle_k", 1, 1, CH_RULER_MOST_NEEDLES);
  ruler->num_needle_v = (int)ch_task_count(r, object, "num_needle_v", 1, 1, CH_RULER_MOST_NEEDLES);
  ruler->num_needle_q = (int)ch_task_count(r, object, "num_needle_q", 1, 1, CH_RULER_MOST_NEEDLES);
  int named = ruler->num_needle_k > ruler->num_needle_q ? ruler->num_needle_k : ruler->num_needle_q;
  if (named * ruler->num_needle_v > CH_RULER_MOST_NEEDLES)
    ch_task_wrong(r, "num_needle_v", "makes more than 40 needles");
}

static void read_kind(ch_task_reader *r, const json_t *object, ch_ruler *ruler) {
  static const char *const tasks[] = {
      "niah", "variable_tracking", "common_words_extraction", "freq_words_extraction", "qa", NULL};
  static const char *const tracking[] = {"task", "num_chains", "num_hops", NULL};
  static const char *const common[] = {"task", "freq_cw", "freq_ucw", "num_cw", NULL};
  static const char *const plain[] = {"task", NULL};
  ruler->kind =
      (ch_ruler_kind)(CH_RULER_NEEDLES + one_of(r, object, "task", tasks,
                                                "must be niah, variable_tracking, common_words_extraction, "
                                                "freq_words_extraction or qa"));
  if (ruler->kind == CH_RULER_NEEDLES) read_needles(r, object, ruler);
  if (ruler->kind == CH_RULER_TRACKING) ch_task_check_keys(r, object, tracking);
  if (ruler->kind == CH_RULER_COMMON) ch_task_check_keys(r, object, common);
  if (ruler->kind >= CH_RULER_FREQUENT) ch_task_check_keys(r, object, plain);
  ruler->num_chains = (int)ch_task_count(r, object, "num_chains", 1, 1, CH_RULER_MOST_CHAINS);
  ruler->num_hops = (int)ch_task_count(r, object, "num_hops", 4, 1, CH_RULER_MOST_HOPS);
  ruler->freq_cw = (int)ch_task_count(r, object, "freq_cw", 30, 1, 1000);
  ruler->freq_ucw = (int)ch_task_count(r, object, "freq_ucw", 3, 1, 1000);
  ruler->num_cw = (int)ch_task_count(r, object, "num_cw", 10, 1, 20);
}

void ch_task_read_ruler(ch_task_reader *r, ch_task *task) {
  const json_t *object = json_object_get(task->root, "ruler");
  if (!object) return;
  if (!json_is_object(object))
    ch_task_wrong(r, "ruler", "must be an object");
  else if (task->output != CH_TASK_GENERATE)
    ch_task_wrong(r, "ruler", "is for generate_until only");
  else
    read_kind(r, object, &task->ruler);
}

bool ch_task_is_ruler_suite(const char *name) {
  return strncmp(name, "ruler", 5) == 0 && (name[5] == 0 || name[5] == '@');
}

const char *ch_task_name_end(const char *name) {
  const char *at = strncmp(name, "ruler", 5) == 0 ? strchr(name, '@') : NULL;
  return at ? at : name + strlen(name);
}
