# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The waits that are still open: thread, queue, age and stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Stuck:
    """A thread in an open wait. ``stack``: innermost first; ``wakes``: all in vain."""

    queue: int
    name: str
    tid: int
    tgid: int
    comm: str
    age_ns: int
    stack: tuple[str, ...]
    wakes: int = 0


def parse_stack(text: str) -> tuple[str, ...]:
    """The frames in the text of /proc/PID/task/TID/stack, as ``symbol+0x12 [module]``."""
    frames = []
    for line in text.splitlines():
        _, _, frame = line.partition("] ")
        place, _, module = frame.partition(" ")
        name, _, offsets = place.partition("+")
        offset = offsets.partition("/")[0]
        frames.append(f"{name}+{offset}" + (f" {module}" if module else ""))
    return tuple(frame for frame in frames if frame != "+")


def current_stack(tgid: int, tid: int, proc: Path = PROC) -> tuple[str, ...]:
    """The stack of a thread now; empty if the thread has ended."""
    try:
        return parse_stack((proc / f"{tgid}/task/{tid}/stack").read_text())
    except OSError:
        return ()


def stuck(
    record: Any, name: str, threads: Mapping[int, str], begun: Sequence[str], now: int
) -> Stuck:
    """Describe an open wait.

    Args:
        record: A struct wait_rec or a WaitRecord.
        name: The name of its queue.
        threads: The names of threads.
        begun: The stack at its begin, for a thread that has none any more.
        now: The present time, in nanoseconds.
    """
    return Stuck(
        queue=record.queue,
        name=name,
        tid=record.tid,
        tgid=record.tgid,
        comm=threads.get(record.tid, ""),
        age_ns=now - record.t_begin,
        stack=current_stack(record.tgid, record.tid) or tuple(begun),
        wakes=record.wakes,
    )
