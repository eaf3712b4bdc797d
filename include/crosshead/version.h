/* The version of these headers, which the build reads too. */
#ifndef CROSSHEAD_VERSION_H
#define CROSSHEAD_VERSION_H

#define CH_VERSION_MAJOR 0
#define CH_VERSION_MINOR 2
#define CH_VERSION_PATCH 0
#define CH_VERSION_STRING "0.2.0"

#endif
