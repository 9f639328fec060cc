// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * All tags are taken at the start. One request waits for a tag, another frees one.
 */
#include <prove.h>

#include "tags.h"

static struct tag_pool pool;

static void setup(void)
{
	int tag;

	tag_pool_init(&pool);
	for (tag = 0; tag < TAGS; tag++)
		tag_get(&pool);
}

static void waiter(void)
{
	prove_check(tag_get(&pool) == 1, "the tag that was freed is taken");
}

static void holder(void)
{
	tag_put(&pool, 1);
}

PROVE_SCENARIO(tags_one_freed, .says = "a request waits for a tag, another request frees one",
	       .setup = setup,
	       .threads = { { "waiter", waiter }, { "holder", holder } });
