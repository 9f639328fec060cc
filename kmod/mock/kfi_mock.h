/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Extension of the mock provider for test modules: the commands of its debugfs
 * file as a call. kfi_open_ops() with KFI_MOCK_OPS on a mock endpoint gets the
 * table.
 */
#ifndef _KFI_MOCK_H_
#define _KFI_MOCK_H_

#include <linux/types.h>

#define KFI_MOCK_OPS "kfi_mock_ops_v1"

/**
 * struct kfi_mock_ops - extension of mock endpoints
 * @size: size of this structure in the provider
 * @command: runs a line as a write to the command file does; returns 0 or a
 *	negative errno. Context: Process context. May sleep.
 */
struct kfi_mock_ops {
	size_t size;
	int (*command)(const char *line);
};

#endif /* _KFI_MOCK_H_ */
