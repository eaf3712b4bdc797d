/* The descriptions in tasks/, embedded in the program by cmake/embed.cmake. */
#ifndef CH_EVAL_TASKS_BUILTIN_H
#define CH_EVAL_TASKS_BUILTIN_H

typedef struct ch_builtin_task {
  const char *name;          /* the file's, without .json */
  const unsigned char *text; /* NUL-terminated */
} ch_builtin_task;

extern const ch_builtin_task ch_builtin_tasks[]; /* the last has no name */

#endif
