# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
"""A reader of the documents: types their commands in a checkout, exactly as they are printed."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import doc_runs
import pytest
from doc_blocks import ROOT, Block, blocks
from doc_runs import Play, Run
from pseudo_terminal import Terminal

from kfabric.errors import ExitStatus

# Variables that would let a command see the run of the tests around it.
HIDDEN = re.compile(r"(KFABRIC|PYTEST|PYTHON|VIRTUAL_ENV|MAKE|MFLAGS|ARGS$|FAULT$|HOURS$)")

# What a reader makes, who may be a person in this checkout.
MADE = ("my_mod", "my_ulp")
# How a command runs of which only the end counts.
PLAIN = Run("")


def environment() -> dict[str, str]:
    """That of a person who has just logged in, with the same cache and settings as ours."""
    shown = {name: text for name, text in os.environ.items() if not HIDDEN.match(name)}
    places = {"XDG_CACHE_HOME": ".cache", "XDG_CONFIG_HOME": ".config"}
    return {name: str(Path.home() / place) for name, place in places.items()} | shown


def playground(place: Path) -> Reader:
    """A reader in a directory that looks like the checkout, and in which commands may write.

    Its program is that of this Python environment.
    """
    for entry in ROOT.iterdir():
        if entry.name not in ("build", *MADE):
            (place / entry.name).symlink_to(entry)
    (place / "build").mkdir()
    (place / "build/venv").symlink_to(sys.prefix)
    path = os.pathsep.join([str(ROOT), str(ROOT / "build/python")])
    return Reader(place, place, {**os.environ, "PYTHONPATH": path})


def copy(home: Path) -> Reader:
    """A reader with a copy of the checkout, changes that are not committed included.

    Nothing is set up in it, so that set-up and builds are those of a reader.
    """
    place = home / "src"
    _git("clone", "-q", "--no-checkout", str(ROOT), str(place))
    listed = _git("-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard")
    for name in map(Path, filter(None, listed.split("\0"))):
        exists = (ROOT / name).is_file() or (ROOT / name).is_symlink()
        if exists and name.parts[0] not in MADE:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name, follow_symlinks=False)
    _git("-C", str(place), "reset", "-q")
    if (Path.home() / "linux").is_dir():
        (home / "linux").symlink_to(Path.home() / "linux")
    return Reader(place, home)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def steps(play: Play) -> Iterator[tuple[str, Run, list[str]]]:
    """What is typed, how it is run, and the lines that the page shows below it.

    Commands for a guest's prompt, one below the other, are one step.
    """
    runs = {command: doc_runs.of(command) or PLAIN for command in play.commands}
    for inside, several in groupby(runs, lambda command: runs[command].inside):
        if inside:
            commands = list(several)
            text = shlex.quote("\n".join(commands))
            printed = [line for command in commands for line in play.block.printed[command]]
            yield f"{inside} {text}", runs[commands[0]], printed
        else:
            for command in several:
                yield command, runs[command], list(play.block.printed[command])


class Reader:
    """Types commands.

    Args:
        checkout: where the pages say "in a clone of this repository".
        home: what ``~`` means.
        env: variables besides those of a person who has just logged in.
    """

    def __init__(self, checkout: Path, home: Path, env: Mapping[str, str] | None = None) -> None:
        self.checkout = checkout
        self.home = home
        self._env = {**environment(), **(env or {}), "HOME": str(home)}

    def play(self, play: Play, seconds: float) -> None:
        """Type the commands of a block; each has its status, and prints what the page shows.

        Skips if one of them needs a kernel in ~/linux, and there is none.
        """
        here = self.checkout
        if play.block.document.startswith("examples/"):
            here = (here / play.block.document).parent
        done: list[str] = []
        status, stock = 0, False
        with self._files(play.block.document):
            for command, run, printed in steps(play):
                if "~/linux" in command and not (self.home / "linux").exists():
                    pytest.skip("there is no ~/linux")
                for before in run.first:
                    if before not in done:
                        assert self.type(before, here, seconds, replace(run, typed=""))[0] == 0
                        done.append(before)
                place = self.checkout if run.inside else here
                last = status
                status, output = self.type(command, place, seconds, run, last)
                if status == ExitStatus.HANG and run.status != ExitStatus.HANG:
                    # QEMU's fault, or a starved guest: see docs/guests.md. A person tries again.
                    status, output = self.type(command, place, seconds, run, last)
                assert status == run.status
                assert run.text in output
                assert not missing(printed, output)
                done.append(command)
                stock |= run.stock
        if stock:
            # What was built beside the sources would count as sources of the guests' modules.
            _git("-C", str(self.checkout), "clean", "-fdXq", "kmod", "examples")

    def type(
        self, command: str, here: Path, seconds: float, run: Run = PLAIN, before: int = 0
    ) -> tuple[int, str]:
        """The status and the output of a command in a directory.

        Args:
            before: the status of the command before it, for ``$?``.
        """
        argv = ["bash", "-c", f"(exit {before})\n{command}"]
        env = self._env | (self._stock() if run.stock else {})
        print(f"$ {command}", flush=True)
        if run.typed:
            status, output = _at_a_prompt(run.typed, argv, here, env, seconds)
        else:
            status, output = _captured(argv, here, env, seconds)
        print(f"{output}(exit status {status})", flush=True)
        return status, output

    def _stock(self) -> dict[str, str]:
        """Have ``uname -r`` print the guests' kernel, whose headers are here; install nothing."""
        found = [path.parent.name for path in Path("/lib/modules").glob("*-amd64/build")]
        releases = sorted(name for name in found if not re.search(r"-(rt|cloud)-", name))
        if not releases:
            pytest.skip("there are no headers of a stock kernel")
        program = self.home / "stock/uname"
        program.parent.mkdir(exist_ok=True)
        own = shutil.which("uname")
        program.write_text(f'#!/bin/sh\n[ "$*" = -r ] || exec {own} "$@"\necho {releases[-1]}\n')
        program.chmod(0o755)
        path = os.pathsep.join([str(program.parent), self._env["PATH"]])
        return {"PATH": path, "INSTALL_MOD_PATH": str(self.home / "installed")}

    @contextlib.contextmanager
    def _files(self, document: str) -> Iterator[None]:
        """The files that a page tells its reader to write, and none that an earlier page left."""
        written = list(self.write(block for block in blocks() if block.document == document))
        try:
            yield
        finally:
            for path in written:
                path.unlink()
            for place in (self.checkout, self.home):
                for name in MADE:
                    shutil.rmtree(place / name, ignore_errors=True)

    def write(self, several: Iterable[Block]) -> Iterator[Path]:
        """Write the blocks that are files."""
        for block in several:
            if block.file:
                outside = block.file.startswith("~")
                place = self.home if outside else self.checkout
                path = place / block.file.removeprefix("~/")
                _own(path.parent, place)
                path.write_text(block.text)
                yield path


def _own(directory: Path, place: Path) -> None:
    """Have a directory of a playground be one of its own, in which a file can be made."""
    if directory != place:
        _own(directory.parent, place)
    if directory.is_symlink():
        there = directory.resolve()
        directory.unlink()
        directory.mkdir()
        for entry in there.iterdir():
            (directory / entry.name).symlink_to(entry)
    directory.mkdir(exist_ok=True)


def _at_a_prompt(
    typed: str, argv: Sequence[str], here: Path, env: Mapping[str, str], seconds: float
) -> tuple[int, str]:
    """Type a line at the prompt of kfabric shell."""
    terminal = Terminal(argv, here, env, seconds)
    try:
        terminal.wait_for("exit ends it")
        terminal.wait_for("# ")
        terminal.type(typed)
        return terminal.wait(), terminal.shown
    finally:
        terminal.close()


def _captured(
    argv: Sequence[str], here: Path, env: Mapping[str, str], seconds: float
) -> tuple[int, str]:
    """Run to the end, or end it with everything that it has started."""
    process = subprocess.Popen(
        argv,
        cwd=here,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"not ended after {seconds:g} s: {_end(process)}") from None
    except BaseException:
        _end(process)
        raise
    return process.returncode, output


def _end(process: subprocess.Popen[str]) -> str:
    """End a command with everything that it has started; what it has printed."""
    os.killpg(process.pid, signal.SIGTERM)
    return process.communicate(timeout=60)[0]


def missing(printed: Sequence[str], output: str) -> list[str]:
    """The lines of a page that an output lacks, whatever its spaces and where lines end.

    A line with a number differs from run to run, and one without a word is a ruler or three dots.
    """
    words = " ".join(output.split())
    fixed = [line for line in printed if re.search("[a-z]", line) and not re.search(r"\d", line)]
    return [line for line in fixed if " ".join(line.split()) not in words]
