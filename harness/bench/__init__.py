# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``make bench``: what a wait costs, against the least that it can cost."""
