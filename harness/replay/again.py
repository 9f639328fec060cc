# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Replays an execution: to its end, to say whether the guest did the same, or to a moment of it."""

import filecmp
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kfabric.errors import UsageError, counted
from kfabric.replay import gdb
from kfabric.replay.execution import Execution
from kfabric.replay.gdb import Moment, Stop
from kfabric.replay.qemu import CONSOLE, OUTPUT, Machine, Mode
from kfabric.vm.steps import say

COMPARED = (OUTPUT, CONSOLE)


@contextmanager
def replaying(execution: Execution) -> Iterator[tuple[Machine, Path]]:
    """A guest that will do the same again, and the directory that gets what it prints.

    Raises SetupError, UsageError.
    """
    with tempfile.TemporaryDirectory(prefix="kfabric-", dir=execution.directory) as scratch:
        place = Path(scratch)
        execution.unpack(place)
        with Machine(execution.about.hardware, place, Mode.REPLAY) as machine:
            yield machine, place


def replay(execution: Execution, seconds: float) -> list[str]:
    """Replay an execution to its end; the names of files that are not as they were recorded.

    Raises CommandTimeout, GuestLost, SetupError.
    """
    with replaying(execution) as (machine, place):
        machine.finish(time.monotonic() + seconds)
        recorded = execution.directory
        return [n for n in COMPARED if not filecmp.cmp(recorded / n, place / n, shallow=False)]


def look(execution: Execution, moment: Moment, seconds: float) -> str:
    """Go to a moment; the functions that the guest is in there.

    Args:
        seconds: for each replay.

    Raises:
        SetupError: the host lacks something, or gdb did not get there.
        UsageError: the guest has no such function, or has not called it so often.
    """
    stop = _stop(execution, moment, seconds)
    with _standing(execution) as commands:
        if found := gdb.look(commands, stop, seconds):
            return found
    raise UsageError(f"the guest has called {moment.function} less often")


def debug(execution: Execution, moment: Moment | None, seconds: float) -> int:
    """Give the terminal to gdb, at a moment or at the beginning; its status. Raises as look()."""
    going = _stop(execution, moment, seconds).commands() if moment else []
    with _standing(execution) as commands:
        words = gdb.argv([*commands, *going, "delete"], batch=False)
        return subprocess.run(words, check=False).returncode


def _stop(execution: Execution, moment: Moment, seconds: float) -> Stop:
    """The breakpoint of a moment. That of the last call takes a replay that counts the calls."""
    address = gdb.find(execution, moment.function)
    number = moment.number
    if not number:
        with _standing(execution) as commands:
            number = gdb.calls(commands, address, seconds)
        if not number:
            raise UsageError(f"the guest has not called {moment.function}")
        say(f"{moment.function} was called {counted(number, 'time')}")
    return Stop(address, number - 1)


@contextmanager
def _standing(execution: Execution) -> Iterator[list[str]]:
    """A guest that stands at the beginning, and gdb's commands that connect."""
    with replaying(execution) as (machine, place):
        yield gdb.connecting(execution, place, machine.debugger)
