# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""No memory for one thread's calls: the 1st, 2nd, … allocation of each fails.

Debian's kernels have no CONFIG_FAILSLAB; tests/kmod/failslab does what it would.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uapi_support as raw

from kfabric.guest import modules as guest_modules
from kfabric_py import _uapi

FAILSLAB = Path("/sys/kernel/debug/kfi_failslab")
#: More allocations than any call makes.
MOST = 4000

#: What a call says that had no memory; a full queue and one with nothing are EAGAIN,
#: and routing, which a connection begins with, has a word of its own.
NO_MEMORY = {-errno.ENOMEM, -errno.EAGAIN, -errno.ENFILE, -errno.ENOBUFS}


@dataclass(frozen=True)
class Failslab:
    """The module's file, kept open: nothing but the call itself allocates in between."""

    fd: int

    @classmethod
    @contextlib.contextmanager
    def loaded(cls, modules: guest_modules.Modules) -> Iterator[Failslab]:
        """Load the module that makes allocations fail."""
        guest_modules.insert(modules.file("kfi_failslab"))
        fd = os.open(FAILSLAB, os.O_RDWR)
        yield cls(fd)
        os.close(fd)
        guest_modules.remove("kfi_failslab")

    @contextlib.contextmanager
    def every_atomic(self, module: str = "") -> Iterator[Counter[str]]:
        """Within this no allocation of a module succeeds that must not sleep; how many failed.

        Args:
            module: whose own code makes the allocations; by default they are anybody's.
        """
        counts: Counter[str] = Counter()
        os.write(self.fd, f"0 atomic {module}".strip().encode())
        try:
            yield counts
        finally:
            counts["failed"] = int(os.pread(self.fd, 64, 0).split()[1])

    @contextlib.contextmanager
    def in_kernel_threads(self, nth: int) -> Iterator[Counter[str]]:
        """Within this the nth allocation of all kernel threads fails; how many failed."""
        counts: Counter[str] = Counter()
        os.write(self.fd, f"-1 {nth}".encode())
        try:
            yield counts
        finally:
            counts["failed"] = int(os.pread(self.fd, 64, 0).split()[1])

    def during(self, what: str, call: Callable[[], int]) -> tuple[int, int]:
        """Make a call with failing allocations of this thread; return its code, how many failed."""
        os.write(self.fd, f"{threading.get_native_id()} {what}".encode())
        code = call()
        _, failed = map(int, os.pread(self.fd, 64, 0).split())
        return code, failed


def objects(fd: int) -> tuple[int, int]:
    """Return how many objects and how much memory a client has."""
    arg = raw.sample("VERSION")
    assert raw.call(fd, "VERSION", arg) == 0
    return arg.out_objects, arg.out_bytes


class Persistent:
    """Takes the place of :func:`fcntl.ioctl`: makes each call again until it has all its memory.

    Every call fails at its 1st allocation, then at its 2nd, and so on. It says so, leaves
    nothing behind, and can be made again, as if it had not been made before.

    Attributes:
        made: the names of the calls.
        failed: how often each call had no memory, by its name.
        once: calls that are not made again here: their failure is told, and the next
            one of that name fails at the allocation behind.
    """

    def __init__(self, failslab: Failslab) -> None:
        """Let nothing fail yet."""
        self.made: set[str] = set()
        self.failed: Counter[str] = Counter()
        self.once: set[str] = set()
        self._failslab = failslab

    def __call__(self, fd: int, request: int, arg: ctypes.Structure) -> int:
        """Make the call; what it comes to in the end."""
        name = _uapi.CALL_NAMES[request]
        self.made.add(name)
        address = ctypes.addressof(arg)
        asked = bytes(arg)
        first = self.failed[name] + 1 if name in self.once else 1
        for nth in range(first, MOST):
            before = objects(fd)
            ctypes.memmove(address, asked, len(asked))
            code, failed = self._failslab.during(str(nth), lambda: raw.ioctl(fd, request, address))
            if not failed or code >= 0:
                break
            self.failed[name] += 1
            assert code in NO_MEMORY, f"{name}, allocation {nth}: {raw.text(code)}"
            assert objects(fd) == before, f"{name}, allocation {nth}"
            if name in self.once:
                break
        else:
            raise AssertionError("it allocates and allocates")
        if code < 0:
            raise OSError(-code, os.strerror(-code))
        return code
