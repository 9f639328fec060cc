# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Classic wait bugs, each of which the verdict must name correctly."""
