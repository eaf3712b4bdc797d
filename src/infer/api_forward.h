/* Includes that api_forward.c and api_forward_files.c share. */
#ifndef CH_INFER_API_FORWARD_H
#define CH_INFER_API_FORWARD_H

#include <crosshead/forward.h>

#include "infer/model.h"
#include "infer/session.h"

#endif
