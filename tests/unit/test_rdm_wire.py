# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The tables of docs/rdm-wire.md agree with the headers of kmod/verbs/rdm.

A table whose head is ``struct NAME`` lists the fields of that structure; the tables with the heads
``op``, ``flag``, ``status`` and ``refusal`` list enums, and the one with ``limit`` lists macros.
The second implementation, in Python, has the page's numbers, too.
"""

from __future__ import annotations

import ast
import dataclasses
import enum as enum_module
import operator
import re
import struct as struct_module
from collections.abc import Callable
from pathlib import Path

import pytest
import rdm_wire_format as python

ROOT = Path(__file__).resolve().parents[2]
RDM = ROOT / "kmod" / "verbs" / "rdm"
HEADERS = (RDM / "wire.h").read_text() + (RDM / "rdm.h").read_text()
PAGE = (ROOT / "docs" / "rdm-wire.md").read_text()

#: The columns of a row that name a thing and give its number.
ENUMS = {
    "op": "kfr_wire_op",
    "flag": "kfr_wire_flags",
    "status": "kfr_status",
    "refusal": "kfr_refusal",
}
#: Enumerators that are bounds and no values.
BOUNDS = {"KFR_OP_LAST", "KFR_F_ALL", "KFR_STATUS_MAX"}
STRUCTS = ["kfr_hello", "kfr_hdr", "kfr_seg"]
SIZES = {"u8": 1, "__le16": 2, "__le32": 4, "__le64": 8}

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
}


def rows(head: str) -> list[list[str]]:
    """Return the rows of the table whose first column has that head."""
    found = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.M)
    assert len(found) == 1, head
    return [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in found[0].splitlines()]


def value(text: str) -> int:
    """Return the value of a macro's definition, which may name other macros."""

    def walk(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return macro(name)
            case ast.BinOp(left=left, op=op, right=right):
                return _OPERATORS[type(op)](walk(left), walk(right))
        raise AssertionError(text)

    return walk(ast.parse(re.sub(r"\b(\d+)U\b", r"\1", text), mode="eval").body)


def macro(name: str) -> int:
    """Return the value of a macro of the headers."""
    found = re.search(rf"^#define {name}\s+(.+?)\s*(?:/\*.*)?$", HEADERS, re.M)
    assert found is not None, name
    return value(found[1])


def enum(name: str) -> dict[str, int]:
    """Return the enumerators of an enum of the headers, without the bounds."""
    body = re.search(rf"^enum {name} {{\n(.*?)^}};", HEADERS, re.M | re.S)
    assert body is not None, name
    found, after = {}, 0
    for each, number in re.findall(r"^\t(KFR_\w+)(?: = (\w+))?,?", body[1], re.M):
        if each in BOUNDS:
            continue
        found[each] = int(number) if number else after
        after = found[each] + 1
    return found


def fields(struct: str) -> list[list[str]]:
    """Return name, offset and size of the fields of a structure without holes."""
    body = re.search(rf"^struct {struct} {{\n(.*?)^}};", HEADERS, re.M | re.S)
    assert body is not None, struct
    found, offset = [], 0
    for kind, name in re.findall(r"^\t(\w+) (\w+);", body[1], re.M):
        size = SIZES[kind]
        assert offset % size == 0, f"there is a hole before {name}"
        found.append([name, str(offset), str(size)])
        offset += size
    assert f"static_assert(sizeof(struct {struct}) == {offset});" in HEADERS
    return found


@pytest.mark.parametrize("struct", STRUCTS)
def test_fields_are_where_the_page_shows_them(struct: str) -> None:
    """Names, offsets and sizes, in order."""
    assert [row[:3] for row in rows(f"`struct {struct}`")] == fields(struct)


@pytest.mark.parametrize("head", ENUMS)
def test_numbers_are_those_of_the_header(head: str) -> None:
    """Every enumerator has a row, and every row an enumerator."""
    listed = [(row[0], int(row[1])) for row in rows(head)]
    assert listed == list(enum(ENUMS[head]).items())


def test_limits_are_those_of_the_headers() -> None:
    """Including the limits that follow from others."""
    limits = [row for row in rows("limit") if row[0].startswith("KFR_")]
    assert {row[0]: int(row[1], 0) for row in limits} == {row[0]: macro(row[0]) for row in limits}


def test_every_name_of_the_page_is_in_the_headers() -> None:
    """A name that was changed is changed here, too."""
    unknown = set(re.findall(r"\bKFR_\w+", PAGE)) - set(re.findall(r"\bKFR_\w+", HEADERS))
    assert unknown == set()


def test_every_macro_of_the_wire_header_is_a_limit_of_the_page() -> None:
    """A new one is not forgotten."""
    listed = {row[0] for row in rows("limit")}
    assert set(re.findall(r"^#define (KFR_\w+)\t", (RDM / "wire.h").read_text(), re.M)) <= listed


@pytest.mark.parametrize("struct", [python.Hello, python.Header, python.Segment])
def test_python_has_the_pages_fields(struct: type[python.Packed]) -> None:
    """Names, offsets and sizes, in order; ``struct kfr_hdr`` is called Header there."""
    name = {"Header": "hdr", "Segment": "seg"}.get(struct.__name__, struct.__name__.lower())
    names = [field.name for field in dataclasses.fields(struct)]  # type: ignore[arg-type]
    codes = struct.LAYOUT.format.removeprefix("<")
    sizes = [struct_module.calcsize(f"<{code}") for code in codes]
    found = [[n, str(sum(sizes[:i])), str(sizes[i])] for i, n in enumerate(names)]
    assert [row[:3] for row in rows(f"`struct kfr_{name}`")] == found


@pytest.mark.parametrize(
    ("head", "kind", "prefix"),
    [
        ("op", python.Op, "KFR_OP_"),
        ("flag", python.Flag, "KFR_F_"),
        ("status", python.Status, "KFR_"),
        ("refusal", python.Refusal, "KFR_REFUSE_"),
    ],
)
def test_python_has_the_pages_numbers(
    head: str, kind: type[enum_module.IntEnum], prefix: str
) -> None:
    """Every row has a member, and every member a row."""
    listed = {row[0].removeprefix(prefix): int(row[1]) for row in rows(head)}
    assert listed == {member.name: member.value for member in kind}


def test_python_has_the_pages_limits() -> None:
    """Those that it needs."""
    for name, *cells in rows("limit"):
        own = getattr(python, name.removeprefix("KFR_"), None)
        assert own is None or own == int(cells[0], 0), name
