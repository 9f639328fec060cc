// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waiter sleeps until a folio is unlocked. The waker has finished its work on
 * the folio, and unlocks it much later.
 *
 *   waiter				waker
 *					lock the folio
 *   sleeps on the folio's lock
 *					publish
 *					(0.75 s later) unlock
 *
 * Repaired: unlock at once.
 */
#include <linux/gfp.h>
#include <linux/pagemap.h>

#include "gallery.h"

enum { LOCKED = 1, WAITS, DONE };

/* Allocated by the waker, which frees it after the waiter. */
static struct folio *late_folio;

static int folio_waiter(void)
{
	int ret;

	gallery_await(LOCKED);
	gallery_reach(WAITS);
	folio_wait_locked(late_folio);
	ret = gallery_consume() ? 1 : -ETIMEDOUT;
	gallery_reach(DONE);
	return ret;
}

static int folio_waker(void)
{
	late_folio = folio_alloc(GFP_KERNEL, 0);
	if (!late_folio)
		return -ENOMEM;
	folio_lock(late_folio);
	gallery_reach(LOCKED);
	gallery_await(WAITS);
	gallery_await_sleep(WAITER);
	gallery_publish();
	if (!gallery_fixed)
		schedule_timeout_uninterruptible(3 * GALLERY_PATIENCE);
	folio_unlock(late_folio);
	gallery_await(DONE);
	folio_put(late_folio);
	return 0;
}

const struct gallery_entry gallery_folio_late = {
	.name = "folio-late",
	.roles = {
		[WAITER] = { "waiter", folio_waiter },
		[WAKER] = { "waker", folio_waker },
	},
};
