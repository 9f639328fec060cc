# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Steering: a guest's CPUs are held at chosen points of a module, so that its races show.

``plugin.c`` runs inside QEMU, which translates the guest's code and so can stop one virtual CPU
while the others run on. The guest's kernel and modules are those that it always has. See
docs/schedule.md.
"""
