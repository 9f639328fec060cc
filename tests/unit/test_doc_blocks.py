# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Every code block of every document is of a known kind, and works as it is printed."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import doc_blocks
import doc_reader
import doc_runs
import pytest
from doc_blocks import ELSEWHERE, KFABRIC, ROOT, Block
from doc_reader import Reader
from doc_runs import CI, NOT_RUN, RUNS, UNIT, Play, Run
from report_support import recording_of, saved

from kfabric import cli
from kfabric.commands import new, share
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
    for like in [*RUNS, *(like for several in NOT_RUN.values() for like in several)]:
        assert any(re.fullmatch(like, command, re.DOTALL) for command in COMMANDS), like


# --- Commands --------------------------------------------------------------------------------


def test_command_is_run_or_has_a_reason() -> None:
    """Give it a row of RUNS, or its reason in NOT_RUN."""
    assert not [c for c in COMMANDS if not (doc_runs.of(c) or doc_runs.reason(c))]


def test_page_on_tests_counts_the_commands() -> None:
    """Of each suite, and those that are not run, with all reasons."""
    text = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    section = text.split("### The commands of the documents\n")[1].split("\n### ")[0]
    counts = [int(n) for n in re.findall(r"^\|.*\| (\d+) \|$", section, re.MULTILINE)]
    runs = [run.suite for run in map(doc_runs.of, COMMANDS) if run]
    reasons = [doc_runs.reason(command) for command in COMMANDS]
    assert counts[: len(doc_runs.SUITES)] == [runs.count(suite) for suite in doc_runs.SUITES]
    assert counts[len(doc_runs.SUITES) :] == [reasons.count(reason) for reason in NOT_RUN]
    assert [f"| {reason} |" in section for reason in NOT_RUN] == [True] * len(NOT_RUN)


def test_step_of_ci_is_one() -> None:
    """What CI runs is in .ci/run, without other words."""
    steps = re.findall(r"(?:^|\|\| )step (\S+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    of_ci = {c for c in COMMANDS if (run := doc_runs.of(c)) and run.suite == CI}
    assert of_ci == {f"make {step}" for step in steps}


def test_each_block_has_a_name_of_its_own() -> None:
    """By which it is chosen."""
    names = [str(play) for play in doc_runs.plays(doc_runs.DOCUMENTS, doc_runs.HOURS)]
    assert len(set(names)) == len(names)


def test_status_of_make_names_the_line_of_its_recipe() -> None:
    """As the page shows it."""
    lines = (ROOT / "Makefile").read_text().split("\n")
    shown = re.search(r"\[Makefile:(\d+): demo\]", (ROOT / "docs/getting-started.md").read_text())
    assert shown and lines[int(shown[1]) - 1].startswith("\t@$(KFABRIC) demo")


def test_command_is_written_in_one_way() -> None:
    """A reader who has only made the set-up finds it: kfabric is not on the PATH."""
    assert not [c for c in COMMANDS if doc_blocks.program(c) == "kfabric" or "| kfabric" in c]


class Parsed(Exception):
    """The command line is right."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A playground with the files that the pages tell a reader to make."""
    reader = doc_reader.playground(tmp_path_factory.mktemp("made"))
    for command in (doc_runs.NEW_MOD, doc_runs.NEW_ULP):
        assert reader.type(command, reader.checkout, SECONDS)[0] == 0
    assert list(reader.write(BLOCKS))
    return reader.checkout


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
        if "tests/vm/test_document_commands.py" in known.file_or_dir:
            plays = doc_runs.plays(doc_runs.DOCUMENTS, doc_runs.HOURS)
            texts += ["def test_" + re.sub(r"\W", "_", f"{play}\n") for play in plays]
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


@pytest.mark.parametrize("play", doc_runs.plays(UNIT), ids=str)
def test_command_runs_on_the_host(play: Play, tmp_path: Path) -> None:
    """As it is printed; of make that part which comes after the set-up."""
    reader = doc_reader.playground(tmp_path)
    if "build/demo" in play.commands[0]:
        saved(recording_of("recorded-pingpong"), tmp_path / "build/demo")
    if "make" not in map(doc_blocks.program, play.commands):
        reader.play(play, SECONDS)
        return
    for command in play.commands:
        for words in of_make(command, play.block):
            status, output = reader.type(shlex.join([KFABRIC, *words]), tmp_path, SECONDS)
            assert status == 0 and output


@pytest.fixture
def type_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Types a block with rows of its own in a directory; what the commands have printed."""

    def typed(text: str, runs: dict[str, Run], document: str = "docs/own.md") -> str:
        monkeypatch.setattr(doc_runs, "RUNS", runs)
        block = Block(document, 1, "", text)
        monkeypatch.setattr(doc_reader, "blocks", lambda: [block])
        Reader(tmp_path, tmp_path).play(Play(block, UNIT, tuple(block.commands)), SECONDS)
        log = tmp_path / "log"
        return log.read_text() if log.exists() else ""

    return typed


LOG = {r"echo (\w+) >>log": Run(UNIT)}


@pytest.mark.parametrize("hangs", [1, 2])
def test_command_whose_guest_hangs_is_typed_once_more(
    type_here: Callable[..., str], tmp_path: Path, hangs: int
) -> None:
    """A hang is that of QEMU or of a busy host; the second one in a row fails the test."""
    command = f"echo x >>log; [ $(wc -l <log) -gt {hangs} ] || exit 75"
    with contextlib.nullcontext() if hangs == 1 else pytest.raises(AssertionError):
        type_here(f"$ {command}", {"echo x .*": Run(UNIT)})
    assert (tmp_path / "log").read_text() == "x\n" * 2


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("false\n", Run(UNIT)),
        ("true\n", Run(UNIT, 1)),
        ("echo a\n", Run(UNIT, text="b")),
        ("$ echo a b\na c\n", Run(UNIT)),
        ("true\n", Run(UNIT, first=("false",))),
        ("true\n", Run(UNIT, inside="false")),
    ],
)
def test_command_that_does_something_else_is_noticed(
    text: str, row: Run, type_here: Callable[..., str]
) -> None:
    """Another status, text or output; a command before it that fails."""
    with pytest.raises(AssertionError):
        type_here(text, {".*": row})


def test_output_has_the_shape_that_a_page_shows(type_here: Callable[..., str]) -> None:
    """Numbers, rulers, spaces and the ends of lines do not count."""
    text = "$ printf 'queue waits\\n7 s\\nin the\\nend: all is well'\n"
    printed = "queue  waits\n ─────\n 12 s\n...\nin the end:\n  all is well\n"
    type_here(text + printed, {".*": Run(UNIT)})


def test_commands_of_a_block_share_a_status(type_here: Callable[..., str]) -> None:
    """As in one shell."""
    rows = {"exit 3": Run(UNIT, 3), r"echo \$\? >log": Run(UNIT)}
    assert type_here("exit 3\necho $? >log\n", rows) == "3\n"


def test_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """With what it has started; its output is in the failure."""
    with pytest.raises(AssertionError, match="not ended after 1 s: begun"):
        Reader(tmp_path, tmp_path).type("echo begun; sleep 1000 & wait", tmp_path, 1.0)


def test_line_is_typed_at_the_prompt_that_a_command_opens(type_here: Callable[..., str]) -> None:
    """And the status is that of the shell."""
    shell = r"printf 'exit ends it\n# '; read -r line; exit ${line#exit }"
    type_here(f"{shell}\n", {".*": Run(UNIT, 3, typed="exit 3")})


def test_what_comes_first_is_typed_once(type_here: Callable[..., str]) -> None:
    """And not again if the block has it."""
    one = ("echo one >>log",)
    rows = {"echo two.*": Run(UNIT, first=one), "echo three.*": Run(UNIT, first=one)}
    assert type_here("echo two >>log\necho three >>log\n", rows) == "one\ntwo\nthree\n"
    log = type_here("echo one >>log\necho two >>log\n", rows | LOG)
    assert log == "one\ntwo\nthree\none\ntwo\n"


def test_commands_for_a_prompt_in_a_guest_are_typed_there_together(
    type_here: Callable[..., str],
) -> None:
    """With the same variables and directory, and not in that of the others."""
    rows = {"inside=.*|echo .inside.*": Run(UNIT, inside="bash -ec"), **LOG}
    assert type_here("inside=1\necho $inside >>log\necho out >>log\n", rows) == "1\nout\n"


def test_block_is_skipped_without_the_kernel_that_it_boots(type_here: Callable[..., str]) -> None:
    """With the reason."""
    with pytest.raises(pytest.skip.Exception, match="no ~/linux"):
        type_here("true --kdir ~/linux\n", {".*": Run(UNIT)})


def test_reader_does_not_see_the_run_around_it(
    type_here: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither make's variables, nor the harness's, nor Python's."""
    for name in ("ARGS", "MAKEFLAGS", "KFABRIC_KERNEL", "PYTHONPATH"):
        monkeypatch.setenv(name, "ours")
    line = "echo $ARGS$MAKEFLAGS$KFABRIC_KERNEL$PYTHONPATH- ${HOME##*/} >>log"
    assert type_here(f"{line}\n", {".*": Run(UNIT)}).startswith("- test_reader_does")


def test_machine_is_taken_to_run_the_guests_kernel(tmp_path: Path) -> None:
    """As far as make asks: its headers are here, and other questions have their true answer."""
    reader = Reader(tmp_path, tmp_path)
    _, shown = reader.type("uname -r -m", tmp_path, SECONDS)
    typed = reader.type("uname -r; uname -r -m", tmp_path, SECONDS, Run(UNIT, stock=True))
    release, *others = typed[1].splitlines()
    assert Path("/lib/modules", release, "build").exists()
    assert others == shown.splitlines()


def test_copy_of_the_checkout_is_one(tmp_path: Path) -> None:
    """With the files as they are here, the commit, and nothing that was built."""
    reader = doc_reader.copy(tmp_path)
    status = ("git", "status", "--porcelain", ".", *(f":!{name}" for name in doc_reader.MADE))
    here, there = (
        subprocess.run(status, cwd=place, capture_output=True, check=True).stdout
        for place in (ROOT, reader.checkout)
    )
    # What is staged here is not there.
    assert [line[3:] for line in here.splitlines()] == [line[3:] for line in there.splitlines()]
    assert share.head(reader.checkout).name == share.head(ROOT).name
    assert not (reader.checkout / "build").exists()


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
