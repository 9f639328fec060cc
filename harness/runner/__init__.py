# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Runs tests in guests: the pytest plugin, the pool of guests, and ``kfabric test``."""
