#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Write ``_uapi.py`` from the uapi headers.

Run from the top of the source tree after one of them has changed::

    python3 kfabric_py/_gen.py            # rewrites kfabric_py/_uapi.py
    python3 kfabric_py/_gen.py --check    # exit 1 if that would change it

It understands only the plain C that the headers use. Anything else is an error.
"""

from __future__ import annotations

import argparse
import ast
import errno
import operator
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UAPI = ROOT / "kmod" / "include" / "uapi"
MAIN = "linux/kfabric.h"
TARGET = ROOT / "kfabric_py" / "_uapi.py"

_SCALARS = {
    "__u8": "c_uint8",
    "__s8": "c_int8",
    "char": "c_char",
    "__u16": "c_uint16",
    "__s16": "c_int16",
    "__u32": "c_uint32",
    "__s32": "c_int32",
    "__u64": "c_uint64",
    "__s64": "c_int64",
    "__aligned_u64": "c_uint64",
    "__aligned_s64": "c_int64",
}

#: The macros of linux/errno.h.
_ERRNOS = {name: number for number, name in errno.errorcode.items()}

_BASES = {"struct": "Structure", "union": "Union"}

_OPERATORS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


class HeaderError(Exception):
    """The header contains something that this program does not understand."""


@dataclass(frozen=True)
class Field:
    """One member of a structure."""

    name: str
    ctype: str
    length: int | None = None


@dataclass(frozen=True)
class Struct:
    """One structure or union, with the members of anonymous ones as types of their own."""

    name: str
    base: str
    fields: tuple[Field, ...]
    anonymous: tuple[str, ...] = ()


@dataclass
class Header:
    """The definitions of the headers, in order of appearance."""

    constants: dict[str, int] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)
    calls: dict[str, tuple[int, str]] = field(default_factory=dict)


def evaluate(text: str, names: dict[str, int]) -> int:
    """Compute a constant C expression of integers, operators and known names."""
    text = re.sub(r"\(\s*__[us]\d+\s*\)", "", text)
    text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    text = text.replace("/", "//")
    try:
        return _fold(ast.parse(text.strip(), mode="eval").body, names)
    except SyntaxError as error:
        raise HeaderError(f"not a constant: {text}") from error


def _fold(node: ast.expr, names: dict[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name) if name in _ERRNOS:
            return _ERRNOS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_fold(operand, names)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~_fold(operand, names) & (2**64 - 1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_fold(left, names), _fold(right, names))
    raise HeaderError(f"not a constant: {ast.unparse(node)}")


def load(name: str, root: Path = UAPI) -> str:
    """Return the text of a header with our own headers that it includes in place."""
    text = (root / name).read_text()
    return re.sub(
        r"^#include <(linux/kfabric\w*\.h)>$",
        lambda found: load(found[1], root),
        text,
        flags=re.M,
    )


def clean(text: str) -> str:
    """Drop comments and join continued lines."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r"\\\n", " ", text)


_STATEMENT = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<macro>\w+)(?P<args>\([^)]*\))?[ \t]*(?P<value>[^\n]*)$"
    r"|\benum\b\s*(?P<enum>\w+)?\s*\{(?P<members>[^}]*)\}\s*;"
    r"|^(?P<kind>struct|union)\s+(?P<struct>\w+)\s*\{",
    re.M,
)


def parse(text: str) -> Header:
    """Return the definitions in the text of a header."""
    header = Header()
    text = clean(text)
    position = 0
    while found := _STATEMENT.search(text, position):
        position = found.end()
        if found["macro"]:
            _parse_macro(found, header)
        elif found["members"] is not None:
            _parse_enum(found["members"], header)
        else:
            end = _closing_brace(text, position)
            _parse_struct(found["struct"], _BASES[found["kind"]], text[position:end], header)
            position = end
    return header


_IOCTL = re.compile(r"(_IO[WR]*)\s*\(\s*(\w+)\s*,\s*(\w+)\s*(?:,\s*struct\s+(\w+)\s*)?\)")


def _parse_macro(found: re.Match[str], header: Header) -> None:
    """Add an object-like macro: an ioctl number or a constant."""
    name, value = found["macro"], found["value"].strip()
    if found["args"] or not value:
        return
    call = _IOCTL.fullmatch(value)
    if call is None:
        header.constants[name] = evaluate(value, header.constants)
        return
    kind, number = (evaluate(call[part], header.constants) for part in (2, 3))
    header.calls[name] = (_direction(call[1]) | kind << 8 | number, call[4] or "")


def _direction(macro: str) -> int:
    """Return the direction bits of an ioctl number that ``macro`` makes."""
    letters = macro.removeprefix("_IO")
    return ("W" in letters) << 30 | ("R" in letters) << 31


def _parse_enum(members: str, header: Header) -> None:
    value = -1
    for member in filter(None, (part.strip() for part in members.split(","))):
        name, _, text = member.partition("=")
        value = evaluate(text, header.constants) if text else value + 1
        header.constants[name.strip()] = value


def _closing_brace(text: str, position: int) -> int:
    """Return where the block that is open at ``position`` ends."""
    depth = 1
    for found in re.finditer(r"[{}]", text[position:]):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return position + found.start()
    raise HeaderError("a block does not end")


def _parse_struct(name: str, base: str, body: str, header: Header) -> None:
    fields: list[Field] = []
    anonymous: list[str] = []
    position = 0
    while found := re.compile(r"\s*(struct|union)\s*\{|\s*([^;{]+);").match(body, position):
        position = found.end()
        if found[2]:
            fields += _parse_member(found[2], header)
            continue
        end = _closing_brace(body, position)
        tail = re.compile(r"\}\s*(\w*)\s*;").match(body, end)
        if tail is None:
            raise HeaderError(f"{name}: nested type does not end")
        inner = tail[1] or f"u{len(anonymous)}"
        if not tail[1]:
            anonymous.append(inner)
        nested = f"{name}_{inner}"
        _parse_struct(nested, _BASES[found[1]], body[position:end], header)
        fields.append(Field(inner, nested))
        position = tail.end()
    if body[position:].strip():
        raise HeaderError(f"{name}: cannot read {body[position:].strip()!r}")
    header.structs[name] = Struct(name, base, tuple(fields), tuple(anonymous))


def _parse_member(text: str, header: Header) -> Iterator[Field]:
    """Yield the members that one declaration declares."""
    found = re.fullmatch(r"(?:(struct|union)\s+)?(\w+)\s+(.+)", text.strip(), re.S)
    if found is None:
        raise HeaderError(f"cannot read member {text!r}")
    ctype = found[2] if found[1] else _SCALARS.get(found[2])
    if ctype is None or (found[1] and ctype not in header.structs):
        raise HeaderError(f"unknown type in {text!r}")
    for declarator in found[3].split(","):
        one = re.fullmatch(r"(\w+)\s*(?:\[([^\]]*)\])?", declarator.strip())
        if one is None:
            raise HeaderError(f"cannot read member {text!r}")
        length = None if one[2] is None else evaluate(one[2] or "0", header.constants)
        yield Field(one[1], ctype, length)


_PREAMBLE = '''\
# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
# Generated by kfabric_py/_gen.py from the uapi headers. Do not edit.
"""The ioctl interface of ``/dev/kfabric`` as ctypes see it. Not for users."""

from __future__ import annotations

import ctypes
'''


def render(header: Header) -> str:
    """Return the text of the Python module."""
    parts = [_PREAMBLE]
    parts += [f"{name} = {_number(value)}" for name, value in header.constants.items()]
    parts += [_render_struct(struct) for struct in header.structs.values()]
    parts.append("\n")
    for name, (bits, struct) in header.calls.items():
        size = f" | ctypes.sizeof({struct}) << 16" if struct else ""
        parts.append(f"{name} = 0x{bits:X}{size}")
    parts.append("\n#: Names of the calls, by ioctl number.")
    parts.append("CALL_NAMES: dict[int, str] = {")
    parts += [f'    {name}: "{name.rpartition("IOC_")[2]}",' for name in header.calls]
    parts.append("}\n")
    return "\n".join(parts)


def _number(value: int) -> str:
    return f"0x{value:X}" if value > 0xFFFF else str(value)


def _annotation(member: Field) -> str:
    if member.length is None:
        if member.ctype == "c_char":
            return "bytes"
        return "int" if member.ctype.startswith("c_") else member.ctype
    if member.ctype == "c_char":
        return "bytes"
    return f"ctypes.Array[{_qualified(member.ctype)}]"


def _qualified(ctype: str) -> str:
    return f"ctypes.{ctype}" if ctype.startswith("c_") else ctype


def _render_struct(struct: Struct) -> str:
    lines = [f"\n\nclass {struct.name}(ctypes.{struct.base}):"]
    if struct.anonymous:
        names = ", ".join(f'"{name}"' for name in struct.anonymous)
        lines.append(f"    _anonymous_ = ({names},)")
    lines.append("    _fields_ = (")
    for member in struct.fields:
        times = "" if member.length is None else f" * {member.length}"
        lines.append(f'        ("{member.name}", {_qualified(member.ctype)}{times}),')
    lines.append("    )")
    # Two leading underscores mark a reserved field, and Python would mangle the name.
    named = [member for member in struct.fields if not member.name.startswith("__")]
    lines += [f"    {member.name}: {_annotation(member)}" for member in named]
    return "\n".join(lines)


def generate() -> str:
    """Read the headers and return the text of ``_uapi.py``."""
    return render(parse(load(MAIN)))


def main() -> int:
    """Rewrite or check ``_uapi.py``; return the exit status."""
    parser = argparse.ArgumentParser(description="Write kfabric_py/_uapi.py from the uapi headers.")
    parser.add_argument("--check", action="store_true", help="only tell whether it is up to date")
    options = parser.parse_args()
    text = generate()
    if options.check:
        return 0 if TARGET.read_text() == text else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
