# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Finds leaked memory with the kernel's kmemleak.

Only kernels that are built with kmemleak can do that ("debug" of vm/versions.toml). A leak
counts here if it was allocated by one of our modules, or by a module unloaded since.
"""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kfabric.guest import modules

KMEMLEAK = Path("/sys/kernel/debug/kmemleak")
MODULES = (
    *modules.watched(),
    "kfi_ktest",
    "kfi_vtest",
    "kfi_rtest",
    "kfi_bench",
    "kfi_lnd",
    "provoke",
)
AGE_SECONDS = 5.5
"""A search skips objects younger than 5 s: their pointer may be in a register."""
SHARE = 0.1
"""The share of time that searches may take, apart from the last one."""

_OBJECT = "unreferenced object "
# The first word is the address, or the kernel's substitute for it.
_CALL = re.compile(r"^\s+\[<\w+>\] (\S+)(?: \[(\w+)\])?")


@dataclass(frozen=True)
class Leak:
    """One object without a pointer to it."""

    title: str
    """Its address and size."""
    text: str
    """The kernel's whole report about it."""
    calls: tuple[tuple[str, str], ...]
    """The call stack of its allocation: function and module ("": the kernel), innermost first."""

    def is_of(self, names: Iterable[str]) -> bool:
        """Whether one of these modules, or a module unloaded since, allocated it."""
        wanted = set(names)
        return any(
            module in wanted or (not module and function.startswith("0x"))
            for function, module in self.calls
        )

    def line(self) -> str:
        """Address and size, and the innermost function of a module."""
        where = next((f"{call} [{name}]" for call, name in self.calls if name), "?")
        return f"{self.title}, allocated by {where}"


def parse(text: str) -> list[Leak]:
    """Decode the kernel's report."""
    leaks = []
    for part in text.split(_OBJECT)[1:]:
        lines = part.rstrip().splitlines()
        calls = tuple((m[1], m[2] or "") for m in map(_CALL.match, lines[1:]) if m)
        leaks.append(Leak(lines[0].rstrip(":"), _OBJECT + part.rstrip(), calls))
    return leaks


class MemoryWatch:
    """Finds memory that our modules have leaked.

    The kernel reports an object once two searches have found no pointer to it, and the
    same contents (mm/kmemleak.c, update_checksum()).
    """

    def __init__(self) -> None:
        self.works = KMEMLEAK.exists()
        self._took = 0.0
        self._ended = time.monotonic()

    def due(self) -> bool:
        """Whether a search would take at most ``SHARE`` of the time since the last one."""
        return self.works and time.monotonic() - self._ended >= self._took / SHARE

    def leaks(self, settle: bool = False) -> list[Leak]:
        """Search, and return the leaks of our modules, each one once.

        Args:
            settle: Find all leaks, by two searches after ``AGE_SECONDS``. Otherwise leaks
                that this search sees for the first time are reported by the next one.
        """
        if not self.works:
            return []
        if settle:
            time.sleep(AGE_SECONDS)
            self._scan()
        self._scan()
        found = parse(KMEMLEAK.read_text(errors="replace"))
        if found:
            KMEMLEAK.write_text("clear")
        return [leak for leak in found if leak.is_of(MODULES)]

    def _scan(self) -> None:
        # The write returns when the search has ended.
        began = time.monotonic()
        KMEMLEAK.write_text("scan")
        self._ended = time.monotonic()
        self._took = self._ended - began
