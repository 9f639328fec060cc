# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Disposable QEMU guests.

Kept empty on purpose, like :mod:`harness`: the agent in the guest is in here.
"""
