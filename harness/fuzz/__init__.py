# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Random programs of calls on /dev/kfabric, from several threads and processes.

program.py    a program and its text; the files of the corpus are such texts
calls.py      the calls: number and structure of each
kinds.py      kinds of values, valid and invalid ones
grammar.py    the kind of value for each field of each call
preambles.py  the steps that open whole stacks of objects
generate.py   programs from a seed
syscalls.py   system calls without a library's checks               (in the guest)
memory.py     the memory that addresses in a program point to       (in the guest)
executor.py   runs one program and checks each answer               (in the guest)
workers.py    processes that run many programs; leak checks         (in the guest)
server.py     serves the host; short programs for the corpus        (in the guest)
session.py    a guest that runs programs, replaced after a failure
failure.py    failures, and counts of the calls
shrink.py     the shortest program that still fails
campaign.py   a fuzzing run: find the failing program, shrink it, report it
"""
