/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* The path that kfabric.h includes with KFABRIC_DIRECT, as in kfabric 1.7. */
#include "../kfi_direct.h"
