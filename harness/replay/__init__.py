# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Executions: a guest runs under QEMU's record and replay, so that it can be watched again.

An execution is a directory. Replayed, each instruction, each interrupt and each time that the guest
reads is the same. See docs/replay.md.
"""
