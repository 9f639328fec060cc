/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The mock provider's extension, for test modules: the commands of its debugfs
 * file as a call. kfi_open_ops() on a mock endpoint with this name gives the
 * table.
 */
#ifndef _KFI_MOCK_H_
#define _KFI_MOCK_H_

#include <linux/types.h>

#define KFI_MOCK_OPS "kfi_mock_ops_v1"

/**
 * struct kfi_mock_ops - extension of mock endpoints
 * @size: size of this structure, as the provider was compiled
 * @command: does what a write of the line to the command file does; returns 0
 *	or a negative errno; process context, may sleep
 */
struct kfi_mock_ops {
	size_t size;
	int (*command)(const char *line);
};

#endif /* _KFI_MOCK_H_ */
