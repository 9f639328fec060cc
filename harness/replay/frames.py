# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""What gdb needs to see the callers of a function of the kernel, made from the kernel's own tables.

Debian's kernels have no debug information where guests run, but the tables with which the kernel
itself finds the callers (ORC): for each place in its code, where the frame of the caller is, and
where the caller's RBP is. They are written here as call frame information of DWARF.
See arch/x86/include/asm/orc_types.h and, in the DWARF standard, section 6.4.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from pathlib import Path

ENTRY = struct.Struct("<hhH")
# DWARF's numbers of registers.
RDX, RDI, RBP, RSP, RIP = 1, 5, 6, 7, 16
_UNDEFINED, _PREV_SP, _BP, _SP_INDIRECT, _BP_INDIRECT = 0, 1, 4, 9, 8
_REGISTERS = {2: RDX, 3: RDI, _BP: RBP, 5: RSP, 6: 10, 7: 13}
"""By ORC's numbers, if they hold an address."""
_OFFSETS = {15: 0, 14: 8, 13: 16, 12: 24, RBP: 32, 3: 40, RIP: 128, RSP: 152}
"""Where struct pt_regs has the registers that a function keeps, and its place and stack."""
_IRET = 128
"""Where that struct has what the CPU itself has pushed."""
_ALIGN = -8
_ROWS = 256
"""Places that one entry describes: gdb reads it from its beginning."""

# DW_CFA_...: advance_loc4, offset_extended_sf, undefined, same_value
_ADVANCE4, _OFFSET_SF, _UNDEFINE, _SAME = b"\x04", b"\x11", b"\x07", b"\x08"
_RESTORE = 0xC0
# def_cfa_sf, def_cfa_expression, expression
_CFA_SF, _CFA_EXPRESSION, _EXPRESSION = b"\x12", b"\x0f", b"\x10"
# DW_OP_...: breg0, deref, consts, plus
_BREG, _DEREF, _CONST, _PLUS = 0x70, b"\x06", b"\x11", b"\x22"


class Kind(IntEnum):
    """What an entry says about the frame of the caller."""

    END = auto()
    """There is none, or it is not known."""
    CALL = auto()
    """It is at an offset from a register."""
    REGISTERS = auto()
    """An interrupt has pushed all registers there."""
    IRET = auto()
    """The CPU has pushed its place and stack there."""


_OLD = {0: Kind.CALL, 1: Kind.REGISTERS, 2: Kind.IRET}
_NEW = {2: Kind.CALL, 3: Kind.REGISTERS, 4: Kind.IRET}
"""Since 6.4."""


@dataclass(frozen=True)
class Row:
    """How the caller is found from a place in the code on.

    Attributes:
        register, offset: where its frame is, by ORC's numbers.
        base, saved: where its RBP is.
    """

    place: int
    kind: Kind
    register: int = 0
    offset: int = 0
    base: int = 0
    saved: int = 0


def rows(vmlinux: Path, release: str) -> Iterator[Row]:
    """The rows of a kernel's tables, in the order of places."""
    places, at = _section(vmlinux, b".orc_unwind_ip")
    entries, _ = _section(vmlinux, b".orc_unwind")
    for number, (relative,) in enumerate(struct.iter_unpack("<i", places)):
        yield _row(at + 4 * number + relative, entries, number, _kinds(release))


def _kinds(release: str) -> tuple[dict[int, Kind], int]:
    """The numbers of the kinds, and the bit of the end of a stack, before 6.4."""
    major, minor, *_ = (int(word) for word in release.partition("-")[0].split("."))
    return (_NEW, 0) if (major, minor) >= (6, 4) else (_OLD, 1 << 10)


def _row(place: int, entries: bytes, number: int, known: tuple[dict[int, Kind], int]) -> Row:
    kinds, end = known
    offset, saved, bits = ENTRY.unpack_from(entries, number * ENTRY.size)
    kind = kinds.get(bits >> 8 & (3 if end else 7), Kind.END)
    register, base = bits & 15, bits >> 4 & 15
    if bits & end or register == _UNDEFINED:
        return Row(place, Kind.END)
    return Row(place, kind, register, offset, base, saved)


def _section(elf: Path, wanted: bytes) -> tuple[bytes, int]:
    """The contents and the address of a section of a 64-bit ELF file; empty if it has none."""
    with elf.open("rb") as file:
        head = file.read(64)
        table, each, number, names = (
            *struct.unpack_from("<Q", head, 40),
            *struct.unpack_from("<HHH", head, 58),
        )
        file.seek(table)
        found = [struct.unpack("<IIQQQQIIQQ", file.read(each)) for _ in range(number)]
        file.seek(found[names][4])
        texts = file.read(found[names][5])
        for name, _, _, address, place, size, *_ in found:
            if texts[name:].startswith(wanted + b"\0"):
                file.seek(place)
                return file.read(size), address
    return b"", 0


def of_programs(programs: Iterable[range]) -> list[Row]:
    """The rows of BPF programs: the kernel's compiler keeps the caller's frame in RBP."""
    found: list[Row] = []
    for code in programs:
        if found and found[-1].place == code.start:
            found.pop()
        found.append(Row(code.start, Kind.CALL, _BP, 16, _PREV_SP, -16))
        found.append(Row(code.stop, Kind.END))
    return found


def debug_frame(found: Sequence[Row]) -> bytes:
    """The section .debug_frame with these rows, except for the last, whose end is not known."""
    common = _entry(b"\xff\xff\xff\xff" + b"\x01\0\x01" + _sleb(_ALIGN) + bytes([RIP]))
    parts = [common]
    for first in range(0, len(found) - 1, _ROWS):
        some = found[first : first + _ROWS]
        begin = some[0].place
        end = found[min(first + _ROWS, len(found) - 1)].place
        text = b"".join(map(_step, some, [some[0], *some]))
        parts.append(_entry(struct.pack("<IQQ", 0, begin, end - begin) + text))
    return b"".join(parts)


def _entry(text: bytes) -> bytes:
    """An entry with its length; the rest is DW_CFA_nop."""
    padded = text + b"\0" * (-(len(text) + 4) % 8)
    return struct.pack("<I", len(padded)) + padded


def _step(row: Row, before: Row) -> bytes:
    """The instructions that lead from the row before to a row."""
    moved = row.place - before.place
    advance = _ADVANCE4 + struct.pack("<I", moved) if moved else b""
    # What one kind says of a register holds until it is taken back.
    changed = row.kind is not before.kind
    restore = bytes(_RESTORE | number for number in _OFFSETS) if changed else b""
    return advance + restore + _instructions(row)


def _instructions(row: Row) -> bytes:
    if row.kind is Kind.END:
        return _UNDEFINE + _uleb(RIP)
    if row.kind is Kind.CALL:
        return _frame(row) + _saved(RIP, -8) + _base(row)
    # The frame is where struct pt_regs is, or that part of it.
    begin = 0 if row.kind is Kind.REGISTERS else _IRET
    known = {number: at - begin for number, at in _OFFSETS.items() if at >= begin}
    return _frame(row) + b"".join(_saved(number, at) for number, at in known.items())


def _frame(row: Row) -> bytes:
    """Where the caller's frame is."""
    if number := _REGISTERS.get(row.register):
        return _CFA_SF + _uleb(number) + _sleb(row.offset // _ALIGN)
    if row.register == _BP_INDIRECT:
        code = _breg(RBP, row.offset) + _DEREF
    elif row.register == _SP_INDIRECT:
        code = _breg(RSP, 0) + _DEREF + _CONST + _sleb(row.offset) + _PLUS
    else:
        return _UNDEFINE + _uleb(RIP)
    return _CFA_EXPRESSION + _uleb(len(code)) + code


def _base(row: Row) -> bytes:
    """Where the caller's RBP is."""
    if row.base == _PREV_SP:
        return _saved(RBP, row.saved)
    if row.base == _BP:
        code = _breg(RBP, row.saved)
        return _EXPRESSION + _uleb(RBP) + _uleb(len(code)) + code
    return _SAME + _uleb(RBP)


def _saved(number: int, at: int) -> bytes:
    """A register is saved at an offset from the frame."""
    return _OFFSET_SF + _uleb(number) + _sleb(at // _ALIGN)


def _breg(number: int, offset: int) -> bytes:
    """An operation that pushes a register plus an offset."""
    return bytes([_BREG + number]) + _sleb(offset)


def _uleb(value: int) -> bytes:
    """A number as DWARF packs it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _sleb(value: int) -> bytes:
    """A number with a sign, as DWARF packs it."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value & 0x7F])
