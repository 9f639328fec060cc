# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Probes: count every wait, signal and wake from outside, and judge them.

``wakeups.bpf.c`` and :mod:`loader` run in the guest and make a recording;
:mod:`records`, :mod:`ledger`, :mod:`verdict` and :mod:`export` are pure and
run anywhere.
"""
