# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Disposable guests, probes and verdicts for kfabric.

Kept empty on purpose: the agent in the guest imports this package, and every
import there costs boot time.
"""
