/* The pass that ch_forward runs, for other parts of the library. */
#ifndef CH_INFER_API_FORWARD_H
#define CH_INFER_API_FORWARD_H

#include <crosshead/forward.h>

#include "infer/model.h"
#include "infer/session.h"

#endif
