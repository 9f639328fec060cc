# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The automata: the source of every generated file of vm/kernels/rv.

Two things are known under the lock of a queue: how many threads are asleep there (`signal`
counts them) and which of them are woken (`wake`). docs/guests.md lists the rules that no
automaton over kfabric's tracepoints decides.
"""

from kfabric.rv.automaton import Arrow, Automaton

WAIT = Automaton(
    name="kfi_wait",
    rules=("W2", "W3", "V5"),
    text="a blocking call that a publication found asleep is woken by it",
    per="per_task",
    # object_new comes last: from it on, no event of a new queue is missing.
    probes=("wait_begin", "signal", "wake", "wait_end", "object_new"),
    initial="outside",
    arrows=(
        Arrow("outside", "begin", "waiting"),
        # No publication has found it asleep since it looked.
        Arrow("waiting", "publish", "owed"),
        Arrow("waiting", "wake", "woken"),
        Arrow("waiting", "end", "outside"),
        # A publication that concerns it has found it asleep, and must wake it.
        Arrow("owed", "publish", "owed"),
        Arrow("owed", "wake", "woken"),
        # Its last look came after the publication had stored: it need not be woken.
        Arrow("owed", "cover", "waiting"),
        # A woken thread may find nothing and sleep again.
        Arrow("woken", "publish", "owed"),
        Arrow("woken", "wake", "woken"),
        Arrow("woken", "end", "outside"),
        # A call that names a wake-up as its end was woken.
        Arrow("woken", "end_woken", "outside"),
    ),
)

WAKE = Automaton(
    name="kfi_wake",
    rules=("V5", "V7"),
    text="a wake-up is part of a publication that found a thread asleep",
    per="per_cpu",
    probes=("signal", "wake"),
    initial="quiet",
    arrows=(
        # This CPU is in no publication that found a thread asleep.
        Arrow("quiet", "publish_none", "quiet"),
        Arrow("quiet", "leave", "quiet"),
        Arrow("quiet", "publish", "waking"),
        Arrow("waking", "publish_none", "quiet"),
        # What follows is no part of the publication.
        Arrow("waking", "leave", "quiet"),
        Arrow("waking", "publish", "waking"),
        Arrow("waking", "wake", "waking"),
    ),
)

ALL = (WAIT, WAKE)
