/* Starts and ends the server: opens the model, starts the threads, and ends them in order. */
#include "serve/serve.h"

#include <dirent.h>
#include <inttypes.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <crosshead/bench.h>
#include <crosshead/text.h>
#include <crosshead/version.h>

#include "base/file.h"
#include "base/random.h"
#include "serve/info_routes.h"
#include "serve/request_worker.h"
#include "serve/engine.h"
#include "serve/http.h"
#include "serve/connection_monitor.h"
#include "serve/routes.h"

enum { LEAST_BUDGET = 64 << 20, LARGEST_TEMPLATE = 1 << 20 };

/* --- opening -------------------------------------------------------------------------------------------- */

static ch_status open_model(ch_server *server, ch_error *error) {
  const ch_serve_settings *settings = server->settings;
  CH_TRY(ch_model_open_with(settings->directory, &settings->model, &server->model, error));
  if (ch_model_takes_images(server->model))
    return ch_fail(error, CH_ERROR_ARGUMENT, "serve is for models of text; this one, a \"%s\", is for images",
                   ch_model_type(server->model));
  server->tokenizer = ch_model_tokenizer(server->model);
  if (!server->tokenizer)
    return ch_fail(error, CH_ERROR_IO, "%s holds neither tokenizer.json nor tokenizer.bin",
                   settings->directory);
  server->vocabulary = ch_model_vocab_size(server->model);
  return CH_OK;
}

/* Opens the chat template. If it cannot be parsed, the server still completes texts. */
static ch_status open_chat(ch_server *server, ch_error *error) {
  const ch_serve_settings *settings = server->settings;
  ch_error why = {0};
  char *text = NULL;
  size_t size;
  if (settings->chat_template)
    CH_TRY(ch_read_file(settings->chat_template, LARGEST_TEMPLATE, &text, &size, error));
  ch_status status = text ? ch_chat_open_text(settings->directory, server->tokenizer, text,
                                              settings->chat_template, &server->chat, &why)
                          : ch_chat_open(settings->directory, server->tokenizer, &server->chat, &why);
  free(text);
  if (status == CH_OK) return CH_OK;
  if (status != CH_ERROR_FORMAT) {
    if (error) *error = why;
    return status;
  }
  snprintf(server->chat_error, sizeof server->chat_error, "%s", why.message);
  fprintf(stderr, "crosshead serve: chat is disabled because the chat template failed: %s\n", why.message);
  return CH_OK;
}

/* Appends the names, sizes and times of the model's files. */
static void put_files(ch_text *all, const char *directory) {
  struct dirent **entries;
  int count = scandir(directory, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    struct stat file;
    char *path = ch_path_join(directory, entries[i]->d_name);
    if (path && stat(path, &file) == 0 && S_ISREG(file.st_mode))
      ch_text_printf(all, "%s %lld %lld\n", entries[i]->d_name, (long long)file.st_size,
                     (long long)file.st_mtime);
    free(path);
    free(entries[i]);
  }
  if (count >= 0) free(entries);
}

/* Sets the fingerprint: a hash of the program's version, the machine, the settings and the model's files, on which
   the bits of an answer depend. */
static void note_fingerprint(ch_server *server) {
  const ch_serve_settings *settings = server->settings;
  ch_machine machine;
  ch_text all = {0};
  ch_machine_describe(&machine);
  ch_text_printf(&all, CH_VERSION_STRING " %s %d %d %d %d %d %s\n", machine.kernels, omp_get_max_threads(),
                 settings->prefill_chunk, (int)settings->session.compute, settings->session.precompute_gates,
                 settings->model.keep_dictionary, settings->cache_dtype);
  put_files(&all, settings->directory);
  snprintf(server->fingerprint, sizeof server->fingerprint, "fp_%016" PRIx64,
           ch_random_stream_of(all.data ? all.data : ""));
  ch_text_free(&all);
}

static ch_status open_generation(ch_server *server, ch_error *error) {
  const ch_serve_settings *settings = server->settings;
  ch_generation_settings generation;
  unsigned roles = 0;
  CH_TRY(ch_model_cache_roles(server->model, &roles, error));
  CH_TRY(settings->cache(settings->cache_dtype, roles, &server->session, error));
  ch_generation_defaults(&generation);
  generation.session = server->session;
  generation.chunk = settings->prefill_chunk;
  CH_TRY(ch_generation_create(server->model, &generation, &server->engine.generation, error));
  const ch_session *held = ch_generation_session(server->engine.generation);
  server->context = ch_session_capacity(held);
  server->cache_bytes = ch_session_cache_bytes(held);
  return CH_OK;
}

/* Sets the model's id: the name in the settings or, without one, the last part of the directory. */
static void note_name(ch_server *server) {
  server->name = server->settings->name;
  if (server->name) return;
  ch_path_stem(server->settings->directory, server->stem, sizeof server->stem);
  server->name = server->stem;
}

static void warn_if_open(const ch_server *server) {
  if (server->access.local || server->access.count > 0) return;
  fprintf(stderr,
          "crosshead serve: %s can be reached from other machines without an API key. Give --api-key-file, "
          "or listen on 127.0.0.1\n",
          server->address);
}

static void print_memory(const ch_server *server) {
  ch_generation_settings generation;
  ch_memory memory;
  char weights[32], cache[32], workspace[32];
  ch_generation_defaults(&generation);
  generation.session = server->session;
  generation.chunk = server->settings->prefill_chunk;
  if (ch_generation_estimate(server->model, &generation, &memory, NULL) != CH_OK) return;
  fprintf(stderr, "memory: weights %s, cache %s (%d sequences of %" PRId64 " tokens), workspace %s\n",
          ch_format_bytes((double)memory.weights, weights, sizeof weights),
          ch_format_bytes((double)server->cache_bytes, cache, sizeof cache), generation.session.sequences,
          server->context, ch_format_bytes((double)memory.workspace, workspace, sizeof workspace));
}

static ch_status open_all(ch_server *server, int *listener, ch_error *error) {
  const ch_serve_settings *settings = server->settings;
  server->access.hosts = settings->hosts;
  server->access.origins = settings->origins;
  CH_TRY(ch_access_open(&server->access, settings->key_file, settings->key, error));
  CH_TRY(open_model(server, error));
  CH_TRY(open_chat(server, error));
  CH_TRY(ch_http_listen(server, listener, error));
  CH_TRY(open_generation(server, error));
  note_name(server);
  CH_TRY(ch_info_prepare(server, error));
  note_fingerprint(server);
  return CH_OK;
}

/* --- serving -------------------------------------------------------------------------------------------- */

static void initialise(ch_server *server) {
  server->endpoint_count = ch_route_endpoints(&server->endpoints);
  pthread_mutex_init(&server->metrics.lock, NULL);
  pthread_mutex_init(&server->engine.lock, NULL);
  pthread_cond_init(&server->engine.wake, NULL);
  pthread_mutex_init(&server->worker.lock, NULL);
  pthread_cond_init(&server->worker.wake, NULL);
  size_t bodies = 4 * (size_t)server->settings->max_body;
  server->memory_limit = bodies > LEAST_BUDGET ? bodies : LEAST_BUDGET;
}

static void close_all(ch_server *server) {
  ch_generation_free(server->engine.generation);
  ch_chat_free(server->chat);
  ch_model_close(server->model);
  ch_access_free(&server->access);
  ch_text_free(&server->model_json);
  ch_text_free(&server->tokenizer_json);
  pthread_cond_destroy(&server->worker.wake);
  pthread_mutex_destroy(&server->worker.lock);
  pthread_cond_destroy(&server->engine.wake);
  pthread_mutex_destroy(&server->engine.lock);
  pthread_mutex_destroy(&server->metrics.lock);
}

static ch_status serve(ch_server *server, ch_error *error) {
  int listener = -1;
  ch_status status = open_all(server, &listener, error);
  if (status == CH_OK && !ch_request_worker_start(server))
    status = ch_fail(error, CH_ERROR_MEMORY, "no memory for a thread");
  if (status != CH_OK && listener >= 0) close(listener); /* ch_http_start hands it to the HTTP server */
  CH_TRY(status);
  CH_TRY(ch_http_start(server, listener, error));
  ch_monitor_serve(server);
  warn_if_open(server);
  print_memory(server);
  printf("serving %s on http://%s\n", server->name, server->address);
  fflush(stdout);
  ch_engine_run(server);
  if (!atomic_load(&server->cut)) return CH_OK;
  return ch_fail(error, CH_ERROR_INTERRUPTED, "requests were aborted after %g s", server->settings->drain);
}

ch_status ch_serve(const ch_serve_settings *settings, ch_error *error) {
  ch_server *server = calloc(1, sizeof *server);
  sigset_t ours, before;
  if (!server) return ch_fail(error, CH_ERROR_MEMORY, "no memory for the server");
  server->settings = settings;
  server->session = settings->session;
  initialise(server);
  /* Only the monitor receives the signals. All other threads inherit the blocked mask. */
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT);
  sigaddset(&ours, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ours, &before);
  ch_status status = ch_monitor_start(server, error);
  if (status == CH_OK) {
    status = serve(server, error);
    /* The threads end in order: first the request worker, then all suspended connections are woken, then HTTP
       ends. */
    ch_request_worker_stop(server);
    ch_monitor_release(server);
    ch_http_stop(server);
    ch_monitor_stop(server);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close_all(server);
  free(server);
  return status;
}
