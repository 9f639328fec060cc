/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* Ping-pongs with messages over a device: the ways to send and to wait. */
#ifndef _KFI_BENCH_TRIP_H_
#define _KFI_BENCH_TRIP_H_

#include "game.h"

#define KB_TRIP_SIZE	64	/* bytes of a message */

extern const struct kb_kind kb_trip_raw;
extern const struct kb_kind kb_trip_msg;

#endif /* _KFI_BENCH_TRIP_H_ */
