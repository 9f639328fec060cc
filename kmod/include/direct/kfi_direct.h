/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* The place where kfabric.h looks for it with KFABRIC_DIRECT. */
#include "../kfi_direct.h"
