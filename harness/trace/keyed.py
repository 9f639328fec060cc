# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Names of waits for a bit, a variable, a folio or a futex: the keys of ``keyed.bpf.c``."""

from collections.abc import Sequence
from dataclasses import dataclass

from kfabric.trace.symbols import place

_TOP = 1 << 63
_WIDTH, _MASK = 7, 0x7F
_PROCESS_MASK = (1 << 22) - 1
_VARIABLE = _MASK  # -1, the number of the bit in a wait for a variable


@dataclass(frozen=True, slots=True)
class Key:
    """What sleepers wait for: a word or a folio by its address, and a bit of it."""

    word: int
    bit: int

    @classmethod
    def of(cls, address: int) -> "Key":
        """Decode the address that the kernel part gives to the queue of a key."""
        # A shift to the right keeps the top bits, which are set in all kernel addresses.
        word = ((address | _TOP) >> _WIDTH) | ((1 << _WIDTH) - 1) << (64 - _WIDTH)
        return cls(word, address & _MASK)

    @property
    def is_variable(self) -> bool:
        """Does it stand for a variable, and not for a bit?"""
        return self.bit == _VARIABLE

    def words(self, *, folio: bool) -> str:
        """The words for it: ``bit 3``, ``variable``, ``folio lock``."""
        if folio:
            return "folio lock" if self.bit == 0 else f"folio bit {self.bit}"
        return "variable" if self.is_variable else f"bit {self.bit}"


def key_name(
    key: Key,
    variable: str,
    sleeper: Sequence[str] = (),
    waker: Sequence[str] = (),
    *,
    folio: bool = False,
) -> str:
    """Name the queue of a key.

    Args:
        key: The key.
        variable: The symbol that contains its word, or empty.
        sleeper: The frames of a thread that slept on it, innermost first.
        waker: The frames of a thread that woke it.
        folio: It is a bit of a folio.
    """
    what = key.words(folio=folio)
    if variable:
        return f"{variable} (variable)" if key.is_variable else f"{what} of {variable}"
    if sleeper:
        return f"{what}, waited for in {place(sleeper)}"
    return f"{what}, woken in {place(waker)}" if waker else f"unknown {what}"


def process_of_futex(address: int) -> int:
    """The process in the address that the kernel part gives to the queue of a futex."""
    return address & _PROCESS_MASK


def futex_name(address: int, process: int, comm: str = "") -> str:
    """Name a futex by its address in a process, and the name of that if it is known."""
    return f"futex {address:#x} of {comm}/{process}" if comm else f"futex {address:#x} of {process}"
