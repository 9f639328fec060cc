# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Plays every interleaving of wait code: compiles it for user space and explores scenarios."""
