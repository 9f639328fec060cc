// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The two user-space loops that the bench compares, without an interpreter between the calls.
 * TSC cycles are instructions in a guest that counts them.
 */
#include <sys/ioctl.h>

#include <x86intrin.h>

/*
 * Repeat an ioctl on /dev/kfabric. Returns the cycles; @wrong is the number of calls that did not
 * return @want.
 */
unsigned long long loop_ioctl(int fd, unsigned long request, void *arg, int want,
			      unsigned long calls, unsigned long *wrong)
{
	unsigned long long start = __rdtsc();
	unsigned long i;

	*wrong = 0;
	for (i = 0; i < calls; i++)
		*wrong += ioctl(fd, request, arg) != want;
	return __rdtsc() - start;
}

/* The same for fi_poll(), which is a call through a table. */
unsigned long long loop_poll(int (*poll)(void *set, void **context, int count),
			     void *set, void **context, int count, int want,
			     unsigned long calls, unsigned long *wrong)
{
	unsigned long long start = __rdtsc();
	unsigned long i;

	*wrong = 0;
	for (i = 0; i < calls; i++)
		*wrong += poll(set, context, count) != want;
	return __rdtsc() - start;
}
