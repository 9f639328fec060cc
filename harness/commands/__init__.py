# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Subcommands of ``kfabric``, one module each."""
