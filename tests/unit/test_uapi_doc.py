# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Every ioctl has a section in docs/uapi/, and it lists the errnos that the header lists.

In the headers, the kernel-doc comment of a structure has a list for each ioctl that takes it::

     * Errors:                      or, with several ioctls:  * Errors of CONNECT:
     *
     *  - EINVAL: when

In the documents, the section of an ioctl has a table with the columns errno and when.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from kfabric_py import _uapi

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "kmod" / "include" / "uapi" / "linux"
MAIN = ROOT / "docs" / "uapi.md"
PAGES = ROOT / "docs" / "uapi"

#: The only ways to state that a call adds no errno to those of every ioctl.
NO_ERRORS = "none but those of every ioctl."


@dataclass(frozen=True)
class Ioctl:
    """One ioctl as a header, or a page, describes it.

    Attributes:
        number: its number.
        struct: its structure.
        errors: the errnos of its list, in order.
    """

    number: int
    struct: str
    errors: tuple[str, ...]


_COMMENT = re.compile(
    r"/\*\*\n \* struct (?P<name>\w+) - (?P<body>.*?) \*/\nstruct (?P=name) \{", re.S
)
_NUMBER = re.compile(r"#define KFAB_IOC_(\w+) _IOWR\(KFAB_IOC_MAGIC, (0x[0-9a-f]+), struct (\w+)\)")
_LIST = re.compile(
    r"^ \* Errors(?: of (?P<ioctl>\w+))?:(?: (?P<none>[^\n]+))?\n"
    r"(?P<rows>(?: \*\n)?(?: \*  .*\n)*)",
    re.M,
)


def lists_of(comment: str) -> dict[str | None, tuple[str, ...]]:
    """Return the lists of errnos in a comment, by ioctl; None for the only one."""
    found: dict[str | None, tuple[str, ...]] = {}
    for each in _LIST.finditer(comment):
        errors = tuple(re.findall(r"^ \*  - (\w+): \S", each["rows"], re.M))
        assert (each["none"] == NO_ERRORS) == (not errors), each[0]
        assert each["ioctl"] not in found, each[0]
        found[each["ioctl"]] = errors
    return found


def from_headers() -> dict[str, Ioctl]:
    """Return every ioctl that the headers define."""
    text = "\n".join(path.read_text() for path in sorted(HEADERS.glob("kfabric*.h")))
    comments = {each["name"]: lists_of(each["body"]) for each in _COMMENT.finditer(text)}
    found = {}
    for name, number, struct in _NUMBER.findall(text):
        lists = comments[struct]
        assert (None in lists) == (len(lists) == 1), f"{struct}: name the ioctl of each list"
        key = None if None in lists else name
        assert key in lists, f"{struct} has no list of errors for {name}"
        found[name] = Ioctl(int(number, 16), struct, lists[key])
    return found


_SECTION = re.compile(r"^## (?P<name>[A-Z_]+)\n(?P<body>.*?)(?=^## |\Z)", re.M | re.S)
_HEAD = re.compile(r"^`KFAB_IOC_(\w+)`, number (0x[0-9a-f]+), `struct (\w+)`\.", re.M)
_TABLE = re.compile(r"^\| errno \| when \|\n\|---\|---\|\n(?P<rows>(?:\|.*\n)*)", re.M)


def from_pages() -> dict[str, Ioctl]:
    """Return every ioctl that has a section."""
    found = {}
    for path in sorted(PAGES.glob("*.md")):
        for section in _SECTION.finditer(path.read_text()):
            name, body = section["name"], section["body"]
            head, table = _HEAD.search(body), _TABLE.search(body)
            assert head is not None and head[1] == name, f"{path.name}: {name}"
            assert name not in found, f"{name} has two sections"
            assert (table is None) == (f"Errors: {NO_ERRORS}" in body), f"{path.name}: {name}"
            errors = re.findall(r"^\| `(\w+)` \| \S", table["rows"], re.M) if table else ()
            found[name] = Ioctl(int(head[2], 16), head[3], tuple(errors))
    return found


@pytest.fixture(scope="module")
def headers() -> dict[str, Ioctl]:
    """The ioctls of the headers."""
    return from_headers()


@pytest.fixture(scope="module")
def pages() -> dict[str, Ioctl]:
    """The ioctls of the documents."""
    return from_pages()


def test_every_ioctl_has_a_section(headers: dict[str, Ioctl], pages: dict[str, Ioctl]) -> None:
    """And every section describes an ioctl that exists."""
    known = {name.removeprefix("KFAB_IOC_") for name in vars(_uapi) if name.startswith("KFAB_IOC_")}
    assert set(headers) == known - {"MAGIC"}
    assert set(pages) == set(headers)


def test_headers_and_sections_list_the_same_errnos(
    headers: dict[str, Ioctl], pages: dict[str, Ioctl]
) -> None:
    """In the same order, and with the same number and structure."""
    differ = {name: (headers[name], pages.get(name)) for name in headers}
    assert {name: pair for name, pair in differ.items() if pair[0] != pair[1]} == {}


def test_no_list_repeats_an_errno(headers: dict[str, Ioctl]) -> None:
    """One row says everything about one errno."""
    twice = [name for name, each in headers.items() if len(set(each.errors)) != len(each.errors)]
    assert twice == []


def test_every_section_says_what_is_atomic_and_what_a_close_does() -> None:
    """A reader finds the same parts in every section."""
    lacking = []
    for path in sorted(PAGES.glob("*.md")):
        for section in _SECTION.finditer(path.read_text()):
            for part in ("Result: ", "Atomicity: ", "Concurrent close: "):
                if f"\n{part}" not in section["body"]:
                    lacking.append(f"{section['name']}: {part.strip()}")
    assert lacking == []


def test_the_module_has_every_ioctl_of_the_headers(headers: dict[str, Ioctl]) -> None:
    """A number without a function is ENOTTY, whatever the page promises."""
    table = (ROOT / "kmod/dev/main.c").read_text()
    assert sorted(re.findall(r"\bOP\(KFAB_IOC_(\w+),", table)) == sorted(headers)


def test_the_table_of_contents_links_every_section(pages: dict[str, Ioctl]) -> None:
    """docs/uapi.md leads to each ioctl."""
    links = re.findall(r"\[([A-Z_]+)\]\(uapi/(\w+)\.md#(\w+)\)", MAIN.read_text())
    assert sorted(name for name, _, _ in links) == sorted(pages)
    for name, page, anchor in links:
        assert anchor == name.lower()
        assert f"\n## {name}\n" in (PAGES / f"{page}.md").read_text()


def test_a_list_is_read_as_it_is_written() -> None:
    """Continued rows belong to their errno; text after the list does not."""
    comment = (
        "a thing\n * @size: x\n *\n * Errors of ONE:\n *\n *  - EINVAL: a\n *    - not a row\n"
        " *  - KFAB_EAVAIL: b\n *\n * Errors of TWO: none but those of every ioctl.\n"
    )
    assert lists_of(comment) == {"ONE": ("EINVAL", "KFAB_EAVAIL"), "TWO": ()}
