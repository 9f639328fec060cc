# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The code blocks of the documents: of which kind each is, and where it is run as printed.

A fence names its language. An indented block holds shell commands; if its first line begins
with ``$``, only such lines are commands, and the others are their output. A fence ``text`` is
output, a format or a picture.

A Python block runs in tests/guest/test_documents.py, alone and with nothing added, unless
ELSEWHERE names another place. A command is run by the unit tests (ON_THE_HOST), by
tests/vm/test_document_commands.py (IN_A_GUEST), or NOT_RUN has the reason. All commands of
kfabric and make are at least parsed by what reads them (tests/unit/test_doc_blocks.py).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
GLOBS = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/**/README.md")
KFABRIC = "build/venv/bin/kfabric"
LANGUAGES = frozenset({"c", "js", "python", "sql", "text", "toml"})

#: The first words of shell commands. A word that is none of them is a mistake, or belongs here.
PROGRAMS = frozenset(
    "cat cd echo eval grep insmod make modprobe nice python3 sysctl build/venv/bin/kfabric "
    "~/kfabric/bin/kfabric ~/kfabric/bin/pip".split()
)

#: Blocks of code that run as a part of something else: a document, a text in the block, and the
#: file that holds the block or runs it.
ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("docs/getting-started.md", "my_ulp_open(void)"): "my_ulp/my_ulp.c",
    ("docs/getting-started.md", "kfi_eq_read(my_ulp_eq"): "my_ulp/my_ulp.c",
    ("docs/own-module.md", "def test_it_is_loaded"): "tests/vm/test_user_module.py",
    ("docs/own-module.md", "def test_every_message"): "examples/pingpong_ulp/tests/test_it.py",
    ("docs/tools.md", "def test_two_guests_answer"): "tests/wire/test_two_nodes.py",
    ("docs/tools.md", "def test_own_pulled_cable"): "tests/wire/test_dead_peer.py",
    ("docs/tracing.md", "gallery_consume()"): "tests/gallery/kmod/baton_signal.c",
    ("docs/verdict.md", 'module="belt"'): "tests/vm/test_user_module_wakeups.py",
    ("examples/pingpong_ulp/README.md", "POLLPRI"): "tests/guest/test_pingpong_ulp.py",
    ("docs/recordings.md", "select t.name as sleeper"): "tests/browser/test_viewers.py",
    ("docs/recordings.md", "document.querySelector"): "tests/browser/test_page.py",
}

#: Commands that the unit tests run: they boot nothing and take some seconds.
ON_THE_HOST = frozenset(
    {
        "make help",
        "make mutants ARGS=--list",
        "make share ARGS=--list",
        "build/venv/bin/kfabric new my_mod",
        "build/venv/bin/kfabric new my_ulp --kfabric",
        'eval "$(build/venv/bin/register-python-argcomplete kfabric)"',
    }
)

#: Commands that tests/vm/test_document_commands.py runs, by a pattern: the exit status, and a
#: text that the command prints.
IN_A_GUEST: Mapping[str, tuple[int, str]] = {
    r"build/venv/bin/kfabric run -- uname -r": (0, "-amd64"),
    r"echo hello \| build/venv/bin/kfabric run -- cat": (0, "hello"),
    r"build/venv/bin/kfabric run --module ~/my_mod -- ls /dev/my_mod": (0, "/dev/my_mod"),
    r"build/venv/bin/kfabric top --module examples/pingpong_ulp .*": (0, "wait set"),
    r"build/venv/bin/kfabric trace --module 9pnet -- find .*": (0, "p9_client_rpc [9pnet]"),
    r"build/venv/bin/kfabric trace --module ./my_mod .*": (0, "my_mod_readers [my_mod]"),
    r"build/venv/bin/kfabric run .*patience_ms.*": (3, "\nWAKE NOT HANDED ON: "),
}

#: Why the other commands are parsed and not run: a reason, and patterns of the commands.
NOT_RUN: Mapping[str, tuple[str, ...]] = {
    "a reader's first step, or a step of .ci/run; takes minutes": (
        r"make (setup|check|docs|demo( .*)?)",
    ),
    "runs the tests themselves": (
        r"make test( ARGS=\"tests.*)?",
        r"(nice -n -10 )?\S*kfabric test( --vms 2)?( tests/\S+)?",
    ),
    "takes many minutes or hours; make test or make share has a short form of each": (
        r"make (test-\w+|soak|bench|fuzz|gallery|mutants|share)( .*)?",
        r"(.* )?make test ARGS=tests/model",
    ),
    "tests/vm/test_new.py runs it, with places of its own for the report and the guests": (
        r"\S*kfabric test .*--module \S*my_(mod|ulp)( .*)?",
    ),
    "tests/vm/test_user_module.py runs it, with places of its own for report and guests": (
        r"\S*kfabric test --(modprobe ifb|module examples/pingpong_ulp) .*",
    ),
    "needs another image or kernel, or runs all tests; takes minutes to hours": (
        r"\S*kfabric (test|run) --kernel .*",
        r"make test ARGS=\"--(kernel|verify).*",
    ),
    "needs a kernel that the reader has built; tests/vm/test_kdir.py makes something like it": (
        r"\S*kfabric (test|run|shell|modules) --kdir .*",
    ),
    "needs an environment of its own; tests/vm/test_wheels.py makes one": (
        r"make wheels",
        r"python3 -m venv ~/kfabric",
        r"~/kfabric/bin/.*",
    ),
    "needs the results of shards; tests/unit/test_merge.py makes them": (r"\S*kfabric merge .*",),
    "builds an image for minutes; tests/vm/test_layers.py does it with smaller packages": (
        r"\S*kfabric (run|vm build) --(packages|kernel-modules) .*",
    ),
    "plays many tests, or a share of all; tests/unit/test_rounds.py and test_shards.py do it": (
        r"\S*kfabric test --(until-(fail|pass)|shard) .*",
    ),
    "needs another machine": (r"\S*kfabric test .*--tx .*",),
    "needs the memory of a guest that panicked": (r"\S*kfabric post-mortem .*",),
    "tests/guest/test_fuzz.py plays this program and all others": (r"\S*kfabric fuzz --replay .*",),
    "needs the recording of make demo; tests/unit/test_report_page.py makes such files": (
        r"\S*kfabric report --all build/demo",
    ),
    "needs a terminal and a person; tests/vm/test_shell.py plays both": (r".*kfabric shell( .*)?",),
    "is about the machine of the tests; tests/guest/test_trace.py and test_top.py do it": (
        r"\S*kfabric (trace|top) --here.*",
    ),
    "is shown for its numbers; the start of its page has a trace that is run": (
        r"\S*kfabric trace -- date .*",
        r"grep -A4 steps .*",
    ),
    "the start of its page does the same with more patience for a busy host": (
        r"\S*kfabric trace .*gallery.ko; sleep 2;.*",
        r"(insmod|cat) \S*gallery\S*",
        r"echo \$\?",
    ),
    "is about the machine's own kernel; tests/vm/test_user_module.py does it in a guest": (
        r"make .*KVER=.*",
        r"insmod (pingpong|rdm)_ulp.ko .*",
        r"modprobe kfi_verbs",
        r"cat \S*_ulp/parameters/result",
    ),
    "the endpoint's number is the reader's; tests/guest/test_mock.py writes all commands": (
        r"modprobe kfi_mock",
        r"cat \S*/kfi_mock/state",
        r"echo 'inject 6.*",
    ),
    "needs kernel debug; tests/debug does it there": (
        r"cd /sys/kernel/tracing",
        r"echo (1|printk) > .*",
    ),
    "changes the machine of the tests": (r"sysctl kernel.sched_autogroup_enabled=0",),
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
    def commands(self) -> list[str]:
        """The commands of an indented block, without comments and output."""
        return [] if self.language else list(commands(self.text))


def documents() -> list[Path]:
    """All documents with code blocks that a reader may try."""
    return sorted({path for glob in GLOBS for path in ROOT.glob(glob)})


def blocks(*languages: str) -> list[Block]:
    """The blocks of all documents, of some languages or all."""
    found = [block for path in documents() for block in _blocks(path)]
    return [block for block in found if not languages or block.language in languages]


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


def commands(text: str) -> Iterator[str]:
    """Whole commands: a backslash or an open quote joins lines."""
    lines = iter(text.split("\n"))
    console = text.startswith("$ ")
    for line in lines:
        if not line.strip() or (console and not line.startswith("$ ")):
            continue
        command = line.removeprefix("$ ")
        while True:
            if command.endswith("\\"):
                command = f"{command[:-1].rstrip()} {next(lines).strip()}"
            elif not _closed(command):
                command = f"{command}\n{next(lines)}"
            else:
                break
        yield _without_comment(command)


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


def in_a_guest(command: str) -> tuple[int, str] | None:
    """The exit status and a text of a command that tests/vm/test_document_commands.py runs."""
    found = [end for like, end in IN_A_GUEST.items() if re.fullmatch(like, command, re.DOTALL)]
    return found[0] if found else None


def pattern(command: str) -> str:
    """The first pattern of NOT_RUN that fits a command; empty if none does."""
    patterns = (like for several in NOT_RUN.values() for like in several)
    return next((like for like in patterns if re.fullmatch(like, command, re.DOTALL)), "")


def playground(place: Path) -> Path:
    """An empty directory made to look like the checkout, in which commands may write.

    Its program is that of this Python environment.
    """
    for entry in ROOT.iterdir():
        # Whoever follows the pages has made the others in the checkout.
        if entry.name not in ("build", "my_mod", "my_ulp"):
            (place / entry.name).symlink_to(entry)
    (place / "build").mkdir()
    (place / "build/venv").symlink_to(sys.prefix)
    return place


def own(directory: Path, place: Path) -> None:
    """Have a directory of a playground be one of its own, in which a file can be made."""
    if directory != place:
        own(directory.parent, place)
    if directory.is_symlink():
        there = directory.resolve()
        directory.unlink()
        directory.mkdir()
        for entry in there.iterdir():
            (directory / entry.name).symlink_to(entry)


def run(command: str, place: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command in a playground, exactly as it is printed; its output has both streams."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = os.pathsep.join([str(ROOT), str(ROOT / "build/python")])
    return subprocess.run(
        ["bash", "-c", command],
        cwd=place,
        env={**os.environ, "HOME": str(place), "XDG_CACHE_HOME": str(cache), "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
