# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""``kfabric trace --schedule``: the same trace under one seed after another.

A fault of the verdict is a finding, and so is a guest that panics or hangs, and a CMD that fails.
"""

import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kfabric import names, report
from kfabric.errors import ExitStatus, UsageError
from kfabric.recording import HEAD
from kfabric.steer.search import OF_GUESTS, Ended, Kind, Search, check_options, without
from kfabric.trace.guest import TIMED_OUT

_TRACE = Kind("trace", "the same failure came", "the trace failed, and no wake-up was judged")
_OF_TRACE = (ExitStatus.OK, ExitStatus.FAULT_FOUND, ExitStatus.NOT_VERIFIED, TIMED_OUT)
"""Statuses of a trace whose CMD has not failed."""
_OF_BOARDS = (names.BOARD, names.AIMS)


def check(args: Namespace) -> None:
    """Raise UsageError for a trace that cannot be searched."""
    check_options(args)
    if args.schedule and args.here:
        raise UsageError("--schedule holds the CPUs of a guest", "leave out --here")
    if args.schedule and not (args.module or args.modules or args.modprobe):
        raise UsageError("--schedule holds CPUs in modules", "name one with --module")


def play(args: Namespace, argv: Sequence[str], output: Path) -> int:
    """Play the seeds; the status of the first one that failed.

    Args:
        argv: of the command.
        output: its directory.

    Raises UsageError: no seed has held a CPU.
    """
    once = partial(_once, argv, output)
    return Search(_TRACE, args.schedule, args.points, output, argv, once).play()


def _once(argv: Sequence[str], output: Path) -> Ended:
    """Trace in a process of its own, with the plan of the environment."""
    (output / HEAD).unlink(missing_ok=True)
    words = [sys.executable, "-m", "kfabric.cli", "trace", *without(argv)]
    status = subprocess.run(words, check=False).returncode
    if not (output / HEAD).exists():
        return Ended(status, frozenset([f"status {status}"] if status in OF_GUESTS else []))
    material = report.load(output)
    verdict = material.verdict
    failed = {f"{one.kind} on {material.ledger.object_name(one.queue)}" for one in verdict.findings}
    failed |= set() if status in _OF_TRACE else {f"status {status}"}
    passed = status == TIMED_OUT and not failed
    files = [file for file in output.iterdir() if file.is_file() and file.name not in _OF_BOARDS]
    return Ended(ExitStatus.OK if passed else status, frozenset(failed), files, verdict.line())
