# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Who slept where when a guest panicked: reads the memory that it left."""
