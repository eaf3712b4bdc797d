/* Checking, staging and replacing outputs. */
#define _GNU_SOURCE
#include "cli/destination.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_names.h"
#include "cli/recognise.h"

/* --- what may be replaced ---------------------------------------------------------------------------------------- */

ch_status ch_refuse_standing(const char *option, const char *path, ch_error *error) {
  ch_occupant s = ch_recognise(path);
  if (s.kind == CH_STANDS_OTHER)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s %s is a special file; give another name", option, path);
  if (s.kind == CH_STANDS_DIRECTORY && !s.ours)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--%s %s holds %s%s%s, which Crosshead did not write and --force does not replace; give "
                   "another directory",
                   option, path, s.what ? s.what : "", s.what ? " and " : "", s.stranger);
  if (s.kind == CH_STANDS_FILE && !s.ours)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--%s %s is a file that Crosshead did not write (neither JSON, safetensors nor GGUF) and "
                   "--force does not replace; give another name",
                   option, path);
  return ch_fail(error, CH_ERROR_ARGUMENT, "--%s %s %s %s; --force replaces it, or give another name", option,
                 path, s.kind == CH_STANDS_FILE ? "is already" : "already holds", s.what);
}

/* True when `inner` is `outer` or lies in it; both as realpath writes them. */
static bool lies_in(const char *inner, const char *outer) {
  size_t length = strlen(outer);
  if (strcmp(outer, "/") == 0) return true;
  return strncmp(inner, outer, length) == 0 && (!inner[length] || inner[length] == '/');
}

/* Directories that no command may take away, whatever is in them. */
static const char *why_needed(const char *whole) {
  char here[PATH_MAX], home_whole[PATH_MAX];
  const char *home = getenv("HOME");
  struct stat own, parent;
  char *above = ch_path_join(whole, "..");
  if (strcmp(whole, "/") == 0) {
    free(above);
    return "the root of the file system";
  }
  bool mounted = above && stat(whole, &own) == 0 && stat(above, &parent) == 0 && own.st_dev != parent.st_dev;
  free(above);
  if (home && realpath(home, home_whole) && lies_in(home_whole, whole)) return "your home directory";
  if (getcwd(here, sizeof here) && lies_in(here, whole)) return "the directory that you are in";
  return mounted ? "a mount point" : NULL;
}

static ch_status check_replaceable(const ch_destination *d, ch_error *error) {
  char whole[PATH_MAX];
  ch_occupant s = ch_recognise(d->place);
  if (s.kind == CH_STANDS_OTHER || (s.kind == CH_STANDS_FILE && !s.ours))
    return ch_refuse_standing(d->option->name, d->path, error);
  if (s.kind != CH_STANDS_DIRECTORY) return CH_OK;
  const char *needed = s.link                      ? "a symbolic link"
                       : realpath(d->place, whole) ? why_needed(whole)
                                                   : "not readable";
  if (needed)
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--%s %s is %s, which --force does not replace; give another directory", d->option->name,
                   d->path, needed);
  return s.ours ? CH_OK : ch_refuse_standing(d->option->name, d->path, error);
}

/* --- what the command reads -------------------------------------------------------------------------------------- */

static ch_status check_input(const ch_destination *d, const char *whole, const char *input, ch_error *error) {
  char inside[PATH_MAX];
  if (!realpath(input, inside) || !lies_in(inside, whole)) return CH_OK;
  if (strcmp(inside, whole) == 0)
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s %s is what this command reads; give another name",
                   d->option->name, d->path);
  return ch_fail(error, CH_ERROR_ARGUMENT, "--%s %s holds %s, which this command reads; give another name",
                 d->option->name, d->path, input);
}

/* "a.txt,b.txt" too. */
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

static ch_status check_all_inputs(const ch_destination *d, const ch_command *command, const ch_parsed *parsed,
                                  ch_error *error) {
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

/* --- opening ----------------------------------------------------------------------------------------------------- */

static char *trimmed(const char *path) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  return strndup(path, length);
}

/* A name beside the place for what is not finished. A command that was killed may have left it. */
static ch_status choose_work(ch_destination *d, ch_error *error) {
  if (asprintf(&d->work, "%s.partial", d->place) < 0) {
    d->work = NULL;
    return ch_no_memory(error);
  }
  ch_occupant s = ch_recognise_partial(d->work);
  bool gone =
      s.kind == CH_STANDS_NOTHING || ((s.ours || s.kind == CH_STANDS_EMPTY) && ch_delete_tree(d->work));
  if (gone) return CH_OK;
  ch_fail(error, CH_ERROR_ARGUMENT,
          "%s is in the way: --%s %s is written there until it is whole; move it away or give another name",
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
  ch_fail(error, CH_ERROR_IO, "cannot set %s aside as %s: %s", d->place, d->old, strerror(errno));
  free(d->old);
  d->old = NULL;
  return CH_ERROR_IO;
}

/* A job may continue what stands in its directory: then the command decides, which knows its settings. */
static ch_status open_job(ch_destination *d, ch_standing_kind kind, bool force, ch_error *error) {
  if (kind == CH_STANDS_FILE || kind == CH_STANDS_OTHER) {
    if (!force || kind == CH_STANDS_OTHER) return ch_refuse_standing(d->option->name, d->path, error);
  } else if (!force || kind != CH_STANDS_DIRECTORY) {
    return CH_OK;
  }
  return set_aside(d, error);
}

static ch_status open_one(ch_destination *d, const ch_command *command, const ch_parsed *parsed, bool force,
                          ch_error *error) {
  bool job = d->option->writes == CH_WRITES_JOB, file = d->option->writes == CH_WRITES_FILE;
  d->place = trimmed(d->path);
  if (!d->place) return ch_no_memory(error);
  ch_occupant standing = ch_recognise(d->place);
  ch_standing_kind kind = standing.kind;
  if (force || !job) CH_TRY(check_all_inputs(d, command, parsed, error));
  if (force) CH_TRY(check_replaceable(d, error));
  if (job) return open_job(d, kind, force, error);
  if (kind != CH_STANDS_NOTHING && kind != CH_STANDS_EMPTY && !force)
    return ch_refuse_standing(d->option->name, d->path, error);
  if (file && (kind == CH_STANDS_EMPTY || kind == CH_STANDS_DIRECTORY))
    return ch_fail(error, CH_ERROR_ARGUMENT, "--%s %s is a directory; name a file", d->option->name, d->path);
  /* Files are written beside and renamed by those who write them. The directory that the user is in cannot be exchanged,
     and a link stays a link. */
  char whole[PATH_MAX];
  bool fixed = kind == CH_STANDS_EMPTY && (standing.link || (realpath(d->place, whole) && why_needed(whole)));
  return file || fixed ? CH_OK : choose_work(d, error);
}

static bool flag(const ch_command *command, const ch_parsed *parsed, const char *name) {
  for (int i = 0; command->options && command->options[i].name; i++)
    if (strcmp(command->options[i].name, name) == 0) return parsed->given[i];
  return false;
}

ch_status ch_destinations_open(const ch_command *command, const ch_parsed *parsed, ch_destinations *all,
                               ch_error *error) {
  bool force = flag(command, parsed, "force");
  *all = (ch_destinations){0};
  if (force && flag(command, parsed, "resume"))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--resume continues what stands in --out, and --force replaces it; give one of them");
  if (force && flag(command, parsed, "dry-run"))
    return ch_fail(error, CH_ERROR_ARGUMENT,
                   "--dry-run writes nothing, and --force replaces; give one of them");
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

/* --- closing ----------------------------------------------------------------------------------------------------- */

/* The new one takes the old one's place in one step where the file system can do that. */
static ch_status put_in_place(ch_destination *d, ch_error *error) {
  struct stat info;
  if (lstat(d->work, &info) != 0) return CH_OK; /* nothing was written */
  if (renameat2(AT_FDCWD, d->work, AT_FDCWD, d->place, RENAME_EXCHANGE) == 0) {
    d->old = d->work;
    d->work = NULL;
    return CH_OK;
  }
  if (lstat(d->place, &info) == 0) CH_TRY(set_aside(d, error));
  if (rename(d->work, d->place) == 0) return CH_OK;
  return ch_fail(error, CH_ERROR_IO, "cannot rename %s to %s: %s", d->work, d->place, strerror(errno));
}

/* A new run that can be continued is worth more than the one that it was to replace. */
static bool can_be_continued(const ch_destination *d) {
  static const char *const marks[] = {CH_TRAIN_CHECKPOINT, CH_COMPARE_SETTINGS, CH_SWEEP_SETTINGS, NULL};
  bool can = false;
  for (int i = 0; marks[i] && !can; i++) {
    char *path = ch_path_join(d->place, marks[i]);
    can = path && ch_is_file(path);
    free(path);
  }
  return can;
}

static ch_status delete_old(const ch_destination *d, ch_status status, ch_error *error) {
  if (ch_delete_tree(d->old) || status != CH_OK) return status;
  return ch_fail(error, CH_ERROR_IO, "%s is new, but what it replaces cannot be deleted from %s: %s", d->path,
                 d->old, strerror(errno));
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
  bool stays = status == CH_OK || (d->option->writes == CH_WRITES_JOB && can_be_continued(d));
  if (d->old) status = stays ? delete_old(d, status, error) : restore(d, status, error);
  if (d->work && lstat(d->work, &info) == 0) ch_delete_tree(d->work);
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

/* --- jobs -------------------------------------------------------------------------------------------------------- */

ch_status ch_check_job(const char *option, const char *path, const char *settings, ch_error *error) {
  ch_standing_kind kind = ch_recognise(path).kind;
  char *file = settings ? ch_path_join(path, settings) : NULL;
  bool own = file && ch_is_file(file);
  free(file);
  if (own || kind == CH_STANDS_NOTHING || kind == CH_STANDS_EMPTY || ch_holds_prepared_text(path))
    return CH_OK;
  return ch_refuse_standing(option, path, error);
}
