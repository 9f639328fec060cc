# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Addresses of the program as functions and lines of source, with addr2line."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kfabric.prove.build import HERE

TOOL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """A line of source.

    Args:
        function: its function.
        file: the file, an absolute path.
        line: the line's number.
    """

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line} {self.function}()"

    @property
    def ours(self) -> bool:
        """Whether it is in the checker or in the shim, not in the code under test."""
        return Path(self.file).is_relative_to(HERE)


def find(program: Path, addresses: Iterable[int]) -> dict[int, tuple[Place, ...]]:
    """The lines of addresses to return to: of each its call, and where that is inlined at.

    An address without debug information has none.
    """
    wanted = sorted({address for address in addresses if address})
    if not wanted:
        return {}
    # A return address is after the call, which may be the last instruction of its line.
    calls = "\n".join(hex(address - 1) for address in wanted)
    argv = ["addr2line", "-a", "-f", "-i", "-e", str(program)]
    done = subprocess.run(
        argv, input=calls, text=True, capture_output=True, timeout=TOOL_SECONDS, check=True
    )
    return parse(done.stdout, {address - 1: address for address in wanted})


def parse(text: str, addresses: Mapping[int, int]) -> dict[int, tuple[Place, ...]]:
    """Read the output of addr2line: an address, then pairs of lines, innermost first."""
    found: dict[int, list[Place]] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("0x"):
            current = found.setdefault(addresses[int(line, 16)], [])
            continue
        path, _, number = next(lines).partition(" (")[0].rpartition(":")
        if number.isdigit():
            current.append(Place(line, path, int(number)))
    return {address: tuple(places) for address, places in found.items()}


def under_test(addresses: Iterable[int], known: Mapping[int, tuple[Place, ...]]) -> Place | None:
    """The innermost line outside the checker and the shim."""
    every = (place for address in addresses for place in known.get(address, ()))
    return next((place for place in every if not place.ours), None)
