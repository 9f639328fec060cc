# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Counts the calls of a function in a replayed guest, and brings the guest close to one of them.

gdb could do both, but QEMU stops the guest at each call that gdb passes, which takes 0.2 s. A
plugin inside QEMU only adds one. It cannot stop the guest, and QEMU does so only between two events
of the execution. So the calls that gdb passes are those that are left then.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

from kfabric.vm import plugins
from kfabric.vm.argv import quote

SOURCE = Path(__file__).with_name("counter.c")
BOARD = struct.Struct("<QQQQ")
_STOPPED = 8


@dataclass(frozen=True)
class Counter:
    """The plugin's arguments, and what it has counted.

    Attributes:
        board: the file that it shares with the harness; it makes it.
        address: of the function's first instruction.
        near: from this call on the guest is slow; 0: never.
        value: which call returns it is told, too; 0: none.
        end: of the function, if there is a value.
        other: of another instruction, which is counted up to call ``at``; 0: none.
    """

    board: Path
    address: int
    near: int = 0
    value: int = 0
    end: int = 0
    other: int = 0
    at: int = 0

    def argv(self) -> list[str]:
        """QEMU's arguments. Raises SetupError: the plugin cannot be compiled."""
        file, board = quote(plugins.ensure(SOURCE)), quote(self.board)
        words = f"file={file},board={board},address={self.address:#x},near={self.near}"
        looking = f",value={self.value},end={self.end:#x}" if self.value else ""
        beside = f",other={self.other:#x},at={self.at}" if self.other else ""
        return ["-plugin", words + looking + beside]

    def calls(self) -> int:
        """How often it was called so far."""
        return self._read()[0]

    def returned(self) -> int:
        """The first call that has returned the value; 0: none so far."""
        return self._read()[2]

    def others(self) -> int:
        """How often the other instruction was executed before call ``at``."""
        return self._read()[3]

    def _read(self) -> tuple[int, ...]:
        return BOARD.unpack(self.board.read_bytes())

    def stopped(self) -> None:
        """The guest need not be slow any more."""
        with self.board.open("r+b", buffering=0) as file:
            file.seek(_STOPPED)
            file.write(struct.pack("<Q", 1))
