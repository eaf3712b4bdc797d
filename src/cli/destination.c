/* Checks, stages and replaces outputs. New directories are written next to their final path and renamed when the
   command has succeeded. The directory of a job that --force replaces is renamed while the command runs, and restored
   if it fails. */
#define _GNU_SOURCE
#include "cli/destination.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_names.h"
#include "cli/inspect_output.h"

/* --- outputs that may not be replaced ----------------------------------------------------------------------- */

static ch_status refuse(const char *option, const char *path, const ch_occupant *s, ch_error *error) {
  bool directory = s->kind == CH_HOLDS_DIRECTORY;
  const char *stranger = s->stranger[0] ? s->stranger : s->what ? NULL : "files that belong to no model";
  if (!stranger)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s %s %s %s; --force replaces it, or give another name",
                   option, path, directory ? "already holds" : "is already", s->what);
  return ch_fail(error, CH_ERROR_ARGUMENT,
                 "--%s %s %s %s%s%s, which Crosshead did not write and --force does not replace; give "
                 "another name",
                 option, path, directory ? "holds" : "is", directory && s->what ? s->what : "",
                 directory && s->what ? " and " : "", stranger);
}

/* Returns true if `inner` is `outer` or inside it. Both are results of realpath. */
static bool lies_in(const char *inner, const char *outer) {
  size_t length = strlen(outer);
  if (strcmp(outer, "/") == 0) return true;
  return strncmp(inner, outer, length) == 0 && (!inner[length] || inner[length] == '/');
}

/* --- inputs in the replaced output -------------------------------------------------------------------------- */

static ch_status check_input(const ch_destination *d, const char *whole, const char *input, ch_error *error) {
  char inside[PATH_MAX];
  if (!realpath(input, inside) || !lies_in(inside, whole)) return CH_OK;
  if (strcmp(inside, whole) == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s %s is an input of this command; give another name",
                   d->option->name, d->path);
  return ch_fail(error, CH_ERROR_ARGUMENT, "--%s %s holds %s, an input of this command; give another name",
                 d->option->name, d->path, input);
}

/* Fails if the output is an input of the command, or contains one. `names` is an input, or a list of inputs such as
   "a.txt,b.txt". */
static ch_status check_inputs(const ch_destination *d, const char *whole, const char *names,
                              ch_error *error) {
  CH_TRY(check_input(d, whole, names, error));
  for (const char *p = names; strchr(names, ',') && *p;) {
    char name[PATH_MAX];
    size_t length = strcspn(p, ",");
    snprintf(name, sizeof name, "%.*s", (int)length, p);
    if (*name) CH_TRY(check_input(d, whole, name, error));
    p += length + (p[length] == ',');
  }
  return CH_OK;
}

static ch_status check_all_inputs(const ch_destination *d, const ch_command *command,
                                  const ch_command_line *parsed, ch_error *error) {
  char whole[PATH_MAX];
  const char *const *positional = parsed->arguments;
  if (!realpath(d->place, whole)) return CH_OK;
  for (int i = 0; i < CH_POSITIONAL_MAX && positional[i]; i++)
    CH_TRY(check_inputs(d, whole, positional[i], error));
  for (int i = 0; command->options[i].name; i++) {
    const ch_option *o = &command->options[i];
    if (!parsed->given[i] || o->writes || (o->type != CH_OPTION_PATH && o->type != CH_OPTION_TEXT)) continue;
    CH_TRY(check_inputs(d, whole, *(const char *const *)(const void *)((char *)parsed->arguments + o->offset),
                        error));
  }
  return CH_OK;
}

/* --- opening ------------------------------------------------------------------------------------------------ */

/* Returns the path without symbolic links. The path of a new output loses the slashes at its end. */
static char *resolve(const char *path) {
  char *whole = realpath(path, NULL);
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  return whole ? whole : strndup(path, length);
}

/* Chooses the path to write a directory to, and deletes the files that a killed command left there. */
static ch_status choose_work(ch_destination *d, ch_error *error) {
  if (asprintf(&d->work, "%s.partial", d->place) < 0) {
    d->work = NULL;
    return ch_no_memory(error);
  }
  ch_occupant s = ch_inspect_output(d->work);
  if (s.kind == CH_HOLDS_NOTHING || (!s.stranger[0] && ch_delete_tree(d->work))) return CH_OK;
  ch_fail(error, CH_ERROR_ARGUMENT,
          "%s exists, but the unfinished --%s %s is written there; move it away or give another name",
          d->work, d->option->name, d->path);
  free(d->work);
  d->work = NULL;
  return CH_ERROR_ARGUMENT;
}

static ch_status set_aside(ch_destination *d, ch_error *error) {
  if (asprintf(&d->old, "%s.replaced.%ld", d->place, (long)getpid()) < 0) {
    d->old = NULL;
    return ch_no_memory(error);
  }
  if (rename(d->place, d->old) == 0) return CH_OK;
  ch_fail(error, CH_ERROR_IO, "cannot rename %s to %s: %s", d->place, d->old, strerror(errno));
  free(d->old);
  d->old = NULL;
  return CH_ERROR_IO;
}

/* Opens an output. An existing one is an error, except the directory of a job, which the command checks itself.
 * --force replaces an output if everything in it has a name or format that Crosshead writes. */
static ch_status open_one(ch_destination *d, const ch_command *command, const ch_command_line *parsed,
                          bool force, ch_error *error) {
  char here[PATH_MAX];
  bool job = d->option->writes == CH_WRITES_JOB, file = d->option->writes == CH_WRITES_FILE;
  d->place = resolve(d->path);
  if (!d->place) return ch_no_memory(error);
  ch_occupant s = ch_inspect_output(d->place);
  bool directory = s.kind == CH_HOLDS_DIRECTORY || s.kind == CH_HOLDS_EMPTY_DIRECTORY;
  bool occupied = s.kind == CH_HOLDS_DIRECTORY || s.kind == CH_HOLDS_FILE;
  d->began_empty = s.kind == CH_HOLDS_EMPTY_DIRECTORY;
  if (file && directory)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s %s is a directory; name a file", d->option->name, d->path);
  if (job && directory && !force) return CH_OK; /* the command decides if it continues this job */
  CH_TRY(check_all_inputs(d, command, parsed, error));
  if (occupied && (!force || s.stranger[0] || !s.what)) return refuse(d->option->name, d->path, &s, error);
  if (occupied && directory && getcwd(here, sizeof here) && lies_in(here, d->place))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--%s %s is the directory that you are in, which --force does not replace; give another "
                   "directory",
                   d->option->name, d->path);
  if (!job) return file || d->began_empty ? CH_OK : choose_work(d, error);
  if (!occupied) return CH_OK;
  CH_TRY(set_aside(d, error));
  return ch_make_directory(d->place, error);
}

static bool flag(const ch_command *command, const ch_command_line *parsed, const char *name) {
  for (int i = 0; command->options && command->options[i].name; i++)
    if (strcmp(command->options[i].name, name) == 0) return parsed->given[i];
  return false;
}

ch_status ch_destinations_open(const ch_command *command, const ch_command_line *parsed, ch_destinations *all,
                               ch_error *error) {
  bool force = flag(command, parsed, "force");
  *all = (ch_destinations){0};
  if (force && flag(command, parsed, "resume"))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--resume continues the run in --out, and --force replaces it; give one of them");
  if (force && flag(command, parsed, "dry-run"))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--dry-run and --force exclude each other; give one of them");
  for (const ch_option *o = command->options; o && o->name; o++) {
    if (!o->writes) continue;
    const char *path = *(const char *const *)(const void *)((char *)parsed->arguments + o->offset);
    if (!path || all->count == CH_MOST_DESTINATIONS) continue;
    ch_destination *d = &all->list[all->count++];
    *d = (ch_destination){.option = o, .path = path};
    ch_status status = open_one(d, command, parsed, force, error);
    if (status != CH_OK) return ch_destinations_close(all, status, error);
  }
  return CH_OK;
}

const char *ch_destinations_path(const ch_destinations *all, const char *option) {
  for (int i = 0; i < all->count; i++)
    if (strcmp(all->list[i].option->name, option) == 0)
      return all->list[i].work ? all->list[i].work : all->list[i].path;
  return NULL;
}

/* --- closing ------------------------------------------------------------------------------------------------ */

static ch_status put_in_place(ch_destination *d, ch_error *error) {
  struct stat info;
  if (lstat(d->work, &info) != 0) return CH_OK; /* nothing was written */
  if (lstat(d->place, &info) == 0) CH_TRY(set_aside(d, error));
  if (rename(d->work, d->place) == 0) return CH_OK;
  return ch_fail(error, CH_ERROR_IO, "cannot rename %s to %s: %s", d->work, d->place, strerror(errno));
}

/* Returns true if the output holds a job that can be continued, and not only prepared text. The replaced output is
   then not restored. */
static bool can_be_continued(const ch_destination *d) {
  const char *what = ch_inspect_output(d->place).what;
  return d->option->writes == CH_WRITES_JOB && what && strcmp(what, "a prepared text") != 0;
}

static ch_status delete_old(const ch_destination *d, ch_status status, ch_error *error) {
  if (ch_delete_tree(d->old) || status != CH_OK) return status;
  return ch_fail(error, CH_ERROR_IO, "%s was written, but the old version in %s cannot be deleted: %s",
                 d->path, d->old, strerror(errno));
}

static ch_status restore(const ch_destination *d, ch_status status, ch_error *error) {
  struct stat info;
  bool free_place = lstat(d->place, &info) != 0 || ch_delete_tree(d->place);
  if (free_place && rename(d->old, d->place) == 0) return status;
  return ch_fail(error, CH_ERROR_IO, "cannot rename %s back to %s: %s", d->old, d->place, strerror(errno));
}

static ch_status close_one(ch_destination *d, ch_status status, ch_error *error) {
  struct stat info;
  if (d->work && status == CH_OK) status = put_in_place(d, error);
  bool stays = status == CH_OK || can_be_continued(d);
  if (d->old) status = stays ? delete_old(d, status, error) : restore(d, status, error);
  if (d->work && lstat(d->work, &info) == 0) ch_delete_tree(d->work);
  if (d->began_empty && !stays && !ch_inspect_output(d->place).stranger[0]) ch_delete_inside(d->place);
  return status;
}

ch_status ch_destinations_close(ch_destinations *all, ch_status status, ch_error *error) {
  for (int i = 0; i < all->count; i++) {
    ch_destination *d = &all->list[i];
    status = close_one(d, status, error);
    free(d->place);
    free(d->work);
    free(d->old);
  }
  *all = (ch_destinations){0};
  return status;
}

/* --- jobs --------------------------------------------------------------------------------------------------- */

ch_status ch_check_job(const char *option, const char *path, const char *settings, ch_error *error) {
  ch_occupant_kind kind = ch_inspect_output(path).kind;
  bool own = settings && ch_directory_has(path, settings);
  if (own || kind == CH_HOLDS_NOTHING || kind == CH_HOLDS_EMPTY_DIRECTORY || ch_holds_prepared_text(path))
    return CH_OK;
  ch_occupant s = ch_inspect_output(path);
  return refuse(option, path, &s, error);
}
