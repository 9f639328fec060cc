# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The waits that nobody has ended: who, on what, since when, and with what stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Stuck:
    """A thread that still waits. ``stack``: innermost first; ``wakes``: in vain."""

    queue: int
    name: str
    tid: int
    tgid: int
    comm: str
    age_ns: int
    stack: tuple[str, ...]
    wakes: int = 0

    def encode(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


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
    """Where a thread sleeps now; empty if it is gone."""
    try:
        return parse_stack((proc / f"{tgid}/task/{tid}/stack").read_text())
    except OSError:
        return ()


def stuck(
    record: Any, name: str, threads: Mapping[int, str], begun: Sequence[str], now: int
) -> Stuck:
    """Describe one.

    :param record: a struct wait_rec or a WaitRecord.
    :param begun: its stack when it entered the queue, in case that it has none any more.
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
