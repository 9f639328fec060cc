# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""Every end of a command has its own exit status and one line of output."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kfabric import cli, errors, names
from kfabric.commands import setup
from kfabric.errors import ExitStatus, KfabricError
from kfabric.terminal.arguments import relative
from kfabric.vm import prepare

ROOT = Path(__file__).resolve().parents[2]
NEXT = "make demo, or build/venv/bin/kfabric new my_mod"
FAILURES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, KfabricError)
]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Sequence[str]], int]], None]:
    """Makes ``kfabric demo`` call a function of the test."""

    def install(main: Callable[[Sequence[str]], int]) -> None:
        module = types.SimpleNamespace(main=main)
        monkeypatch.setattr(cli.importlib, "import_module", lambda _name: module)

    return install


def failing(error: BaseException) -> Callable[[Sequence[str]], int]:
    """A command that raises."""

    def main(_argv: Sequence[str]) -> int:
        raise error

    return main


def test_the_status_of_a_command_is_passed_on(command) -> None:
    command(lambda argv: 3 if argv == ["--fault", "lost"] else 99)
    assert cli.main(["demo", "--fault", "lost"]) == ExitStatus.FAULT_FOUND


@pytest.mark.parametrize(
    ("words", "shown"), [([], "kfabric: a step\n"), (["-q"], ""), (["--quiet"], "")]
)
def test_quiet_command_shows_no_progress(
    words: list[str],
    shown: str,
    command,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """-q stands before the command: after it, pytest or another program may have one."""
    monkeypatch.setenv(names.QUIET, "")
    monkeypatch.delenv(names.QUIET)

    def main(argv: Sequence[str]) -> int:
        assert argv == ["-q"]
        prepare.say("a step")
        return 3

    command(main)
    assert cli.main([*words, "demo", "-q"]) == ExitStatus.FAULT_FOUND
    assert capsys.readouterr().err == shown


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_is_its_status_and_one_line(
    kind: type[KfabricError], command, capsys: pytest.CaptureFixture[str]
) -> None:
    command(failing(kind("it broke", "mend it", "last words\n")))
    assert cli.main(["demo"]) == kind.status
    *console, line = capsys.readouterr().err.splitlines()
    assert console == ["last words"]
    assert line == f"kfabric: {kind.label}: it broke; mend it"


def test_no_failure_looks_like_a_test_result() -> None:
    results = {ExitStatus.OK, ExitStatus.TEST_FAILED, ExitStatus.FAULT_FOUND}
    assert not {kind.status for kind in FAILURES} & {*results, ExitStatus.NOT_VERIFIED}


def test_each_end_of_a_guest_has_a_status_of_its_own() -> None:
    ends = [kind for kind in FAILURES if kind not in (KfabricError, errors.GuestError)]
    assert len({kind.status for kind in ends}) == len(ends)


def test_an_interrupt_is_130(command, capsys: pytest.CaptureFixture[str]) -> None:
    command(failing(KeyboardInterrupt()))
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr().err == "kfabric: interrupted\n"


def test_no_command_is_a_usage_error_that_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == ExitStatus.USAGE
    assert "usage: kfabric" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tset", "did you mean test?"), ("xyzzy", "see kfabric --help")],
)
def test_unknown_command_is_one_line_with_a_hint(
    name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name]) == ExitStatus.USAGE
    assert capsys.readouterr().err == f"kfabric: no such command: {name}; {hint}\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kfabric ga", {"gallery"}),
        ("kfabric run --cp", {"--cpus"}),
        ("kfabric run --variant ", {"prod", "test"}),
        ("build/venv/bin/kfabric vm cl", {"clean"}),
        ("kfabric nonesuch --", set()),
    ],
)
def test_shell_gets_the_words_that_fit(line: str, words: set[str], tmp_path: Path) -> None:
    """A subcommand's own, after its name."""
    answer = tmp_path / "answer"
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "|",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run(
        [sys.executable, "-m", "kfabric.cli"],
        env={**os.environ, **asked},
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    text = answer.read_text() if answer.exists() else ""
    assert {word.strip() for word in text.split("|") if word} == words


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == ExitStatus.OK
    assert capsys.readouterr().out == f"kfabric {cli.version()}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == ExitStatus.OK
    text = capsys.readouterr().out
    assert all(name in text for name in cli.COMMANDS)


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (
            0,
            f"kfabric: set-up: everything that guests and builds need is installed; next: {NEXT}\n",
        ),
        (70, ""),
    ],
)
def test_set_up_ends_with_a_line_unless_it_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, line: str
) -> None:
    """The script itself prints nothing if nothing was missing, and the reason of a failure."""
    monkeypatch.delenv(names.QUIET, raising=False)
    done = types.SimpleNamespace(returncode=status)
    monkeypatch.setattr(setup.subprocess, "run", lambda *_, **__: done)
    monkeypatch.setattr(sys, "argv", ["build/venv/bin/kfabric", "setup"])
    assert cli.main(["setup"]) == status
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(("goals", "said"), [(["setup"], 1), (["demo"], 0), (["setup", "demo"], 1)])
def test_make_ends_the_set_up_with_that_line_if_it_is_the_goal(goals: list[str], said: int) -> None:
    """As a part of another target, a set-up that has nothing to do prints nothing."""
    argv = ["make", "--dry-run", *goals]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines().count("build/venv/bin/kfabric setup") == said


def test_path_is_shown_as_its_user_writes_it(tmp_path, monkeypatch) -> None:
    """From the current directory on, if it lies below."""
    monkeypatch.chdir(tmp_path)
    assert relative(tmp_path / "build/demo") == Path("build/demo")
    assert relative(tmp_path.parent) == tmp_path.parent
