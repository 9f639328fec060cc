# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Every code block of every document is of a known kind, and works as it is printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import doc_blocks
import pytest
from doc_blocks import ELSEWHERE, IN_A_GUEST, KFABRIC, NOT_RUN, ON_THE_HOST, ROOT, Block

from kfabric import cli
from kfabric.commands import new
from kfabric.fuzz.program import Program
from kfabric.runner import testoptions
from kfabric.terminal.arguments import Parser
from kfabric.trace import command as trace
from kfabric.trace import watchfile
from kfabric.vm import kerneltree

BLOCKS = doc_blocks.blocks()
COMMANDS = {command: block for block in BLOCKS for command in block.commands}
# The pages of the three doors, in the order of the README.
DOORS = ("docs/tracing.md", "docs/own-module.md", "docs/getting-started.md")
SECONDS = 120.0
# A start has so many lines at most.
START = 10
# So many commands may be parsed only. If there are more, run one.
PARSED_ONLY = 110

each_command = pytest.mark.parametrize("command", COMMANDS)


def where(blocks: Sequence[Block]) -> Any:
    """A parameter that is one of these blocks."""
    return pytest.mark.parametrize("block", blocks, ids=str)


@where(BLOCKS)
def test_block_is_of_a_known_kind(block: Block) -> None:
    """Output is in a fence ``text``; an indented block has nothing but commands."""
    if block.language:
        assert block.language in doc_blocks.LANGUAGES, "a fence names one of these"
        return
    assert block.commands
    for command in block.commands:
        found = doc_blocks.program(command)
        assert found in doc_blocks.PROGRAMS, f"{found} is no command; is this a fence `text`?"


def test_nothing_in_the_tables_is_left_over() -> None:
    """What no document has any more is deleted here, too."""
    code = [block for block in BLOCKS if block.language != "text"]
    gone = [
        key
        for key in ELSEWHERE
        if not any(block.document == key[0] and key[1] in block.text for block in code)
    ]
    assert not gone
    assert set(COMMANDS) >= ON_THE_HOST
    used = set(map(doc_blocks.pattern, COMMANDS))
    assert not {like for patterns in NOT_RUN.values() for like in patterns} - used
    for like in IN_A_GUEST:
        assert any(re.fullmatch(like, command, re.DOTALL) for command in COMMANDS), like


# --- Commands --------------------------------------------------------------------------------


def test_command_is_run_or_has_a_reason() -> None:
    """Run it, or add its reason to NOT_RUN; the reasons do not grow unseen."""
    only = [c for c in COMMANDS if c not in ON_THE_HOST and not doc_blocks.in_a_guest(c)]
    assert not [command for command in only if not doc_blocks.pattern(command)]
    assert len(only) <= PARSED_ONLY


def test_command_is_written_in_one_way() -> None:
    """A reader who has only made the set-up finds it: kfabric is not on the PATH."""
    assert not [c for c in COMMANDS if doc_blocks.program(c) == "kfabric" or "| kfabric" in c]


class Parsed(Exception):
    """The command line is right."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A playground with the files that the pages tell a reader to make."""
    place = doc_blocks.playground(tmp_path_factory.mktemp("made"))
    for command in ("new my_mod", "new my_ulp --kfabric"):
        assert doc_blocks.run(f"{KFABRIC} {command}", place, SECONDS).returncode == 0
    for block in BLOCKS:
        if block.file.startswith("~"):
            path = place / block.file.removeprefix("~/")
            doc_blocks.own(path.parent, place)
            path.write_text(block.text)
        elif block.file:
            doc_blocks.own((place / block.file).parent, place)
            (place / block.file).write_text(block.text)
    return place


@pytest.fixture
def parse(made: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[str]], list[str]]:
    """Has the parser of a subcommand read words, and nothing else done; returns pytest's words."""
    monkeypatch.chdir(made)
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.delenv("KFABRIC_KERNEL", raising=False)
    # The reader has built one in ~/linux.
    monkeypatch.setattr(kerneltree, "check", lambda directory: None)
    monkeypatch.setattr(kerneltree, "options", lambda directory: frozenset())

    def parsed(self: Parser, args: Any = None, namespace: Any = None) -> NoReturn:
        _, unknown = self.parse_known_args(args, namespace)
        assert not unknown, f"{self.prog}: {unknown}"
        raise Parsed

    def read(words: Sequence[str]) -> list[str]:
        name, *rest = (str(Path(word).expanduser()) if word[:1] == "~" else word for word in words)
        if name == "test":
            args, paths, options = testoptions.parse(rest)
            assert args.module is None or args.module.is_dir()
            return [*options, *paths]
        if name == "trace":
            assert trace._parse(rest)
            return []
        monkeypatch.setattr(Parser, "parse_args", parsed)
        with pytest.raises(Parsed):
            cli.main([name, *rest])
        return []

    return read


def of_make(command: str, block: Block) -> list[list[str]]:
    """The words after kfabric of each command that make would run."""
    base = ROOT / block.document if block.document.startswith("examples/") else ROOT / "README.md"
    words = doc_blocks.words(command)
    done = subprocess.run(
        ["make", "-n", "--no-print-directory", *words[words.index("make") + 1 :]],
        cwd=base.parent,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    recipe = done.stdout.replace("\\\n", " ")
    called = [line.split(KFABRIC, 1)[1] for line in recipe.splitlines() if KFABRIC in line]
    return [shlex.split(re.split(r"\|\||;", words)[0]) for words in called]


def selected(words: Sequence[str], config: pytest.Config) -> None:
    """Have pytest's own parser read its arguments; -k must fit a test of the file."""
    known, unknown = config._parser.parse_known_and_unknown_args(list(words))
    assert not unknown
    if known.keyword.isidentifier():
        texts = [Path(path).read_text() for path in known.file_or_dir if Path(path).is_file()]
        texts += [
            path.read_text() for d in known.file_or_dir for path in Path(d).rglob("test_*.py")
        ]
        assert re.search(rf"def test_\w*{known.keyword}", "".join(texts))


@each_command
def test_command_line_is_accepted(
    command: str, parse: Callable[[Sequence[str]], list[str]], pytestconfig: pytest.Config
) -> None:
    """By the parser of its subcommand, by make, and by pytest; its files exist."""
    called = doc_blocks.kfabric_words(command)
    several = [called] if called else []
    if doc_blocks.program(command) == "make" and "KVER=" not in command:
        several = of_make(command, COMMANDS[command])
    for words in several:
        selected(parse(words), pytestconfig)


@pytest.mark.parametrize(
    "words",
    [
        ["test", "--nonesuch", "tests/guest/test_poll.py"],
        ["test", "tests/guest/test_poll.py", "-k", "nonesuch"],
        ["test", "tests/guest/test_pol.py"],
        ["run", "--cpu=x", "--", "true"],
        ["trace", "--modul", "9pnet", "--nonesuch", "--", "true"],
        ["gallery", "--list", "--nonesuch"],
    ],
    ids=" ".join,
)
def test_mistyped_command_is_noticed(
    words: list[str], parse: Callable[[Sequence[str]], list[str]], pytestconfig: pytest.Config
) -> None:
    """The test above is able to fail."""
    with pytest.raises((AssertionError, SystemExit, testoptions.NoSuchTest)):
        selected(parse(words), pytestconfig)


@pytest.mark.parametrize("command", sorted(ON_THE_HOST))
def test_command_runs_on_the_host(command: str, tmp_path: Path) -> None:
    """As it is printed; of make that part which comes after the set-up."""
    place = doc_blocks.playground(tmp_path)
    for words in of_make(command, COMMANDS[command]) if command[:5] == "make " else []:
        command = shlex.join([KFABRIC, *words])
    done = doc_blocks.run(command, place, SECONDS)
    assert done.returncode == 0, done.stdout
    assert done.stdout or command.startswith("eval")


# --- Code ------------------------------------------------------------------------------------


@where(doc_blocks.blocks("python"))
def test_python_block_is_complete(block: Block) -> None:
    """It compiles, and defines or imports each name that it uses, unless it is a part of a file."""
    compile(block.text, str(block), "exec")
    if block.elsewhere and block.text in (ROOT / block.elsewhere).read_text():
        return
    argv = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F", "-"]
    done = subprocess.run(
        argv, input=block.text, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout


@where([block for block in BLOCKS if block.elsewhere])
def test_block_is_a_part_of_what_runs(block: Block, tmp_path: Path) -> None:
    """The file that is named has the same lines, or takes them from the document."""
    if block.elsewhere == "my_ulp/my_ulp.c":
        text = new.render(new.KFABRIC, {"NAME": "my_ulp"})["my_ulp.c"]
    else:
        text = (ROOT / block.elsewhere).read_text(encoding="utf-8")
    assert block.text in text or f'shown("{block.elsewhere}")' in text


@where(doc_blocks.blocks("c", "js", "sql"))
def test_code_of_other_languages_runs_elsewhere(block: Block) -> None:
    """C is compiled where it comes from; SQL and JavaScript run in the browser's tests."""
    assert block.elsewhere


@where(doc_blocks.blocks("toml"))
def test_toml_is_a_file_that_is_read(block: Block, tmp_path: Path) -> None:
    """By the reader of wakeups.toml."""
    (tmp_path / watchfile.NAME).write_text(block.text)
    assert watchfile.read(tmp_path)


def test_fuzz_program_is_one() -> None:
    """The text of tools.md that the fuzzer can read."""
    (block,) = (b for b in BLOCKS if b.document == "docs/tools.md" and "FABRIC_OPEN" in b.text)
    assert [step.op for step in Program.parse(block.text).steps][:2] == ["FABRIC_OPEN", "EQ_OPEN"]


# --- The doors -------------------------------------------------------------------------------


def test_readme_opens_with_the_doors_in_their_order() -> None:
    """Before anything that has to be installed or read."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    opening = text[: text.index("## Start")]
    assert re.findall(r"^\d\. \*\*\[.*\]\((.*)\)", opening, re.MULTILINE) == list(DOORS)


@pytest.mark.parametrize("document", DOORS)
def test_door_begins_with_a_short_start(document: str) -> None:
    """Commands only, before anything else of the page but a sentence; make comes first."""
    first = next(block for block in BLOCKS if block.document == document)
    assert first.line <= 5 and first.language == ""
    assert first.text.count("\n") <= START
    assert doc_blocks.program(first.commands[0]) == "make"
