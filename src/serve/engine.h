/* The engine: one thread that owns the model's session and generates the text of all jobs. */
#ifndef CH_SERVE_ENGINE_H
#define CH_SERVE_ENGINE_H

#include "serve/server.h"

/* Runs the engine's thread until ch_engine_quit. */
void ch_engine_run(ch_server *server);

#endif
