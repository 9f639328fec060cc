# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Names and numbers that host and guests share; imports neither side."""

from typing import Final

# Environment of each process that the host starts in a guest.
MODULES: Final = "KFABRIC_MODULES"
"""Directory with the modules to load."""
OUT: Final = "KFABRIC_OUT"
"""Directory whose files the host keeps."""
PROGRAMS: Final = "KFABRIC_PROGRAMS"
"""Directory in which compiled probes are kept; without it each process compiles its own."""
MODULE_DIR: Final = "KFABRIC_MODULE_DIR"
"""Directory with the modules of the user (harness/vm/usermodule.py)."""
MODPROBE: Final = "KFABRIC_MODPROBE"
"""Names of the image's modules that are tested."""
MODULE_PARAMETERS: Final = "KFABRIC_MODULE_PARAMETERS"
"""Parameters of both, a JSON list of ``[module.]name=value``."""
ADDRESS: Final = "{address}"
"""Stands in a parameter for the address of the RDMA link."""
STEER: Final = "KFABRIC_STEER"
"""What holds CPUs in the modules under test (harness/steer/plan.py), as JSON."""
BOARD: Final = "steer.board"
"""File in OUT that guest and plugin share (harness/steer/board.py)."""
AIMS: Final = "steer.jsonl"
"""File in OUT: the functions of each module under test, at each time that it was loaded."""
RECORDED: Final = "KFABRIC_RECORDED"
"""Set in a guest that is recorded."""
GAVE_WAY: Final = "gave_way.log"
"""File in OUT of a recorded guest: each time that a thread gave way at a point, and where."""
REFUSED: Final = "no thread gives way at "
"""Begins a line of a recorded guest's output: the point, and why."""
UNPREPARED: Final = 98
"""Exit status of what makes threads give way, if it could not be prepared."""
KALLSYMS: Final = "kallsyms"
"""File in OUT of a recorded guest: its kernel's symbols, once a module was loaded."""
SECTIONS: Final = "sections.json"
"""File in OUT of a recorded guest: where it has each section of the modules it has loaded."""
EVENTS: Final = "events.json"
"""File beside each story of a recorded guest: when its events happened."""
WAKEUPS: Final = "wakeups"
"""Directory in OUT with a directory for each story."""

RESULTS: Final = "KFABRIC_RESULTS"
"""On the host, the command whose results go to docs/results.md; unset if they do not."""

QUIET: Final = "KFABRIC_QUIET"
"""On the host, set if no lines about progress are shown (``kfabric -q``)."""

MODULE_ORDER: Final = "order"
"""File in the directory of the user's modules: their names without .ko, in load order."""
COVERAGE: Final = "coverage.tar"
"""File in OUT: the kernel's line counts, under the paths of their objects."""

RETIRED: Final = 99
"""Exit status of a test process whose guest must be discarded."""
SUSPECTS: Final = 5
"""How many earlier tests a report lists when the cause is unknown."""

# Properties of a test's report, written in the guest and summed on the host.
WAITS: Final = "kfabric-waits"
"""How many waits --verify-wakeups judged in the test and found right."""
OWN_WAITS: Final = "kfabric-own-waits"
"""How many of them were on the queues that wakeups.toml names; only set if there is one."""
WRONG: Final = "kfabric-wrong-wakeups"
"""Set if --verify-wakeups found fault with the test, or could not verify it."""
UNWATCHED: Final = "kfabric-unwatched"
"""Why --verify-wakeups did not watch the test."""
PARTLY: Final = "kfabric-partly-watched"
"""Set if the test was watched only until it unloaded the module."""
