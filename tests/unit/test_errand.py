# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""The commands of a recorded guest run in a Python that was prepared before."""

from __future__ import annotations

import os
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kfabric.vm.agent import Prepared
from kfabric.vm.errand import CODE

MODULES = {
    "load": "import os, sys; print('load', *sys.argv[1:], flush=True); os._exit(0)",
    "refuse": "import sys; sys.exit('refused')",
    "play": "import sys; print('play', *sys.argv[1:]); sys.exit(3)",
    "die": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "ask": "print(repr(input()))",
}
Run = Callable[[list[list[str]]], tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs commands as the errand does; the status of the last one, and all output."""
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    ours, line = os.openpty()
    tty.setraw(line)

    def run_them(commands: list[list[str]]) -> tuple[int, str]:
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        code = CODE.format(commands=commands)
        pid = Prepared("").become(code, str(tmp_path), env, [line, line, line])
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return status, os.read(ours, 4096).decode()

    yield run_them
    os.close(ours)
    os.close(line)


def test_commands_run_one_after_the_other(run: Run) -> None:
    """Each with its arguments, also if the first one ends its process itself."""
    assert run([["load", "-u"], ["play", "a", "b"]]) == (3, "load -u\nplay a b\n")


def test_first_command_that_fails_is_the_last(run: Run) -> None:
    """Standard error goes where standard output goes."""
    assert run([["refuse"], ["play"]]) == (1, "refused\n")


@pytest.mark.parametrize("commands", [[["load"], ["die"]], [["load"], ["die"], ["play"]]])
def test_command_that_is_killed_has_a_negative_status(commands: list[list[str]], run: Run) -> None:
    """And is the last, wherever it is."""
    assert run(commands) == (-9, "load\n")


def test_command_that_asks_gets_no_answer(run: Run) -> None:
    """Its standard input is at its end."""
    status, output = run([["ask"]])
    assert status == 1 and output.endswith("EOFError: EOF when reading a line\n")
