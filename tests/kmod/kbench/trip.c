// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * trip ADDR KIND POLICY ROUNDS CPU CPU TIMEOUT: two kthreads send each other
 * messages in turn over the device with that address, and sleep until one has come
 * (game.h).
 *
 *	raw	queue pairs, a completion handler, and wait_event()
 *	msg	connected endpoints of kfabric, a CQ in a wait set, and kfi_wait()
 */
#include "trip.h"

int kb_trip(struct kb *kb, const char *args)
{
	char addr[KB_ADDR_MAX], name[8];
	int len;

	if (sscanf(args, "%15s %7s%n", addr, name, &len) != 2)
		return -EINVAL;
	if (!strcmp(name, kb_trip_raw.name))
		return kb_game(kb, &kb_trip_raw, addr, args + len);
	if (!strcmp(name, kb_trip_msg.name))
		return kb_game(kb, &kb_trip_msg, addr, args + len);
	return -EINVAL;
}
