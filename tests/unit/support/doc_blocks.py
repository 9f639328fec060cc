# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The code blocks of the documents: of which kind each is, and where it is run as printed.

A fence names its language. An indented block holds shell commands; if its first line begins
with ``$``, only such lines are commands, and the others are their output. A fence ``text`` is
output, a format or a picture.

A Python block runs in tests/guest/test_documents.py, alone and with nothing added, unless
ELSEWHERE names another place. doc_runs.py says where each command runs, or why it does not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GLOBS = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/**/README.md")
KFABRIC = "build/venv/bin/kfabric"
LANGUAGES = frozenset({"c", "js", "python", "sql", "text", "toml"})

#: The first words of shell commands. A word that is none of them is a mistake, or belongs here.
PROGRAMS = frozenset(
    "cat cd cp depmod echo eval gcc grep groupadd insmod make modprobe nice python3 rdma sed "
    "sysctl udevadm build/venv/bin/kfabric build/venv/bin/python ~/kfabric/bin/kfabric "
    "~/kfabric/bin/pip".split()
)

#: Blocks of code that run as a part of something else: a document, a text in the block, and the
#: file that holds the block or runs it.
ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("docs/getting-started.md", "my_ulp_open(void)"): "my_ulp/my_ulp.c",
    ("docs/getting-started.md", "kfi_eq_read(my_ulp_eq"): "my_ulp/my_ulp.c",
    ("docs/getting-started.md", "struct member {"): "tests/kmod/ktest/serve.c",
    ("docs/own-module.md", "def test_it_is_loaded"): "tests/vm/test_user_module.py",
    ("docs/own-module.md", "def test_every_message"): "examples/pingpong_ulp/tests/test_it.py",
    ("docs/tools.md", "def test_two_guests_answer"): "tests/wire/test_two_nodes.py",
    ("docs/tools.md", "def test_own_pulled_cable"): "tests/wire/test_dead_peer.py",
    ("docs/tracing.md", "gallery_consume()"): "tests/gallery/kmod/baton_signal.c",
    ("docs/verdict.md", 'module="belt"'): "tests/vm/test_user_module_wakeups.py",
    ("examples/pingpong_ulp/README.md", "POLLPRI"): "tests/guest/test_pingpong_ulp.py",
    ("docs/prove.md", "throttle_two_callers"): "examples/prove/rq_qos/scenario.c",
    ("docs/prove.md", "add_wait_queue_exclusive"): "examples/prove/sbitmap/buggy.c",
    ("docs/prove.md", "tags_one_freed"): "examples/prove/sbitmap/scenario.c",
    ("docs/recordings.md", "select t.name as sleeper"): "tests/browser/test_viewers.py",
    ("docs/recordings.md", "document.querySelector"): "tests/browser/test_page.py",
}


@dataclass(frozen=True)
class Block:
    """A code block."""

    document: str
    """Its path in the checkout."""
    line: int
    """That of the fence, or the first one of an indented block."""
    language: str
    """What the fence names; empty for an indented block."""
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def file(self) -> str:
        """The name of the file that the block is, if its first line is a comment with a name."""
        found = re.match(r"# (\S+\.py)\n", self.text)
        return found[1] if found else ""

    @property
    def elsewhere(self) -> str:
        """The place of ELSEWHERE, if the block has one."""
        found = [
            place
            for (document, part), place in ELSEWHERE.items()
            if document == self.document and part in self.text and self.language != "text"
        ]
        assert len(found) <= 1, f"{self}: {found}"
        return found[0] if found else ""

    @cached_property
    def printed(self) -> Mapping[str, Sequence[str]]:
        """The commands of an indented block, each with the lines of output below it."""
        return {} if self.language else _printed(self.text)

    @property
    def commands(self) -> list[str]:
        """The commands, without comments and output."""
        return list(self.printed)


def documents() -> list[Path]:
    """All documents with code blocks that a reader may try."""
    return sorted({path for glob in GLOBS for path in ROOT.glob(glob)})


def blocks(*languages: str) -> list[Block]:
    """The blocks of all documents, of some languages or all."""
    return [block for block in _all() if not languages or block.language in languages]


@cache
def _all() -> tuple[Block, ...]:
    return tuple(block for path in documents() for block in _blocks(path))


def shown(place: str) -> Block:
    """The one block that ELSEWHERE says is run there."""
    (block,) = (block for block in blocks() if block.elsewhere == place)
    return block


def _blocks(path: Path) -> Iterator[Block]:
    name, lines = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        start, end = at, at
        if fence := re.match(r"```(.*)$", lines[at]):
            end = lines.index("```", at + 1)
            text, language = lines[at + 1 : end], fence[1] or "none"
        elif lines[at].startswith("    ") and not lines[at - 1].strip():
            while lines[end + 1].startswith("    ") or not lines[end + 1].strip():
                if end + 2 == len(lines):
                    break
                end += 1
            text, language = [line[4:] for line in lines[at : end + 1]], ""
        else:
            at += 1
            continue
        yield Block(name, start + 1, language, "\n".join(text).rstrip("\n") + "\n")
        at = end + 1


def _printed(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines = iter(text.split("\n"))
    console = text.startswith("$ ")
    command = ""
    for line in lines:
        if console and not line.startswith("$ "):
            found[command].append(line)
        elif line.strip():
            command = _whole(line.removeprefix("$ "), lines)
            found.setdefault(command, [])
    return found


def _whole(command: str, lines: Iterator[str]) -> str:
    """A whole command: a backslash or an open quote joins lines."""
    while True:
        if command.endswith("\\"):
            command = f"{command[:-1].rstrip()} {next(lines).strip()}"
        elif not _closed(command):
            command = f"{command}\n{next(lines)}"
        else:
            return _without_comment(command)


def _closed(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return True


def _without_comment(command: str) -> str:
    return command if "\n" in command else re.sub(r" +# .*$", "", command)


def words(command: str) -> list[str]:
    """The words of a command; operators of the shell are words."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    return list(lexer)


def program(command: str) -> str:
    """The program that a command runs: the first word that sets no variable."""
    return next(word for word in words(command) if not re.match(r"[A-Z_]+=", word))


def kfabric_words(command: str) -> list[str] | None:
    """The words after ``kfabric``, if the command runs it."""
    found = words(command)
    if KFABRIC not in found:
        return None
    rest = found[found.index(KFABRIC) + 1 :]
    ends = [at for at, word in enumerate(rest) if word in ("|", "||", "&&", ";", ">")]
    return rest[: ends[0]] if ends else rest
