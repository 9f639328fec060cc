# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Kprobes by address, set after a function's first instruction, and at its return.

bcc's own kprobes have two drawbacks here. They name the function, and a kernel before 6.2
then searches all symbols several times, which takes an emulated guest most of a second
for each probe. And the kernel turns a probe on the first instruction into a call (ftrace),
whose program runs with interrupts on: no program on that CPU sees the events of an
interrupt during that time. After the call at the start of a traceable function a probe is
a breakpoint, with interrupts off.

A probe at a return is no breakpoint: the kernel lets the function return into a handler,
whose program runs with interrupts on if the function's caller had them on.
"""

import contextlib
import ctypes
import fcntl
import os
import struct
import threading
from pathlib import Path

_TYPE = Path("/sys/bus/event_source/devices/kprobe/type")
_OPTIMIZE = Path("/proc/sys/debug/kprobes-optimization")
_PERF_EVENT_OPEN = 298  # x86-64
_ATTR = struct.Struct("<IIQQQQQIIQQ")  # type, size, config, … up to config1, config2
_SET_BPF, _ENABLE = 0x40042408, 0x2400
_CLOSE_ON_EXEC = 8
# After a call of 5 bytes; after that and a landing pad of 4 bytes; at the begin.
_OFFSETS = (5, 9, 0)
_RETURN = 1  # the bit "retprobe" of an event's configuration


class KprobeError(OSError):
    """A probe cannot be set; the text names the function."""


def _close_on_one_cpu(fd: int) -> None:
    """Bind the calling thread to the first CPU that it may use, and close a file descriptor."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.close(fd)


class Kprobes(contextlib.AbstractContextManager["Kprobes"]):
    """A set of probes; a context manager that removes them.

    Until the end the kernel does not turn breakpoints into jumps.
    """

    def __init__(self) -> None:
        self._fds: list[int] = []
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._kind = int(_TYPE.read_text())
        self._optimize = ""
        with contextlib.suppress(OSError):
            self._optimize = _OPTIMIZE.read_text()
            _OPTIMIZE.write_text("0")

    def __exit__(self, *_: object) -> None:
        self.close()

    def attach(self, name: str, address: int, program: int) -> None:
        """Run a program (a file descriptor) in a function. Raises KprobeError."""
        for offset in _OFFSETS:
            fd = self._open(address + offset)
            if fd >= 0:
                break
        else:
            raise KprobeError(ctypes.get_errno(), f"no probe in {name}")
        self._run(fd, program)

    def attach_return(self, name: str, address: int, program: int) -> None:
        """Run a program when a function returns. Raises KprobeError."""
        fd = self._open(address, _RETURN)
        if fd < 0:
            raise KprobeError(ctypes.get_errno(), f"no probe at the return of {name}")
        self._run(fd, program)

    def _run(self, fd: int, program: int) -> None:
        self._fds.append(fd)
        fcntl.ioctl(fd, _SET_BPF, program)
        fcntl.ioctl(fd, _ENABLE, 0)

    def close(self) -> None:
        """Remove all probes, which takes a moment. May be called again.

        The kernel waits for grace periods at each close; all closes wait for the same ones.
        They run on one CPU, since a close calls functions that have probes themselves: an
        emulated CPU can still execute a breakpoint that another one has just removed, which
        is a panic.
        """
        closing = [threading.Thread(target=_close_on_one_cpu, args=(fd,)) for fd in self._fds]
        self._fds.clear()
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
        if self._optimize:
            _OPTIMIZE.write_text(self._optimize)
            self._optimize = ""

    def _open(self, address: int, config: int = 0) -> int:
        # The CPU of the event matters only to perf; a program runs on every CPU.
        attr = _ATTR.pack(self._kind, _ATTR.size, config, 1, 0, 0, 0, 1, 0, 0, address)
        buffer = ctypes.create_string_buffer(attr, _ATTR.size)
        return int(
            self._libc.syscall(_PERF_EVENT_OPEN, buffer, -1, 0, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
        )
