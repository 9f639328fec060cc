# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Disposable QEMU guests. Empty on purpose: the agent in the guest imports this package."""
