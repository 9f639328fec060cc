# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Replays an execution: to its end, to say whether the guest did the same, or to a moment of it.

The last call of a function is found in two replays. The first one counts the calls. In the second
one QEMU stops the guest a few calls before, and gdb goes the rest.
"""

import filecmp
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kfabric.errors import SetupError, UsageError, counted
from kfabric.replay import gdb, moments
from kfabric.replay.counter import Counter
from kfabric.replay.execution import Execution
from kfabric.replay.gdb import Stop
from kfabric.replay.moments import Moment
from kfabric.replay.qemu import CONSOLE, OUTPUT, Machine, Mode
from kfabric.vm.steps import say

COMPARED = (OUTPUT, CONSOLE)
_BOARD = "calls"
_LEFT = (16, 1024)
"""Calls that are left for gdb, which needs 0.2 s for each: if QEMU stops too late, more."""


class NoMoment(UsageError, label="no such moment"):
    """The guest has not done what was asked for, or not so often."""


@dataclass(frozen=True)
class _Replay:
    """A guest that will do the same again.

    Attributes:
        place: the directory that gets what it prints.
        counter: of the calls of a function, if there is one.
    """

    machine: Machine
    place: Path
    counter: Counter


@contextmanager
def replaying(execution: Execution, function: int = 0, **looking: int) -> Iterator[_Replay]:
    """A guest that will do the same again.

    Args:
        function: the address of the one whose calls are counted; 0: none.
        looking: the other fields of :class:`Counter`.

    Raises SetupError, UsageError.
    """
    with tempfile.TemporaryDirectory(prefix="kfabric-", dir=execution.directory) as scratch:
        place = Path(scratch)
        execution.unpack(place)
        counter = Counter(place / _BOARD, function, **looking)
        plugin = counter.argv() if function else []
        with Machine(execution.about.hardware, place, Mode.REPLAY, plugin) as machine:
            yield _Replay(machine, place, counter)


def replay(execution: Execution, seconds: float) -> list[str]:
    """Replay an execution to its end; the names of files that are not as they were recorded.

    Raises CommandTimeout, GuestLost, SetupError.
    """
    with replaying(execution) as guest:
        guest.machine.finish(time.monotonic() + seconds)
        recorded, place = execution.directory, guest.place
        return [n for n in COMPARED if not filecmp.cmp(recorded / n, place / n, shallow=False)]


def look(execution: Execution, moment: Moment, seconds: float) -> str:
    """Go to a moment; the functions that the guest is in there.

    Args:
        seconds: for each replay.

    Raises:
        SetupError: the host lacks something, or gdb did not get there.
        UsageError: the guest has no such function.
        NoMoment: it has not called it so often.
        GuestError: QEMU failed, or was not there in time.
    """
    with _before(execution, moment, seconds) as (commands, stop):
        if found := gdb.look(commands, stop, seconds):
            return gdb.without_tracer(execution, found) if moment.told else found
    raise _too_few(moment)


def debug(execution: Execution, moment: Moment | None, seconds: float) -> int:
    """Give the terminal to gdb, at a moment or at the beginning; its status. Raises as look()."""
    if moment:
        with _before(execution, moment, seconds) as (commands, stop):
            return _terminal([*commands, *stop.commands(), "delete"])
    with replaying(execution) as guest, guest.machine.kept_awake():
        return _terminal(gdb.connecting(execution, guest.place, guest.machine.debugger))


def _terminal(commands: list[str]) -> int:
    return subprocess.run(gdb.argv(commands, batch=False), check=False).returncode


@contextmanager
def _before(
    execution: Execution, moment: Moment, seconds: float
) -> Iterator[tuple[list[str], Stop]]:
    """A guest that stands before a moment; gdb's commands that connect, and the way that is left.

    Raises as look().
    """
    address = moments.find(execution, moment.function) + moment.offset
    number = _number(execution, moment, address, seconds)
    for rest in (*_LEFT, number):
        near = max(0, number - 1 - rest)
        with replaying(execution, address, near=near) as guest:
            deadline = time.monotonic() + seconds
            if near and not guest.machine.stop_after(guest.counter, deadline):
                raise _too_few(moment)
            left = number - 1 - guest.counter.calls()
            if near and left < 1:
                say(f"QEMU has not stopped the guest before {moment}: trying again")
                continue
            commands = gdb.connecting(execution, guest.place, guest.machine.debugger)
            with guest.machine.kept_awake():
                yield commands, Stop(address, left)
            return


def _number(execution: Execution, moment: Moment, address: int, seconds: float) -> int:
    """Which visit of its place a moment is, from 1 on. Raises as look()."""
    if moment.told:
        return _told(execution, moment, address, seconds)
    if moment.beside:
        return _beside(execution, moment, moment.beside, address, seconds)
    return moment.number or _calls(execution, moment, address, seconds)


def _beside(
    execution: Execution, moment: Moment, other: Moment, address: int, seconds: float
) -> int:
    """The number of a moment that is the last one before another one, or the next one after it."""
    place = moments.find(execution, other.function) + other.offset
    at = _number(execution, other, place, seconds)
    with replaying(execution, place, other=address, at=at) as guest:
        guest.machine.finish(time.monotonic() + seconds)
        reached, before = guest.counter.calls() >= at, guest.counter.others()
    if not reached:
        raise _too_few(other)
    if not (before or moment.after):
        raise NoMoment(f"the guest has not {_did(moment)} {moment.place} before '{other}'")
    say(f"{moment.place} was {_did(moment)} {counted(before, 'time')} before '{other}'")
    return before + moment.after


def _calls(execution: Execution, moment: Moment, address: int, seconds: float) -> int:
    """How often the place of a moment was passed; it takes a replay. Raises as look()."""
    with replaying(execution, address) as guest:
        guest.machine.finish(time.monotonic() + seconds)
        number = guest.counter.calls()
    if not number:
        raise NoMoment(f"the guest has not {_did(moment)} {moment.place}")
    say(f"{moment.place} was {_did(moment)} {counted(number, 'time')}")
    return number


def _told(execution: Execution, moment: Moment, address: int, seconds: float) -> int:
    """The call of its clock by which the tracer knows the time of an event. Raises as look()."""
    time_ns, end, text = moments.clock(execution, moment)
    say(f"going back to {text}")
    with replaying(execution, address, value=time_ns, end=end) as guest:
        guest.machine.finish(time.monotonic() + seconds)
        number = guest.counter.returned()
    if not number:
        raise SetupError(f"the tracer's clock has not shown the time of {moment}")
    return number


def _did(moment: Moment) -> str:
    return "passed" if moment.offset else "called"


def _too_few(moment: Moment) -> NoMoment:
    if moment.after:
        what = f"the guest has not {_did(moment)} {moment.place} after '{moment.beside}'"
        return NoMoment(what)
    return NoMoment(f"the guest has {_did(moment)} {moment.place} less often")
