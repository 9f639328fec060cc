# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Memory that nobody points to any more, as the kernel's own search (kmemleak) finds it.

Only kernels that were built with it have one ("debug" of vm/versions.toml). It
finds what is leaked by anybody; what counts here has a function of a module that
is ours, or was unloaded since, among its callers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.guest import modules

KMEMLEAK = Path("/sys/kernel/debug/kmemleak")
MODULES = (*modules.watched(), "kfi_ktest", "kfi_vtest", "kfi_rtest", "kfi_bench", "provoke")
AGE_SECONDS = 5.5
"""The search passes over what is younger than 5 s: its pointer may be in a register."""
SHARE = 0.1
"""Of the time may be spent with searching, but for the last search."""

_OBJECT = "unreferenced object "
# Its first word is the address, or what the kernel prints in place of it.
_CALL = re.compile(r"^\s+\[<\w+>\] (\S+)(?: \[(\w+)\])?")


@dataclass(frozen=True)
class Leak:
    """One object that nobody points to."""

    title: str
    """Its address and size."""
    text: str
    """All that the kernel says about it."""
    calls: tuple[tuple[str, str], ...]
    """Who allocated it: function and module ("": the kernel itself), inmost first."""

    def is_of(self, names: Iterable[str]) -> bool:
        """Whether one of these modules, or one that is gone, allocated it."""
        wanted = set(names)
        return any(
            module in wanted or (not module and function.startswith("0x"))
            for function, module in self.calls
        )

    def line(self) -> str:
        """Size, and the first function of a module that is on the way to it."""
        where = next((f"{call} [{name}]" for call, name in self.calls if name), "?")
        return f"{self.title}, allocated by {where}"


def parse(text: str) -> list[Leak]:
    """Read what the kernel's file says."""
    leaks = []
    for part in text.split(_OBJECT)[1:]:
        lines = part.rstrip().splitlines()
        calls = tuple((m[1], m[2] or "") for m in map(_CALL.match, lines[1:]) if m)
        leaks.append(Leak(lines[0].rstrip(":"), _OBJECT + part.rstrip(), calls))
    return leaks


class MemoryWatch:
    """Finds memory that our modules have leaked.

    The kernel reports what nobody points to once it was so in two searches, with the same
    contents (mm/kmemleak.c, update_checksum()).
    """

    def __init__(self) -> None:
        self.works = KMEMLEAK.exists()
        self._took = 0.0
        self._ended = time.monotonic()

    def due(self) -> bool:
        """Whether a search may begin that costs no more than ``SHARE`` of the time since the last.

        It takes three quarters of a minute where all is slow.
        """
        return self.works and time.monotonic() - self._ended >= self._took / SHARE

    def leaks(self, settle: bool = False) -> list[Leak]:
        """Search, and return what our modules have leaked; each leak once.

        :param settle: find all there is, by two searches, ``AGE_SECONDS`` after the last call;
            without it the next search tells what this one has seen first.
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
        """Search the memory; returns when that is done."""
        began = time.monotonic()
        KMEMLEAK.write_text("scan")
        self._ended = time.monotonic()
        self._took = self._ended - began
