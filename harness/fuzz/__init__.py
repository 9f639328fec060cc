# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Random programs of calls on /dev/kfabric, from several threads and processes.

program.py    a program and its text; corpus files are such texts
calls.py      the calls: number and structure of each
kinds.py      kinds of values, good and bad ones
grammar.py    what may stand in each field of each call
scenes.py     what opens whole stacks of objects, so that calls reach deep
generate.py   programs from a seed
offers.py     what providers offer on the link                  (in the guest)
syscalls.py   system calls as the kernel has them               (in the guest)
memory.py     what the addresses in a program point to          (in the guest)
player.py     plays a program and looks at each answer          (in the guest)
crew.py       many programs in several processes; what is left  (in the guest)
distil.py     short programs in which a call succeeds           (in the guest)
server.py     serves the host                                   (in the guest)
session.py    a guest that plays, and a new one when it is spoiled
failure.py    what can come of playing that must not
shrink.py     the shortest program that still fails
host.py       the hunt: run, find who did it, shrink, tell
"""
