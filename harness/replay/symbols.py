# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Symbols for a debugger: an ELF file with the functions that a guest's kernel has named.

The kernel's own list of symbols has the addresses of all functions, those of modules included.
"""

import json
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kfabric import names
from kfabric.vm import tools

FILE = "kernel.elf"
COMPRESS = ("objcopy", "--compress-debug-sections=zlib")
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MAGIC = b"\x7fELF\x02\x01\x01"
_EXEC, _X86_64 = 2, 62
_PROGBITS, _SYMTAB, _STRTAB, _NOBITS = 1, 2, 3, 8
_CODE = 6
"""The flags of a section with code: it has memory, and can be executed."""
_FUNCTION = 1 << 4 | 2  # global
_ABSOLUTE = 0xFFF1
_TEXT = range(0xFFFF_FFFF_8000_0000, 0xFFFF_FFFF_C000_0000)
"""Where the code of x86-64 kernels is; that of modules is behind."""
_TEXT_SECTION, _FIRST_PROGRAM = 1, 5
"""Numbers of sections."""
_BPF, _PAGE = "[bpf]", 4096


def functions(kallsyms: Path) -> Iterator[tuple[str, int]]:
    """The functions of kernel and modules, and their addresses."""
    with kallsyms.open() as file:
        for line in file:
            address, kind, name, *_ = line.split()
            if kind in "tTwW":
                yield name, int(address, 16)


def programs(kallsyms: Path) -> list[range]:
    """The code of BPF programs, as far as it is known: up to the next symbol, or a page."""
    with kallsyms.open() as file:
        lines = [line.split() for line in file]
    known = sorted({int(words[0], 16) for words in lines})
    begins = sorted({int(words[0], 16) for words in lines if words[-1] == _BPF})
    ends = (known[bisect_right(known, begin) :][:1] or [begin + _PAGE] for begin in begins)
    return [
        range(begin, min(end, begin + _PAGE)) for begin, (end,) in zip(begins, ends, strict=True)
    ]


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    contents: bytes
    link: int = 0
    each: int = 0
    flags: int = 0
    address: int = 0
    size: int = 0
    """Of a section without contents."""


def elf(
    found: Iterable[tuple[str, int]], frames: bytes = b"", programs: Sequence[range] = ()
) -> bytes:
    """An ELF file for gdb.

    Args:
        found: functions and their addresses.
        frames: the contents of the section .debug_frame.
        programs: BPF programs, of which each gets a section.
    """
    texts = bytearray(b"\0")
    symbols = bytearray(_SYMBOL.size)
    sections_of = {code.start: _FIRST_PROGRAM + i for i, code in enumerate(programs)}
    for name, address in found:
        section = _TEXT_SECTION if address in _TEXT else sections_of.get(address, _ABSOLUTE)
        symbols += _SYMBOL.pack(len(texts), _FUNCTION, 0, section, address, 0)
        texts += name.encode() + b"\0"
    sections = [
        _Section("", 0, b""),
        # gdb names a place, and looks for its frame, only if a section has it.
        _Section(".text", _NOBITS, b"", flags=_CODE, address=_TEXT.start, size=len(_TEXT)),
        _Section(".debug_frame", _PROGBITS, frames),
        _Section(".symtab", _SYMTAB, bytes(symbols), link=4, each=_SYMBOL.size),
        _Section(".strtab", _STRTAB, bytes(texts)),
        *(
            _Section(f".bpf{i}", _NOBITS, b"", flags=_CODE, address=code.start, size=len(code))
            for i, code in enumerate(programs)
        ),
    ]
    names_of = "\0".join([*(one.name for one in sections), ".shstrtab", ""]).encode()
    sections.append(_Section(".shstrtab", _STRTAB, names_of))
    return _file(sections, names_of)


def _file(sections: Sequence[_Section], names_of: bytes) -> bytes:
    place = _HEADER.size
    table: list[bytes] = []
    for one in sections:
        name = names_of.index(b"\0" + one.name.encode() + b"\0") + 1 if one.name else 0
        size = one.size or len(one.contents)
        numbers = (one.flags, one.address, place, size, one.link, 1, 8, one.each)
        table.append(_SECTION.pack(name, one.kind, *numbers) if one.kind else bytes(_SECTION.size))
        place += len(one.contents)
    shape = (_HEADER.size, 0, 0, _SECTION.size, len(sections), len(sections) - 1)
    head = _HEADER.pack(_MAGIC, _EXEC, _X86_64, 1, 0, 0, place, 0, *shape)
    return b"".join([head, *(one.contents for one in sections), *table])


@dataclass(frozen=True)
class Loaded:
    """A module as the guest has loaded it.

    Attributes:
        file: with debug information.
        sections: their addresses by name.
    """

    file: Path
    sections: dict[str, int]

    def command(self) -> str:
        """gdb's command that reads it."""
        others = {name: at for name, at in self.sections.items() if _of_memory(name)}
        text = others.pop(".text", None)
        first = f" {text:#x}" if text is not None else ""
        rest = "".join(f" -s {name} {at:#x}" for name, at in sorted(others.items()))
        return f'add-symbol-file "{self.file}"{first}{rest}'


def _of_memory(section: str) -> bool:
    """Whether a section of a file has that name, too; symbols are elsewhere in memory."""
    return section.startswith(".") and section not in (".symtab", ".strtab")


def keep(out: Path, places: Iterable[Path], target: Path) -> None:
    """Copy the modules that a guest has loaded.

    Args:
        out: what the guest has left.
        places: directories with modules that have debug information, at any depth.
        target: a new directory.

    Raises SetupError.
    """
    files = {ko.stem.replace("-", "_"): ko for place in places for ko in place.rglob("*.ko")}
    target.mkdir()
    for name in _sections(out):
        if ko := files.get(name):
            argv = [*COMPRESS, str(ko), str(target / f"{name}.ko")]
            tools.run(argv, "objcopy fails", "is the disk full?")


def modules(out: Path, kept: Path) -> Iterator[Loaded]:
    """The modules that a guest has loaded, as far as they were kept."""
    for name, sections in _sections(out).items():
        if (ko := kept / f"{name}.ko").exists():
            yield Loaded(ko, sections)


def _sections(out: Path) -> dict[str, dict[str, int]]:
    """Where a guest had the sections of its modules."""
    file = out / names.SECTIONS
    found: dict[str, dict[str, int]] = json.loads(file.read_text()) if file.exists() else {}
    return found
