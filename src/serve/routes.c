/* The table of routes. Routes that other servers have and this one lacks are refused with an alternative. */
#include "serve/routes.h"

#include <string.h>

#include "serve/metrics.h"

static const ch_route routes[] = {
    {.path = "/", .get = ch_get_page, .open = true},
    {.path = "/health", .get = ch_get_health, .open = true},
    {.path = "/v1/health", .get = ch_get_health, .open = true},
    {.path = "/v1/models", .get = ch_get_models},
    {.path = "/models", .get = ch_get_models},
    {.path = "/v1/models/", .get = ch_get_model},
    {.path = "/props", .get = ch_get_props},
    {.path = "/slots", .get = ch_get_slots},
    {.path = "/metrics", .get = ch_get_metrics},
    {.path = "/tokenizer_info", .get = ch_get_tokenizer_info},
    {.path = "/tokenize", .post = ch_post_tokenize},
    {.path = "/detokenize", .post = ch_post_detokenize},
    {.path = "/apply-template", .post = ch_post_apply_template},
    {.path = "/v1/completions", .post = ch_post_completions},
    {.path = "/v1/chat/completions", .post = ch_post_chat},
    {.path = "/chat/completions", .post = ch_post_chat},
    {.path = "/completion", .post = ch_post_native},
};
enum { ROUTES = sizeof routes / sizeof *routes };
_Static_assert(ROUTES + 1 <= CH_ENDPOINTS, "every route is counted, and all other paths together");

/* Routes of other servers that do not exist here, with the alternative. */
static const struct {
  const char *path, *why;
} absent[] = {
    {"/completions", "is ambiguous; use /v1/completions (OpenAI's form) or /completion (llama.cpp's)."},
    {"/v1/embeddings", "is not supported: these models are causal and have no pooling head, so their "
                       "embeddings would be misleading."},
    {"/embeddings", "is not supported: these models are causal and have no pooling head, so their embeddings "
                    "would be misleading."},
    {"/embedding", "is not supported: these models are causal and have no pooling head, so their embeddings "
                   "would be misleading."},
    {"/v1/responses", "is not supported; use /v1/chat/completions."},
    {"/infill", "is not supported; use /v1/completions."},
    {"/rerank", "is not supported: these models have no ranking head."},
    {"/v1/rerank", "is not supported: these models have no ranking head."},
    {"/reranking", "is not supported: these models have no ranking head."},
};
enum { ABSENT = sizeof absent / sizeof *absent };

void ch_route_tidy(char *path) {
  char *to = path;
  for (const char *p = path; *p; p++)
    if (*p != '/' || to == path || to[-1] != '/') *to++ = *p;
  if (to - path > 1 && to[-1] == '/') to--;
  *to = 0;
}

const ch_route *ch_route_find(const char *path, const char **rest) {
  *rest = "";
  for (int i = 0; i < ROUTES; i++) {
    size_t size = strlen(routes[i].path);
    bool open_ended = size > 1 && routes[i].path[size - 1] == '/';
    if (open_ended ? strncmp(path, routes[i].path, size) : strcmp(path, routes[i].path)) continue;
    *rest = path + size;
    return &routes[i];
  }
  return NULL;
}

bool ch_route_refuse(const char *path, ch_refusal *refusal) {
  for (int i = 0; i < ABSENT; i++)
    if (strcmp(path, absent[i].path) == 0)
      return ch_refuse(refusal, 404, "not_found", NULL, "%s %s", path, absent[i].why);
  if (strncmp(path, "/api/", 5) == 0)
    return ch_refuse(refusal, 404, "not_found", NULL,
                     "Ollama's routes under /api/ are not supported; use OpenAI's under /v1.");
  return ch_refuse(refusal, 404, "not_found", NULL,
                   "There is no %.200s; the API is at /v1/chat/completions, /v1/completions and /v1/models.",
                   path);
}

int ch_route_endpoint(const ch_route *route) {
  return route ? (int)(route - routes) : ROUTES;
}

int ch_route_endpoints(const char *const **names) {
  static const char *all[ROUTES + 1];
  for (int i = 0; i < ROUTES; i++) all[i] = routes[i].path;
  all[ROUTES] = "other";
  *names = all;
  return ROUTES + 1;
}
