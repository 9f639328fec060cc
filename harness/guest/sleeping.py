# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds out from the kernel whether a thread sleeps, and where.

/proc/PID/task/TID/syscall contains "running" unless the thread is off its CPU in a
sleeping state, which the kernel checks itself. /proc/PID/task/TID/stack shows the
function. If the number of context switches is the same before and after, both describe
one sleep.
"""

import os
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kfabric.guest.waiting import Deadline, wait_until

# All sleeps of our modules are in this function.
WAIT_POINT = r"^kfi_waitq_sleep\b"
SLEEPING_STATES = "SD"
_FRAME = re.compile(r"^\[<[0-9a-f]+>\] (\S+)", re.MULTILINE)
_FRAMES, _STACKS = 12, 8
_LOOK_SECONDS = 0.005


class ThreadGone(LookupError):
    """The thread ended instead of going to sleep."""


@dataclass(frozen=True)
class ThreadState:
    """The state of one thread at one moment, from /proc; the stack is empty while it runs."""

    tid: int
    name: str
    state: str
    syscall: str
    wchan: str
    stack: tuple[str, ...]
    switches: int

    @property
    def off_cpu(self) -> bool:
        """Whether the thread was off its CPU in a sleeping state."""
        return self.syscall != "running" and self.state in SLEEPING_STATES

    def at(self, where: str | re.Pattern[str]) -> bool:
        """Whether a function on its kernel stack, or its wait channel, matches."""
        pattern = re.compile(where)
        return any(pattern.search(frame) for frame in (*self.stack, self.wchan))

    def __str__(self) -> str:
        call = self.syscall.split(" ", 1)[0]
        stack = " < ".join(frame.split("+", 1)[0] for frame in self.stack[:6]) or "no stack"
        return f"thread {self.tid} ({self.name}) state {self.state}, syscall {call}, {stack}"


def read_state(tid: int) -> ThreadState:
    """Read the state of a thread of any process, or of the kernel. Needs root.

    Raises:
        ThreadGone: There is no such thread.
    """
    proc = Path(f"/proc/{tid}/task/{tid}")
    try:
        status = _status(proc)
        # The order matters: off its CPU, then the place, then whether it ran meanwhile.
        syscall = (proc / "syscall").read_text().strip()
        # The kernel warns about a look at the stack of who runs in a function with a kretprobe.
        asleep = syscall != "running" and status["State"][0] in SLEEPING_STATES
        stack = tuple(_FRAME.findall((proc / "stack").read_text())) if asleep else ()
        wchan = (proc / "wchan").read_text().strip()
        after = _switches(_status(proc))
    except (FileNotFoundError, ProcessLookupError):
        raise ThreadGone(f"thread {tid} has ended") from None
    switches = _switches(status)
    return ThreadState(
        tid=tid,
        name=status["Name"],
        state=status["State"][0],
        # If it ran meanwhile, the values do not describe one moment.
        syscall=syscall if after == switches else "running",
        wchan=wchan,
        stack=stack,
        switches=after,
    )


def is_asleep(tid: int, where: str | re.Pattern[str] = WAIT_POINT) -> bool:
    """Whether the thread sleeps, off its CPU, below a function that matches `where`."""
    state = read_state(tid)
    return state.off_cpu and state.at(where)


def wait_until_asleep(
    tid: int, where: str | re.Pattern[str] = WAIT_POINT, deadline: Deadline | float = 10.0
) -> ThreadState:
    """Wait until a thread sleeps at a place.

    Args:
        tid: The kernel's thread id (threading.get_native_id(), or a kthread's pid).
        where: A regular expression for a function on its stack.
        deadline: A Deadline, or seconds.

    Raises:
        ThreadGone: The thread ends first.
        DeadlineExpired: It never sleeps there; the text has its last state.
    """
    seen: list[ThreadState] = []

    def asleep() -> ThreadState | None:
        seen[:] = [read_state(tid)]
        return seen[0] if seen[0].off_cpu and seen[0].at(where) else None

    what = f"thread {tid} asleep at {where if isinstance(where, str) else where.pattern}"
    return wait_until(asleep, what, deadline, seen=lambda: seen[0])


def awake(tid: int, seconds: float = 1.0) -> str:
    """Describe how a thread that does not sleep spends its time; takes that long. Needs root.

    It is meant for a failure's report: to look at a running thread's stack may make the kernel
    print a warning.

    Raises:
        ThreadGone: There is no such thread.
    """
    proc = Path(f"/proc/{tid}/task/{tid}")
    stacks: Counter[str] = Counter()
    try:
        before = _spent(proc)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            frames = _FRAME.findall((proc / "stack").read_text())
            stacks[" < ".join(frames[:_FRAMES]) or "on a CPU"] += 1
            time.sleep(_LOOK_SECONDS)
        after = _spent(proc)
    except (FileNotFoundError, ProcessLookupError):
        raise ThreadGone(f"thread {tid} has ended") from None
    spent = ", ".join(f"{name} {after[name] - before[name]:.2f} s" for name in before)
    lines = [f"in {seconds:g} s: {spent}"]
    lines += [f"{count} times: {stack}" for stack, count in stacks.most_common(_STACKS)]
    return "\n".join(lines)


def _spent(proc: Path) -> dict[str, float]:
    """Seconds in its program, in the kernel, and ready without a CPU, if the kernel counts them."""
    # The name may contain blanks. It ends at the last parenthesis; utime and stime are 14 and 15.
    fields = (proc / "stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    spent = {"program": int(fields[11]) / ticks, "kernel": int(fields[12]) / ticks}
    if (counted := proc / "schedstat").exists():
        spent["ready"] = int(counted.read_text().split()[1]) / 1e9
    return spent


def threads(name: str) -> list[int]:
    """Return the ids of all threads, kernel threads included, whose name matches exactly."""
    return sorted(
        int(comm.parent.name)
        for comm in Path("/proc").glob("[0-9]*/task/[0-9]*/comm")
        if _content(comm) == name
    )


def _content(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _status(proc: Path) -> dict[str, str]:
    lines = (proc / "status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _switches(status: dict[str, str]) -> int:
    return int(status["voluntary_ctxt_switches"]) + int(status["nonvoluntary_ctxt_switches"])
